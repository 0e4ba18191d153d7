// Cuts bytes off a packet: some at its front, and what lies behind a given length.
//
// Function     Drops the first `skip` bytes of a packet, keeps at most `bytes` bytes of what
//              follows, and swallows the rest. What is kept is aligned anew. At least one byte must
//              be kept.
// Parameters   MaxSkip (0 to 64), LenBits (width of lengths).
// Latency      1 cycle from the beat that completes an output beat.
// Throughput   1 beat a cycle; a packet that gives up 1 to 15 bytes of its first beat, and at its
//              end so few that no beat is saved, takes one cycle more.
// Comb. paths  in_ready_o depends on in_beat_i, in_skip_i and in_bytes_i: beats of which nothing is
//              kept are taken although the output is blocked. None from out_ready_i.
// Stalls       in_ready_o is low during the extra cycle and while two beats wait at the output.

`include "culvert_assert.svh"

module cv_cut
  import culvert_pkg::*;
#(
  parameter  int unsigned MaxSkip   = 64,
  parameter  int unsigned LenBits   = 14,
  localparam int unsigned SkipWidth = $clog2(MaxSkip + 1)
) (
  input logic clk_i,
  input logic rst_ni,

  input  logic                 in_valid_i,
  output logic                 in_ready_o,
  input  beat_t                in_beat_i,
  // Constant during a packet.
  input  logic [SkipWidth-1:0] in_skip_i,
  input  logic [LenBits-1:0]   in_bytes_i,  // all ones: everything

  output logic  out_valid_o,
  input  logic  out_ready_i,
  output beat_t out_beat_o
);

  logic first_q;
  logic [SkipWidth-1:0] skip_d, skip_q, skip;  // bytes still to be dropped
  logic [LenBits-1:0] left_d, left_q, left;  // bytes that may still be kept

  assign skip = first_q ? in_skip_i : skip_q;
  assign left = first_q ? in_bytes_i : left_q;

  // What is kept of this beat.
  logic [4:0] used;  // its bytes, 1 to 16
  logic [4:0] off;  // of them to be dropped, 0 to 16
  logic [4:0] rest;  // behind them
  logic [4:0] kept;
  logic some, chunk_last, take, packer_ready;
  logic [BusBits-1:0] chunk;

  assign used = 5'(in_beat_i.tail) + 5'd1;
  assign off  = (32'(skip) >= 32'd16) ? 5'd16 : 5'(skip);
  assign rest = (off >= used) ? 5'd0 : used - off;
  assign kept = (32'(left) >= 32'(rest)) ? rest : 5'(left);
  assign some = kept != 5'd0;
  assign chunk = in_beat_i.data << {off[3:0], 3'b000};
  assign chunk_last = in_beat_i.last || left == LenBits'(kept);

  assign in_ready_o = !some || packer_ready;
  assign take = in_valid_i && in_ready_o;

  always_comb begin
    skip_d = skip_q;
    left_d = left_q;
    if (take) begin
      skip_d = skip - SkipWidth'((32'(skip) >= 32'(used)) ? used : 5'(skip));
      left_d = left - LenBits'(kept);
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      first_q <= 1'b1;
      skip_q  <= '0;
      left_q  <= '0;
    end else begin
      if (take) first_q <= in_beat_i.last;
      skip_q <= skip_d;
      left_q <= left_d;
    end
  end

  cv_packer u_packer (
    .clk_i,
    .rst_ni,
    .in_valid_i (in_valid_i && some),
    .in_ready_o (packer_ready),
    .in_data_i  (chunk),
    .in_bytes_i (kept),
    .in_last_i  (chunk_last),
    .out_valid_o,
    .out_ready_i,
    .out_beat_o
  );

  // The user cuts no more than there is: of a packet at least one byte is kept.
  `CV_ASSUME(KeepsSome_A, !take || !in_beat_i.last || some || (!first_q && left_q == '0))
  `CV_ASSUME(BytesGiven_A, !in_valid_i || in_bytes_i != '0)
  // No more is skipped than the parameter allows.
  `CV_ASSUME(SkipInRange_A, !in_valid_i || 32'(in_skip_i) <= MaxSkip)

endmodule
