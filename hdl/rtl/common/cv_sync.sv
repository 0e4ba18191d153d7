// Two flip-flops that bring a value into another clock domain. More than one bit only where at
// most one bit changes at a time (Gray code).
//
// Latency      2 cycles of clk_i.
// Comb. paths  none.

module cv_sync #(
  parameter int unsigned Width = 1
) (
  input  logic             clk_i,
  input  logic             rst_ni,
  input  logic [Width-1:0] data_i,
  output logic [Width-1:0] data_o
);

  (* async_reg = "true" *) logic [Width-1:0] meta_q;
  (* async_reg = "true" *) logic [Width-1:0] sync_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      meta_q <= '0;
      sync_q <= '0;
    end else begin
      meta_q <= data_i;
      sync_q <= meta_q;
    end
  end

  assign data_o = sync_q;

endmodule
