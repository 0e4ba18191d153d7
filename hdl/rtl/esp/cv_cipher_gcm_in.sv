// AES-GCM of an inbound packet (RFC 4106): decryption, tag, acceptance, and only then release.
//
// Function     Decrypts the data, compares the tag with the ICV at their end, and asks the SAD to
//              accept the number. The plaintext waits meanwhile and leaves as payload and trailer,
//              or not at all. The SAD never hears of a packet whose ICV is wrong.
// Parameters   Depth (beats held; more than MaxBytes / 16), Packets (that may wait), Clients (ports
//              to the SAD, used in turn; with one, a packet takes at least as long as the SAD takes
//              to answer).
// Latency      That of cv_aes_gcm up to the tag, 2 cycles and the SAD's.
// Throughput   n + 2 cycles a packet of n beats of ciphertext, if the SAD keeps up.
// Comb. paths  none from input to output.
// Stalls       in_ready_o is low for one cycle before a packet, and while the memory is full.

`include "culvert_assert.svh"

module cv_cipher_gcm_in
  import culvert_pkg::*;
  import aes_pkg::*;
  import gcm_pkg::*;
  import gateway_pkg::*;
#(
  parameter int unsigned Depth   = 1024,
  parameter int unsigned Packets = 8,
  parameter int unsigned Clients = 1
) (
  input logic clk_i,
  input logic rst_ni,

  input  logic      in_valid_i,
  output logic      in_ready_o,
  input  beat_t     in_beat_i,
  input  open_hdr_t in_hdr_i,   // constant during a packet

  // Clients of the SAD: SadAccept.
  output logic     [Clients-1:0] req_valid_o,
  input  logic     [Clients-1:0] req_ready_i,
  output sad_req_t [Clients-1:0] req_o,
  input  logic     [Clients-1:0] rsp_valid_i,
  output logic     [Clients-1:0] rsp_ready_o,
  input  sad_rsp_t [Clients-1:0] rsp_i,

  output logic       out_valid_o,
  input  logic       out_ready_i,
  output beat_t      out_beat_o,
  output clear_hdr_t out_hdr_o,

  output logic  drop_valid_o,
  output drop_e drop_reason_o
);

  localparam int unsigned IcvBits = 128;
  // What acceptance needs of a packet, and the ICV that it came with.
  typedef struct packed {
    logic [IcvBits-1:0] icv;
    sa_index_t          sa;
    logic [31:0]        spi;
    logic [63:0]        number;
  } claim_t;

  // ICV off, data to the cipher.
  logic first_q, enter, split_valid, split_ready, data_valid, data_ready, icv_valid, hdr_room;
  logic [IcvBits-1:0] icv;
  len_t text_bytes;
  beat_t data;
  gcm_job_t job;

  assign enter       = !first_q || hdr_room;
  assign split_valid = in_valid_i && enter;
  assign in_ready_o  = split_ready && enter;
  assign text_bytes  = in_hdr_i.bytes - len_t'(IcvBits / 8);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) first_q <= 1'b1;
    else if (in_valid_i && in_ready_o) first_q <= in_beat_i.last;
  end

  cv_icv #(
    .IcvBytes(IcvBits / 8)
  ) u_icv (
    .clk_i,
    .rst_ni,
    .in_valid_i (split_valid),
    .in_ready_o (split_ready),
    .in_beat_i,
    .in_bytes_i (in_hdr_i.bytes),
    .out_valid_o(data_valid),
    .out_ready_i(data_ready),
    .out_beat_o (data),
    .icv_valid_o(icv_valid),
    .icv_o      (icv)
  );

  // RFC 4106 section 4: the nonce is salt and IV; section 5: SPI and number are authentic, with ESN
  // all 64 bits of it.
  always_comb begin
    job.key      = in_hdr_i.key;
    job.len      = in_hdr_i.key_len;
    job.decrypt  = 1'b1;
    job.nonce    = {in_hdr_i.salt, in_hdr_i.iv};
    job.aad      = in_hdr_i.esn ? {in_hdr_i.spi, in_hdr_i.number}
                                : {in_hdr_i.spi, in_hdr_i.number[31:0], 32'd0};
    job.aad_long = in_hdr_i.esn;
    job.bytes    = 16'(text_bytes);
    job.powers   = in_hdr_i.auth_keys;
  end

  logic text_valid, text_ready, tag_valid, tag_ready;
  beat_t text;
  state_t tag;

  cv_aes_gcm #(
    .Rest(logic)
  ) u_gcm (
    .clk_i,
    .rst_ni,
    .in_valid_i (data_valid),
    .in_ready_o (data_ready),
    .in_beat_i  (data),
    .in_job_i   (job),
    .in_rest_i  (1'b0),
    .out_valid_o(text_valid),
    .out_ready_i(text_ready),
    .out_beat_o (text),
    .out_rest_o (),
    .tag_valid_o(tag_valid),
    .tag_ready_i(tag_ready),
    .tag_o      (tag)
  );

  // The judgement.
  claim_t claim;
  clear_hdr_t hdr_in, hdr;
  logic claim_valid, claim_room, hdr_valid, ask_ready, done_valid, done_ready;
  drop_e done_drop;

  cv_fifo #(
    .T    (claim_t),
    .Depth(Packets)
  ) u_claims (
    .clk_i,
    .rst_ni,
    .in_valid_i (icv_valid),
    .in_ready_o (claim_room),
    .in_data_i  ('{icv: icv, sa: in_hdr_i.sa, spi: in_hdr_i.spi, number: in_hdr_i.number}),
    .out_valid_o(claim_valid),
    .out_ready_i(tag_valid && tag_ready),
    .out_data_o (claim),
    .count_o    ()
  );

  assign hdr_in = '{
    low: in_hdr_i.low,
    clear: 1'b0,
    skip: '0,
    sa: in_hdr_i.sa,
    spi: in_hdr_i.spi,
    reqid: in_hdr_i.reqid,
    tunnel: in_hdr_i.tunnel,
    net: in_hdr_i.net,
    ip: in_hdr_i.ip
  };

  cv_fifo #(
    .T    (clear_hdr_t),
    .Depth(Packets)
  ) u_hdrs (
    .clk_i,
    .rst_ni,
    .in_valid_i (in_valid_i && in_ready_o && first_q),
    .in_ready_o (hdr_room),
    .in_data_i  (hdr_in),
    .out_valid_o(hdr_valid),
    .out_ready_i(done_valid && done_ready),
    .out_data_o (hdr),
    .count_o    ()
  );

  // The tag may be there before the last of the ICV.
  assign tag_ready = ask_ready && claim_valid;

  cv_accept #(
    .Clients(Clients),
    .Pending(Packets)
  ) u_accept (
    .clk_i,
    .rst_ni,
    .ask_valid_i (tag_valid && claim_valid),
    .ask_ready_o (ask_ready),
    .ask_agrees_i(tag == claim.icv),
    .ask_req_i   (accept_request(claim.sa, claim.spi, claim.number)),
    .req_valid_o,
    .req_ready_i,
    .req_o,
    .rsp_valid_i,
    .rsp_ready_o,
    .rsp_i,
    .done_valid_o(done_valid),
    .done_ready_i(done_ready),
    .done_drop_o (done_drop)
  );

  cv_hold #(
    .Hdr    (clear_hdr_t),
    .Depth  (Depth),
    .Packets(Packets)
  ) u_hold (
    .clk_i,
    .rst_ni,
    .in_valid_i     (text_valid),
    .in_ready_o     (text_ready),
    .in_beat_i      (text),
    .verdict_valid_i(done_valid),
    .verdict_ready_o(done_ready),
    .verdict_keep_i (done_drop == DropNone),
    .verdict_hdr_i  (hdr),
    .out_valid_o,
    .out_ready_i,
    .out_beat_o,
    .out_hdr_o
  );

  assign drop_valid_o  = done_valid && done_ready && done_drop != DropNone;
  assign drop_reason_o = done_drop;

  // A claim always finds room: a packet has its header's place first, and gives it up later.
  `CV_ASSERT(ClaimFindsRoom_A, !icv_valid || claim_room)
  // What is judged has its header.
  `CV_ASSERT(JudgedHasHeader_A, !done_valid || hdr_valid)
  // Packets come to the module of their cipher.
  `CV_ASSUME(RightModule_A, !in_valid_i || (in_hdr_i.cipher == CipherAesGcm &&
                                            in_hdr_i.auth == AuthNone))

endmodule
