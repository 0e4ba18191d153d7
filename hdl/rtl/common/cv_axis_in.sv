// AXI4-Stream slave, 128 bits: brings packets onto the internal bus.
//
// Function     Turns the byte order round (byte 0 is tdata[7:0]; inside, the first byte is highest)
//              and tkeep into `tail`. tkeep is contiguous from byte 0 and full in all beats but a
//              packet's last. A last beat without any byte counts as one byte, so its packet fails
//              the check of its length and is dropped. A packet of more than MaxBytes is cut off
//              one byte behind them, so that memories inside may rely on the limit and the packet
//              is still seen to be too long; its rest is swallowed.
// Parameters   MaxBytes, a multiple of 16.
// Latency      1 cycle.
// Throughput   1 beat a cycle.
// Comb. paths  none from input to output or back.
// Stalls       tready is low while two beats wait.

`include "culvert_assert.svh"

module cv_axis_in
  import culvert_pkg::*;
#(
  parameter int unsigned MaxBytes = 9216
) (
  input logic clk_i,
  input logic rst_ni,

  input  logic                axis_tvalid_i,
  output logic                axis_tready_o,
  input  logic [BusBits-1:0]  axis_tdata_i,
  input  logic [BusBytes-1:0] axis_tkeep_i,
  input  logic                axis_tlast_i,

  output logic  out_valid_o,
  input  logic  out_ready_i,
  output beat_t out_beat_o
);

  localparam int unsigned MaxBeats = MaxBytes / BusBytes;
  localparam int unsigned CountWidth = $clog2(MaxBeats + 1);

  logic [CountWidth-1:0] count_q;  // beats of this packet that have come, up to MaxBeats
  logic swallow_q;  // the rest of a packet that was cut off
  logic over, take;
  beat_t beat;

  assign over = count_q == CountWidth'(MaxBeats);
  assign take = axis_tvalid_i && axis_tready_o;

  always_comb begin
    beat.data = '0;
    beat.tail = 4'(axis_tlast_i ? $countones(axis_tkeep_i) - 1 : BusBytes - 1);
    beat.last = axis_tlast_i;
    if (axis_tkeep_i == '0 || over) beat.tail = '0;
    if (over) beat.last = 1'b1;
    for (int unsigned i = 0; i < BusBytes; i++) begin
      if (i <= 32'(beat.tail)) beat.data[BusBits-1-8*i-:8] = axis_tdata_i[8*i+:8];
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      count_q   <= '0;
      swallow_q <= 1'b0;
    end else if (take) begin
      count_q   <= axis_tlast_i ? '0 : over ? count_q : count_q + 1'b1;
      swallow_q <= !axis_tlast_i && (over || swallow_q);
    end
  end

  cv_fifo #(
    .T    (beat_t),
    .Depth(2)
  ) u_out (
    .clk_i,
    .rst_ni,
    .in_valid_i (take && !swallow_q),
    .in_ready_o (axis_tready_o),
    .in_data_i  (beat),
    .out_valid_o,
    .out_ready_i,
    .out_data_o (out_beat_o),
    .count_o    ()
  );

  // The environment keeps to full beats inside a packet, and to bytes without gaps.
  `CV_ASSUME(KeepIsFull_A, !axis_tvalid_i || axis_tlast_i || axis_tkeep_i == '1)
  `CV_ASSUME(KeepIsContiguous_A, !axis_tvalid_i || (axis_tkeep_i & (axis_tkeep_i + 1'b1)) == '0)
  // A beat that is not the last is full.
  `CV_ASSERT(FullBeats_A, !out_valid_o || out_beat_o.last || out_beat_o.tail == 4'd15)

endmodule
