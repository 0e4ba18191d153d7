// DES, fully pipelined: one block a cycle, each with a key and a direction of its own.
//
// Function     En- or decrypts blocks; the key schedule goes along with the rounds, forwards to
//              encrypt and backwards to decrypt. A tag of the user's goes along too.
// Parameters   Tag (type).
// Latency      16 cycles: out_block_o may be sent in again in the cycle in which it shows, so 16
//              chained streams keep the pipe full.
// Throughput   1 block a cycle.
// Comb. paths  none from input to output.
// Stalls       none: there is no ready.

module cv_des_pipe
  import des_pkg::*;
#(
  parameter type Tag = logic [3:0]
) (
  input logic clk_i,
  input logic rst_ni,

  input logic   in_valid_i,
  input block_t in_block_i,
  input block_t in_key_i,
  input logic   in_decrypt_i,
  input Tag     in_tag_i,

  output logic   out_valid_o,
  output block_t out_block_o,
  output Tag     out_tag_o
);

  localparam int unsigned Rounds = 16;

  typedef struct packed {
    half_t     left;
    half_t     right;
    key_half_t c;
    key_half_t d;
    logic      decrypt;
    Tag        tag;
  } stage_t;

  stage_t stage_q[1:Rounds];
  stage_t stage_in;
  logic [Rounds:1] valid_q;
  block_t permuted;

  assign permuted = initial_permutation(in_block_i);

  always_comb begin
    stage_in.left    = permuted[63:32];
    stage_in.right   = permuted[31:0];
    {stage_in.c, stage_in.d} = key_start(in_key_i);
    stage_in.decrypt = in_decrypt_i;
    stage_in.tag     = in_tag_i;
  end

  for (genvar r = 1; r <= Rounds; r++) begin : gen_round
    localparam bit Once = rotates_once(r);
    // To decrypt, the schedule runs backwards: round r uses the key of round 17 - r. The halves
    // are back at their start after 16 rounds, so the first of these keys is the start itself.
    localparam bit OnceBack = (r == 1) ? 1'b0 : rotates_once(18 - r);
    key_half_t c, d;
    stage_t prior;
    if (r == 1) begin : gen_first
      assign prior = stage_in;
    end else begin : gen_later
      assign prior = stage_q[r-1];
    end

    always_comb begin
      if (!prior.decrypt) begin
        c = rotate_left(prior.c, Once);
        d = rotate_left(prior.d, Once);
      end else if (r == 1) begin
        c = prior.c;
        d = prior.d;
      end else begin
        c = rotate_right(prior.c, OnceBack);
        d = rotate_right(prior.d, OnceBack);
      end
    end

    always_ff @(posedge clk_i) begin
      stage_q[r].left    <= prior.right;
      stage_q[r].right   <= prior.left ^ feistel(prior.right, {c, d});
      stage_q[r].c       <= c;
      stage_q[r].d       <= d;
      stage_q[r].decrypt <= prior.decrypt;
      stage_q[r].tag     <= prior.tag;
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) valid_q <= '0;
    else valid_q <= {valid_q[Rounds-1:1], in_valid_i};
  end

  assign out_valid_o = valid_q[Rounds];
  // The last round does not exchange the halves.
  assign out_block_o = final_permutation({stage_q[Rounds].right, stage_q[Rounds].left});
  assign out_tag_o   = stage_q[Rounds].tag;

endmodule
