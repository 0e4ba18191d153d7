// Security policy controller, outbound: what is to become of a packet.
//
// Function     Checks each packet's headers and length, looks its policy up, and lets it go on with
//              the header of the SAD section (protect) or past all sections (bypass), or drops it.
// Latency      A packet leaves 3 cycles after its last beat or 5 after its look-up, whichever is later.
// Throughput   1 beat a cycle behind the headers; a new packet in as many cycles as the slower one of
//              its beats and its look-up takes, because packets wait while others are looked up.
// Comb. paths  none from input to output.
// Stalls       in_ready_o is low while the packets inside fill the memory (a little more than
//              MaxBytes), while four packets wait for their verdicts, and as cv_ip_parse says.

`include "culvert_assert.svh"

module cv_policy_out
  import culvert_pkg::*;
  import gateway_pkg::*;
(
  input logic clk_i,
  input logic rst_ni,

  input  logic  in_valid_i,
  output logic  in_ready_o,
  input  beat_t in_beat_i,

  // A client of cv_spd.
  output logic      look_valid_o,
  input  logic      look_ready_i,
  output selector_t look_o,
  input  logic      found_valid_i,
  input  policy_t   found_i,

  output logic        out_valid_o,
  input  logic        out_ready_i,
  output beat_t       out_beat_o,
  output policy_hdr_t out_hdr_o,
  output logic        out_bypass_o,  // constant in a packet; then only out_hdr_o.low and .ip count

  output logic  drop_valid_o,
  output drop_e drop_reason_o
);

endmodule
