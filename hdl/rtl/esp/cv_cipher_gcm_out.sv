// Cipher section, AES-GCM outbound (RFC 4106): encrypts a packet and puts its tag behind it.
//
// Function     The nonce is the SA's salt and the packet's IV, the additional data SPI and sequence
//              number (64 bits with ESN). The data that leaves is ciphertext and tag, ready to stand
//              behind the IV.
// Latency      19 cycles from a packet's first beat to its first output beat.
// Throughput   that of cv_aes_gcm: n + 2 cycles for a packet of n beats. The tag's own beat goes out
//              while the next packet is encrypted.
// Comb. paths  none from input to output.
// Stalls       those of cv_aes_gcm. The last beat of a packet waits for the tag, 6 cycles; what
//              follows waits in a FIFO in the meantime.

`include "culvert_assert.svh"

module cv_cipher_gcm_out
  import culvert_pkg::*;
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

endmodule
