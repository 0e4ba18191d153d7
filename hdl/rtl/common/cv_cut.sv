// Cuts bytes off a packet's front.
//
// Function     Drops the first `skip` bytes of a packet and aligns what follows anew. At least one
//              byte must be left.
// Parameters   MaxSkip (0 to 64).
// Latency      1 cycle from the beat that completes an output beat.
// Throughput   1 beat a cycle. A packet whose skip does not end with a beat spills over if its end
//              saves no beat; the spilled beat leaves while the next packet's first beat comes in,
//              and takes a cycle of its own only if that beat leaves at once.
// Comb. paths  in_ready_o depends on in_beat_i.last and in_skip_i: beats of which nothing leaves
//              are taken although the output is blocked. None from out_ready_i.
// Stalls       in_ready_o is low while two beats wait at the output, and as said above.

`include "culvert_assert.svh"

module cv_cut
  import culvert_pkg::*;
#(
  parameter  int unsigned MaxSkip   = 64,
  localparam int unsigned SkipWidth = $clog2(MaxSkip + 1)
) (
  input logic clk_i,
  input logic rst_ni,

  input  logic                 in_valid_i,
  output logic                 in_ready_o,
  input  beat_t                in_beat_i,
  input  logic [SkipWidth-1:0] in_skip_i,   // constant during a packet

  output logic  out_valid_o,
  input  logic  out_ready_i,
  output beat_t out_beat_o
);

  localparam int unsigned BeatsWidth = SkipWidth - 4;

  logic [BeatsWidth-1:0] dropped_q;  // whole beats of this packet
  logic held_q;  // hold_q is the beat before, of this packet
  logic spill_q;  // hold_q is the end of the packet before
  logic [BusBits-1:0] hold_q;
  logic [3:0] hold_tail_q, spill_off_q;

  logic [3:0] off;  // bytes to go within a beat
  logic drops, waits, emit, take, room, spills;
  logic [2*BusBits-1:0] pair;
  beat_t beat;

  assign drops = dropped_q != in_skip_i[SkipWidth-1:4];
  // The first beat of which something is kept is completed by the next one.
  assign waits = !held_q && in_skip_i[3:0] != 4'd0 && !in_beat_i.last;

  assign in_ready_o = drops || (room && (!spill_q || waits));
  assign take       = in_valid_i && in_ready_o;
  assign emit       = spill_q || (in_valid_i && !drops && !waits);

  assign off = spill_q ? spill_off_q : in_skip_i[3:0];
  // Behind the end of a packet everything is zero.
  assign pair = {
    (spill_q || held_q) ? hold_q : in_beat_i.data,
    (held_q && !spill_q) ? in_beat_i.data : BusBits'(0)
  };
  // More bytes come with the last beat than go out with it.
  assign spills = held_q && in_beat_i.last && in_beat_i.tail >= in_skip_i[3:0];

  always_comb begin
    beat.data = pair[2*BusBits-1-8*off-:BusBits];
    if (spill_q) begin
      beat.last = 1'b1;
      beat.tail = hold_tail_q - off;
    end else begin
      beat.last = in_beat_i.last && !spills;
      // With a beat held, 16 more, which 4 bits do not show.
      beat.tail = beat.last ? in_beat_i.tail - off : 4'd15;
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      dropped_q <= '0;
      held_q    <= 1'b0;
      spill_q   <= 1'b0;
    end else begin
      if (room) spill_q <= 1'b0;
      if (take) begin
        if (in_beat_i.last) dropped_q <= '0;
        else if (drops) dropped_q <= dropped_q + BeatsWidth'(1);
        if (!drops) begin
          held_q  <= !in_beat_i.last && in_skip_i[3:0] != 4'd0;
          spill_q <= spills;
        end
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (take && !drops) begin
      hold_q      <= in_beat_i.data;
      hold_tail_q <= in_beat_i.tail;
      spill_off_q <= in_skip_i[3:0];
    end
  end

  cv_fifo #(
    .T    (beat_t),
    .Depth(2)
  ) u_out (
    .clk_i,
    .rst_ni,
    .in_valid_i (emit),
    .in_ready_o (room),
    .in_data_i  (beat),
    .out_valid_o,
    .out_ready_i,
    .out_data_o (out_beat_o),
    .count_o    ()
  );

  // An end spilled over; it left while the next packet came in; it was in the way of one.
  `CV_COVER(Spill_C, room && spill_q)
  `CV_COVER(SpillInShadow_C, spill_q && take && !drops)
  `CV_COVER(SpillInTheWay_C, spill_q && room && in_valid_i && !in_ready_o)
  // The user cuts no more than there is: of a packet at least one byte is left.
  `CV_ASSUME(LeavesSome_A, !take || !in_beat_i.last || (!drops && (held_q ||
                           in_beat_i.tail >= in_skip_i[3:0])))
  // No more is skipped than the parameter allows.
  `CV_ASSUME(SkipInRange_A, !in_valid_i || 32'(in_skip_i) <= MaxSkip)
  // Nothing is held for a packet, and of the one before it, at the same time.
  `CV_ASSERT(OneHolds_A, !(held_q && spill_q))
  // A beat that is not the last is full.
  `CV_ASSERT(FullBeats_A, !out_valid_o || out_beat_o.last || out_beat_o.tail == 4'd15)

endmodule
