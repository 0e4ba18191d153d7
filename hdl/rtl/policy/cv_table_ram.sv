// Memory of a table: one read and one write port, and every record zero after reset.
//
// Function     A record that is read in the cycle in which it is written is the old one.
// Parameters   T (record), Bits (2^Bits records).
// Latency      A read: 1 cycle.
// Throughput   One read and one write a cycle.
// Comb. paths  none.
// Stalls       ready_o is low for 2^Bits cycles after reset, in which the records are zeroed; nothing
//              may be written before, and what is read is of no use.

`include "culvert_assert.svh"

module cv_table_ram #(
  parameter type         T    = logic [7:0],
  parameter int unsigned Bits = 4
) (
  input logic clk_i,
  input logic rst_ni,

  output logic ready_o,

  input logic            write_i,
  input logic [Bits-1:0] write_index_i,
  input T                write_data_i,

  input  logic [Bits-1:0] read_index_i,
  output T                read_data_o
);

  T mem_q[2**Bits];
  T read_q;
  logic [Bits:0] swept_q;  // the highest bit: all of them

  assign ready_o = swept_q[Bits];
  assign read_data_o = read_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) swept_q <= '0;
    else if (!ready_o) swept_q <= swept_q + 1'b1;
  end

  // No reset on the memory and its read register, so that they map to block RAM.
  always_ff @(posedge clk_i) begin
    if (write_i || !ready_o) begin
      mem_q[ready_o ? write_index_i : swept_q[Bits-1:0]] <= ready_o ? write_data_i : '0;
    end
    read_q <= mem_q[read_index_i];
  end

  // Nothing is written while the records are zeroed.
  `CV_ASSERT(WriteWaits_A, !write_i || ready_o)

endmodule
