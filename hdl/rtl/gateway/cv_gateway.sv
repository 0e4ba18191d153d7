// An IPsec gateway: IP packets on AXI4-Stream, tables and counters on AXI4-Lite.
//
// Function
//   prot_rx   -> cv_axis_in -> cv_outbound -> cv_axis_out -> unprot_tx     packets become ESP
//   prot_tx   <- cv_axis_out <- cv_inbound <- cv_axis_in  <- unprot_rx     ESP becomes packets
//                                   |
//   axil, irq_o <-> cv_regs <-> SPD and SAD of either direction, counters, events
//
//              A packet is an IPv4 or IPv6 packet without a link header. `prot` is the protected
//              side, in clear; `unprot` the unprotected one (RFC 4301, section 3.1). After reset
//              both SPDs are empty, so everything is dropped until software loads them.
// Parameters   Modules of each kind, the same numbers in both directions (see cv_outbound), and
//              RoundsPerCycle, Ecb, Serial, FifoBeats. A number may be 0; SAs that ask for what is
//              missing have their packets dropped as unsupported. HasInbound (0: the outbound half
//              alone, as in the published figures; the unprotected input then takes nothing, and
//              inbound tables read as 0).
// Latency, throughput: doc/gateway.md.
// Comb. paths  none from any input to any output.
// Stalls       Inputs wait while their direction is full, outputs as their takers want. The two
//              directions do not depend on one another.
// Clocks       clk_i for all but the SADs, which run on sad_clk_i, at any ratio. Both resets are
//              asserted together, and each is released in step with its clock.

`include "culvert_assert.svh"

module cv_gateway
  import culvert_pkg::*;
  import gateway_pkg::*;
#(
  parameter int unsigned NumPolicy      = 2,
  parameter int unsigned NumSad         = 2,
  parameter int unsigned NumAes         = 2,
  parameter int unsigned NumDes         = 1,
  parameter int unsigned NumGcm         = 1,
  parameter int unsigned NumSha1        = 2,
  parameter int unsigned NumSha256      = 1,
  parameter int unsigned RoundsPerCycle = 2,
  parameter bit          Ecb            = 1'b0,
  parameter bit          Serial         = 1'b0,
  parameter int unsigned FifoBeats      = 512,
  parameter bit          HasInbound     = 1'b1
) (
  input logic clk_i,
  input logic rst_ni,
  input logic sad_clk_i,
  input logic sad_rst_ni,

  // Protected side.
  input  logic                prot_rx_tvalid_i,
  output logic                prot_rx_tready_o,
  input  logic [BusBits-1:0]  prot_rx_tdata_i,
  input  logic [BusBytes-1:0] prot_rx_tkeep_i,
  input  logic                prot_rx_tlast_i,
  output logic                prot_tx_tvalid_o,
  input  logic                prot_tx_tready_i,
  output logic [BusBits-1:0]  prot_tx_tdata_o,
  output logic [BusBytes-1:0] prot_tx_tkeep_o,
  output logic                prot_tx_tlast_o,

  // Unprotected side.
  input  logic                unprot_rx_tvalid_i,
  output logic                unprot_rx_tready_o,
  input  logic [BusBits-1:0]  unprot_rx_tdata_i,
  input  logic [BusBytes-1:0] unprot_rx_tkeep_i,
  input  logic                unprot_rx_tlast_i,
  output logic                unprot_tx_tvalid_o,
  input  logic                unprot_tx_tready_i,
  output logic [BusBits-1:0]  unprot_tx_tdata_o,
  output logic [BusBytes-1:0] unprot_tx_tkeep_o,
  output logic                unprot_tx_tlast_o,

  // Registers (doc/registers.md).
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
  output logic        irq_o  // an event waits
);

  // Drops of either direction, as many lines as the one with more sources has.
  localparam int unsigned NumCipher = NumAes + NumDes + NumGcm;
  localparam int unsigned NumNone = (NumGcm != 0) ? NumGcm : 1;
  localparam int unsigned OutSources = NumPolicy + NumSad + NumCipher;
  localparam int unsigned InSources = NumSad + NumSha1 + NumSha256 + NumNone + NumCipher +
                                      2 * NumPolicy;
  localparam int unsigned Sources = (OutSources > InSources) ? OutSources : InSources;

  // Of all pairs: 0 is outbound, 1 inbound.
  logic [1:0] in_valid, in_ready, out_valid, out_ready;
  beat_t [1:0] in_beat, out_beat;

  logic [1:0] spd_valid, spd_ready, sad_valid, sad_ready;
  logic [1:0][$bits(policy_t)-1:0] spd_data;
  logic [1:0][$bits(sa_t)-1:0] sad_data;
  logic tbl_write;
  logic [1:0] tbl_table;
  logic [15:0] tbl_index;
  logic [$bits(sa_t)-1:0] tbl_data;

  logic [1:0] event_valid, event_ready, event_missed, event_clear;
  sa_event_t [1:0] sa_event;

  logic [OutSources-1:0] out_drop_valid;
  drop_e [OutSources-1:0] out_drop_reason;
  logic [InSources-1:0] in_drop_valid;
  drop_e [InSources-1:0] in_drop_reason;
  logic [1:0][Sources-1:0] drop_valid;
  drop_e [1:0][Sources-1:0] drop_reason;

  // Ports: packets of a direction come in at one side and leave at the other.
  localparam int unsigned Directions = HasInbound ? 2 : 1;
  logic [1:0] rx_tvalid, rx_tready, rx_tlast, tx_tvalid, tx_tready, tx_tlast;
  logic [1:0][BusBits-1:0] rx_tdata, tx_tdata;
  logic [1:0][BusBytes-1:0] rx_tkeep, tx_tkeep;

  assign rx_tvalid = {unprot_rx_tvalid_i, prot_rx_tvalid_i};
  assign rx_tdata  = {unprot_rx_tdata_i, prot_rx_tdata_i};
  assign rx_tkeep  = {unprot_rx_tkeep_i, prot_rx_tkeep_i};
  assign rx_tlast  = {unprot_rx_tlast_i, prot_rx_tlast_i};
  assign tx_tready = {prot_tx_tready_i, unprot_tx_tready_i};
  assign {unprot_rx_tready_o, prot_rx_tready_o} = rx_tready;
  assign {prot_tx_tvalid_o, unprot_tx_tvalid_o} = tx_tvalid;
  assign {prot_tx_tdata_o, unprot_tx_tdata_o}   = tx_tdata;
  assign {prot_tx_tkeep_o, unprot_tx_tkeep_o}   = tx_tkeep;
  assign {prot_tx_tlast_o, unprot_tx_tlast_o}   = tx_tlast;

  for (genvar d = 0; d < Directions; d++) begin : gen_port
    cv_axis_in #(
      .MaxBytes(MaxBytes)
    ) u_rx (
      .clk_i,
      .rst_ni,
      .axis_tvalid_i(rx_tvalid[d]),
      .axis_tready_o(rx_tready[d]),
      .axis_tdata_i (rx_tdata[d]),
      .axis_tkeep_i (rx_tkeep[d]),
      .axis_tlast_i (rx_tlast[d]),
      .out_valid_o  (in_valid[d]),
      .out_ready_i  (in_ready[d]),
      .out_beat_o   (in_beat[d])
    );

    cv_axis_out u_tx (
      .clk_i,
      .rst_ni,
      .in_valid_i   (out_valid[d]),
      .in_ready_o   (out_ready[d]),
      .in_beat_i    (out_beat[d]),
      .axis_tvalid_o(tx_tvalid[d]),
      .axis_tready_i(tx_tready[d]),
      .axis_tdata_o (tx_tdata[d]),
      .axis_tkeep_o (tx_tkeep[d]),
      .axis_tlast_o (tx_tlast[d])
    );
  end

  cv_outbound #(
    .NumPolicy     (NumPolicy),
    .NumSad        (NumSad),
    .NumAes        (NumAes),
    .NumDes        (NumDes),
    .NumGcm        (NumGcm),
    .NumSha1       (NumSha1),
    .NumSha256     (NumSha256),
    .RoundsPerCycle(RoundsPerCycle),
    .Ecb           (Ecb),
    .Serial        (Serial),
    .FifoBeats     (FifoBeats)
  ) u_outbound (
    .clk_i,
    .rst_ni,
    .sad_clk_i,
    .sad_rst_ni,
    .in_valid_i    (in_valid[0]),
    .in_ready_o    (in_ready[0]),
    .in_beat_i     (in_beat[0]),
    .out_valid_o   (out_valid[0]),
    .out_ready_i   (out_ready[0]),
    .out_beat_o    (out_beat[0]),
    .spd_valid_i   (spd_valid[0]),
    .spd_ready_o   (spd_ready[0]),
    .spd_data_o    (spd_data[0]),
    .sad_valid_i   (sad_valid[0]),
    .sad_ready_o   (sad_ready[0]),
    .sad_data_o    (sad_data[0]),
    .tbl_write_i   (tbl_write),
    .tbl_table_i   (tbl_table),
    .tbl_index_i   (tbl_index),
    .tbl_data_i    (tbl_data),
    .event_valid_o (event_valid[0]),
    .event_ready_i (event_ready[0]),
    .event_o       (sa_event[0]),
    .event_missed_o(event_missed[0]),
    .event_clear_i (event_clear[0]),
    .drop_valid_o  (out_drop_valid),
    .drop_reason_o (out_drop_reason)
  );

  if (HasInbound) begin : gen_inbound
    cv_inbound #(
      .NumPolicy     (NumPolicy),
      .NumSad        (NumSad),
      .NumAes        (NumAes),
      .NumDes        (NumDes),
      .NumGcm        (NumGcm),
      .NumSha1       (NumSha1),
      .NumSha256     (NumSha256),
      .RoundsPerCycle(RoundsPerCycle),
      .Ecb           (Ecb),
      .Serial        (Serial),
      .FifoBeats     (FifoBeats)
    ) u_inbound (
      .clk_i,
      .rst_ni,
      .sad_clk_i,
      .sad_rst_ni,
      .in_valid_i    (in_valid[1]),
      .in_ready_o    (in_ready[1]),
      .in_beat_i     (in_beat[1]),
      .out_valid_o   (out_valid[1]),
      .out_ready_i   (out_ready[1]),
      .out_beat_o    (out_beat[1]),
      .spd_valid_i   (spd_valid[1]),
      .spd_ready_o   (spd_ready[1]),
      .spd_data_o    (spd_data[1]),
      .sad_valid_i   (sad_valid[1]),
      .sad_ready_o   (sad_ready[1]),
      .sad_data_o    (sad_data[1]),
      .tbl_write_i   (tbl_write),
      .tbl_table_i   (tbl_table),
      .tbl_index_i   (tbl_index),
      .tbl_data_i    (tbl_data),
      .event_valid_o (event_valid[1]),
      .event_ready_i (event_ready[1]),
      .event_o       (sa_event[1]),
      .event_missed_o(event_missed[1]),
      .event_clear_i (event_clear[1]),
      .drop_valid_o  (in_drop_valid),
      .drop_reason_o (in_drop_reason)
    );
  end else begin : gen_no_inbound
    logic unused;
    assign unused = &{1'b0, rx_tvalid[1], rx_tdata[1], rx_tkeep[1], rx_tlast[1], tx_tready[1],
                      spd_valid[1], sad_valid[1], event_ready[1], event_clear[1]};
    assign rx_tready[1]       = 1'b0;
    assign tx_tvalid[1]       = 1'b0;
    assign tx_tdata[1]        = '0;
    assign tx_tkeep[1]        = '0;
    assign tx_tlast[1]        = 1'b0;
    assign in_valid[1]        = 1'b0;
    assign in_ready[1]        = 1'b0;
    assign in_beat[1]         = '0;
    assign out_valid[1]       = 1'b0;
    assign out_ready[1]       = 1'b0;
    assign out_beat[1]        = '0;
    assign spd_ready[1]       = 1'b1;
    assign spd_data[1]        = '0;
    assign sad_ready[1]       = 1'b1;
    assign sad_data[1]        = '0;
    assign event_valid[1]     = 1'b0;
    assign sa_event[1]        = '0;
    assign event_missed[1]    = 1'b0;
    assign in_drop_valid      = '0;
    assign in_drop_reason     = '0;
  end

  // What the counters count.
  logic [1:0] packet_in, packet_out;
  logic [1:0][4:0] bytes_in, bytes_out;

  for (genvar d = 0; d < 2; d++) begin : gen_count
    assign packet_in[d]  = in_valid[d] && in_ready[d] && in_beat[d].last;
    assign packet_out[d] = out_valid[d] && out_ready[d] && out_beat[d].last;
    assign bytes_in[d]   = (in_valid[d] && in_ready[d]) ? 5'(in_beat[d].tail) + 5'd1 : '0;
    assign bytes_out[d]  = (out_valid[d] && out_ready[d]) ? 5'(out_beat[d].tail) + 5'd1 : '0;
  end

  always_comb begin
    drop_valid  = '0;
    drop_reason = '0;
    drop_valid[0][OutSources-1:0]  = out_drop_valid;
    drop_reason[0][OutSources-1:0] = out_drop_reason;
    drop_valid[1][InSources-1:0]   = in_drop_valid;
    drop_reason[1][InSources-1:0]  = in_drop_reason;
  end

  cv_regs #(
    .NumPolicy     (NumPolicy),
    .NumSad        (NumSad),
    .NumAes        (NumAes),
    .NumDes        (NumDes),
    .NumGcm        (NumGcm),
    .NumSha1       (NumSha1),
    .NumSha256     (NumSha256),
    .RoundsPerCycle(RoundsPerCycle),
    .Ecb           (Ecb),
    .Serial        (Serial),
    .Sources       (Sources)
  ) u_regs (
    .clk_i,
    .rst_ni,
    .axil_awvalid_i,
    .axil_awready_o,
    .axil_awaddr_i,
    .axil_wvalid_i,
    .axil_wready_o,
    .axil_wdata_i,
    .axil_wstrb_i,
    .axil_bvalid_o,
    .axil_bready_i,
    .axil_bresp_o,
    .axil_arvalid_i,
    .axil_arready_o,
    .axil_araddr_i,
    .axil_rvalid_o,
    .axil_rready_i,
    .axil_rdata_o,
    .axil_rresp_o,
    .spd_valid_o   (spd_valid),
    .spd_ready_i   (spd_ready),
    .spd_data_i    (spd_data),
    .sad_valid_o   (sad_valid),
    .sad_ready_i   (sad_ready),
    .sad_data_i    (sad_data),
    .tbl_write_o   (tbl_write),
    .tbl_table_o   (tbl_table),
    .tbl_index_o   (tbl_index),
    .tbl_data_o    (tbl_data),
    .event_valid_i (event_valid),
    .event_ready_o (event_ready),
    .event_i       (sa_event),
    .event_missed_i(event_missed),
    .event_clear_o (event_clear),
    .irq_o,
    .packet_in_i   (packet_in),
    .bytes_in_i    (bytes_in),
    .packet_out_i  (packet_out),
    .bytes_out_i   (bytes_out),
    .drop_valid_i  (drop_valid),
    .drop_reason_i (drop_reason)
  );

endmodule
