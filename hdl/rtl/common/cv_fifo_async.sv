// FIFO between two clock domains, with Gray-coded pointers.
//
// Function     Words leave in the order in which they came. `Depth` is a power of two, at least 4.
// Latency      1 cycle of clk_i, then 2 to 3 of out_clk_i.
// Throughput   1 word a cycle of the slower clock, from depth 8 on.
// Comb. paths  none from one side to the other.
// Stalls       in_ready_o is low while the FIFO is full as seen from the input side, which learns
//              of a word taken 2 to 3 of its cycles later.
// Clocks       Any ratio and phase. Both resets are asserted together and released each in its
//              own domain; a word is taken only after both sides have left reset.

`include "culvert_assert.svh"

module cv_fifo_async #(
  parameter type         T     = logic [7:0],
  parameter int unsigned Depth = 8
) (
  input  logic clk_i,
  input  logic rst_ni,
  input  logic in_valid_i,
  output logic in_ready_o,
  input  T     in_data_i,

  input  logic out_clk_i,
  input  logic out_rst_ni,
  output logic out_valid_o,
  input  logic out_ready_i,
  output T     out_data_o
);

  localparam int unsigned AddrWidth = $clog2(Depth);
  // One bit more than the address: tells full from empty.
  typedef logic [AddrWidth:0] ptr_t;

  T mem_q[Depth];

  ptr_t wptr_q, wptr_d, wgray_q, rgray_in_w;
  ptr_t rptr_q, rptr_d, rgray_q, wgray_in_r;

  function automatic ptr_t gray(ptr_t binary);
    return binary ^ (binary >> 1);
  endfunction

  // Write side.
  logic push;
  // Full: the write pointer is Depth ahead; in Gray code the two upper bits differ.
  assign in_ready_o = wgray_q != (rgray_in_w ^ {2'b11, {(AddrWidth - 1) {1'b0}}});
  assign push = in_valid_i && in_ready_o;
  assign wptr_d = wptr_q + ptr_t'(push);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      wptr_q  <= '0;
      wgray_q <= '0;
    end else begin
      wptr_q  <= wptr_d;
      wgray_q <= gray(wptr_d);
    end
  end

  always_ff @(posedge clk_i) begin
    if (push) mem_q[wptr_q[AddrWidth-1:0]] <= in_data_i;
  end

  cv_sync #(
    .Width(AddrWidth + 1)
  ) u_sync_rptr (
    .clk_i,
    .rst_ni,
    .data_i(rgray_q),
    .data_o(rgray_in_w)
  );

  // Read side.
  logic pop;
  assign out_valid_o = rgray_q != wgray_in_r;
  assign pop = out_valid_o && out_ready_i;
  assign rptr_d = rptr_q + ptr_t'(pop);
  assign out_data_o = mem_q[rptr_q[AddrWidth-1:0]];

  always_ff @(posedge out_clk_i or negedge out_rst_ni) begin
    if (!out_rst_ni) begin
      rptr_q  <= '0;
      rgray_q <= '0;
    end else begin
      rptr_q  <= rptr_d;
      rgray_q <= gray(rptr_d);
    end
  end

  cv_sync #(
    .Width(AddrWidth + 1)
  ) u_sync_wptr (
    .clk_i (out_clk_i),
    .rst_ni(out_rst_ni),
    .data_i(wgray_q),
    .data_o(wgray_in_r)
  );

  // The Gray registers carry the binary pointers.
  `CV_ASSERT(WriteGray_A, wgray_q == gray(wptr_q))
  // A word had to wait for a place.
  `CV_COVER(Full_C, in_valid_i && !in_ready_o)

endmodule
