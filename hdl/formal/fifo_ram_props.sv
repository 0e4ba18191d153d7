// What an observer sees of cv_fifo_ram: no loss, no duplication, order. As fifo_props: one watched
// word is followed from push to pop, through the memory, the read register and the buffer.

module fifo_ram_props #(
  parameter int unsigned Depth = 4
) (
  input logic       clk_i,
  input logic       rst_ni,
  input logic       in_valid_i,
  input logic [3:0] in_data_i,
  input logic       out_ready_i,
  input logic       choose_i      // free: the solver picks the word to follow
);

  logic in_ready, out_valid;
  logic [3:0] out_data;

  cv_fifo_ram #(
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
    .out_data_o (out_data)
  );

  // Reset in the first cycle, and never again.
  logic started_q = 1'b0;
  always_ff @(posedge clk_i) started_q <= 1'b1;
  always_comb assume (rst_ni == started_q);

  logic push, pop, watch;
  logic watching_q;
  logic [7:0] ahead_q, held;
  logic [3:0] value_q, found;

  // Words inside: in the buffer, in the read register, in the memory.
  assign held  = 8'(u_dut.buf_count) + 8'(u_dut.reading_q) + 8'(u_dut.count_q);
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
      ahead_q    <= held - 8'(pop);
      value_q    <= in_data_i;
    end else if (watching_q && pop) begin
      if (ahead_q == '0) watching_q <= 1'b0;
      else ahead_q <= ahead_q - 1'b1;
    end
  end

  // The word at the watched place, for the induction.
  always_comb begin
    if (ahead_q < 8'(u_dut.buf_count)) begin
      found = u_dut.u_buffer.mem_q[(32'(u_dut.u_buffer.rptr_q) + 32'(ahead_q)) % 3];
    end else if (u_dut.reading_q && ahead_q == 8'(u_dut.buf_count)) begin
      found = u_dut.rdata_q;
    end else begin
      found = u_dut.mem_q[(32'(u_dut.rptr_q) + 32'(ahead_q) - 32'(u_dut.buf_count) -
                           32'(u_dut.reading_q)) % Depth];
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_ni && watching_q) begin
      WatchedIsInside_A : assert (ahead_q < held);
      WatchedIsFound_A : assert (found == value_q);
      WatchedIsOffered_A : assert (ahead_q != '0 || !out_valid || out_data == value_q);
    end
    // A word that is inside reaches the output within two cycles.
    if (rst_ni) begin
      OfferedSoon_A : assert (held == '0 || out_valid || u_dut.reading_q || u_dut.read);
    end
  end

endmodule
