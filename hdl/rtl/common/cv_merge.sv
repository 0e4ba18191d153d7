// Joins the packets of N streams into one.
//
// Function     Round robin, packet by packet: a packet that has begun leaves whole before another
//              one begins.
// Parameters   N.
// Latency      1 cycle.
// Throughput   1 beat a cycle, without gaps between packets.
// Comb. paths  in_valid_i -> in_ready_o (of all inputs).
// Stalls       An input waits while another one's packet leaves, and while two beats wait at the
//              output. A packet that comes with gaps leaves with them: it holds up the others.

`include "culvert_assert.svh"

module cv_merge
  import culvert_pkg::*;
#(
  parameter  int unsigned N          = 4,
  localparam int unsigned IndexWidth = (N > 1) ? $clog2(N) : 1
) (
  input logic clk_i,
  input logic rst_ni,

  input  logic  [N-1:0] in_valid_i,
  output logic  [N-1:0] in_ready_o,
  input  beat_t [N-1:0] in_beat_i,

  output logic  out_valid_o,
  input  logic  out_ready_i,
  output beat_t out_beat_o
);

  logic inside_q, room, push;
  logic pick_valid;
  logic [IndexWidth-1:0] pick, lane, lane_q;

  cv_arbiter #(
    .N(N)
  ) u_pick (
    .clk_i,
    .rst_ni,
    .req_i  (in_valid_i),
    .high_i ('1),
    .valid_o(pick_valid),
    .ready_i(push && !inside_q),
    .index_o(pick),
    .grant_o()
  );

  assign lane = inside_q ? lane_q : pick;
  assign push = room && (inside_q ? in_valid_i[lane_q] : pick_valid);

  always_comb begin
    in_ready_o = '0;
    in_ready_o[lane] = push;
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      inside_q <= 1'b0;
      lane_q   <= '0;
    end else if (push) begin
      inside_q <= !in_beat_i[lane].last;
      lane_q   <= lane;
    end
  end

  cv_fifo #(
    .T    (beat_t),
    .Depth(2)
  ) u_out (
    .clk_i,
    .rst_ni,
    .in_valid_i (push),
    .in_ready_o (room),
    .in_data_i  (in_beat_i[lane]),
    .out_valid_o,
    .out_ready_i,
    .out_data_o (out_beat_o),
    .count_o    ()
  );

  // Only a beat that is offered is taken, and one in a cycle.
  `CV_ASSERT(TakesOffered_A, (in_ready_o & ~in_valid_i) == '0 && $onehot0(in_ready_o))

endmodule
