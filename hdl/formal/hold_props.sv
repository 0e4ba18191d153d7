// What an observer sees of cv_hold: each packet goes with its own verdict; a kept one leaves once,
// whole and with its verdict's header; of a dropped one nothing shows.
//
// Packets and verdicts are numbered as they come. The solver also picks one verdict that keeps its
// packet, which is followed until the packet has left.

module hold_props #(
  parameter int unsigned Depth   = 4,
  parameter int unsigned Packets = 2
) (
  input logic clk_i,
  input logic rst_ni,
  input logic in_valid_i,
  input logic in_last_i,
  input logic verdict_valid_i,
  input logic verdict_keep_i,
  input logic out_ready_i,
  input logic choose_i      // free: this verdict is the watched one
);

  import culvert_pkg::*;

  typedef logic [3:0] number_t;  // more than can be inside
  typedef logic [1:0] place_t;   // of a beat in its packet: 0, then 1, 2, 1, 2 ...
  typedef struct packed {
    number_t number;
    logic    keep;
    logic    watched;
  } hdr_t;

  function automatic place_t after(place_t place, logic last);
    if (last) return 2'd0;
    return (place == 2'd1) ? 2'd2 : 2'd1;
  endfunction

  logic in_ready, verdict_ready, out_valid, watch, watched_q;
  beat_t in_beat, out_beat;
  hdr_t verdict, out_hdr;

  cv_hold #(
    .Hdr    (hdr_t),
    .Depth  (Depth),
    .Packets(Packets)
  ) u_dut (
    .clk_i,
    .rst_ni,
    .in_valid_i,
    .in_ready_o     (in_ready),
    .in_beat_i      (in_beat),
    .verdict_valid_i,
    .verdict_ready_o(verdict_ready),
    .verdict_keep_i,
    .verdict_hdr_i  (verdict),
    .out_valid_o    (out_valid),
    .out_ready_i,
    .out_beat_o     (out_beat),
    .out_hdr_o      (out_hdr)
  );

  // Reset in the first cycle, and never again.
  logic started_q = 1'b0;
  always_ff @(posedge clk_i) started_q <= 1'b1;
  always_comb assume (rst_ni == started_q);

  number_t packet_q, verdict_q, leave_q;  // number of the next packet, verdict; of the one in front
  place_t in_place_q, out_place_q;
  logic left_q;                           // the watched packet has left

  assign watch = choose_i && verdict_keep_i && !watched_q;
  assign in_beat = '{data: in_place_q, tail: packet_q, last: in_last_i};
  assign verdict = '{number: verdict_q, keep: verdict_keep_i, watched: watch};

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      packet_q    <= '0;
      verdict_q   <= '0;
      leave_q     <= '0;
      in_place_q  <= '0;
      out_place_q <= '0;
      watched_q   <= 1'b0;
      left_q      <= 1'b0;
    end else begin
      if (in_valid_i && in_ready) begin
        in_place_q <= after(in_place_q, in_last_i);
        if (in_last_i) packet_q <= packet_q + 1'b1;
      end
      if (verdict_valid_i && verdict_ready) begin
        verdict_q <= verdict_q + 1'b1;
        if (watch) watched_q <= 1'b1;
      end
      if (u_dut.pop) begin
        out_place_q <= after(out_place_q, out_beat.last);
        if (out_beat.last) leave_q <= leave_q + 1'b1;
      end
      if (out_valid && out_ready_i && out_beat.last && out_hdr.watched) left_q <= 1'b1;
    end
  end

  // For the induction: what is inside, the oldest first.
  logic [7:0] count, verdicts, copies;
  beat_t [Depth-1:0] beats;
  hdr_t [Packets-1:0] hdrs;
  logic [Packets-1:0] keeps;
  place_t place;
  number_t number;
  logic places, numbers, paired;
  always_comb begin
    count = 8'(u_dut.gen_regs.u_data.count_q);
    verdicts = 8'(u_dut.u_verdicts.count_q);
    place = out_place_q;
    number = leave_q;
    places = 1'b1;
    numbers = 1'b1;
    paired = 1'b1;
    copies = '0;
    for (int unsigned k = 0; k < Depth; k++) begin
      beats[k] = u_dut.gen_regs.u_data.mem_q[(32'(u_dut.gen_regs.u_data.rptr_q) + k) % Depth];
      if (k < 32'(count)) begin
        places &= beats[k].data == place;
        numbers &= beats[k].tail == number;
        place = after(place, beats[k].last);
        number += number_t'(beats[k].last);
      end
    end
    for (int unsigned k = 0; k < Packets; k++) begin
      hdrs[k] = u_dut.u_verdicts.mem_q[(32'(u_dut.u_verdicts.rptr_q) + k) % Packets].hdr;
      keeps[k] = u_dut.u_verdicts.mem_q[(32'(u_dut.u_verdicts.rptr_q) + k) % Packets].keep;
      if (k < 32'(verdicts)) begin
        paired &= hdrs[k].number == leave_q + number_t'(k) && hdrs[k].keep == keeps[k] &&
                   (keeps[k] || !hdrs[k].watched);
        copies += 8'(hdrs[k].watched);
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      // What shows was kept, goes with its own verdict, and is whole.
      KeptOnly_A : assert (!out_valid || out_hdr.keep);
      OwnVerdict_A : assert (!out_valid || out_beat.tail == out_hdr.number);
      NextBeat_A : assert (!out_valid || out_beat.data == out_place_q);
      // The watched packet leaves once.
      Once_A : assert (!out_valid || !out_hdr.watched || (watched_q && !left_q));
      // Nothing waits that could go.
      Offered_A : assert (out_valid || count == '0 || verdicts == '0 || !keeps[0]);
      // A dropped packet goes without the taker.
      Dropped_A : assert (u_dut.pop || count == '0 || verdicts == '0 || keeps[0]);
      // For the induction.
      InvPlaces_A : assert (places && place == in_place_q);
      InvNumbers_A : assert (numbers && number == packet_q);
      InvPaired_A : assert (paired && verdict_q == leave_q + number_t'(verdicts));
      InvInside_A : assert (copies == 8'(watched_q && !left_q));
      InvLeft_A : assert (watched_q || !left_q);
      Left_C : cover (left_q && out_place_q == '0 && leave_q == 4'd2);
    end
  end

endmodule
