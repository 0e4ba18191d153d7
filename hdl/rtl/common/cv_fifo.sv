// Synchronous FIFO on a register file or distributed RAM.
//
// Function     Words leave in the order in which they came. Depth may be any number from 1.
// Latency      1 cycle from push to out_valid_o.
// Throughput   1 word a cycle, also when full and popped in the same cycle is not needed: a full
//              FIFO takes no word in the cycle in which it gives one.
// Comb. paths  none from input to output: in_ready_o, out_valid_o come from registers; out_data_o
//              is the asynchronous read of the memory.
// Stalls       in_ready_o is low while `Depth` words are held.

`include "culvert_assert.svh"

module cv_fifo #(
  parameter type         T     = logic [7:0],
  parameter int unsigned Depth = 4,
  localparam int unsigned CountWidth = $clog2(Depth + 1)
) (
  input logic clk_i,
  input logic rst_ni,

  input  logic in_valid_i,
  output logic in_ready_o,
  input  T     in_data_i,

  output logic out_valid_o,
  input  logic out_ready_i,
  output T     out_data_o,

  // Number of words held.
  output logic [CountWidth-1:0] count_o
);

  localparam int unsigned PtrWidth = (Depth > 1) ? $clog2(Depth) : 1;
  typedef logic [PtrWidth-1:0] ptr_t;

  T mem_q[Depth];

  ptr_t wptr_d, wptr_q, rptr_d, rptr_q;
  logic [CountWidth-1:0] count_d, count_q;

  logic push, pop;
  assign push = in_valid_i && in_ready_o;
  assign pop  = out_valid_o && out_ready_i;

  assign in_ready_o  = count_q != CountWidth'(Depth);
  assign out_valid_o = count_q != '0;
  assign out_data_o  = mem_q[rptr_q];
  assign count_o     = count_q;

  function automatic ptr_t next(ptr_t ptr);
    return (ptr == ptr_t'(Depth - 1)) ? '0 : ptr + 1'b1;
  endfunction

  always_comb begin
    wptr_d  = push ? next(wptr_q) : wptr_q;
    rptr_d  = pop ? next(rptr_q) : rptr_q;
    count_d = count_q + CountWidth'(push) - CountWidth'(pop);
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      wptr_q  <= '0;
      rptr_q  <= '0;
      count_q <= '0;
    end else begin
      wptr_q  <= wptr_d;
      rptr_q  <= rptr_d;
      count_q <= count_d;
    end
  end

  always_ff @(posedge clk_i) begin
    if (push) mem_q[wptr_q] <= in_data_i;
  end

  // Never more words than places.
  `CV_ASSERT(CountInRange_A, count_q <= CountWidth'(Depth))
  // The pointers lie inside the memory.
  `CV_ASSERT(WptrInRange_A, 32'(wptr_q) < Depth)
  `CV_ASSERT(RptrInRange_A, 32'(rptr_q) < Depth)
  // The count is the distance between the pointers.
  `CV_ASSERT(CountIsDistance_A,
             (32'(rptr_q) + 32'(count_q) == 32'(wptr_q)) ||
             (32'(rptr_q) + 32'(count_q) == 32'(wptr_q) + Depth))
  // An offered word stays until it is taken.
  `CV_ASSERT_STABLE(OutStable_A, out_valid_o, out_ready_i, out_data_o)
  // A word had to wait for a place.
  `CV_COVER(Full_C, in_valid_i && !in_ready_o)
  // The last word left while none came.
  `CV_COVER(Emptied_C, pop && !push && count_q == CountWidth'(1))

endmodule
