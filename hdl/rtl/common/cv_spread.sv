// Spreads packets over N equal modules.
//
// Function     A packet goes whole to the next output in turn; an idle output comes before one that
//              still has beats waiting, and one whose FIFO is full is left out.
// Parameters   N, Depth (beats that an output's FIFO holds).
// Latency      1 cycle.
// Throughput   1 beat a cycle, without gaps between packets.
// Comb. paths  none from input to output or back.
// Stalls       in_ready_o is low in front of a packet while all FIFOs are full, and inside a packet
//              while its output's is.

`include "culvert_assert.svh"

module cv_spread
  import culvert_pkg::*;
#(
  parameter int unsigned N     = 4,
  parameter int unsigned Depth = 2
) (
  input logic clk_i,
  input logic rst_ni,

  input  logic  in_valid_i,
  output logic  in_ready_o,
  input  beat_t in_beat_i,

  output logic  [N-1:0] out_valid_o,
  input  logic  [N-1:0] out_ready_i,
  output beat_t [N-1:0] out_beat_o
);

  logic [N-1:0] room, pick, lane, lane_q;
  logic pick_valid, inside_q, push;

  cv_arbiter #(
    .N(N)
  ) u_pick (
    .clk_i,
    .rst_ni,
    .req_i  (room),
    .high_i (~out_valid_o),
    .valid_o(pick_valid),
    .ready_i(push && !inside_q),
    .index_o(),
    .grant_o(pick)
  );

  assign lane = inside_q ? lane_q : pick;
  assign in_ready_o = inside_q ? (room & lane_q) != '0 : pick_valid;
  assign push = in_valid_i && in_ready_o;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      inside_q <= 1'b0;
      lane_q   <= '0;
    end else if (push) begin
      inside_q <= !in_beat_i.last;
      lane_q   <= lane;
    end
  end

  for (genvar i = 0; i < N; i++) begin : gen_out
    cv_fifo #(
      .T    (beat_t),
      .Depth(Depth)
    ) u_fifo (
      .clk_i,
      .rst_ni,
      .in_valid_i (push && lane[i]),
      .in_ready_o (room[i]),
      .in_data_i  (in_beat_i),
      .out_valid_o(out_valid_o[i]),
      .out_ready_i(out_ready_i[i]),
      .out_data_o (out_beat_o[i]),
      .count_o    ()
    );
  end

  // A beat goes to one output.
  `CV_ASSERT(OneLane_A, !push || $onehot(lane))

endmodule
