// SHA-256 compression: one 512-bit block in 64 cycles, or in 32.
//
// Function     As cv_sha1: blocks one after the other, a message may start from any chaining state.
// Parameters   RoundsPerCycle: 1 (64 cycles a block) or 2 (32).
// Latency      64 / RoundsPerCycle cycles from taking a block to done_o.
// Throughput   one block in 64 / RoundsPerCycle cycles without a gap.
// Comb. paths  none from input to output.
// Stalls       in_ready_o is low while a block is worked on, except in its last cycle.

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

  logic busy_d, busy_q, done_q, last_cycle, load;
  count_t count_d, count_q;

  sha256_state_t work_q, work, final_state, start_state;
  sha256_state_t chain_q;  // state before this block
  sha256_state_t digest_q;  // state after the last finished block
  block_t w_q;  // the message words of these rounds and those after
  word_t wk_q[R];  // message word plus constant of these rounds

  assign last_cycle = busy_q && count_q == count_t'(Cycles - 1);
  assign in_ready_o = !busy_q || last_cycle;
  assign load = in_valid_i && in_ready_o;

  function automatic sha256_state_t sha256_round(sha256_state_t s, word_t wk);
    word_t t1, t2;
    t1 = s[7] + wk + (rotr(s[4], 6) ^ rotr(s[4], 11) ^ rotr(s[4], 25)) +
         ((s[4] & s[5]) ^ (~s[4] & s[6]));
    t2 = (rotr(s[0], 2) ^ rotr(s[0], 13) ^ rotr(s[0], 22)) +
         ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
    return '{t1 + t2, s[0], s[1], s[2], s[3] + t1, s[4], s[5], s[6]};
  endfunction

  always_comb begin
    work = work_q;
    for (int unsigned r = 0; r < R; r++) work = sha256_round(work, wk_q[r]);
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

  assign busy_d = load || (busy_q && !last_cycle);
  assign count_d = (load || !busy_q || last_cycle) ? '0 : count_q + 1'b1;
  assign start_state = in_first_i ? in_state_i : last_cycle ? final_state : digest_q;

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

  always_ff @(posedge clk_i) begin
    if (load) begin
      work_q  <= start_state;
      chain_q <= start_state;
    end else if (busy_q) begin
      work_q <= work;
    end
    if (last_cycle) digest_q <= final_state;
  end

  always_ff @(posedge clk_i) begin
    if (load) begin
      for (int unsigned r = 0; r < R; r++) wk_q[r] <= in_block_i[r] + Sha256K[r];
      w_q <= in_block_i;
    end else if (busy_q) begin
      for (int unsigned r = 0; r < R; r++) begin
        wk_q[r] <= window[R+r] + Sha256K[6'((32'(count_q) + 32'd1) * R + r)];
      end
      for (int unsigned i = 0; i < 16; i++) w_q[i] <= window[R+i];
    end
  end

  assign done_o  = done_q;
  assign state_o = digest_q;

  // A block takes its number of cycles, not one more.
  `CV_ASSERT(CountInRange_A, 32'(count_q) < Cycles)

endmodule
