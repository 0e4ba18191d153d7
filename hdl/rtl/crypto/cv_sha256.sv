// SHA-256 compression: one 512-bit block in 64 cycles, or in 32.
//
// Function     As cv_sha1: blocks one after the other, a message may start from any chaining state.
// Parameters   RoundsPerCycle: 1 (64 cycles a block) or 2 (32).
// Latency      64 / RoundsPerCycle cycles from taking a block to done_o.
// Throughput   one block in 64 / RoundsPerCycle cycles without a gap.
// Comb. paths  none from input to output.
// Stalls       in_ready_o is low while a block is worked on, except in its last cycle.
// Timing       The oldest word of the state, message word and constant are added up a cycle ahead.

`include "culvert_assert.svh"

module cv_sha256
  import sha_pkg::*;
#(
  parameter int unsigned RoundsPerCycle = 1
) (
  input logic clk_i,
  input logic rst_ni,

  input  logic          in_valid_i,
  output logic          in_ready_o,
  input  block_t        in_block_i,
  input  logic          in_first_i,  // starts a message
  input  sha256_state_t in_state_i,  // the state that it starts from

  // For one cycle: a block is finished. The state after it stays until the next one is.
  output logic          done_o,
  output sha256_state_t state_o
);

  localparam int unsigned R = RoundsPerCycle;
  localparam int unsigned Cycles = 64 / R;
  typedef logic [$clog2(Cycles)-1:0] count_t;

  logic busy_d, busy_q, done_q, ready_q, last_d, last_q, load;
  count_t count_d, count_q;

  sha256_state_t work_q, work, final_state, next_state;
  sha256_state_t chain_q;  // state before this block
  sha256_state_t digest_q;  // state after the last finished block
  block_t w_q;  // the message words of these rounds and those after
  word_t wk_q[R];  // message word plus constant of the rounds of the next cycle
  word_t k_q[R];  // the constants of the rounds after those
  word_t part_q[R];  // message word, constant and word 7 of the state, of these rounds

  assign in_ready_o = ready_q;
  assign load = in_valid_i && ready_q;

  // `part`: word 7 of the state, plus message word and constant. Both sums are written out, and in
  // an order that gives them no partial sum in common: each is one row of carry-save adders then,
  // and neither waits for an addition of the other.
  function automatic sha256_state_t sha256_round(word_t [0:6] s, word_t part);
    word_t sum0, sum1, choice, majority;
    sum0     = rotr(s[0], 2) ^ rotr(s[0], 13) ^ rotr(s[0], 22);
    sum1     = rotr(s[4], 6) ^ rotr(s[4], 11) ^ rotr(s[4], 25);
    choice   = (s[4] & s[5]) ^ (~s[4] & s[6]);
    majority = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
    return '{part + sum0 + majority + sum1 + choice, s[0], s[1], s[2],
             s[3] + part + sum1 + choice, s[4], s[5], s[6]};
  endfunction

  always_comb begin
    work = work_q;
    for (int unsigned r = 0; r < R; r++) work = sha256_round(work[0:6], part_q[r]);
    for (int unsigned i = 0; i < 8; i++) final_state[i] = work[i] + chain_q[i];
  end

  // Message schedule.
  word_t window[16+R];
  always_comb begin
    for (int unsigned i = 0; i < 16; i++) window[i] = w_q[i];
    for (int unsigned r = 0; r < R; r++) begin
      window[16+r] = window[r] + window[9+r] +
          (rotr(window[1+r], 7) ^ rotr(window[1+r], 18) ^ (window[1+r] >> 3)) +
          (rotr(window[14+r], 17) ^ rotr(window[14+r], 19) ^ (window[14+r] >> 10));
    end
  end

  assign busy_d = load || (busy_q && !last_q);
  assign count_d = (load || !busy_q || last_q) ? '0 : count_q + 1'b1;
  assign last_d = busy_q && count_q == count_t'(Cycles - 2);
  assign next_state = (load && in_first_i) ? in_state_i :
                      last_q ? final_state :
                      busy_q ? work : work_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      busy_q  <= 1'b0;
      last_q  <= 1'b0;
      ready_q <= 1'b1;
      done_q  <= 1'b0;
      count_q <= '0;
    end else begin
      busy_q  <= busy_d;
      last_q  <= last_d;
      ready_q <= !busy_d || last_d;
      done_q  <= last_q;
      count_q <= count_d;
    end
  end

  // Whether a block comes or not: while none is worked on, what is taken from the input is of no
  // consequence, so these need not wait for in_valid_i.
  always_ff @(posedge clk_i) begin
    work_q <= next_state;
    for (int unsigned r = 0; r < R; r++) begin
      // Word 7 moves on by one place a round.
      part_q[r] <= next_state[7-r] + (ready_q ? in_block_i[r] : wk_q[r]) +
                   (ready_q ? Sha256K[r] : 32'd0);
      wk_q[r] <= (ready_q ? in_block_i[R+r] : w_q[2*R+r]) + k_q[r];
      // Three cycles on; the constants of the first ones of a block when the one before it ends.
      k_q[r] <= !busy_d ? Sha256K[R+r] : Sha256K[6'((32'(count_d) + 32'd2) * R + r)];
    end
    for (int unsigned i = 0; i < 16; i++) w_q[i] <= ready_q ? in_block_i[i] : window[R+i];
  end

  always_ff @(posedge clk_i) begin
    if (count_q == '0) chain_q <= work_q;
    if (last_q) digest_q <= final_state;
  end

  assign done_o  = done_q;
  assign state_o = digest_q;

  // A block takes its number of cycles, not one more.
  `CV_ASSERT(CountInRange_A, 32'(count_q) < Cycles)

endmodule
