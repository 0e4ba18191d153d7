// Cipher section, AES-GCM outbound (RFC 4106): encrypts a packet and puts its tag behind it.
//
// Function     The nonce is the SA's salt and the packet's IV, the additional data SPI and sequence
//              number (64 bits with ESN). The data that leaves is ciphertext and tag, ready to stand
//              behind the IV.
// Latency      20 cycles from a packet's first beat to its first output beat.
// Throughput   that of cv_aes_gcm: n + 2 cycles for a packet of n beats. The tag's own beat goes out
//              while the next packet is encrypted.
// Comb. paths  none from input to output.
// Stalls       those of cv_aes_gcm. The last beat of a packet waits for the tag, 6 cycles; what
//              follows waits in a FIFO in the meantime.

module cv_cipher_gcm_out
  import culvert_pkg::*;
  import aes_pkg::*;
  import gcm_pkg::*;
  import gateway_pkg::*;
(
  input logic clk_i,
  input logic rst_ni,

  input  logic      in_valid_i,
  output logic      in_ready_o,
  input  beat_t     in_beat_i,
  input  seal_hdr_t in_hdr_i,    // read with a packet's first beat

  output logic      out_valid_o,
  input  logic      out_ready_i,
  output beat_t     out_beat_o,
  output auth_hdr_t out_hdr_o    // the same during all beats of a packet
);


  // The core's output, until the tag is there.
  localparam int unsigned WaitBeats = 16;

  gcm_job_t job;
  auth_hdr_t next, core_hdr, wait_hdr;
  logic core_valid, core_ready, tag_valid, tag_ready, wait_valid, wait_ready;
  beat_t core_beat, wait_beat;
  state_t tag;

  // RFC 4106: salt and IV (section 4), SPI and number (section 5).
  assign job = '{
    key: in_hdr_i.key,
    len: in_hdr_i.key_len,
    decrypt: 1'b0,
    nonce: {in_hdr_i.salt, in_hdr_i.frame.iv},
    aad: in_hdr_i.frame.esn ?
         {in_hdr_i.frame.esp[63:32], in_hdr_i.frame.high, in_hdr_i.frame.esp[31:0]} :
         {in_hdr_i.frame.esp, 32'd0},
    aad_long: in_hdr_i.frame.esn,
    bytes: 16'(in_hdr_i.bytes),
    powers: in_hdr_i.auth_keys
  };
  // The hash key ends here.
  assign next = '{
    low: in_hdr_i.low,
    auth: in_hdr_i.auth,
    auth_keys: '0,
    frame: in_hdr_i.frame
  };

  cv_aes_gcm #(
    .Rest(auth_hdr_t)
  ) u_core (
    .clk_i,
    .rst_ni,
    .in_valid_i,
    .in_ready_o,
    .in_beat_i,
    .in_job_i   (job),
    .in_rest_i  (next),
    .out_valid_o(core_valid),
    .out_ready_i(core_ready),
    .out_beat_o (core_beat),
    .out_rest_o (core_hdr),
    .tag_valid_o(tag_valid),
    .tag_ready_i(tag_ready),
    .tag_o      (tag)
  );

  cv_packet_fifo #(
    .Hdr    (auth_hdr_t),
    .Depth  (WaitBeats),
    .Packets(4)
  ) u_wait (
    .clk_i,
    .rst_ni,
    .in_valid_i (core_valid),
    .in_ready_o (core_ready),
    .in_beat_i  (core_beat),
    .in_hdr_i   (core_hdr),
    .out_valid_o(wait_valid),
    .out_ready_i(wait_ready),
    .out_beat_o (wait_beat),
    .out_hdr_o  (wait_hdr),
    .packets_o  ()
  );

  // A last beat without its tag stays; the others go on.
  logic go, append_ready;
  assign go         = !wait_beat.last || tag_valid;
  assign wait_ready = go && append_ready;
  assign tag_ready  = wait_valid && wait_beat.last && append_ready;

  cv_append #(
    .Rest(auth_hdr_t)
  ) u_tag (
    .clk_i,
    .rst_ni,
    .in_valid_i (wait_valid && go),
    .in_ready_o (append_ready),
    .in_beat_i  (wait_beat),
    .in_rest_i  (wait_hdr),
    .in_suffix_i(tag),
    .in_bytes_i (5'd16),
    .out_valid_o,
    .out_ready_i,
    .out_beat_o,
    .out_rest_o (out_hdr_o)
  );

endmodule
