// AES-GCM of an inbound packet (RFC 4106): decryption, tag, acceptance, and only then release.
//
// Function     Decrypts the data, compares the tag with the ICV at their end, and asks the SAD to
//              accept the number. The plaintext waits meanwhile and leaves as payload and trailer,
//              or not at all. The SAD never hears of a packet whose ICV is wrong.
// Parameters   Depth (beats held; more than MaxBytes / 16), Packets (that may wait), Clients (ports
//              to the SAD, used in turn; with one, a packet takes at least as long as the SAD takes
//              to answer).
// Latency      That of cv_aes_gcm up to the tag, 4 cycles and the SAD's.
// Throughput   n + 2 cycles a packet of n beats of ciphertext, if the SAD keeps up.
// Comb. paths  none from input to output.
// Stalls       in_ready_o is low for one cycle before a packet, and while the memory is full.

`include "culvert_assert.svh"

module cv_cipher_gcm_in
  import culvert_pkg::*;
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

endmodule
