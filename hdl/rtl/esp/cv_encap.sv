// SAD section, outbound: asks the SAD for a packet's SA and number, and makes the packet ready for
// the cipher (RFC 4303, section 3.3; RFC 4301, section 5.1).
//
// Function     Tunnel mode, IPv4 or IPv6 in either: the packet is the payload, and a new header is
//              built, whose traffic class is the inner one (RFC 4301 section 5.1.2, RFC 6040 normal
//              mode). Transport mode: the IP header is taken off, patched, and the rest is the
//              payload. The data that leaves is the nonce block (not for AES-GCM), payload, padding
//              and trailer; the header that leaves holds all that the later sections need.
//
//                beats -> FIFO -> cv_cut -> cv_prepend -> cv_esp_trailer -> out
//                header -> SAD -> decide, build, sum up -------------------> out
//
// Drops        What the SAD says (DropNoSa, DropHardLimit, DropNumbers). DropTooLong: the sealed
//              packet would have more than MaxBytes. DropUnsupported: a cipher or HMAC that is not
//              built in, a cipher without integrity (RFC 8221 section 5); in transport mode IPv4
//              options, IPv6 extension headers, or no payload. DropFragment: a fragment in transport
//              mode (RFC 4303 section 3.3.4). DropInner: in transport mode, a packet of the other IP
//              version than its SA. The number that such a packet took stays unused.
// Parameters   Has* (what is built in), Packets (held at the same time).
// Latency      9 cycles and the SAD's answer.
// Throughput   1 beat a cycle, at least 6 cycles a packet if the SAD answers at once.
// Comb. paths  none from input to output.
// Stalls       in_ready_o is low while the FIFO is full or `Packets` packets are held. A packet waits
//              for its answer; the request for the next one goes out when that is there.

`include "culvert_assert.svh"

module cv_encap
  import culvert_pkg::*;
  import aes_pkg::*;
  import gateway_pkg::*;
#(
  parameter bit          HasAes    = 1'b1,
  parameter bit          HasGcm    = 1'b1,
  parameter bit          HasDes    = 1'b1,
  parameter bit          HasEcb    = 1'b0,
  parameter bit          HasSha1   = 1'b1,
  parameter bit          HasSha256 = 1'b1,
  parameter int unsigned Packets   = 4
) (
  input logic clk_i,
  input logic rst_ni,

  input  logic        in_valid_i,
  output logic        in_ready_o,
  input  beat_t       in_beat_i,
  input  policy_hdr_t in_hdr_i,    // read with a packet's first beat

  // To the SAD and back: SadSend, one request outstanding.
  output logic     req_valid_o,
  input  logic     req_ready_i,
  output sad_req_t req_o,
  input  logic     rsp_valid_i,
  output logic     rsp_ready_o,
  input  sad_rsp_t rsp_i,

  output logic      out_valid_o,
  input  logic      out_ready_i,
  output beat_t     out_beat_o,
  output seal_hdr_t out_hdr_o,   // the same during all beats of a packet

  // For one cycle: a packet was dropped.
  output logic  drop_valid_o,
  output drop_e drop_reason_o
);

endmodule
