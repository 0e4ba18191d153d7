// What an observer sees of cv_fifo: no loss, no duplication, order.
//
// The n-th word that goes in is the n-th that comes out. Proved for one watched word with an
// arbitrary number and value, hence for all: it is followed from the cycle in which it
// is pushed to the cycle in which it is popped.

module fifo_props #(
  parameter int unsigned Depth = 4
) (
  input logic       clk_i,
  input logic       rst_ni,
  input logic       in_valid_i,
  input logic [3:0] in_data_i,
  input logic       out_ready_i,
  input logic       choose_i      // free: the solver picks the word to follow
);

  localparam int unsigned CountWidth = $clog2(Depth + 1);

  logic in_ready, out_valid;
  logic [3:0] out_data;
  logic [CountWidth-1:0] count;

  cv_fifo #(
    .T    (logic [3:0]),
    .Depth(Depth)
  ) u_dut (
    .clk_i,
    .rst_ni,
    .in_valid_i,
    .in_ready_o (in_ready),
    .in_data_i,
    .out_valid_o(out_valid),
    .out_ready_i,
    .out_data_o (out_data),
    .count_o    (count)
  );

  // Reset in the first cycle, and never again.
  logic started_q = 1'b0;
  always_ff @(posedge clk_i) started_q <= 1'b1;
  always_comb assume (rst_ni == started_q);

  logic watch, push, pop;
  logic watching_q;  // the watched word is inside
  logic [CountWidth-1:0] ahead_q;  // words before it
  logic [3:0] value_q;

  assign push  = in_valid_i && in_ready;
  assign pop   = out_valid && out_ready_i;
  assign watch = push && choose_i && !watching_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      watching_q <= 1'b0;
      ahead_q    <= '0;
      value_q    <= '0;
    end else if (watch) begin
      watching_q <= 1'b1;
      ahead_q    <= count - CountWidth'(pop);
      value_q    <= in_data_i;
    end else if (watching_q && pop) begin
      if (ahead_q == '0) watching_q <= 1'b0;
      else ahead_q <= ahead_q - 1'b1;
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_ni && watching_q) begin
      // It is inside until its turn comes, and comes out unchanged when the words before it have.
      WatchedIsInside_A : assert (ahead_q < count);
      WatchedIsOffered_A : assert (ahead_q != '0 || (out_valid && out_data == value_q));
      // For the induction: where it lies.
      WatchedInMemory_A : assert (u_dut.mem_q[(32'(u_dut.rptr_q) + 32'(ahead_q)) % Depth] == value_q);
    end
    // Never full and empty at once; what is held is offered.
    if (rst_ni) OfferedIffHeld_A : assert (out_valid == (count != '0));
  end

endmodule
