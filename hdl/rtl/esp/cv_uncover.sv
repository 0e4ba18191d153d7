// Decapsulation, second half: from decrypted data to the inner packet (RFC 4303 sections 2.4 to 2.7).
//
// Function     Checks padding and next header, cuts off what stands before and behind the payload,
//              and makes the packet that was protected:
//                tunnel     version and length of the inner header are checked, TFC padding behind
//                           it is cut, and the outer header's ECN is carried over (RFC 6040);
//                transport  the IP header that stood in front of ESP is put before the payload,
//                           with length, protocol and checksum set.
//              Dummy packets (next header 59) end here, as DropInner. Clear packets pass unchanged.
// Parameters   Depth (beats held; more than MaxBytes / 16), Packets (that may wait).
// Latency      From a packet's last beat to the first one out: 4 cycles, transport mode as well.
// Throughput   1 beat a cycle; up to 4 cycles more for a packet whose parts do not lie on beats.
// Comb. paths  none from input to output.
// Stalls       in_ready_o is low while the memory is full.

`include "culvert_assert.svh"

module cv_uncover
  import culvert_pkg::*;
  import gateway_pkg::*;
#(
  parameter int unsigned Depth   = 1024,
  parameter int unsigned Packets = 8
) (
  input logic clk_i,
  input logic rst_ni,

  input  logic       in_valid_i,
  output logic       in_ready_o,
  input  beat_t      in_beat_i,
  input  clear_hdr_t in_hdr_i,   // constant during a packet

  output logic       out_valid_o,
  input  logic       out_ready_i,
  output beat_t      out_beat_o,
  output clear_hdr_t out_hdr_o,  // only `low`, `clear` and `sa`; the rest is zero

  output logic  drop_valid_o,
  output drop_e drop_reason_o
);

endmodule
