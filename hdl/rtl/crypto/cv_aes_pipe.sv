// AES encryption, fully pipelined: one block a cycle, each with a key of its own.
//
// Function     Encrypts blocks under keys of 128, 192 or 256 bits. The key is expanded along with
//              the rounds, so neighbouring blocks may have different keys and key lengths.
// Latency      15 cycles, whatever the key length.
// Throughput   1 block a cycle.
// Comb. paths  none from input to output.
// Stalls       none: there is no ready; whoever sends blocks has room for the results.

module cv_aes_pipe
  import aes_pkg::*;
(
  input logic clk_i,
  input logic rst_ni,

  input logic         in_valid_i,
  input state_t       in_block_i,
  input logic [255:0] in_key_i,    // left-aligned
  input key_len_e     in_len_i,

  output logic   out_valid_o,
  output state_t out_block_o
);

  localparam int unsigned MaxRounds = 14;

  typedef struct packed {
    state_t   block;
    expand_t  key;
    key_len_e len;
  } stage_t;

  logic [MaxRounds:0] valid_q;
  stage_t stage_q[MaxRounds];
  state_t last_q;
  expand_t start;

  assign start = expand_start(in_key_i, in_len_i);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) valid_q <= '0;
    else valid_q <= {valid_q[MaxRounds-1:0], in_valid_i};
  end

  always_ff @(posedge clk_i) begin
    stage_q[0] <= '{
      block: in_block_i ^ round_key(start.window, in_len_i),
      key: start,
      len: in_len_i
    };
  end

  for (genvar r = 1; r <= MaxRounds; r++) begin : gen_round
    expand_t key;
    state_t subbed, rk, block;

    assign key    = expand_step(stage_q[r-1].key, stage_q[r-1].len);
    assign rk     = round_key(key.window, stage_q[r-1].len);
    assign subbed = sub_shift(stage_q[r-1].block);

    // A shorter key has had its last round before the end: its block goes through unchanged.
    always_comb begin
      if (4'(r) > rounds(stage_q[r-1].len)) block = stage_q[r-1].block;
      else if (4'(r) == rounds(stage_q[r-1].len)) block = subbed ^ rk;
      else block = mix_columns(subbed) ^ rk;
    end

    if (r < MaxRounds) begin : gen_next
      always_ff @(posedge clk_i) begin
        stage_q[r] <= '{block: block, key: key, len: stage_q[r-1].len};
      end
    end else begin : gen_last
      always_ff @(posedge clk_i) last_q <= block;
    end
  end

  assign out_valid_o = valid_q[MaxRounds];
  assign out_block_o = last_q;

endmodule
