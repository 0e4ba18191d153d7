// Anti-replay window of an inbound SA, with extended sequence numbers (RFC 4303, section 3.4.3 and
// appendix A2).
//
// Function     Takes an SA's window and the 32 sequence number bits of a packet; says whether the
//              packet may be new, which upper 32 bits go with it, and what the window becomes if
//              the packet then proves authentic. It changes no state: who owns the SA stores the
//              new window after the integrity check, and only then.
// Window       `top` is the highest number accepted, `seen[i]` says that top - i has been.
//              Without ESN its upper half is zero.
// Parameters   Window (bits, 32 to 1024).
// Latency      1 cycle.
// Throughput   1 packet a cycle.
// Comb. paths  none from input to output.
// Stalls       none.

`include "culvert_assert.svh"

module cv_replay #(
  parameter int unsigned Window = 64
) (
  input logic clk_i,
  input logic rst_ni,

  input logic              in_valid_i,
  input logic              in_esn_i,
  input logic [31:0]       in_seq_i,
  input logic [63:0]       in_top_i,
  input logic [Window-1:0] in_seen_i,

  output logic              out_valid_o,
  output logic              out_fresh_o,  // may be accepted
  output logic              out_late_o,   // left of the window, or zero; else it is a repeat
  output logic [31:0]       out_high_o,   // upper half of its number; 0 without ESN
  output logic [63:0]       out_top_o,    // the window after acceptance
  output logic [Window-1:0] out_seen_o
);

  // Only the low halves are subtracted, once each way. Appendix A2.2 puts a number where it is
  // nearest to the window, so with ESN it lies in the window, modulo 2^32, or ahead of it.
  logic [31:0] top_high, top_low, high, ahead, behind;
  logic above;  // its low half is more than the window's
  logic near;  // its low half is one of the window's
  logic is_ahead, impossible, late, repeated, fresh;
  logic [63:0] seq, top_next;
  logic [Window-1:0] seen_next, mark;

  assign {top_high, top_low} = in_top_i;
  assign ahead  = in_seq_i - top_low;
  assign behind = top_low - in_seq_i;
  assign above  = in_seq_i > top_low;
  assign near   = behind < 32'(Window);

  always_comb begin
    high       = '0;
    is_ahead   = above && top_high == '0;
    // Left of the window.
    impossible = !is_ahead && (!near || above || top_high != '0);
    if (in_esn_i) begin
      is_ahead   = !near;
      high       = top_high;
      impossible = 1'b0;
      if (near && above) begin
        // The window reaches back into the span of 2^32 numbers before, and so does the number.
        high       = top_high - 32'd1;
        impossible = top_high == '0;
      end else if (!near && !above) begin
        high       = top_high + 32'd1;
        impossible = top_high == '1;
      end
    end
  end

  assign seq  = {high, in_seq_i};
  assign late = impossible || (in_seq_i == '0 && high == '0);

  always_comb begin
    mark = '0;
    for (int unsigned i = 0; i < Window; i++) mark[i] = behind == 32'(i);
  end

  assign repeated  = (in_seen_i & mark) != '0;
  assign fresh     = !late && (is_ahead || !repeated);
  assign top_next  = is_ahead ? seq : in_top_i;
  assign seen_next = !is_ahead ? in_seen_i | mark :
                     (ahead >= 32'(Window)) ? Window'(1) :
                     (in_seen_i << ahead[$clog2(Window)-1:0]) | Window'(1);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) out_valid_o <= 1'b0;
    else out_valid_o <= in_valid_i;
  end

  always_ff @(posedge clk_i) begin
    out_fresh_o <= fresh;
    out_late_o  <= late;
    out_high_o  <= high;
    out_top_o   <= fresh ? top_next : in_top_i;
    out_seen_o  <= fresh ? seen_next : in_seen_i;
  end

  // A fresh packet is marked in the window that it leaves behind, so it is never fresh twice.
  `CV_ASSERT(FreshIsMarked_A, !fresh || (seen_next & (is_ahead ? Window'(1) : mark)) != '0)
  // The window never moves back.
  `CV_ASSERT(TopNeverFalls_A, !fresh || top_next >= in_top_i)

endmodule
