// The output stage of a cell: beats, each with its packet's header, in the order in which they came.
//
// Function     Holds up to two beats, so that no path leads from output to input.
// Parameters   Rest (header type).
// Latency      1 cycle.
// Throughput   1 beat a cycle.
// Comb. paths  none from input to output.
// Stalls       in_ready_o is low while two beats wait at the output.

`include "culvert_assert.svh"

module cv_output
  import culvert_pkg::*;
#(
  parameter type Rest = logic [7:0]
) (
  input logic clk_i,
  input logic rst_ni,

  input  logic  in_valid_i,
  output logic  in_ready_o,
  input  beat_t in_beat_i,
  input  Rest   in_rest_i,

  output logic  out_valid_o,
  input  logic  out_ready_i,
  output beat_t out_beat_o,
  output Rest   out_rest_o
);

  typedef struct packed {
    beat_t beat;
    Rest   rest;
  } out_t;
  out_t out;

  cv_fifo #(
    .T    (out_t),
    .Depth(2)
  ) u_out (
    .clk_i,
    .rst_ni,
    .in_valid_i,
    .in_ready_o,
    .in_data_i  ('{beat: in_beat_i, rest: in_rest_i}),
    .out_valid_o,
    .out_ready_i,
    .out_data_o (out),
    .count_o    ()
  );

  assign out_beat_o = out.beat;
  assign out_rest_o = out.rest;

  // A beat that is not the last is full.
  `CV_ASSERT(FullBeats_A, !out_valid_o || out_beat_o.last || out_beat_o.tail == 4'd15)

endmodule
