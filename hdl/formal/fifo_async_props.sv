// What an observer sees of cv_fifo_async: no loss, no duplication, order, for two clocks of any
// rates and phases.
//
// gclk_i is time: in each of its steps each of the two clocks may rise, fall or stay as it is, and
// each reset may be released. The registers of the FIFO follow their own clocks (clk2fflogic); the
// observer counts in steps of time. A register that samples in the step in which its source
// changes gets the old value; the new one it would get with its edge one step later, which is
// another of the runs that the proof covers. So both outcomes of a metastable bit are covered, as
// Gray code changes one bit at a time.

module fifo_async_props #(
  parameter int unsigned Depth = 4
) (
  input logic       gclk_i,
  input logic       clk_i,
  input logic       rst_ni,
  input logic       in_valid_i,
  input logic [1:0] in_data_i,
  input logic       out_clk_i,
  input logic       out_rst_ni,
  input logic       out_ready_i,
  input logic       choose_i      // free: the solver picks the word to follow
);

  localparam int unsigned AddrWidth = $clog2(Depth);
  typedef logic [AddrWidth:0] ptr_t;

  logic in_ready, out_valid;
  logic [1:0] out_data;

  cv_fifo_async #(
    .T    (logic [1:0]),
    .Depth(Depth)
  ) u_dut (
    .clk_i,
    .rst_ni,
    .in_valid_i,
    .in_ready_o (in_ready),
    .in_data_i,
    .out_clk_i,
    .out_rst_ni,
    .out_valid_o(out_valid),
    .out_ready_i,
    .out_data_o (out_data)
  );

  // Both sides begin in reset; each leaves it once.
  logic started_q = 1'b0;
  logic rst_q, out_rst_q;
  always_ff @(posedge gclk_i) begin
    started_q <= 1'b1;
    rst_q     <= rst_ni;
    out_rst_q <= out_rst_ni;
  end
  always_comb begin
    if (!started_q) assume (!rst_ni && !out_rst_ni);
    else assume ((!rst_q || rst_ni) && (!out_rst_q || out_rst_ni));
  end

  // What each side did, seen in the step in which its clock has risen: it acts on the values of
  // the step before.
  logic clk_q, out_clk_q, put_q, get_q, choose_q;
  logic [1:0] in_data_q, out_data_q;
  always_ff @(posedge gclk_i) begin
    clk_q      <= clk_i;
    out_clk_q  <= out_clk_i;
    put_q      <= in_valid_i && in_ready && rst_ni;
    get_q      <= out_valid && out_ready_i && out_rst_ni;
    choose_q   <= choose_i;
    in_data_q  <= in_data_i;
    out_data_q <= out_data;
  end
  logic push, pop, watch, watching_q;
  assign push  = started_q && clk_i && !clk_q && put_q;
  assign pop   = started_q && out_clk_i && !out_clk_q && get_q;
  assign watch = push && choose_q && !watching_q;

  ptr_t ahead_q, held_q;  // words before the watched one; words inside
  logic [1:0] value_q;
  logic watching;
  ptr_t ahead, held;
  logic [1:0] value;
  always_comb begin
    held = held_q + ptr_t'(push) - ptr_t'(pop);
    watching = watching_q;
    ahead = ahead_q;
    value = value_q;
    if (watch) begin
      watching = 1'b1;
      ahead = held_q - ptr_t'(pop);
      value = in_data_q;
    end else if (watching_q && pop) begin
      watching = ahead_q != '0;
      ahead = ahead_q - 1'b1;
    end
  end
  always_ff @(posedge gclk_i) begin
    held_q     <= started_q ? held : '0;
    watching_q <= started_q && watching;
    ahead_q    <= ahead;
    value_q    <= value;
  end

  // For the induction: how far each copy of a pointer is behind the next one, on the way from the
  // read side's pointer as the write side sees it to the write pointer.
  function automatic ptr_t binary(ptr_t gray);
    ptr_t result;
    result = gray;
    for (int unsigned i = 1; i <= AddrWidth; i++) result ^= gray >> i;
    return result;
  endfunction
  ptr_t [5:0] at;
  logic [7:0] way;
  always_comb begin
    at[0] = binary(u_dut.u_sync_rptr.sync_q);
    at[1] = binary(u_dut.u_sync_rptr.meta_q);
    at[2] = u_dut.rptr_q;
    at[3] = binary(u_dut.u_sync_wptr.sync_q);
    at[4] = binary(u_dut.u_sync_wptr.meta_q);
    at[5] = u_dut.wptr_q;
    way = '0;
    for (int unsigned i = 0; i < 5; i++) begin
      way += 8'(ptr_t'(at[i+1] - at[i]));
    end
  end

  always_ff @(posedge gclk_i) begin
    if (started_q) begin
      // A word that leaves is the one whose turn it is.
      WatchedLeaves_A : assert (!(watching_q && pop && ahead_q == '0) || out_data_q == value_q);
      // It is inside until its turn comes: not lost, not taken twice.
      WatchedInside_A : assert (!watching || ahead < held);
      NeverMoreThanDepth_A : assert (32'(held) <= Depth);
      NotTakenFromEmpty_A : assert (!pop || held_q != '0);
      // For the induction.
      InvHeld_A : assert (held == ptr_t'(u_dut.wptr_q - u_dut.rptr_q));
      InvWay_A : assert (32'(way) <= Depth);
      InvRGray_A : assert (binary(u_dut.rgray_q) == u_dut.rptr_q);
      InvWGray_A : assert (binary(u_dut.wgray_q) == u_dut.wptr_q);
      InvInMemory_A : assert (!watching ||
          u_dut.mem_q[AddrWidth'(u_dut.rptr_q + ahead)] == value);
      InvReset_A : assert ((rst_ni || u_dut.wptr_q == '0) && (out_rst_ni || u_dut.rptr_q == '0));
      Passed_C : cover (watching_q && !watching && held == '0);
      Full_C : cover (32'(held) == Depth);
    end
  end

endmodule
