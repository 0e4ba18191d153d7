// Round-robin arbiter with two priority classes.
//
// Function     Grants one of N requests. High requests go before low ones, round robin within each
//              class. A low request that has lost to `LowEvery` high ones in a row goes next, so
//              that neither class starves.
// Bounds       A request that is held is granted after at most N - 1 other grants of its class; a
//              waiting low class gets at least one of LowEvery + 1 grants. Both are proved.
// Latency      0: the grant is combinational from the requests and the state. It may change to
//              another request until it is taken with ready_i.
// Throughput   1 grant a cycle.
// Comb. paths  req_i, high_i -> valid_o, index_o, grant_o.

`include "culvert_assert.svh"

module cv_arbiter #(
  parameter  int unsigned N          = 4,
  parameter  int unsigned LowEvery   = 8,
  localparam int unsigned IndexWidth = (N > 1) ? $clog2(N) : 1
) (
  input logic clk_i,
  input logic rst_ni,

  input logic [N-1:0] req_i,
  input logic [N-1:0] high_i,  // class of each request

  output logic                  valid_o,
  input  logic                  ready_i,
  output logic [IndexWidth-1:0] index_o,
  output logic [N-1:0]          grant_o   // index_o as one bit of N; 0 without a request
);

  localparam int unsigned RunWidth = $clog2(LowEvery + 1);
  typedef logic [IndexWidth-1:0] index_t;

  index_t high_last_q, low_last_q;  // the last index granted in each class
  logic [RunWidth-1:0] run_q;  // high grants in a row that a low request has waited through

  logic [N-1:0] high_req, low_req;
  logic pick_low;
  index_t high_index, low_index;

  // The first request after `last`, cyclically; `last` itself comes at the end.
  function automatic index_t pick(logic [N-1:0] req, index_t last);
    index_t first, after;
    logic found;
    first = '0;
    after = '0;
    found = 1'b0;
    for (int unsigned i = N; i > 0; i--) begin
      if (req[i-1]) begin
        first = index_t'(i - 1);
        if (i - 1 > 32'(last)) begin
          after = index_t'(i - 1);
          found = 1'b1;
        end
      end
    end
    return found ? after : first;
  endfunction

  assign high_req   = req_i & high_i;
  assign low_req    = req_i & ~high_i;
  assign pick_low   = (low_req != '0) && (high_req == '0 || run_q == RunWidth'(LowEvery));
  assign high_index = pick(high_req, high_last_q);
  assign low_index  = pick(low_req, low_last_q);

  assign valid_o = req_i != '0;
  assign index_o = pick_low ? low_index : high_index;

  always_comb begin
    grant_o = '0;
    for (int unsigned i = 0; i < N; i++) grant_o[i] = valid_o && (32'(index_o) == i);
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      high_last_q <= '0;
      low_last_q  <= '0;
      run_q       <= '0;
    end else if (valid_o && ready_i) begin
      if (pick_low) begin
        low_last_q <= low_index;
        run_q      <= '0;
      end else begin
        high_last_q <= high_index;
        if (low_req != '0) run_q <= run_q + 1'b1;
      end
    end
  end

  // A high request went before a low one, and a low one before a high one because it was its turn.
  `CV_COVER(HighFirst_C, valid_o && ready_i && !pick_low && low_req != '0)
  `CV_COVER(LowInTurn_C, valid_o && ready_i && pick_low && high_req != '0)
  // Only a request is granted.
  `CV_ASSERT(GrantIsRequested_A, (grant_o & ~req_i) == '0)
  // One grant at a time, and one whenever there is a request.
  `CV_ASSERT(OneGrant_A, valid_o ? $onehot(grant_o) : grant_o == '0)
  // The count of lost rounds stays in range.
  `CV_ASSERT(RunInRange_A, run_q <= RunWidth'(LowEvery))

endmodule
