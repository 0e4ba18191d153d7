// DES-CBC and 3DES-CBC, encryption and decryption: 16 packets interleaved in one pipelined core.
//
// Function     CBC chains the blocks of a packet, so one packet alone uses one place in 16 of the
//              pipe. This unit holds up to 16 packets, one for each place; a block leaves the pipe
//              in the cycle in which the next block of its packet, or its own next pass (3DES has
//              three), goes in. Packets leave in the order in which they came. The header `Rest`
//              passes through. Payloads are whole blocks of 8 bytes.
// Parameters   Rest (header type), MaxBeats (beats a packet may have; a power of two).
// Latency      A packet is stored first; with n blocks of p passes (1 or 3) it leaves after at most
//              16 * (n * p + 1) + 4 cycles from its last beat, if none before it is still inside.
// Throughput   With 16 packets inside, 1 pass a cycle: 64 bits a cycle for DES, 21.3 for 3DES. A slot
//              pauses while it is emptied and filled again: equal packets of n blocks take
//              at most n * p + n / 16 + 2 cycles each.
// Comb. paths  none from input to output.
// Stalls       in_ready_o is low while 16 packets are inside.
// Timing       What a turn needs of its slot is read, and its key chosen, a cycle ahead.

`include "culvert_assert.svh"

module cv_des_cbc
  import culvert_pkg::*;
  import des_pkg::*;
#(
  parameter type         Rest     = logic [7:0],
  parameter int unsigned MaxBeats = 128
) (
  input logic clk_i,
  input logic rst_ni,

  input  logic     in_valid_i,
  output logic     in_ready_o,
  input  beat_t    in_beat_i,
  // Read with a packet's first beat.
  input  des_job_t in_job_i,
  input  Rest      in_rest_i,

  output logic  out_valid_o,
  input  logic  out_ready_i,
  output beat_t out_beat_o,
  output Rest   out_rest_o
);

  localparam int unsigned Slots = 16;
  localparam int unsigned IndexBits = $clog2(MaxBeats);
  typedef logic [3:0] slot_t;
  typedef logic [IndexBits-1:0] index_t;  // of a beat in a packet
  typedef logic [IndexBits:0] place_t;  // of a block in a packet

  // Slots are filled and emptied in turn, so their packets stay in order.
  slot_t fill_slot_q, drain_slot_q;
  logic [Slots-1:0] held_q;  // filled, and not yet emptied
  logic [Slots-1:0] loaded_q;  // filled, and not yet finished
  logic [Slots-1:0] done_q;  // all blocks are finished

  des_job_t job_q[Slots];
  Rest      rest_q[Slots];
  place_t   last_block_q[Slots];  // number of the last block

  // Before the core, and behind it: the beats of all slots, as two halves.
  block_t in_high_q[Slots*MaxBeats], in_low_q[Slots*MaxBeats];
  block_t out_high_q[Slots*MaxBeats], out_low_q[Slots*MaxBeats];

  // Fill.
  index_t fill_index_q;
  logic fill;
  assign in_ready_o = !held_q[fill_slot_q];
  assign fill = in_valid_i && in_ready_o;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      fill_slot_q  <= '0;
      fill_index_q <= '0;
    end else if (fill) begin
      fill_index_q <= in_beat_i.last ? '0 : fill_index_q + 1'b1;
      if (in_beat_i.last) fill_slot_q <= fill_slot_q + 4'd1;
    end
  end

  always_ff @(posedge clk_i) begin
    if (fill) begin
      in_high_q[{fill_slot_q, fill_index_q}] <= in_beat_i.data[127:64];
      in_low_q[{fill_slot_q, fill_index_q}]  <= in_beat_i.data[63:0];
      last_block_q[fill_slot_q] <= {fill_index_q, in_beat_i.tail[3]};
      if (fill_index_q == '0) begin
        job_q[fill_slot_q]  <= in_job_i;
        rest_q[fill_slot_q] <= in_rest_i;
      end
    end
  end

  // The ring: in every cycle it is the turn of one slot, whose block is leaving the pipe.
  slot_t turn_q, turn_next;
  logic [Slots-1:0] running_q;  // a block of this slot is in the pipe
  place_t block_q[Slots];  // which
  logic [1:0] pass_q[Slots];  // and in which pass
  block_t chain_q[Slots];  // CBC's chaining block
  block_t cipher_q[Slots];  // decryption: the ciphertext of the block in the pipe

  assign turn_next = turn_q + 4'd1;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) turn_q <= '0;
    else turn_q <= turn_next;
  end

  // What the next turn needs is read a cycle ahead: nothing of a slot changes between its turns but
  // what a new packet brings, and `fresh_valid_q` says whether that was there already.
  place_t ahead;
  block_t high_q, low_q, fresh;
  logic fresh_low_q;
  logic fresh_valid_q;  // the packet was there when it was read
  assign ahead = running_q[turn_next] ? block_q[turn_next] + 1'b1 : '0;
  always_ff @(posedge clk_i) begin
    high_q        <= in_high_q[{turn_next, ahead[IndexBits:1]}];
    low_q         <= in_low_q[{turn_next, ahead[IndexBits:1]}];
    fresh_low_q   <= ahead[0];
    fresh_valid_q <= loaded_q[turn_next];
  end
  assign fresh = fresh_low_q ? low_q : high_q;

  des_job_t job_next;
  logic again_next;  // the block that leaves in the next turn has a further pass
  logic [1:0] pass_next;
  block_t key_next;
  assign job_next   = job_q[turn_next];
  assign again_next = running_q[turn_next] && job_next.triple && pass_q[turn_next] != 2'd2;
  assign pass_next  = again_next ? pass_q[turn_next] + 2'd1 : 2'd0;
  // 3DES is EDE: keys 1, 2, 3 with the middle one reversed, or 3, 2, 1 to decrypt.
  always_comb begin
    unique case (pass_next)
      2'd0:    key_next = (job_next.triple && job_next.decrypt) ? job_next.key3 : job_next.key1;
      2'd1:    key_next = job_next.key2;
      default: key_next = job_next.decrypt ? job_next.key1 : job_next.key3;
    endcase
  end

  logic leaving_q, again_q, decrypt_q, pass_decrypt_q, last_block_here_q;
  logic [1:0] pass_here_q;
  block_t key_q, iv_q, chain_here_q, cipher_here_q;
  place_t block_here_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      leaving_q <= 1'b0;
      again_q   <= 1'b0;
    end else begin
      leaving_q <= running_q[turn_next];
      again_q   <= again_next;
    end
  end
  always_ff @(posedge clk_i) begin
    decrypt_q         <= job_next.decrypt;
    pass_decrypt_q    <= job_next.decrypt ^ (pass_next == 2'd1);
    pass_here_q       <= pass_next;
    key_q             <= key_next;
    iv_q              <= job_next.iv;
    chain_here_q      <= chain_q[turn_next];
    cipher_here_q     <= cipher_q[turn_next];
    block_here_q      <= block_q[turn_next];
    last_block_here_q <= block_q[turn_next] == last_block_q[turn_next];
  end

  logic finished, begins, enter, pipe_valid;
  block_t pipe_out, result, chain, enter_block;
  slot_t pipe_slot;

  assign finished = leaving_q && !again_q;
  assign begins   = leaving_q ? finished && !last_block_here_q :
                    fresh_valid_q && loaded_q[turn_q];
  assign enter    = again_q || begins;

  assign result = pipe_out ^ (decrypt_q ? chain_here_q : '0);
  // What the next block of this packet chains with.
  assign chain = !leaving_q ? iv_q : decrypt_q ? cipher_here_q : pipe_out;
  assign enter_block = again_q ? pipe_out : fresh ^ (decrypt_q ? '0 : chain);

  cv_des_pipe #(
    .Tag(slot_t)
  ) u_pipe (
    .clk_i,
    .rst_ni,
    .in_valid_i  (enter),
    .in_block_i  (enter_block),
    .in_key_i    (key_q),
    .in_decrypt_i(pass_decrypt_q),
    .in_tag_i    (turn_q),
    .out_valid_o (pipe_valid),
    .out_block_o (pipe_out),
    .out_tag_o   (pipe_slot)
  );

  always_ff @(posedge clk_i) begin
    if (finished) begin
      if (block_here_q[0]) out_low_q[{turn_q, block_here_q[IndexBits:1]}] <= result;
      else out_high_q[{turn_q, block_here_q[IndexBits:1]}] <= result;
    end
    if (enter) pass_q[turn_q] <= pass_here_q;
    if (begins) begin
      block_q[turn_q]  <= leaving_q ? block_here_q + 1'b1 : '0;
      chain_q[turn_q]  <= chain;
      cipher_q[turn_q] <= fresh;
    end
  end

  // Drain: one beat a cycle, the slots in turn, through a buffer that hides the memory's read.
  index_t drain_index_q;
  logic drain, drain_last, reading_q, reading_last_q, reading_half_q;
  logic [1:0] buffered;
  block_t drain_high_q, drain_low_q;
  Rest drain_rest_q;

  assign drain = done_q[drain_slot_q] && (buffered + 2'(reading_q)) < 2'd3;
  assign drain_last = drain_index_q == last_block_q[drain_slot_q][IndexBits:1];

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      drain_slot_q  <= '0;
      drain_index_q <= '0;
      reading_q     <= 1'b0;
    end else begin
      reading_q <= drain;
      if (drain) begin
        drain_index_q <= drain_last ? '0 : drain_index_q + 1'b1;
        if (drain_last) drain_slot_q <= drain_slot_q + 4'd1;
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (drain) begin
      drain_high_q   <= out_high_q[{drain_slot_q, drain_index_q}];
      drain_low_q    <= out_low_q[{drain_slot_q, drain_index_q}];
      drain_rest_q   <= rest_q[drain_slot_q];
      reading_last_q <= drain_last;
      reading_half_q <= drain_last && !last_block_q[drain_slot_q][0];
    end
  end

  typedef struct packed {
    beat_t beat;
    Rest   rest;
  } out_t;
  out_t out_in, out_out;
  logic out_room;

  assign out_in.beat = '{
    data: {drain_high_q, reading_half_q ? 64'd0 : drain_low_q},
    tail: reading_half_q ? 4'd7 : 4'd15,
    last: reading_last_q
  };
  assign out_in.rest = drain_rest_q;

  cv_fifo #(
    .T    (out_t),
    .Depth(3)
  ) u_out (
    .clk_i,
    .rst_ni,
    .in_valid_i (reading_q),
    .in_ready_o (out_room),
    .in_data_i  (out_in),
    .out_valid_o,
    .out_ready_i,
    .out_data_o (out_out),
    .count_o    (buffered)
  );

  assign out_beat_o = out_out.beat;
  assign out_rest_o = out_out.rest;

  // States of the slots.
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      held_q    <= '0;
      loaded_q  <= '0;
      running_q <= '0;
      done_q    <= '0;
    end else begin
      if (fill && in_beat_i.last) begin
        loaded_q[fill_slot_q] <= 1'b1;
        held_q[fill_slot_q]   <= 1'b1;
      end
      running_q[turn_q] <= enter;
      if (finished && last_block_here_q) begin
        done_q[turn_q]   <= 1'b1;
        loaded_q[turn_q] <= 1'b0;
      end
      if (drain && drain_last) begin
        done_q[drain_slot_q] <= 1'b0;
        held_q[drain_slot_q] <= 1'b0;
      end
    end
  end

  // The environment offers whole blocks, in packets that fit.
  `CV_ASSUME(WholeBlocks_A, !in_valid_i || in_beat_i.tail[2:0] == 3'd7)
  `CV_ASSUME(PacketFits_A, !fill || in_beat_i.last || 32'(fill_index_q) != MaxBeats - 1)
  // The block that leaves the pipe belongs to the slot whose turn it is.
  `CV_ASSERT(RingInStep_A, pipe_valid == leaving_q && (!leaving_q || pipe_slot == turn_q))
  // The output buffer has room for what was read.
  `CV_ASSERT(OutFindsRoom_A, !reading_q || out_room)

endmodule
