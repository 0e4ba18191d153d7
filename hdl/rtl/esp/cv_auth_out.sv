// HMAC section, outbound: computes a packet's ICV, and puts the packet together for the wire.
//
// Function     Hashes ESP header, data and, with ESN, the upper half of the number (RFC 4303,
//              sections 2.8 and 3.3.2.1; RFC 2404, RFC 4868) while the packet waits here. It leaves
//              as IP header, ESP header, IV if the header holds one, data, ICV, in full beats. With
//              AuthNone there is no HMAC: the data (ciphertext and tag of AES-GCM) goes straight on.
// Parameters   Auth, RoundsPerCycle (see cv_sha1, cv_sha256), MaxBytes (longest data).
// Latency      With an HMAC of B cycles a block and n blocks in all: n * B + 16 cycles from a
//              packet's first beat, if its beats come without gaps. AuthNone: 2 cycles.
// Throughput   n * B + 1 cycles a packet: the next packet is hashed while this one leaves. AuthNone:
//              1 output beat a cycle, none lost between packets.
// Comb. paths  none from input to output.
// Stalls       in_ready_o is low while the HMAC's FIFO or the packet memory is full. A packet that
//              has begun to leave has all its beats ready (AuthNone: as they come).

`include "culvert_assert.svh"

module cv_auth_out
  import culvert_pkg::*;
  import gateway_pkg::*;
#(
  parameter auth_e       Auth           = AuthSha1,
  parameter int unsigned RoundsPerCycle = 2,
  parameter int unsigned MaxBytes       = gateway_pkg::MaxBytes
) (
  input logic clk_i,
  input logic rst_ni,

  input  logic      in_valid_i,
  output logic      in_ready_o,
  input  beat_t     in_beat_i,
  input  auth_hdr_t in_hdr_i,    // read with a packet's first beat

  output logic  out_valid_o,
  input  logic  out_ready_i,
  output beat_t out_beat_o
);

endmodule
