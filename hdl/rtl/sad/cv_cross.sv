// Takes one request at a time into another clock domain, and its completion back.
//
// Function     A request is kept in a register and announced by a toggle; the server sees it, stable,
//              until it pulses srv_done_i, which comes back as rsp_valid_o by another toggle. What the
//              server answers does not pass through here: it must keep it stable from srv_done_i until
//              its next request.
// Parameters   Req (type of a request).
// Latency      1 cycle of clk_i and 2 of srv_clk_i to srv_valid_o; 1 of srv_clk_i and 2 of clk_i from
//              srv_done_i to rsp_valid_o (a cycle more each way where the clocks are not in step).
// Throughput   One request under way.
// Comb. paths  none.
// Stalls       req_ready_o is low from a request until its response was taken.
// Clocks       Any ratio and phase. Both resets are asserted together.

`include "culvert_assert.svh"

module cv_cross #(
  parameter type Req = logic [7:0]
) (
  input  logic clk_i,
  input  logic rst_ni,
  input  logic req_valid_i,
  output logic req_ready_o,
  input  Req   req_i,
  output logic rsp_valid_o,
  input  logic rsp_ready_i,

  input  logic srv_clk_i,
  input  logic srv_rst_ni,
  output logic srv_valid_o,
  output Req   srv_req_o,
  input  logic srv_done_i
);

  logic busy_q, asked_q, done_q;  // `asked` and `done` toggle
  logic asked_synced, done_synced;
  Req req_q;

  // Client side.
  assign req_ready_o = !busy_q;
  assign rsp_valid_o = busy_q && done_synced == asked_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      busy_q  <= 1'b0;
      asked_q <= 1'b0;
    end else if (req_valid_i && req_ready_o) begin
      busy_q  <= 1'b1;
      asked_q <= !asked_q;
    end else if (rsp_valid_o && rsp_ready_i) begin
      busy_q <= 1'b0;
    end
  end

  always_ff @(posedge clk_i) begin
    if (req_valid_i && req_ready_o) req_q <= req_i;
  end

  cv_sync u_done (
    .clk_i,
    .rst_ni,
    .data_i(done_q),
    .data_o(done_synced)
  );

  // Server side.
  cv_sync u_asked (
    .clk_i (srv_clk_i),
    .rst_ni(srv_rst_ni),
    .data_i(asked_q),
    .data_o(asked_synced)
  );

  assign srv_valid_o = asked_synced != done_q;
  assign srv_req_o   = req_q;

  always_ff @(posedge srv_clk_i or negedge srv_rst_ni) begin
    if (!srv_rst_ni) done_q <= 1'b0;
    else if (srv_done_i) done_q <= !done_q;
  end

`ifndef CV_NO_ASSERT
  // The server completes only what it was asked.
  DoneIsAsked_A: assert property (@(posedge srv_clk_i) disable iff (!srv_rst_ni)
                                  (!srv_done_i || srv_valid_o));
`endif

endmodule
