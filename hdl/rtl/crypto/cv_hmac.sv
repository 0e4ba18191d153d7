// HMAC-SHA1 or HMAC-SHA2-256 over a packet, from precomputed key states (RFC 2104).
//
// Function     Reads a message as beats and gives its HMAC. The states after the inner and the
//              outer key pad come with the message; software computes them once per SA. A message
//              of n bytes takes ceil((n + 9) / 64) inner blocks and one outer block.
// Parameters   Sha256 (0: SHA-1, 1: SHA-256), RoundsPerCycle (see cv_sha1, cv_sha256),
//              Depth (beats held ahead of the core).
// Latency      With B cycles a block (40, 20, 64, 32) and n blocks in all: n * B + 8 cycles from
//              the first beat to mac_valid_o, if the beats come without gaps.
// Throughput   n * B + 1 cycles a message when messages follow one another: the blocks of the next
//              message are put together while this one is hashed, and only the outer block waits
//              for the inner digest.
// Progress     mac_valid_o follows block_o of a message's last inner block by 2 * B + 3 cycles, if the
//              result before was taken by then; inner blocks that are there follow by B cycles.
// Comb. paths  none from input to output.
// Stalls       in_ready_o is low while `Depth` beats wait. A result that is not taken stops the
//              core at the end of the next message.

`include "culvert_assert.svh"

module cv_hmac
  import culvert_pkg::*;
  import sha_pkg::*;
#(
  parameter  bit          Sha256         = 1'b0,
  parameter  int unsigned RoundsPerCycle = 2,
  parameter  int unsigned Depth          = 16,
  parameter  int unsigned Messages       = 2,
  localparam int unsigned StateBits      = Sha256 ? 256 : 160
) (
  input logic clk_i,
  input logic rst_ni,

  input  logic                 in_valid_i,
  output logic                 in_ready_o,
  input  beat_t                in_beat_i,
  // Read with a message's first beat.
  input  logic [StateBits-1:0] in_inner_i,
  input  logic [StateBits-1:0] in_outer_i,

  // For one cycle: the core takes an inner block, its message's first one; see Progress.
  output logic                 block_o,
  output logic                 block_first_o,

  output logic                 mac_valid_o,
  input  logic                 mac_ready_i,
  output logic [StateBits-1:0] mac_o
);

  localparam int unsigned StateWords = StateBits / 32;
  // Beats of a message: enough for 2^32 bytes. Their number with the last one's bytes behind it is
  // the length, without an addition.
  localparam int unsigned CountBits = 29;
  localparam logic [CountBits-1:0] PadBeats = 4;  // the key pad comes before the message
  typedef logic [StateBits-1:0] state_t;
  typedef struct packed {
    state_t inner;
    state_t outer;
  } keys_t;

  // Beats and states that wait.
  logic beat_valid, beat_ready;
  beat_t beat;
  keys_t keys;

  cv_packet_fifo #(
    .Hdr    (keys_t),
    .Depth  (Depth),
    .Packets(Messages)
  ) u_fifo (
    .clk_i,
    .rst_ni,
    .in_valid_i,
    .in_ready_o,
    .in_beat_i,
    .in_hdr_i   ('{inner: in_inner_i, outer: in_outer_i}),
    .out_valid_o(beat_valid),
    .out_ready_i(beat_ready),
    .out_beat_o (beat),
    .out_hdr_o  (keys),
    .packets_o  ()
  );

  // Blocks: four beats each, and the padding of FIPS 180-4 behind the last one.
  typedef enum logic [1:0] {
    StBeats,   // takes beats
    StMark,    // the message ended with a full beat: 0x80 comes in one of its own
    StLength   // zeros up to the length, which ends the block
  } build_e;

  build_e build_d, build_q;
  logic [1:0] quarter_d, quarter_q;  // which beat of the block comes next
  logic [CountBits-1:0] beats_d, beats_q;  // whole beats so far, with those of the key pad
  logic [3:0] odd_d, odd_q;  // bytes behind them
  logic first_d, first_q;  // the block is the message's first
  logic put, put_last;
  logic [BusBits-1:0] put_data, marked;

  logic block_valid_q, block_last_q, block_first_q, block_take;
  logic [3:0][BusBits-1:0] block_q;
  keys_t block_keys_q;

  // The last beat with its mark.
  always_comb begin
    marked = beat.data;
    for (int unsigned i = 0; i < BusBytes - 1; i++) begin
      if (32'(beat.tail) == i) marked[BusBits-9-8*i-:8] = 8'h80;
    end
  end

  logic can_put;
  assign can_put = !block_valid_q || block_take;
  assign beat_ready = can_put && build_q == StBeats;

  always_comb begin
    build_d   = build_q;
    beats_d   = beats_q;
    odd_d     = odd_q;
    quarter_d = quarter_q;
    first_d   = first_q;
    put       = 1'b0;
    put_last  = 1'b0;
    put_data  = beat.last ? marked : beat.data;
    unique case (build_q)
      StBeats: begin
        put = beat_valid && can_put;
        if (put) begin
          if (!beat.last || beat.tail == 4'd15) beats_d = beats_q + 1'b1;
          odd_d = beat.tail + 4'd1;
          if (beat.last) begin
            if (beat.tail == 4'd15) begin
              build_d = StMark;
            end else begin
              build_d = StLength;
              // Nine bytes of mark and length fit behind the message in this very beat.
              if (quarter_q == 2'd3 && beat.tail <= 4'd6) begin
                put_data[63:0] = 64'({beats_q, odd_d, 3'd0});
                put_last = 1'b1;
              end
            end
          end
        end
      end
      StMark: begin
        put = can_put;
        put_data = {8'h80, 120'd0};
        if (put) begin
          build_d = StLength;
          if (quarter_q == 2'd3) begin
            put_data[63:0] = 64'({beats_q, odd_q, 3'd0});
            put_last = 1'b1;
          end
        end
      end
      StLength: begin
        put = can_put;
        put_data = '0;
        if (put && quarter_q == 2'd3) begin
          put_data[63:0] = 64'({beats_q, odd_q, 3'd0});
          put_last = 1'b1;
        end
      end
      default: build_d = StBeats;
    endcase
    if (put) begin
      quarter_d = quarter_q + 2'd1;
      if (quarter_q == 2'd3) first_d = 1'b0;
    end
    if (put_last) begin
      build_d = StBeats;
      beats_d = PadBeats;
      first_d = 1'b1;
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      build_q       <= StBeats;
      quarter_q     <= '0;
      beats_q       <= PadBeats;
      odd_q         <= '0;
      first_q       <= 1'b1;
      block_valid_q <= 1'b0;
    end else begin
      build_q   <= build_d;
      quarter_q <= quarter_d;
      beats_q   <= beats_d;
      odd_q     <= odd_d;
      first_q   <= first_d;
      if (put && quarter_q == 2'd3) block_valid_q <= 1'b1;
      else if (block_take) block_valid_q <= 1'b0;
    end
  end

  always_ff @(posedge clk_i) begin
    if (put) begin
      block_q[2'd3-quarter_q] <= put_data;
      if (first_q && quarter_q == 2'd0) block_keys_q <= keys;
      block_first_q <= first_q;
      block_last_q  <= put_last;
    end
  end

  // The core, and what is in it.
  logic core_valid, core_ready, core_done, core_first;
  block_t core_block;
  state_t core_start, core_state;
  logic outer_due_q;  // the last inner block is in the core, or its digest waits for the core
  logic digest_q;  // ... and its digest is there
  logic mac_due_q;  // the outer block is in the core
  state_t outer_q;
  logic inner_done, take_inner, take_outer;

  if (Sha256) begin : gen_sha256
    cv_sha256 #(
      .RoundsPerCycle(RoundsPerCycle)
    ) u_core (
      .clk_i,
      .rst_ni,
      .in_valid_i(core_valid),
      .in_ready_o(core_ready),
      .in_block_i(core_block),
      .in_first_i(core_first),
      .in_state_i(core_start),
      .done_o    (core_done),
      .state_o   (core_state)
    );
  end else begin : gen_sha1
    cv_sha1 #(
      .RoundsPerCycle(RoundsPerCycle)
    ) u_core (
      .clk_i,
      .rst_ni,
      .in_valid_i(core_valid),
      .in_ready_o(core_ready),
      .in_block_i(core_block),
      .in_first_i(core_first),
      .in_state_i(core_start),
      .done_o    (core_done),
      .state_o   (core_state)
    );
  end

  // The outer block: digest, mark, zeros, and a length of one pad plus the digest.
  block_t outer_block;
  always_comb begin
    outer_block = '0;
    outer_block[0:StateWords-1] = core_state;
    outer_block[StateWords] = 32'h8000_0000;
    outer_block[15] = 32'(512 + StateBits);
  end

  logic mac_free;
  assign mac_free = !mac_valid_o || mac_ready_i;
  // While the outer block is due nothing else is loaded, so the last inner block is finished when
  // the core announces a block and is idle; in the first cycle of that block it may still announce
  // the one before.
  assign inner_done = outer_due_q && core_done && core_ready;
  assign take_outer = (inner_done || digest_q) && mac_free;
  assign take_inner = block_valid_q && core_ready && !outer_due_q;
  assign core_valid = take_inner || take_outer;
  assign core_block = outer_due_q ? outer_block : block_t'(block_q);
  assign core_first = outer_due_q || block_first_q;
  assign core_start = outer_due_q ? outer_q : block_keys_q.inner;
  assign block_take = take_inner;
  assign block_o = take_inner;
  assign block_first_o = block_first_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      outer_due_q <= 1'b0;
      digest_q    <= 1'b0;
      mac_due_q   <= 1'b0;
      mac_valid_o <= 1'b0;
    end else begin
      if (take_inner && block_last_q) outer_due_q <= 1'b1;
      else if (take_outer) outer_due_q <= 1'b0;
      if (take_outer) digest_q <= 1'b0;
      else if (inner_done) digest_q <= 1'b1;
      if (take_outer) mac_due_q <= 1'b1;
      else if (core_done) mac_due_q <= 1'b0;
      if (core_done && mac_due_q) mac_valid_o <= 1'b1;
      else if (mac_ready_i) mac_valid_o <= 1'b0;
    end
  end

  always_ff @(posedge clk_i) begin
    if (take_inner && block_last_q) outer_q <= block_keys_q.outer;
    if (core_done && mac_due_q) mac_o <= core_state;
  end

  // The outer block finds the core idle.
  `CV_ASSERT(OuterFindsCore_A, !take_outer || core_ready)
  // A result is never overwritten before it is taken.
  `CV_ASSERT(MacHasRoom_A, !(core_done && mac_due_q) || !mac_valid_o || mac_ready_i)
  // A result stays until it is taken.
  `CV_ASSERT_STABLE(MacStable_A, mac_valid_o, mac_ready_i, mac_o)

endmodule
