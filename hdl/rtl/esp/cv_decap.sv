// Decapsulation, first half: an inbound packet's outer header, and its SA.
//
// Function     Parses the outer IP header (RFC 791, RFC 8200). What carries ESP (RFC 4303) directly
//              behind it is looked up in the SAD by SPI and destination, and held until the answer
//              and the packet's end have come; IP header, ESP header and (AES-GCM) IV go into
//              the internal header, and the data behind them leave. Any other packet passes
//              unchanged with out_clear_o. Nothing is authentic yet, so no state changes here.
//                IPv4 options are taken up to 20 bytes in front of ESP. Fragments that carry ESP
//              are not put together. A frame longer or shorter than its IP length is dropped.
// Parameters   Ciphers and Auths (bit n: the gateway has modules for cipher_e or auth_e n; other SAs'
//              packets are dropped as unsupported, and so are a cipher without an HMAC and AES-GCM
//              with one), Depth (beats held; more than MaxBytes / 16).
// Latency      From a packet's last beat or the SAD's answer, whichever is later: 4 cycles.
// Throughput   1 beat a cycle; one look-up at a time, asked for as soon as the header is there.
// Comb. paths  none from input to output.
// Stalls       in_ready_o is low while `Depth` beats wait, or four packets for the SAD.

`include "culvert_assert.svh"

module cv_decap
  import culvert_pkg::*;
  import gateway_pkg::*;
#(
  parameter logic [4:0]  Ciphers = '1,
  parameter logic [2:0]  Auths   = '1,
  parameter int unsigned Depth   = 1024
) (
  input logic clk_i,
  input logic rst_ni,

  input  logic  in_valid_i,
  output logic  in_ready_o,
  input  beat_t in_beat_i,

  // Client of the SAD: SadFind.
  output logic     req_valid_o,
  input  logic     req_ready_i,
  output sad_req_t req_o,
  input  logic     rsp_valid_i,
  output logic     rsp_ready_o,
  input  sad_rsp_t rsp_i,

  output logic      out_valid_o,
  input  logic      out_ready_i,
  output beat_t     out_beat_o,
  output open_hdr_t out_hdr_o,    // of a clear packet only `low` and `ip` hold
  output logic      out_clear_o,  // came without ESP

  output logic  drop_valid_o,
  output drop_e drop_reason_o
);

endmodule
