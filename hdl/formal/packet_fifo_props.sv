// What an observer sees of cv_packet_fifo: no beat is lost, doubled or changed, none changes places,
// and each beat of a packet shows with the header that came with the packet's first beat.
//
// As fifo_props: the solver picks a beat, which is followed from the cycle in which it goes in to
// the cycle in which it comes out; the header that belongs to it is followed with it.

module packet_fifo_props #(
  parameter int unsigned Depth   = 4,
  parameter int unsigned Packets = 2
) (
  input logic       clk_i,
  input logic       rst_ni,
  input logic       in_valid_i,
  input logic [6:0] in_beat_i,
  input logic [1:0] in_hdr_i,
  input logic       out_ready_i,
  input logic       choose_i
);

  import culvert_pkg::*;

  localparam int unsigned CountWidth = $clog2(Packets + 1);
  typedef logic [1:0] hdr_t;

  logic in_ready, out_valid;
  beat_t in_beat, out_beat;
  hdr_t out_hdr;
  logic [CountWidth-1:0] packets;
  assign in_beat = in_beat_i;

  cv_packet_fifo #(
    .Hdr    (hdr_t),
    .Depth  (Depth),
    .Packets(Packets)
  ) u_dut (
    .clk_i,
    .rst_ni,
    .in_valid_i,
    .in_ready_o (in_ready),
    .in_beat_i  (in_beat),
    .in_hdr_i,
    .out_valid_o(out_valid),
    .out_ready_i,
    .out_beat_o (out_beat),
    .out_hdr_o  (out_hdr),
    .packets_o  (packets)
  );

  // Reset in the first cycle, and never again.
  logic started_q = 1'b0;
  always_ff @(posedge clk_i) started_q <= 1'b1;
  always_comb assume (rst_ni == started_q);

  logic push, pop, watch, watching_q;
  assign push = in_valid_i && in_ready;
  assign pop = out_valid && out_ready_i;
  assign watch = push && choose_i && !watching_q;

  logic first_q;             // the next beat is a packet's first
  hdr_t hdr_q, hdr;          // header of the packet that is going in
  logic [7:0] ahead_q, count;
  beat_t beat_q;
  hdr_t expect_q;
  assign hdr = first_q ? in_hdr_i : hdr_q;
  assign count = 8'(u_dut.gen_regs.u_data.count_q);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      first_q    <= 1'b1;
      hdr_q      <= '0;
      watching_q <= 1'b0;
      ahead_q    <= '0;
      beat_q     <= '0;
      expect_q   <= '0;
    end else begin
      if (push) begin
        first_q <= in_beat.last;
        hdr_q   <= hdr;
      end
      if (watch) begin
        watching_q <= 1'b1;
        ahead_q    <= count - 8'(pop);
        beat_q     <= in_beat;
        expect_q   <= hdr;
      end else if (watching_q && pop) begin
        if (ahead_q == '0) watching_q <= 1'b0;
        else ahead_q <= ahead_q - 1'b1;
      end
    end
  end

  // For the induction: beats and headers inside, the oldest first; ends of packets among the beats.
  beat_t [Depth-1:0] beats;
  hdr_t [Packets-1:0] hdrs;
  logic [7:0] hdr_count, ends, ends_ahead;
  always_comb begin
    hdr_count = 8'(u_dut.u_hdr.count_q);
    ends = '0;
    ends_ahead = '0;
    for (int unsigned k = 0; k < Depth; k++) begin
      beats[k] = u_dut.gen_regs.u_data.mem_q[(32'(u_dut.gen_regs.u_data.rptr_q) + k) % Depth];
      if (k < 32'(count)) ends += 8'(beats[k].last);
      if (k < 32'(ahead_q)) ends_ahead += 8'(beats[k].last);
    end
    for (int unsigned k = 0; k < Packets; k++) begin
      hdrs[k] = u_dut.u_hdr.mem_q[(32'(u_dut.u_hdr.rptr_q) + k) % Packets];
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      // It comes out unchanged, with its header, when those before it have.
      WatchedIsInside_A : assert (!watching_q || ahead_q < count);
      WatchedIsOffered_A : assert (!watching_q || ahead_q != '0 ||
                                   (out_valid && out_beat == beat_q && out_hdr == expect_q));
      // packets_o is the number of packets of which something is inside or still to come.
      PacketsCounted_A : assert (8'(packets) == ends + 8'(!first_q));
      // What is held is offered.
      OfferedIffHeld_A : assert (out_valid == (count != '0));
      // For the induction.
      InvBeat_A : assert (!watching_q || beats[ahead_q] == beat_q);
      InvHdr_A : assert (!watching_q || (ends_ahead < hdr_count && hdrs[ends_ahead] == expect_q));
      InvFirst_A : assert (u_dut.first_q == first_q);
      InvNewest_A : assert (first_q || (hdr_count != '0 && hdrs[hdr_count-1] == hdr_q));
      InvNewestEnds_A : assert (count == '0 || beats[count-1].last == first_q);
      Second_C : cover (watching_q && ahead_q == '0 && pop && !first_q && ends == 8'd1);
    end
  end

endmodule
