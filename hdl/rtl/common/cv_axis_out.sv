// AXI4-Stream master, 128 bits: sends packets from the internal bus.
//
// Function     The reverse of cv_axis_in: byte 0 is tdata[7:0], tkeep is contiguous from byte 0.
// Latency      1 cycle.
// Throughput   1 beat a cycle.
// Comb. paths  none from input to output or back.
// Stalls       in_ready_o is low while two beats wait.

`include "culvert_assert.svh"

module cv_axis_out
  import culvert_pkg::*;
(
  input logic clk_i,
  input logic rst_ni,

  input  logic  in_valid_i,
  output logic  in_ready_o,
  input  beat_t in_beat_i,

  output logic                axis_tvalid_o,
  input  logic                axis_tready_i,
  output logic [BusBits-1:0]  axis_tdata_o,
  output logic [BusBytes-1:0] axis_tkeep_o,
  output logic                axis_tlast_o
);

  beat_t beat;

  cv_fifo #(
    .T    (beat_t),
    .Depth(2)
  ) u_out (
    .clk_i,
    .rst_ni,
    .in_valid_i,
    .in_ready_o,
    .in_data_i  (in_beat_i),
    .out_valid_o(axis_tvalid_o),
    .out_ready_i(axis_tready_i),
    .out_data_o (beat),
    .count_o    ()
  );

  always_comb begin
    for (int unsigned i = 0; i < BusBytes; i++) begin
      axis_tdata_o[8*i+:8] = beat.data[BusBits-1-8*i-:8];
      axis_tkeep_o[i] = i <= 32'(beat.tail);
    end
  end
  assign axis_tlast_o = beat.last;

  // What is offered stays until it is taken (AXI4-Stream section 2.2).
  `CV_ASSERT_STABLE(OutStable_A, axis_tvalid_o, axis_tready_i,
                    ({axis_tdata_o, axis_tkeep_o, axis_tlast_o}))

endmodule
