// Memory of a table: one read and one write port, and every record marked empty after reset.
//
// Function     Block RAM does not say what a read gives of a record that is written in the same cycle.
//              With ReadsOld it is the old record, for a register and a mux for each bit. Without, whoever
//              uses the memory sees to it that nobody needs such a read; simulation gives it inverted.
// Parameters   T (record), Bits (2^Bits records), Cleared (so many bits of a record, from the highest, are
//              zero after reset; the others are then what write_data_i was), ReadsOld.
// Latency      A read: 1 cycle.
// Throughput   One read and one write a cycle.
// Comb. paths  none.
// Stalls       ready_o is low for 2^Bits cycles after reset, in which the records are cleared; nothing
//              may be written before, and what is read is of no use.

`include "culvert_assert.svh"

module cv_table_ram #(
  parameter type         T        = logic [7:0],
  parameter int unsigned Bits     = 4,
  parameter int unsigned Cleared  = $bits(T),
  parameter bit          ReadsOld = 1'b1
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

  (* no_rw_check = !ReadsOld *) T mem_q[2**Bits];
  T read_q;
  logic [$bits(T)-1:0] data;
  logic [Bits:0] swept_q;  // the highest bit: all of them
  logic [Bits-1:0] index;
  logic writes;

  assign ready_o = swept_q[Bits];
  assign read_data_o = read_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) swept_q <= '0;
    else if (!ready_o) swept_q <= swept_q + 1'b1;
  end

  assign writes = write_i || !ready_o;
  assign index  = ready_o ? write_index_i : swept_q[Bits-1:0];
  always_comb begin
    data = write_data_i;
    if (!ready_o) data[$bits(T)-1-:Cleared] = '0;
  end

  // No reset on the memory and its read register, so that they map to block RAM.
  always_ff @(posedge clk_i) begin
    if (writes) mem_q[index] <= T'(data);
    read_q <= mem_q[read_index_i];
`ifndef SYNTHESIS
    if (!ReadsOld && writes && index == read_index_i) read_q <= T'(~mem_q[read_index_i]);
`endif
  end

  // Nothing is written while the records are cleared.
  `CV_ASSERT(WriteWaits_A, !write_i || ready_o)

endmodule
