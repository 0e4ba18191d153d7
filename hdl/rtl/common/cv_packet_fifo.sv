// FIFO for packets with an internal header: beats in one memory, headers in another.
//
// Function     The header is taken with a packet's first beat and shown with every beat of it at
//              the output. Beats of a packet may leave before its last one has come.
// Parameters   Hdr (header type), Depth (beats; above 32 in block RAM), Packets (headers held).
// Latency      1 cycle.
// Throughput   1 beat a cycle.
// Comb. paths  in_ready_o depends on registers only.
// Stalls       in_ready_o is low while the beats' memory is full, and before a packet's first beat
//              while `Packets` packets are held.

`include "culvert_assert.svh"

module cv_packet_fifo
  import culvert_pkg::*;
#(
  parameter  type         Hdr        = logic [7:0],
  parameter  int unsigned Depth      = 16,
  parameter  int unsigned Packets    = 2,
  localparam int unsigned CountWidth = $clog2(Packets + 1)
) (
  input logic clk_i,
  input logic rst_ni,

  input  logic  in_valid_i,
  output logic  in_ready_o,
  input  beat_t in_beat_i,
  input  Hdr    in_hdr_i,    // read with a packet's first beat

  output logic  out_valid_o,
  input  logic  out_ready_i,
  output beat_t out_beat_o,
  output Hdr    out_hdr_o,   // the same during all beats of a packet

  // Packets of which at least one beat is held or still to come.
  output logic [CountWidth-1:0] packets_o
);

  logic data_ready, hdr_ready, data_valid, hdr_valid, first_q;
  logic push, pop;

  assign in_ready_o = data_ready && (!first_q || hdr_ready);
  assign push = in_valid_i && in_ready_o;
  assign out_valid_o = data_valid && hdr_valid;
  assign pop = out_valid_o && out_ready_i;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) first_q <= 1'b1;
    else if (push) first_q <= in_beat_i.last;
  end

  if (Depth > 32) begin : gen_ram
    cv_fifo_ram #(
      .T    (beat_t),
      .Depth(Depth)
    ) u_data (
      .clk_i,
      .rst_ni,
      .in_valid_i (push),
      .in_ready_o (data_ready),
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
      .in_valid_i (push),
      .in_ready_o (data_ready),
      .in_data_i  (in_beat_i),
      .out_valid_o(data_valid),
      .out_ready_i(pop),
      .out_data_o (out_beat_o),
      .count_o    ()
    );
  end

  cv_fifo #(
    .T    (Hdr),
    .Depth(Packets)
  ) u_hdr (
    .clk_i,
    .rst_ni,
    .in_valid_i (push && first_q),
    .in_ready_o (hdr_ready),
    .in_data_i  (in_hdr_i),
    .out_valid_o(hdr_valid),
    .out_ready_i(pop && out_beat_o.last),
    .out_data_o (out_hdr_o),
    .count_o    (packets_o)
  );

  // A packet had to wait for a place for its header, while beats had room; a beat for its own.
  `CV_COVER(HeadersFull_C, in_valid_i && first_q && data_ready && !hdr_ready)
  `CV_COVER(BeatsFull_C, in_valid_i && !data_ready)
  // A packet began to leave before its end had come.
  `CV_COVER(CutThrough_C, pop && !first_q && packets_o == CountWidth'(1))
  // A beat never shows without its header.
  `CV_ASSERT(BeatHasHeader_A, !data_valid || hdr_valid)
  // An offered beat and its header stay until the beat is taken.
  `CV_ASSERT_STABLE(OutStable_A, out_valid_o, out_ready_i, ({out_beat_o, out_hdr_o}))

endmodule
