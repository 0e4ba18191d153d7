// The text under the HMAC of ESP: ESP header, data and, with ESN, the upper half of the number
// (RFC 4303, sections 2.2.1 and 2.8), in full beats.
//
// Function     Data comes as whole words of 4 bytes.
// Latency      none: a packet's first beat goes on in the cycle in which it comes.
// Throughput   1 output beat a cycle, none lost between packets: n bytes of data and f bytes around
//              them (8, with ESN 12) take ceil((n + f) / 16) cycles.
// Comb. paths  input to output, and out_ready_i to in_ready_o, which depends on in_beat_i too.
// Stalls       in_ready_o is low during the first of the two cycles of a last beat that spills.

`include "culvert_assert.svh"

module cv_esp_text
  import culvert_pkg::*;
(
  input logic clk_i,
  input logic rst_ni,

  input  logic        in_valid_i,
  output logic        in_ready_o,
  input  beat_t       in_beat_i,
  // These three are read with a packet's first beat.
  input  logic [63:0] in_esp_i,   // SPI, lower half of the number
  input  logic        in_esn_i,
  input  logic [31:0] in_high_i,  // upper half of the number

  output logic  out_valid_o,
  input  logic  out_ready_i,
  output beat_t out_beat_o
);

  // What stands before a beat's data, 8 bytes, and may stand behind them.
  localparam int unsigned Words = (8 + BusBytes) / 4 + 1;
  typedef logic [32*Words-1:0] words_t;

  logic first_q, spill_d, spill_q;  // spill: all that is left is what did not fit
  logic esn, esn_q, put;
  logic [31:0] high, high_q;
  logic [63:0] before_q;
  logic [5:0] total;  // bytes from here to the packet's end
  words_t words;

  assign esn  = first_q ? in_esn_i : esn_q;
  assign high = first_q ? in_high_i : high_q;

  always_comb begin
    words = '0;
    words[32*Words-1-:64] = first_q ? in_esp_i : before_q;
    words[32*(Words-2)-1-:BusBits] = in_beat_i.data;
    if (in_beat_i.last) begin
      for (int unsigned i = 0; i <= BusBytes / 4; i++) begin
        // The first word behind the data.
        if (i == 32'(in_beat_i.tail[3:2]) + 1) words[32*(Words-2-i)-1-:32] = esn ? high : '0;
        else if (i > 32'(in_beat_i.tail[3:2])) words[32*(Words-2-i)-1-:32] = '0;
      end
    end
  end

  assign total = 6'd9 + 6'(in_beat_i.tail) + (esn ? 6'd4 : 6'd0);

  always_comb begin
    out_beat_o = '{data: words[32*Words-1-:BusBits], tail: 4'd15, last: 1'b0};
    if (spill_q) out_beat_o.data = {words[32*(Words-4)-1:0], 32'd0};
    if (in_beat_i.last) begin
      out_beat_o.last = spill_q || total <= 6'd16;
      if (out_beat_o.last) out_beat_o.tail = 4'(total - 6'd1);
    end
  end

  assign out_valid_o = in_valid_i;
  assign put         = in_valid_i && out_ready_i;
  assign in_ready_o  = out_ready_i && (!in_beat_i.last || out_beat_o.last);
  assign spill_d     = put ? in_beat_i.last && !out_beat_o.last : spill_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      first_q <= 1'b1;
      spill_q <= 1'b0;
    end else begin
      spill_q <= spill_d;
      if (put) first_q <= out_beat_o.last;
    end
  end

  always_ff @(posedge clk_i) begin
    if (put && first_q) begin
      esn_q  <= in_esn_i;
      high_q <= in_high_i;
    end
    if (put) before_q <= in_beat_i.data[63:0];
  end

  // Data is whole words.
  `CV_ASSUME(WholeWords_A, !in_valid_i || in_beat_i.tail[1:0] == 2'd3)
  // Only a last beat spills.
  `CV_ASSERT(SpillAtEnd_A, !spill_q || !in_valid_i || in_beat_i.last)
  // A packet spilled; one did not though it has extended numbers.
  `CV_COVER(Spill_C, put && spill_q)
  `CV_COVER(EsnFits_C, put && in_beat_i.last && !spill_q && esn && out_beat_o.last)

endmodule
