// Reads the headers of IP packets that pass by: version, lengths, checksum, addresses, protocol and
// ports.
//
// Function     Watches a stream of packets. `head_*` says of each packet, once, what its headers
//              hold, or why it is to be dropped; `tail_*` says, once and not before `head_*`, whether
//              the packet is whole. IPv4 options are skipped. Of IPv6's extension headers hop-by-hop,
//              routing, destination options, AH and fragment are, if they end within the first
//              MaxHeader bytes; a header that does not is taken for the upper layer, without ports.
//              A fragment's protocol is the upper layer's; later fragments have no ports.
// Checked      Version; IPv4 header length and checksum; that the headers, and the ports (ICMP: type
//              and code) where there must be some, lie inside the packet; that no fragment ends
//              beyond 65535 bytes; that hop-by-hop options come first and the fragment header once:
//              DropHeader. That the packet is as long as its header says and not longer than
//              MaxBytes: DropTooLong, at once when the limit is passed.
// Latency      head_valid_o: 1 cycle after the headers' last 8 bytes were read. tail_valid_o: 1 cycle
//              after the last beat was taken, or after the first one beyond MaxBytes.
// Throughput   1 beat in 2 cycles within the headers, 1 beat a cycle behind them.
// Comb. paths  none; in_ready_o depends on registers only.
// Stalls       in_ready_o is low in the first of those 2 cycles. Nothing else stalls: who cannot take
//              a pulse must not offer a packet.

`include "culvert_assert.svh"

module cv_ip_parse
  import culvert_pkg::*;
  import gateway_pkg::*;
#(
  parameter int unsigned MaxHeader = 128
) (
  input logic clk_i,
  input logic rst_ni,

  input  logic  in_valid_i,
  output logic  in_ready_o,
  input  beat_t in_beat_i,

  // A pulse of one cycle for each packet.
  output logic       head_valid_o,
  output drop_e      head_drop_o,      // DropNone, or DropHeader: then the rest does not count
  output ip_info_t   head_info_o,      // `bytes` is what the header says
  output selector_t  head_select_o,
  output logic       head_fragment_o,  // first or later fragment
  output logic [7:0] head_upper_o,     // where the upper layer begins

  // A pulse of one cycle for each packet, with head_valid_o or after it.
  output logic  tail_valid_o,
  output drop_e tail_drop_o  // DropNone, DropHeader (as head_drop_o), DropTooLong
);

endmodule
