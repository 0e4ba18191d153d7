// Security policy database: policies in a hash table, looked up by several clients at once.
//
// Function     A client asks with a packet's selector; the answer is the matching policy of the
//              smallest priority, of equal ones that of the lowest shape, or one with `valid` clear.
//              For each valid shape of the packet's version the selector is masked and hashed
//              (pearson_pkg: its bytes in the order of selector_t, of IPv4 addresses the four that
//              count, then the number of the shape); the policies of that bucket are compared
//              exactly, one after the other.
// Parameters   N (clients), HashBytes (bytes hashed a cycle), MaxChain (policies of a bucket that are
//              looked at; a longer chain is cut, so that a broken one stops nobody).
// Latency      3 + s * (9 + ceil(b / HashBytes)) cycles with s shapes of b bytes (IPv4 15, IPv6 39) and
//              one policy a bucket, 4 more for each further policy, if no other client is in the way.
// Throughput   One packet a client at a time: IPv4 with two shapes 37 cycles. Each of the memories
//              serves one client a cycle.
// Comb. paths  none from input to output.
// Stalls       look_ready_o is low while a look-up of that client runs, and for 2^BucketBits cycles
//              after reset, in which every bucket is marked empty.
// Table port   One access at a time: the inputs stay from tbl_valid_i to the one cycle of tbl_ready_o,
//              in which tbl_data_o is valid. A record is written in one piece.

`include "culvert_assert.svh"

module cv_spd
  import gateway_pkg::*;
#(
  parameter  int unsigned N         = 4,
  parameter  int unsigned HashBytes = 2,
  parameter  int unsigned MaxChain  = 64,
  localparam int unsigned TblBits   = $bits(policy_t)
) (
  input logic clk_i,
  input logic rst_ni,

  input  logic      [N-1:0] look_valid_i,
  output logic      [N-1:0] look_ready_o,
  input  selector_t [N-1:0] look_i,
  output logic      [N-1:0] found_valid_o,  // for one cycle, to be taken at once
  output policy_t   [N-1:0] found_o,

  input  logic               tbl_valid_i,
  output logic               tbl_ready_o,
  input  logic               tbl_write_i,
  input  logic [1:0]         tbl_table_i,  // 0: buckets, 1: policies, 2: shapes
  input  logic [15:0]        tbl_index_i,
  input  logic [TblBits-1:0] tbl_data_i,   // the record in the lowest bits
  output logic [TblBits-1:0] tbl_data_o
);

endmodule
