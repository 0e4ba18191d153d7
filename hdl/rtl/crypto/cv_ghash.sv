// GHASH (NIST SP 800-38D), one block a cycle.
//
// Function     Hashes the blocks of a message; the result comes once for each message, in order.
//              A message comes with the first four powers of its hash key, H first, and every block
//              with the number of blocks that follow it (from 3 on the number need not be exact).
// Method       The multiplier has four stages (operands, products of their parts by Karatsuba's
//              method over two levels, the product, the reduction), so the product of block j is
//              there when block j + 4 comes. Four partial sums, one for each place modulo 4, are
//              therefore carried along with H^4; the last four blocks of the message are multiplied
//              with H^4, H^3, H^2, H instead, whichever is due, and their products are added up.
//              That is the same polynomial in H.
// Latency      5 cycles from the last block to out_valid_o.
// Throughput   1 block a cycle, also across messages with different keys.
// Comb. paths  none from input to output.
// Stalls       none: there is no ready. The result must be taken in the cycle in which it comes.

`include "culvert_assert.svh"

module cv_ghash
  import aes_pkg::*;
  import gcm_pkg::*;
(
  input logic clk_i,
  input logic rst_ni,

  input logic                     in_valid_i,
  input state_t                   in_block_i,
  input logic [Stages-1:0][127:0] in_powers_i,
  input logic                     in_first_i,  // starts a message
  input logic [1:0]               in_after_i,  // blocks that follow in this message; 3: 3 or more
  input logic                     in_more_i,   // in_after_i is 3, and more than 3 follow

  output logic   out_valid_o,
  output state_t out_hash_o
);

  // Goes along with a block through the multiplier.
  typedef struct packed {
    logic       valid;
    logic [1:0] lane;     // place of the block modulo 4
    logic       closing;  // one of the last four: its product belongs to the result
    logic       opening;  // the first of those
    logic       last;     // the last of those
  } tag_t;

  tag_t   tag, tag_q[Stages];
  state_t operand_q, factor_q;  // the stages of the multiplier; operands as polynomials
  products_t products_q;
  logic [254:0] whole_q;
  state_t sum_q;
  state_t lane_q[Stages];
  logic [1:0] place_q, place;
  logic short_q, short;  // fewer than five blocks so far: nothing to add yet
  logic closing_q;
  state_t carried, operand, factor, hash_q, hash;

  assign place = in_first_i ? 2'd0 : place_q;
  // The first four blocks of a message have no partial sum before them.
  assign short = in_first_i || short_q;
  assign carried = (tag_q[Stages-1].valid && tag_q[Stages-1].lane == place) ?
                   sum_q : lane_q[place];
  assign operand = in_block_i ^ (short ? '0 : carried);
  assign factor = in_powers_i[in_after_i];

  assign tag = '{
    valid: in_valid_i,
    lane: place,
    closing: !in_more_i,
    opening: !in_more_i && (in_first_i || !closing_q),
    last: !in_more_i && in_after_i == 2'd0
  };

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      place_q   <= '0;
      short_q   <= 1'b1;
      closing_q <= 1'b0;
      for (int unsigned s = 0; s < Stages; s++) tag_q[s] <= '0;
      out_valid_o <= 1'b0;
    end else begin
      if (in_valid_i) begin
        place_q   <= place + 2'd1;
        short_q   <= short && place != 2'd3;
        closing_q <= tag.closing;
      end
      tag_q[0] <= tag;
      for (int unsigned s = 1; s < Stages; s++) tag_q[s] <= tag_q[s-1];
      out_valid_o <= tag_q[Stages-1].valid && tag_q[Stages-1].last;
    end
  end

  always_ff @(posedge clk_i) begin
    operand_q  <= reflect(operand);
    factor_q   <= reflect(factor);
    products_q <= multiply(operand_q, factor_q);
    whole_q    <= combine(products_q);
    sum_q      <= reflect(reduce(whole_q));
  end

  assign hash = (tag_q[Stages-1].opening ? '0 : hash_q) ^ sum_q;

  always_ff @(posedge clk_i) begin
    if (tag_q[Stages-1].valid) begin
      lane_q[tag_q[Stages-1].lane] <= sum_q;
      if (tag_q[Stages-1].closing) hash_q <= hash;
    end
  end

  assign out_hash_o = hash_q;

  // A number of more than three is said to be three and more.
  `CV_ASSUME(MoreIsThree_A, !in_valid_i || !in_more_i || in_after_i == 2'd3)

endmodule
