// AES-CBC, encryption and decryption, keys of 128, 192 and 256 bits: one round a cycle.
//
// Function     Each packet brings its job (key, IV, direction) with the first beat; its data are
//              whole blocks (every beat full). The header `Rest` passes through.
// Parameters   Rest (header type), Encrypts, Decrypts (directions that jobs may ask for).
// Latency      13/15/17 cycles for the first block of a packet into an idle unit when encrypting,
//              23/27/31 when decrypting (the key is expanded first).
// Throughput   10/12/14 cycles a block (AES-128/192/256) without gaps. The key of the next packet
//              is expanded into a second bank while the last block of the packet before it is
//              worked on, so encryption goes on from packet to packet without a gap too; decryption,
//              which begins with the last round key, waits 3 cycles there.
// Comb. paths  none from input to output.
// Stalls       in_ready_o is high for one cycle in 10/12/14. A blocked output stops the unit in
//              the last round of a block once two blocks wait.
// Timing       The XOR of plaintext and first round key joins the last round of the block before,
//              so chaining costs no cycle. The S-boxes are block RAMs (8 to encrypt, 16 to decrypt,
//              2 for the key), whose read registers are the state: behind them a round is two
//              levels of XOR. To decrypt, the round keys of the middle rounds are stored behind
//              InvMixColumns (the equivalent inverse cipher of FIPS 197, section 5.3.5).

`include "culvert_assert.svh"

module cv_aes_cbc
  import culvert_pkg::*;
  import aes_pkg::*;
#(
  parameter type Rest     = logic [7:0],
  parameter bit  Encrypts = 1'b1,
  parameter bit  Decrypts = 1'b1
) (
  input logic clk_i,
  input logic rst_ni,

  input  logic  in_valid_i,
  output logic  in_ready_o,
  input  beat_t in_beat_i,
  // Read with a packet's first beat.
  input  job_t  in_job_i,
  input  Rest   in_rest_i,

  output logic  out_valid_o,
  input  logic  out_ready_i,
  output beat_t out_beat_o,
  output Rest   out_rest_o
);

  // Key expansion, one round key a cycle, into the bank that the rounds do not use.
  typedef enum logic [1:0] {
    ExpIdle,
    ExpRun,
    ExpReady
  } exp_state_e;

  logic at_first_q;  // the next beat starts a packet
  logic start, start_first;
  exp_state_e exp_state_q;
  expand_t exp_q;
  key_len_e exp_len_q;
  logic exp_decrypt_q;
  logic bank_q;  // the bank of the packet that is worked on
  logic whiten_valid_q, next_ready;
  state_t whiten_next_q, exp_key;
  logic exp_last, exp_decrypt;
  expand_t exp_next;
  key_len_e exp_next_len;
  word_t exp_sub_in, exp_subbed;

  // Both banks, 16 places each; the key schedule needs at most 15.
  state_t round_keys_q[32];

  assign exp_key  = round_key(exp_q.window, exp_len_q);
  assign exp_decrypt = Decrypts && (!Encrypts || exp_decrypt_q);
  assign exp_last = exp_q.step == rounds(exp_len_q);
  // Encryption may follow the expansion closely; decryption begins with the last round key.
  assign next_ready = whiten_valid_q && (!exp_decrypt || exp_state_q == ExpReady);

  // The packet whose key is being expanded has begun: its expansion goes on into the bank that is
  // now in use, ahead of the rounds.
  logic started_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) started_q <= 1'b0;
    else if (exp_state_q != ExpRun || exp_last) started_q <= 1'b0;
    else if (start_first) started_q <= 1'b1;
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      exp_state_q    <= ExpIdle;
      whiten_valid_q <= 1'b0;
      bank_q         <= 1'b0;
    end else begin
      unique case (exp_state_q)
        ExpIdle: if (in_valid_i && at_first_q && !start_first) exp_state_q <= ExpRun;
        ExpRun:  if (exp_last) exp_state_q <= start_first || started_q ? ExpIdle : ExpReady;
        default: if (start_first) exp_state_q <= ExpIdle;
      endcase
      if (start_first) whiten_valid_q <= 1'b0;
      else if (exp_state_q == ExpRun && (exp_decrypt ? exp_last : exp_q.step == '0)) begin
        whiten_valid_q <= 1'b1;
      end
      if (start_first) bank_q <= !bank_q;
    end
  end

  logic exp_bank;
  assign exp_bank = started_q ? bank_q : !bank_q;

  // The words for the S-boxes of a step go into their ROMs with the step before.
  assign exp_next_len = (exp_state_q == ExpRun) ? exp_len_q : in_job_i.len;
  assign exp_next = (exp_state_q == ExpRun) ? expand_step(exp_q, exp_len_q, exp_subbed) :
                                              expand_start(in_job_i.key, in_job_i.len);
  assign exp_sub_in = expand_sub_in(exp_next.window[31:0], exp_next.window[191:160],
                                    exp_next.window[159:128], exp_next.step, exp_next_len);

  for (genvar i = 0; i < 2; i++) begin : gen_exp_sub
    cv_rom2 #(
      .Width(8),
      .Depth(256),
      .Words(Sbox)
    ) u_rom (
      .clk_i,
      .en_i  (1'b1),
      .addr_i(exp_sub_in[16*i+:16]),
      .data_o(exp_subbed[16*i+:16])
    );
  end

  always_ff @(posedge clk_i) begin
    if (exp_state_q == ExpIdle) begin
      exp_len_q     <= in_job_i.len;
      exp_decrypt_q <= in_job_i.decrypt;
    end
    if (exp_state_q != ExpReady) exp_q <= exp_next;
    if (exp_state_q == ExpRun) begin
      round_keys_q[{exp_bank, exp_q.step}] <=
          (exp_decrypt && exp_q.step != '0 && !exp_last) ? inv_mix_columns(exp_key) : exp_key;
      if (exp_decrypt ? exp_last : exp_q.step == '0) whiten_next_q <= exp_key;
    end
  end

  // The rounds.
  logic busy_q, last_round, finish, step, out_ready;
  logic [3:0] round_q, num_rounds_q;
  logic decrypt_q, last_q, decrypt, first_decrypt;
  state_t enter;  // what the next round starts from: it goes into the S-boxes
  state_t whiten_q, whiten;
  state_t chain_q;  // the ciphertext block before: the one to chain the next block with
  state_t mask_q;  // decryption: what the block is XORed with at its end
  state_t result, rk;
  Rest rest_q;

  assign last_round = busy_q && round_q == num_rounds_q;
  assign finish = last_round && out_ready;
  assign step = busy_q && !last_round;
  assign start = in_valid_i && (!busy_q || finish) && (!at_first_q || next_ready);
  assign start_first = start && at_first_q;
  assign in_ready_o = start;

  assign decrypt = Decrypts && (!Encrypts || decrypt_q);
  assign first_decrypt = at_first_q ? exp_decrypt : decrypt;
  assign whiten = at_first_q ? whiten_next_q : whiten_q;
  assign rk = round_keys_q[{bank_q, decrypt ? num_rounds_q - round_q : round_q}];

  // What the S-boxes made of the state, in each direction: the middle rounds' MixColumns without
  // the round key (when encrypting in two parts), and the last round, which has none.
  state_t enc_mixed_a, enc_mixed_b, enc_plain, dec_mixed, dec_plain;

  if (Encrypts) begin : gen_encrypt
    logic [15:0][15:0] subbed;  // {2 * s, s} of byte i
    for (genvar i = 0; i < 16; i += 2) begin : gen_sub
      cv_rom2 #(
        .Width(16),
        .Depth(256),
        .Words(EncRom)
      ) u_rom (
        .clk_i,
        .en_i  (start || step),
        .addr_i({byte_of(enter, i + 1), byte_of(enter, i)}),
        .data_o(subbed[i+:2])
      );
    end
    always_comb begin
      for (int unsigned i = 0; i < 16; i++) begin
        enc_plain[127-8*i-:8] = subbed[shifted(i)][7:0];
        enc_mixed_a[127-8*i-:8] = subbed[shifted(i)][15:8] ^
            subbed[shifted(below(i, 1))][15:8] ^ subbed[shifted(below(i, 1))][7:0];
        enc_mixed_b[127-8*i-:8] = subbed[shifted(below(i, 2))][7:0] ^
            subbed[shifted(below(i, 3))][7:0];
      end
    end
  end else begin : gen_no_encrypt
    assign enc_mixed_a = '0;
    assign enc_mixed_b = '0;
    assign enc_plain = '0;
  end

  if (Decrypts) begin : gen_decrypt
    logic [15:0][3:0][7:0] subbed;  // {13 * s, 11 * s, 14 * s, 9 * s} of byte i
    for (genvar i = 0; i < 16; i++) begin : gen_sub
      cv_rom2 #(
        .Width(16),
        .Depth(512),
        .Words(DecRom)
      ) u_rom (
        .clk_i,
        .en_i  (start || step),
        .addr_i({1'b1, byte_of(enter, i), 1'b0, byte_of(enter, i)}),
        .data_o(subbed[i])
      );
    end
    always_comb begin
      for (int unsigned i = 0; i < 16; i++) begin
        dec_plain[127-8*i-:8] = subbed[unshifted(i)][3] ^ subbed[unshifted(i)][2] ^
                                subbed[unshifted(i)][1] ^ subbed[unshifted(i)][0];
        dec_mixed[127-8*i-:8] = subbed[unshifted(i)][1] ^ subbed[unshifted(below(i, 1))][2] ^
            subbed[unshifted(below(i, 2))][3] ^ subbed[unshifted(below(i, 3))][0];
      end
    end
  end else begin : gen_no_decrypt
    assign dec_mixed = '0;
    assign dec_plain = '0;
  end

  assign result = rk ^ (decrypt ? dec_plain ^ mask_q : enc_plain);

  // What `enter` has besides the S-boxes' outputs: known early in the cycle. A block that follows
  // in the cycle in which the one before ends chains with its result, whose key is here.
  state_t early, chain;
  assign chain = at_first_q ? in_job_i.iv : last_round ? rk : chain_q;
  assign early = step ? rk : in_beat_i.data ^ whiten ^ (first_decrypt ? '0 : chain);

  // Two levels of logic behind the S-boxes: each part is chosen by itself.
  logic chained;
  assign chained = last_round && !at_first_q && !first_decrypt;
  assign enter = early ^ ((step && !decrypt) ? enc_mixed_a : '0) ^
                 ((step && !decrypt) ? enc_mixed_b : chained ? enc_plain : '0) ^
                 ((step && decrypt) ? dec_mixed : '0);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      busy_q     <= 1'b0;
      at_first_q <= 1'b1;
      round_q    <= '0;
    end else begin
      if (start) begin
        busy_q     <= 1'b1;
        round_q    <= 4'd1;
        at_first_q <= in_beat_i.last;
      end else if (finish) begin
        busy_q <= 1'b0;
      end else if (busy_q && !last_round) begin
        round_q <= round_q + 4'd1;
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (start) begin
      // Decryption chains with ciphertext, which is there.
      mask_q <= at_first_q ? in_job_i.iv : chain_q;
      last_q <= in_beat_i.last;
    end
    if (start && first_decrypt) chain_q <= in_beat_i.data;
    else if (finish && !decrypt) chain_q <= result;
    if (start_first) begin
      whiten_q     <= whiten_next_q;
      decrypt_q    <= exp_decrypt;
      num_rounds_q <= rounds(exp_len_q);
      rest_q       <= in_rest_i;
    end
  end

  cv_packet_fifo #(
    .Hdr    (Rest),
    .Depth  (2),
    .Packets(2)
  ) u_out (
    .clk_i,
    .rst_ni,
    .in_valid_i (last_round),
    .in_ready_o (out_ready),
    .in_beat_i  ('{data: result, tail: 4'd15, last: last_q}),
    .in_hdr_i   (rest_q),
    .out_valid_o,
    .out_ready_i,
    .out_beat_o,
    .out_hdr_o  (out_rest_o),
    .packets_o  ()
  );

  // The environment offers whole blocks only.
  `CV_ASSUME(WholeBlocks_A, !in_valid_i || in_beat_i.tail == 4'd15)
  // A job asks for a direction that the unit has.
  `CV_ASSUME(Direction_A, !in_valid_i || !at_first_q || (in_job_i.decrypt ? Decrypts : Encrypts))
  // The rounds never overtake the expansion of their key.
  `CV_ASSERT(KeyIsThere_A, !busy_q || !started_q || decrypt || round_q < exp_q.step)
  // A block has no more rounds than its key asks for.
  `CV_ASSERT(RoundsInRange_A, !busy_q || round_q <= num_rounds_q)

endmodule
