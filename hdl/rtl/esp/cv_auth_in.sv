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
// Latency      That of cv_hmac, 5 cycles and the SAD's.
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

endmodule
