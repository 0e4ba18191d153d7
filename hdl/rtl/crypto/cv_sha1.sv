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
// Timing       What a round adds besides the words of its own cycle is added up a cycle ahead: the
//              oldest words of the state are known then, and so are message word and constant, a
//              further cycle ahead. The additions that are left are one a round. The chaining
//              state costs neither a cycle nor an addition in a row: in the last cycle its first
//              word comes with the constant of the last round, the others go into sums beside it.

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
  // Rounds of a cycle whose sum of message word, constant and oldest word of the state (e, d, c) is
  // there before the cycle. The fourth takes b, which comes too late.
  localparam int unsigned Early = (R < 3) ? R : 3;
  typedef logic [$clog2(Cycles)-1:0] count_t;

  logic busy_d, busy_q, done_q, ready_q, last_q, last_d, load, load_first;
  count_t count_d, count_q;
  logic [1:0] quarter_q[3];  // of the rounds of this cycle, the next one, the one after it
  logic hash_in_q;  // the constant for the last word of the block takes the chaining state along

  word_t a_q, b_q, c_q, d_q, e_q;  // working state
  word_t f_q;  // the round function of the first round
  word_t part_q[Early];  // message word, constant and word of the state, for each round
  word_t chain_q[1:4];  // state before this block
  word_t closing_q[1:4];  // the same in the last cycle, else 0
  word_t hash_k_q;  // word 0 of the state before this block, plus the last constant
  sha1_state_t digest_q;  // state after the last finished block
  block_t w_q;  // the message words from these rounds on
  word_t wk_q[R];  // message word plus constant of the rounds of the next cycle

  // The quarter of the rounds to which a cycle belongs; comparisons, because a division is large.
  // Behind the last cycle the next block begins.
  function automatic logic [1:0] quarter_of(logic [31:0] cycle);
    return (cycle >= Cycles) ? 2'd0 :
           (cycle >= 3 * QuarterCycles) ? 2'd3 :
           (cycle >= 2 * QuarterCycles) ? 2'd2 :
           (cycle >= QuarterCycles) ? 2'd1 : 2'd0;
  endfunction

  // A sum that is worked out by itself. With bit 0 made apart, synthesis does not see a sum of
  // three words in it and the addition behind it: it would turn those into carry-save adders, which
  // wait for the latest of the three.
  function automatic word_t add_apart(word_t x, word_t y);
    return ((x + y) & ~32'd1) | {31'd0, x[0] ^ y[0]};
  endfunction

  assign in_ready_o = ready_q;
  assign load = in_valid_i && ready_q;
  assign load_first = load && in_first_i;

  // The rounds of one cycle. x[r] is the word that round r makes.
  word_t a, b, c, d, e, f, b_closed, late;
  word_t x[R];
  always_comb begin
    a = a_q;
    b = b_q;
    c = c_q;
    d = d_q;
    e = e_q;
    for (int unsigned r = 0; r < R; r++) begin
      f = (r == 0) ? f_q : sha1_f(quarter_q[0], b, c, d);
      if (r == 0) x[r] = rotl(a, 5) + f + part_q[r];
      else x[r] = rotl(a, 5) + add_apart(f, (r < Early) ? part_q[r] : late);
      e = d;
      d = c;
      c = rotl(b, 30);
      b = a;
      a = x[r];
    end
  end

  // The fourth round's b is known at the beginning of its own cycle only.
  if (R > Early) begin : gen_late
    word_t wk_late_q;  // message word plus constant of the fourth round of this cycle
    always_ff @(posedge clk_i) wk_late_q <= ready_q ? in_block_i[3] + Sha1K[0] : wk_q[3];
    assign late = add_apart(rotl(b_q, 30), wk_late_q);
  end else begin : gen_no_late
    assign late = '0;
  end

  // Word 1 after the block: the last round but one, with the chaining state among its addends.
  if (R == 2) begin : gen_closed_2
    assign b_closed = ((closing_q[1] + part_q[0]) + rotl(a_q, 5)) + f_q;
  end else begin : gen_closed_4
    assign b_closed = (closing_q[1] + add_apart(sha1_f(quarter_q[0], x[0], rotl(a_q, 30),
                                                       rotl(b_q, 30)), part_q[2])) + rotl(x[1], 5);
  end

  // The state behind this cycle, and behind the block in the last one.
  sha1_state_t final_state, next_state;
  assign final_state = '{a, b_closed, c + closing_q[2], d + closing_q[3], e + closing_q[4]};
  assign next_state = load_first ? in_state_i :
                      busy_q ? final_state : {a_q, b_q, c_q, d_q, e_q};

  // Message schedule: word 16 + r of the window, from words r, r + 2, r + 8, r + 13.
  word_t window[16+R];
  always_comb begin
    for (int unsigned i = 0; i < 16; i++) window[i] = w_q[i];
    for (int unsigned r = 0; r < R; r++) begin
      window[16+r] = rotl(window[13+r] ^ window[8+r] ^ window[2+r] ^ window[r], 1);
    end
  end

  assign busy_d = load || (busy_q && !last_q);
  assign count_d = (load || !busy_q || last_q) ? '0 : count_q + 1'b1;
  assign last_d = busy_q && count_q == count_t'(Cycles - 2);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      busy_q  <= 1'b0;
      last_q  <= 1'b0;
      ready_q <= 1'b1;
      done_q  <= 1'b0;
      count_q <= '0;
      hash_in_q <= 1'b0;
      for (int unsigned i = 0; i < 3; i++) quarter_q[i] <= '0;
    end else begin
      busy_q  <= busy_d;
      last_q  <= last_d;
      ready_q <= !busy_d || last_d;
      done_q  <= last_q;
      count_q <= count_d;
      // Two cycles ahead of the last one.
      hash_in_q <= count_q == count_t'(Cycles - 4);
      quarter_q[2] <= quarter_of(32'(count_q) + 32'd3);
      quarter_q[1] <= quarter_q[2];
      quarter_q[0] <= quarter_q[1];
    end
  end

  // Whether a block comes or not: while none is worked on, what is taken from the input is of no
  // consequence, so these need not wait for in_valid_i.
  always_ff @(posedge clk_i) begin
    {a_q, b_q, c_q, d_q, e_q} <= next_state;
    f_q <= sha1_f(quarter_q[1], next_state[1], next_state[2], next_state[3]);
    for (int unsigned r = 0; r < Early; r++) begin
      part_q[r] <= next_state[4-r] + (ready_q ? in_block_i[r] : wk_q[r]) +
                   (ready_q ? Sha1K[0] : 32'd0);
    end
    for (int unsigned r = 0; r < R; r++) begin
      wk_q[r] <= (ready_q ? in_block_i[R+r] : w_q[2*R+r]) +
                 ((hash_in_q && r == R - 1) ? hash_k_q : Sha1K[quarter_q[2]]);
    end
    for (int unsigned i = 0; i < 16; i++) w_q[i] <= ready_q ? in_block_i[i] : window[R+i];
  end

  always_ff @(posedge clk_i) begin
    if (count_q == '0) begin
      hash_k_q <= a_q + Sha1K[3];
      chain_q  <= '{b_q, c_q, d_q, e_q};
    end
    for (int unsigned i = 1; i < 5; i++) closing_q[i] <= last_d ? chain_q[i] : '0;
    if (last_q) digest_q <= final_state;
  end

  assign done_o  = done_q;
  assign state_o = digest_q;

  // A block takes its number of cycles, not one more.
  `CV_ASSERT(CountInRange_A, 32'(count_q) < Cycles)

endmodule
