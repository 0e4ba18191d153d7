// Synchronous FIFO on block RAM: a memory with a registered read, and three words of output buffer
// that hide its latency.
//
// Function     As cv_fifo. `Depth` is the size of the memory; the output buffer holds up to three
//              words more.
// Latency      1 cycle while the memory is empty (a word then goes straight to the buffer), else
//              the time that the words before it take.
// Throughput   1 word a cycle.
// Comb. paths  none from input to output.
// Stalls       in_ready_o is low while the memory holds `Depth` words.

`include "culvert_assert.svh"

module cv_fifo_ram #(
  parameter type         T     = logic [7:0],
  parameter int unsigned Depth = 512
) (
  input logic clk_i,
  input logic rst_ni,

  input  logic in_valid_i,
  output logic in_ready_o,
  input  T     in_data_i,

  output logic out_valid_o,
  input  logic out_ready_i,
  output T     out_data_o
);

  localparam int unsigned BufferDepth = 3;
  localparam int unsigned PtrWidth = (Depth > 1) ? $clog2(Depth) : 1;
  localparam int unsigned CountWidth = $clog2(Depth + 1);
  typedef logic [PtrWidth-1:0] ptr_t;

  T mem_q[Depth];
  T rdata_q;

  ptr_t wptr_q, rptr_q;
  logic [CountWidth-1:0] count_q;  // words in the memory that no read has been issued for
  logic reading_q;  // rdata_q holds a word for the buffer

  logic push, direct, write, read;
  logic buf_in_valid, buf_in_ready;
  logic [1:0] buf_count;
  T buf_in_data;

  function automatic ptr_t next(ptr_t ptr);
    return (ptr == ptr_t'(Depth - 1)) ? '0 : ptr + 1'b1;
  endfunction

  assign in_ready_o = count_q != CountWidth'(Depth);
  assign push = in_valid_i && in_ready_o;
  // A word may pass the memory by only when nothing is before it there.
  assign direct = push && count_q == '0 && !reading_q && buf_in_ready;
  assign write = push && !direct;
  assign read = count_q != '0 && (buf_count + 2'(reading_q)) < 2'(BufferDepth);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      wptr_q    <= '0;
      rptr_q    <= '0;
      count_q   <= '0;
      reading_q <= 1'b0;
    end else begin
      if (write) wptr_q <= next(wptr_q);
      if (read) rptr_q <= next(rptr_q);
      count_q   <= count_q + CountWidth'(write) - CountWidth'(read);
      reading_q <= read;
    end
  end

  // No reset on the memory and its read register, so that they map to block RAM.
  always_ff @(posedge clk_i) begin
    if (write) mem_q[wptr_q] <= in_data_i;
    if (read) rdata_q <= mem_q[rptr_q];
  end

  assign buf_in_valid = reading_q || direct;
  assign buf_in_data  = reading_q ? rdata_q : in_data_i;

  cv_fifo #(
    .T    (T),
    .Depth(BufferDepth)
  ) u_buffer (
    .clk_i,
    .rst_ni,
    .in_valid_i (buf_in_valid),
    .in_ready_o (buf_in_ready),
    .in_data_i  (buf_in_data),
    .out_valid_o,
    .out_ready_i,
    .out_data_o,
    .count_o    (buf_count)
  );

  // A word had to wait for a place in the memory, passed it by, and went through it.
  `CV_COVER(Full_C, in_valid_i && !in_ready_o)
  `CV_COVER(Direct_C, direct)
  `CV_COVER(Through_C, write && read)
  // A word that was read from the memory always finds room in the buffer.
  `CV_ASSERT(ReadFindsRoom_A, !reading_q || buf_in_ready)
  // Never more words than places.
  `CV_ASSERT(CountInRange_A, count_q <= CountWidth'(Depth))
  // The pointers lie inside the memory.
  `CV_ASSERT(WptrInRange_A, 32'(wptr_q) < Depth)
  `CV_ASSERT(RptrInRange_A, 32'(rptr_q) < Depth)
  // The count is the distance between the pointers.
  `CV_ASSERT(CountIsDistance_A,
             (32'(rptr_q) + 32'(count_q) == 32'(wptr_q)) ||
             (32'(rptr_q) + 32'(count_q) == 32'(wptr_q) + Depth))

endmodule
