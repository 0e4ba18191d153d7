// Packets wait here until a verdict on them comes: keep, with a header to go on with, or drop.
//
// Function     One verdict a packet, in the packets' order; a verdict may come before its packet,
//              while it comes in, or long after it. A kept packet leaves with the verdict's header;
//              of a dropped one nothing shows.
// Parameters   Hdr (header of kept packets), Depth (beats; above 32 in block RAM), Packets (verdicts
//              that may wait for their packets).
// Latency      1 cycle from the later one of a packet's first beat and its verdict.
// Throughput   1 beat a cycle; a dropped packet takes as many cycles as it has beats.
// Comb. paths  none from input to output or back.
// Stalls       in_ready_o is low while the memory is full; verdict_ready_o while `Packets` verdicts
//              wait. A packet whose verdict depends on its last beat must fit into `Depth`.

`include "culvert_assert.svh"

module cv_hold
  import culvert_pkg::*;
#(
  parameter type         Hdr     = logic [7:0],
  parameter int unsigned Depth   = 16,
  parameter int unsigned Packets = 4
) (
  input logic clk_i,
  input logic rst_ni,

  input  logic  in_valid_i,
  output logic  in_ready_o,
  input  beat_t in_beat_i,

  input  logic verdict_valid_i,
  output logic verdict_ready_o,
  input  logic verdict_keep_i,
  input  Hdr   verdict_hdr_i,

  output logic  out_valid_o,
  input  logic  out_ready_i,
  output beat_t out_beat_o,
  output Hdr    out_hdr_o    // the same during all beats of a packet
);

  typedef struct packed {
    logic keep;
    Hdr   hdr;
  } verdict_t;

  logic data_valid, verdict_valid, pop;
  verdict_t verdict_in, verdict;

  assign verdict_in  = '{keep: verdict_keep_i, hdr: verdict_hdr_i};
  assign out_valid_o = data_valid && verdict_valid && verdict.keep;
  assign out_hdr_o   = verdict.hdr;
  assign pop         = data_valid && verdict_valid && (out_ready_i || !verdict.keep);

  if (Depth > 32) begin : gen_ram
    cv_fifo_ram #(
      .T    (beat_t),
      .Depth(Depth)
    ) u_data (
      .clk_i,
      .rst_ni,
      .in_valid_i,
      .in_ready_o,
      .in_data_i  (in_beat_i),
      .out_valid_o(data_valid),
      .out_ready_i(pop),
      .out_data_o (out_beat_o)
    );
  end else begin : gen_regs
    cv_fifo #(
      .T    (beat_t),
      .Depth(Depth)
    ) u_data (
      .clk_i,
      .rst_ni,
      .in_valid_i,
      .in_ready_o,
      .in_data_i  (in_beat_i),
      .out_valid_o(data_valid),
      .out_ready_i(pop),
      .out_data_o (out_beat_o),
      .count_o    ()
    );
  end

  cv_fifo #(
    .T    (verdict_t),
    .Depth(Packets)
  ) u_verdicts (
    .clk_i,
    .rst_ni,
    .in_valid_i (verdict_valid_i),
    .in_ready_o (verdict_ready_o),
    .in_data_i  (verdict_in),
    .out_valid_o(verdict_valid),
    .out_ready_i(pop && out_beat_o.last),
    .out_data_o (verdict),
    .count_o    ()
  );

  // Nothing shows of a packet without a verdict, or with one against it.
  `CV_ASSERT(ShownIsKept_A, !out_valid_o || (verdict_valid && verdict.keep))
  // An offered beat and its header stay until the beat is taken.
  `CV_ASSERT_STABLE(OutStable_A, out_valid_o, out_ready_i, ({out_beat_o, out_hdr_o}))

endmodule
