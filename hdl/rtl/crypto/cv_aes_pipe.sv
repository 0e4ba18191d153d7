// AES encryption, fully pipelined: one block a cycle, each with a key of its own.
//
// Function     Encrypts blocks under keys of 128, 192 or 256 bits. The key is expanded along with
//              the rounds, so neighbouring blocks may have different keys and key lengths.
// Latency      15 cycles, whatever the key length.
// Throughput   1 block a cycle.
// Comb. paths  none from input to output.
// Stalls       none: there is no ready; whoever sends blocks has room for the results.
// Timing       The S-boxes are block RAMs (10 a round), whose read registers are the stages. The words
//              that a round key is made of are chosen by key length while the RAMs are read.

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
  localparam int unsigned MinRounds = 10;

  // What stage r takes: the state that its round begins with, the last eight words of the expanded
  // key, and, from the shortest key's last round on, the block that is finished.
  state_t enter[MaxRounds+1];
  logic [255:0] window[MaxRounds+1];
  state_t finished[MaxRounds+1];
  key_len_e len_q[MaxRounds+1];

  logic [MaxRounds:0] valid_q;
  state_t last_q;

  // The first round key is the beginning of the key.
  assign window[0] = in_key_i;
  assign enter[0]  = in_block_i ^ in_key_i[255:128];

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) valid_q <= '0;
    else valid_q <= {valid_q[MaxRounds-1:0], in_valid_i};
  end

  always_ff @(posedge clk_i) len_q[0] <= in_len_i;
  assign finished[0] = '0;

  for (genvar r = 1; r <= MaxRounds; r++) begin : gen_round
    logic [255:0] window_q;
    word_t sub_in, subbed_word;
    logic [15:0][7:0] subbed;
    state_t plain, mixed, rk;

    // The register in front of the round: the S-boxes' own, for state and key, and the window.
    if (r == 1) begin : gen_first
      assign sub_in = pipe_first_sub_in(in_key_i[159:128], in_key_i[95:64], in_len_i);
    end else begin : gen_later
      assign sub_in = pipe_sub_in(window[r-1][31:0], window[r-1][191:160],
                                  window[r-1][159:128], r - 1, len_q[r-2]);
      always_ff @(posedge clk_i) len_q[r-1] <= len_q[r-2];
    end
    for (genvar i = 0; i < 2; i++) begin : gen_key_sub
      cv_rom2 #(
        .Width(8),
        .Depth(256),
        .Words(Sbox)
      ) u_rom (
        .clk_i,
        .en_i  (1'b1),
        .addr_i(sub_in[16*i+:16]),
        .data_o(subbed_word[16*i+:16])
      );
    end
    for (genvar i = 0; i < 16; i += 2) begin : gen_sub
      cv_rom2 #(
        .Width(8),
        .Depth(256),
        .Words(Sbox)
      ) u_rom (
        .clk_i,
        .en_i  (1'b1),
        .addr_i({byte_of(enter[r-1], i + 1), byte_of(enter[r-1], i)}),
        .data_o(subbed[i+:2])
      );
    end
    always_ff @(posedge clk_i) window_q <= window[r-1];

    // The round key is what the round's own step adds to the key.
    if (r == 1) begin : gen_first_key
      assign rk = pipe_first_step(window_q, len_q[0], subbed_word);
      assign window[r] = {window_q[255:128], rk};
    end else begin : gen_later_key
      assign rk = pipe_step(window_q, r - 1, len_q[r-1], subbed_word);
      assign window[r] = {window_q[127:0], rk};
    end

    always_comb begin
      for (int unsigned i = 0; i < 16; i++) begin
        byte_t s0, s1;
        s0 = subbed[shifted(i)];
        s1 = subbed[shifted(below(i, 1))];
        plain[127-8*i-:8] = s0 ^ rk[127-8*i-:8];
        mixed[127-8*i-:8] = xtime(s0 ^ s1) ^ s1 ^ subbed[shifted(below(i, 2))] ^
            subbed[shifted(below(i, 3))] ^ rk[127-8*i-:8];
      end
    end
    assign enter[r] = mixed;

    // A shorter key has had its last round before the end: its block goes on unchanged.
    if (r <= MinRounds) begin : gen_whole
      assign finished[r] = plain;
    end else begin : gen_short
      state_t finished_q;
      always_ff @(posedge clk_i) finished_q <= finished[r-1];
      assign finished[r] = (4'(r) == rounds(len_q[r-1])) ? plain : finished_q;
    end
  end

  always_ff @(posedge clk_i) last_q <= finished[MaxRounds];

  assign out_valid_o = valid_q[MaxRounds];
  assign out_block_o = last_q;

endmodule
