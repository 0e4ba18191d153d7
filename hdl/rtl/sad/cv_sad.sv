// Security association database of one direction, in a clock domain of its own, for several clients.
//
// Function     Holds SAs and their states, and does each packet's read-modify-write: SadSend takes
//              the next sequence number, SadFind finds an inbound SA and says whether the number may
//              be new, SadAccept accepts a number exactly once. Counts lifetimes and raises events.
// Lifetimes    A limit of n packets lets n packets through; one of n bytes lets packets through while
//              fewer than n bytes have gone. An event comes with the packet that reaches a limit (a
//              hard one stands for the soft one too), EventNumbers with the first packet refused.
// Parameters   N (clients), Inbound (SadFind and SadAccept, else SadSend; another operation gets
//              DropUnsupported), HashBytes (see cv_pearson).
// Latency      With both clocks alike: 12 cycles from req to rsp; SadFind 9 + ceil(b / HashBytes)
//              more (b: 8 bytes IPv4, 20 bytes IPv6), and 6 for each further SA of its bucket.
// Throughput   A client has one request under way. Together: one a cycle of sad_clk_i for different
//              SAs, one in 4 for the same SA.
// Comb. paths  none from input to output.
// Stalls       req_ready_o is low while the client's request is under way. No request is answered for
//              2^BucketBits cycles after reset, in which every record is marked empty.
// Clocks       Any ratio. Both resets are asserted together. Requests, events and the table port
//              belong to clk_i.
// Events       Kept in a FIFO of 16. Where it is full the event comes with a later packet of its SA,
//              and event_missed_o is set until event_clear_i: look at the states then.
// Table port   As cv_spd's. Writing an SA leaves its state alone. Accesses go through the same
//              pipeline as packets do, so a state is written between two packets, never under one.

`include "culvert_assert.svh"

module cv_sad
  import gateway_pkg::*;
#(
  parameter  int unsigned N         = 4,
  parameter  bit          Inbound   = 1'b0,
  parameter  int unsigned HashBytes = 2,
  localparam int unsigned TblBits   = $bits(sa_t)
) (
  input logic clk_i,
  input logic rst_ni,
  input logic sad_clk_i,
  input logic sad_rst_ni,

  input  logic     [N-1:0] req_valid_i,
  output logic     [N-1:0] req_ready_o,
  input  sad_req_t [N-1:0] req_i,
  output logic     [N-1:0] rsp_valid_o,
  input  logic     [N-1:0] rsp_ready_i,
  output sad_rsp_t [N-1:0] rsp_o,

  output logic      event_valid_o,
  input  logic      event_ready_i,
  output sa_event_t event_o,
  output logic      event_missed_o,
  input  logic      event_clear_i,

  input  logic               tbl_valid_i,
  output logic               tbl_ready_o,
  input  logic               tbl_write_i,
  input  logic [1:0]         tbl_table_i,  // 0: SAs, 1: states, 2: buckets (inbound)
  input  logic [15:0]        tbl_index_i,
  input  logic [TblBits-1:0] tbl_data_i,   // the record in the lowest bits
  output logic [TblBits-1:0] tbl_data_o
);

endmodule
