// SHA-1 compression: one 512-bit block in 40 cycles, or in 20.
//
// Function     Compresses blocks one after the other. A block either starts a message, from the
//              chaining state that comes with it, or continues the one before it. Messages need
//              not start from the standard's initial state, so HMAC can begin at its key pads.
// Parameters   RoundsPerCycle: 2 (40 cycles a block) or 4 (20).
// Latency      80 / RoundsPerCycle cycles from taking a block to done_o.
// Throughput   one block in 80 / RoundsPerCycle cycles without a gap: the next block is taken in
//              the last cycle of the one before.
// Comb. paths  none from input to output.
// Stalls       in_ready_o is low while a block is worked on, except in its last cycle.
// Timing       The message word plus the round constant comes from a register. The addition of the
//              chaining state costs neither a cycle nor depth: in the last cycle it goes into
//              the sums of the two youngest words ahead of the rounds, and is added to the three
//              older ones, which are known early.

`include "culvert_assert.svh"

module cv_sha1
  import sha_pkg::*;
#(
  parameter int unsigned RoundsPerCycle = 2
) (
  input logic clk_i,
  input logic rst_ni,

  input  logic        in_valid_i,
  output logic        in_ready_o,
  input  block_t      in_block_i,
  input  logic        in_first_i,  // starts a message
  input  sha1_state_t in_state_i,  // the state that it starts from

  // For one cycle: a block is finished. The state after it stays until the next one is.
  output logic        done_o,
  output sha1_state_t state_o
);

  localparam int unsigned R = RoundsPerCycle;
  localparam int unsigned Cycles = 80 / R;
  localparam int unsigned QuarterCycles = Cycles / 4;
  typedef logic [$clog2(Cycles)-1:0] count_t;

  logic busy_d, busy_q, done_q, last_cycle, load;
  count_t count_d, count_q;
  logic [1:0] quarter, quarter_next;

  word_t a_q, b_q, c_q, d_q, e_q;  // working state
  sha1_state_t chain_q;  // state before this block
  sha1_state_t digest_q;  // state after the last finished block
  block_t w_q;  // the message words of the rounds after these
  word_t wk_q[R];  // message word plus constant of these rounds

  // The quarter of the rounds to which a cycle belongs; comparisons, because a division is large.
  function automatic logic [1:0] quarter_of(logic [31:0] cycle);
    return (cycle >= 3 * QuarterCycles) ? 2'd3 :
           (cycle >= 2 * QuarterCycles) ? 2'd2 :
           (cycle >= QuarterCycles) ? 2'd1 : 2'd0;
  endfunction

  assign last_cycle = busy_q && count_q == count_t'(Cycles - 1);
  assign in_ready_o = !busy_q || last_cycle;
  assign load = in_valid_i && in_ready_o;
  assign quarter = quarter_of(32'(count_q));
  assign quarter_next = quarter_of(32'(count_q) + 32'd1);

  // The rounds of one cycle. x[r] is the word that round r makes; xh[r] is the same plus a word of
  // the chaining state, from an adder of its own.
  word_t a, b, c, d, e;
  word_t x[R];
  word_t xh[R];
  always_comb begin
    word_t early, rest;
    a = a_q;
    b = b_q;
    c = c_q;
    d = d_q;
    e = e_q;
    for (int unsigned r = 0; r < R; r++) begin
      early = e + wk_q[r];
      rest  = rotl(a, 5) + sha1_f(quarter, b, c, d);
      x[r]  = early + rest;
      xh[r] = (early + ((r == R - 1) ? chain_q[0] : chain_q[1])) + rest;
      e = d;
      d = c;
      c = rotl(b, 30);
      b = a;
      a = x[r];
    end
  end

  sha1_state_t final_state;
  assign final_state = '{xh[R-1], xh[R-2], c + chain_q[2], d + chain_q[3], e + chain_q[4]};

  // Message schedule: word 16 + r of the window, from words r, r + 2, r + 8, r + 13.
  word_t window[16+R];
  always_comb begin
    for (int unsigned i = 0; i < 16; i++) window[i] = w_q[i];
    for (int unsigned r = 0; r < R; r++) begin
      window[16+r] = rotl(window[13+r] ^ window[8+r] ^ window[2+r] ^ window[r], 1);
    end
  end

  assign busy_d = load || (busy_q && !last_cycle);
  assign count_d = (load || !busy_q || last_cycle) ? '0 : count_q + 1'b1;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      busy_q  <= 1'b0;
      done_q  <= 1'b0;
      count_q <= '0;
    end else begin
      busy_q  <= busy_d;
      done_q  <= last_cycle;
      count_q <= count_d;
    end
  end

  sha1_state_t start_state;
  assign start_state = in_first_i ? in_state_i :
                       last_cycle ? final_state : digest_q;

  always_ff @(posedge clk_i) begin
    if (load) begin
      {a_q, b_q, c_q, d_q, e_q} <= start_state;
      chain_q <= start_state;
    end else if (busy_q) begin
      {a_q, b_q, c_q, d_q, e_q} <= {a, b, c, d, e};
    end
    if (last_cycle) digest_q <= final_state;
  end

  always_ff @(posedge clk_i) begin
    if (load) begin
      for (int unsigned r = 0; r < R; r++) wk_q[r] <= in_block_i[r] + Sha1K[0];
      w_q <= in_block_i;
    end else if (busy_q) begin
      for (int unsigned r = 0; r < R; r++) wk_q[r] <= window[R+r] + Sha1K[quarter_next];
      for (int unsigned i = 0; i < 16; i++) w_q[i] <= window[R+i];
    end
  end

  assign done_o  = done_q;
  assign state_o = digest_q;

  // A block takes its number of cycles, not one more.
  `CV_ASSERT(CountInRange_A, 32'(count_q) < Cycles)

endmodule
