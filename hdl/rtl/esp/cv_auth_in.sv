// Integrity of an inbound packet: HMAC, acceptance, and only then release (RFC 4303 section 3.4.4).
//
// Function     Computes the HMAC over ESP header, data and, with ESN, the upper half of the number;
//              compares it with the ICV at the data's end; asks the SAD to accept the number. The
//              packet waits meanwhile and leaves without its ICV, or not at all. The SAD never
//              hears of a packet whose ICV is wrong.
//
//                in -+-> ICV cut off ------------------> hold -> out
//                    +-> SPI, number, data, high -> cv_hmac -> compare -> accept -> verdict
//
// Parameters   Auth (AuthNone: the packets pass unchanged in the same cycle and the SAD is not
//              asked; who decrypts them checks), RoundsPerCycle (see cv_hmac), Depth (beats held; more
//              than MaxBytes / 16), Packets (that may wait, at least 2).
// Latency      That of cv_hmac, 3 cycles and the SAD's.
// Throughput   n * B + 1 cycles a packet (see cv_hmac), if the SAD answers within them: the next
//              packet is hashed while this one is judged and leaves.
// Comb. paths  none from input to output, but for AuthNone.
// Stalls       in_ready_o is low while the memory is full or the hash unit has enough, and for one
//              cycle before and after a packet's data.

`include "culvert_assert.svh"

module cv_auth_in
  import culvert_pkg::*;
  import gateway_pkg::*;
#(
  parameter auth_e       Auth           = AuthSha1,
  parameter int unsigned RoundsPerCycle = 2,
  parameter int unsigned Depth          = 1024,
  parameter int unsigned Packets        = 4
) (
  input logic clk_i,
  input logic rst_ni,

  input  logic      in_valid_i,
  output logic      in_ready_o,
  input  beat_t     in_beat_i,
  input  open_hdr_t in_hdr_i,   // constant during a packet

  // Client of the SAD: SadAccept.
  output logic     req_valid_o,
  input  logic     req_ready_i,
  output sad_req_t req_o,
  input  logic     rsp_valid_i,
  output logic     rsp_ready_o,
  input  sad_rsp_t rsp_i,

  output logic      out_valid_o,
  input  logic      out_ready_i,
  output beat_t     out_beat_o,
  output open_hdr_t out_hdr_o,   // `bytes` without the ICV, `auth_keys` zero

  output logic  drop_valid_o,
  output drop_e drop_reason_o
);

  if (Auth == AuthNone) begin : gen_none

    assign out_valid_o   = in_valid_i;
    assign in_ready_o    = out_ready_i;
    assign out_beat_o    = in_beat_i;
    assign out_hdr_o     = in_hdr_i;
    assign req_valid_o   = 1'b0;
    assign req_o         = '0;
    assign rsp_ready_o   = 1'b0;
    assign drop_valid_o  = 1'b0;
    assign drop_reason_o = DropNone;

    logic unused;
    assign unused = ^{clk_i, rst_ni, req_ready_i, rsp_valid_i, rsp_i};

  end else begin : gen_hmac

    localparam bit Sha256 = Auth == AuthSha256;
    localparam int unsigned StateBits = Sha256 ? 256 : 160;
    localparam int unsigned IcvBytes = Sha256 ? 16 : 12;
    localparam int unsigned IcvBits = 8 * IcvBytes;
    typedef logic [StateBits-1:0] state_t;
    typedef struct packed {
      state_t inner;
      state_t outer;
    } keys_t;
    // What acceptance needs of a packet, and the ICV that it came with.
    typedef struct packed {
      logic [IcvBits-1:0] icv;
      sa_index_t          sa;
      logic [31:0]        spi;
      logic [63:0]        number;
    } claim_t;

    // The message: ESP header, data, upper half of the number.
    typedef enum logic [1:0] {
      StEsp,
      StData,
      StHigh
    } state_e;

    state_e state_d, state_q;
    logic split_valid, split_ready, data_valid, data_ready, hold_ready;
    beat_t data;
    logic icv_valid;
    logic [IcvBits-1:0] icv;
    logic chunk_valid, chunk_ready, chunk_last, start, start_ready;
    logic [BusBits-1:0] chunk;
    logic [4:0] chunk_bytes;
    logic [31:0] high_q;
    logic esn_q;

    assign split_valid = in_valid_i && state_q == StData;
    assign in_ready_o  = split_ready && state_q == StData;

    cv_icv #(
      .IcvBytes(IcvBytes)
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

    assign data_ready = hold_ready && chunk_ready;

    always_comb begin
      state_d     = state_q;
      start       = 1'b0;
      chunk_valid = 1'b0;
      chunk       = data.data;
      chunk_bytes = 5'(data.tail) + 5'd1;
      chunk_last  = 1'b0;
      unique case (state_q)
        StEsp: begin
          chunk       = {in_hdr_i.spi, in_hdr_i.number[31:0], 64'd0};
          chunk_bytes = 5'd8;
          chunk_valid = in_valid_i && start_ready;
          start       = chunk_valid && chunk_ready;
          if (start) state_d = StData;
        end
        StData: begin
          chunk_valid = data_valid && hold_ready;
          chunk_last  = data.last && !esn_q;
          if (icv_valid) state_d = esn_q ? StHigh : StEsp;
        end
        StHigh: begin
          // RFC 4303 section 2.2.1: the upper half is under the ICV, though not on the wire.
          chunk       = {high_q, 96'd0};
          chunk_bytes = 5'd4;
          chunk_last  = 1'b1;
          chunk_valid = 1'b1;
          if (chunk_ready) state_d = StEsp;
        end
        default: state_d = StEsp;
      endcase
    end

    always_ff @(posedge clk_i or negedge rst_ni) begin
      if (!rst_ni) state_q <= StEsp;
      else state_q <= state_d;
    end

    always_ff @(posedge clk_i) begin
      if (start) begin
        high_q <= in_hdr_i.number[63:32];
        esn_q  <= in_hdr_i.esn;
      end
    end

    logic message_valid, message_ready, keys_room, keys_valid, mac_valid, mac_ready;
    beat_t message;
    keys_t keys;
    state_t mac;

    cv_packer u_packer (
      .clk_i,
      .rst_ni,
      .in_valid_i (chunk_valid),
      .in_ready_o (chunk_ready),
      .in_data_i  (chunk),
      .in_bytes_i (chunk_bytes),
      .in_last_i  (chunk_last),
      .out_valid_o(message_valid),
      .out_ready_i(message_ready),
      .out_beat_o (message)
    );

    // The keys go along with the message, which the packer holds up.
    cv_fifo #(
      .T    (keys_t),
      .Depth(2)
    ) u_keys (
      .clk_i,
      .rst_ni,
      .in_valid_i (start),
      .in_ready_o (keys_room),
      .in_data_i  ('{inner: in_hdr_i.auth_keys[511-:StateBits],
                     outer: in_hdr_i.auth_keys[255-:StateBits]}),
      .out_valid_o(keys_valid),
      .out_ready_i(message_valid && message_ready && message.last),
      .out_data_o (keys),
      .count_o    ()
    );

    cv_hmac #(
      .Sha256        (Sha256),
      .RoundsPerCycle(RoundsPerCycle)
    ) u_hmac (
      .clk_i,
      .rst_ni,
      .in_valid_i   (message_valid),
      .in_ready_o   (message_ready),
      .in_beat_i    (message),
      .in_inner_i   (keys.inner),
      .in_outer_i   (keys.outer),
      .block_o      (),
      .block_first_o(),
      .mac_valid_o  (mac_valid),
      .mac_ready_i  (mac_ready),
      .mac_o        (mac)
    );

    // The judgement.
    claim_t claim;
    open_hdr_t hdr_in, hdr;
    logic claim_valid, claim_room, hdr_room, hdr_valid, ask_ready, ask_valid;
    logic done_valid, done_ready;
    drop_e done_drop;

    assign start_ready = keys_room && hdr_room;

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
      .out_ready_i(mac_valid && mac_ready),
      .out_data_o (claim),
      .count_o    ()
    );

    always_comb begin
      hdr_in           = in_hdr_i;
      hdr_in.auth_keys = '0;
      hdr_in.bytes     = in_hdr_i.bytes - len_t'(IcvBytes);
    end

    cv_fifo #(
      .T    (open_hdr_t),
      .Depth(Packets)
    ) u_hdrs (
      .clk_i,
      .rst_ni,
      .in_valid_i (start),
      .in_ready_o (hdr_room),
      .in_data_i  (hdr_in),
      .out_valid_o(hdr_valid),
      .out_ready_i(done_valid && done_ready),
      .out_data_o (hdr),
      .count_o    ()
    );

    // The ICV is the HMAC's front (RFC 2404, RFC 4868).
    logic agrees, unused;
    assign agrees = mac[StateBits-1-:IcvBits] == claim.icv;
    assign unused = ^mac[StateBits-IcvBits-1:0];

    assign ask_valid = mac_valid && claim_valid;
    assign mac_ready = ask_ready && claim_valid;

    cv_accept #(
      .Clients(1),
      .Pending(Packets)
    ) u_accept (
      .clk_i,
      .rst_ni,
      .ask_valid_i (ask_valid),
      .ask_ready_o (ask_ready),
      .ask_agrees_i(agrees),
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
      .Hdr    (open_hdr_t),
      .Depth  (Depth),
      .Packets(Packets)
    ) u_hold (
      .clk_i,
      .rst_ni,
      .in_valid_i     (data_valid && chunk_ready),
      .in_ready_o     (hold_ready),
      .in_beat_i      (data),
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
    // A message has its keys, an HMAC its claim.
    `CV_ASSERT(MessageHasKeys_A, !message_valid || keys_valid)
    `CV_ASSERT(MacHasClaim_A, !mac_valid || claim_valid)
    // Packets come to the module of their HMAC.
    `CV_ASSUME(RightModule_A, !in_valid_i || in_hdr_i.auth == Auth)

  end

endmodule
