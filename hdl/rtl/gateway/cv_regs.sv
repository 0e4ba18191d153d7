// Registers and table access of the gateway, behind AXI4-Lite.
//
// Function     Identification, counters, events, and one record of one table at a time, as
//              doc/registers.md lists them (constants in gateway_regs_pkg). Index 0 of all paired
//              ports is outbound, 1 inbound.
// Parameters   the gateway's module counts, only to be read out; Sources (of drops, each direction).
// Latency      A read is answered 2 cycles after its address, one of a counter 4; a write 1 cycle
//              after address and data.
// Throughput   One access at a time.
// Comb. paths  none from input to output.
// Stalls       While a table access runs (STATUS bit 0), writes to INDEX, COMMAND and the record are
//              ignored. Counters are exact; what happens shows within 64 cycles.

`include "culvert_assert.svh"

module cv_regs
  import gateway_pkg::*;
  import gateway_regs_pkg::*;
#(
  parameter int unsigned NumPolicy      = 4,
  parameter int unsigned NumSad         = 4,
  parameter int unsigned NumAes         = 4,
  parameter int unsigned NumDes         = 0,
  parameter int unsigned NumGcm         = 0,
  parameter int unsigned NumSha1        = 4,
  parameter int unsigned NumSha256      = 0,
  parameter int unsigned RoundsPerCycle = 2,
  parameter bit          Ecb            = 1'b0,
  parameter bit          Serial         = 1'b0,
  parameter int unsigned Sources        = 4
) (
  input logic clk_i,
  input logic rst_ni,

  input  logic        axil_awvalid_i,
  output logic        axil_awready_o,
  input  logic [15:0] axil_awaddr_i,
  input  logic        axil_wvalid_i,
  output logic        axil_wready_o,
  input  logic [31:0] axil_wdata_i,
  input  logic [3:0]  axil_wstrb_i,
  output logic        axil_bvalid_o,
  input  logic        axil_bready_i,
  output logic [1:0]  axil_bresp_o,
  input  logic        axil_arvalid_i,
  output logic        axil_arready_o,
  input  logic [15:0] axil_araddr_i,
  output logic        axil_rvalid_o,
  input  logic        axil_rready_i,
  output logic [31:0] axil_rdata_o,
  output logic [1:0]  axil_rresp_o,

  // Table ports of cv_spd and cv_sad: `spd_` and `sad_`, each outbound and inbound.
  output logic [1:0]                    spd_valid_o,
  input  logic [1:0]                    spd_ready_i,
  input  logic [1:0][$bits(policy_t)-1:0] spd_data_i,
  output logic [1:0]                    sad_valid_o,
  input  logic [1:0]                    sad_ready_i,
  input  logic [1:0][$bits(sa_t)-1:0]   sad_data_i,
  // Common to all four.
  output logic                          tbl_write_o,
  output logic [1:0]                    tbl_table_o,
  output logic [15:0]                   tbl_index_o,
  output logic [$bits(sa_t)-1:0]        tbl_data_o,  // cv_spd takes the lowest bits

  // Events of cv_sad.
  input  logic      [1:0] event_valid_i,
  output logic      [1:0] event_ready_o,
  input  sa_event_t [1:0] event_i,
  input  logic      [1:0] event_missed_i,
  output logic      [1:0] event_clear_o,
  output logic            irq_o,  // an event waits, or one was missed

  // What passes the gateway's ports in this cycle.
  input logic [1:0]      packet_in_i,   // a last beat came in
  input logic [1:0][4:0] bytes_in_i,    // valid bytes of a beat that came in, else 0
  input logic [1:0]      packet_out_i,
  input logic [1:0][4:0] bytes_out_i,
  // Drops of every module that can drop.
  input logic  [1:0][Sources-1:0] drop_valid_i,
  input drop_e [1:0][Sources-1:0] drop_reason_i
);

endmodule
