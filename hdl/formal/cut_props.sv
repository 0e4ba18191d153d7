// What an observer sees of cv_cut: of each packet every byte behind the skipped ones comes out once, in
// its turn and unchanged, and the packet ends where it ended.
//
// The solver picks a byte, which is followed from the beat that brings it to the beat that takes
// it away.

module cut_props (
  input logic         clk_i,
  input logic         rst_ni,
  input logic         in_valid_i,
  input logic [127:0] in_data_i,
  input logic [3:0]   in_tail_i,
  input logic         in_last_i,
  input logic [6:0]   in_skip_i,
  input logic         out_ready_i,
  input logic         choose_i,
  input logic [3:0]   lane_i       // free: which byte of the beat
);

  import culvert_pkg::*;

  logic in_ready, out_valid;
  beat_t in_beat, out_beat;
  assign in_beat = '{data: in_data_i, tail: in_tail_i, last: in_last_i};

  cv_cut #(
    .MaxSkip(64)
  ) u_dut (
    .clk_i,
    .rst_ni,
    .in_valid_i,
    .in_ready_o (in_ready),
    .in_beat_i  (in_beat),
    .in_skip_i,
    .out_valid_o(out_valid),
    .out_ready_i,
    .out_beat_o (out_beat)
  );

  // Reset in the first cycle, and never again.
  logic started_q = 1'b0;
  always_ff @(posedge clk_i) started_q <= 1'b1;
  always_comb assume (rst_ni == started_q);

  function automatic logic [7:0] lane(logic [127:0] data, logic [3:0] index);
    return 8'(data >> {4'd15 - index, 3'b000});
  endfunction

  function automatic logic zero_beyond(logic [127:0] data, logic [3:0] tail);
    return tail == 4'd15 || (data << {5'(tail) + 5'd1, 3'b000}) == '0;
  endfunction

  logic push, pop;
  assign push = in_valid_i && in_ready;
  assign pop = out_valid && out_ready_i;

  // The environment: full beats but at the end, zero behind it, one skip a packet.
  logic inside_q;  // of a packet
  logic [6:0] skip_q;  // its skip
  logic [2:0] beats_q;  // of it that have come, no more than the skip has whole ones
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      inside_q <= 1'b0;
      skip_q   <= '0;
      beats_q  <= '0;
    end else if (push) begin
      inside_q <= !in_last_i;
      skip_q   <= in_skip_i;
      if (in_last_i) beats_q <= '0;
      else if (beats_q != in_skip_i[6:4]) beats_q <= beats_q + 3'd1;
    end
  end
  always_comb begin
    if (in_valid_i) begin
      assume (in_last_i || in_tail_i == 4'd15);
      assume (zero_beyond(in_data_i, in_tail_i));
      assume (in_skip_i <= 7'd64);
      assume (!inside_q || in_skip_i == skip_q);
    end
  end

  logic dropped, watch, watching_q;
  assign dropped = beats_q != in_skip_i[6:4] ||
                   (!u_dut.held_q && lane_i < in_skip_i[3:0]);
  assign watch = push && choose_i && !watching_q && lane_i <= in_tail_i && !dropped;

  // Bytes inside: in the two places of the FIFO (the older first), and in the beat that is held.
  beat_t [1:0] beats;
  logic [1:0] count;
  logic [3:0] off;
  logic [7:0] size0, size1, rest, held;
  always_comb begin
    count = u_dut.u_out.count_q;
    beats[0] = u_dut.u_out.mem_q[u_dut.u_out.rptr_q];
    beats[1] = u_dut.u_out.mem_q[!u_dut.u_out.rptr_q];
    off = u_dut.spill_q ? u_dut.spill_off_q : skip_q[3:0];
    size0 = (count >= 2'd1) ? 8'(beats[0].tail) + 8'd1 : '0;
    size1 = (count == 2'd2) ? 8'(beats[1].tail) + 8'd1 : '0;
    rest = (u_dut.spill_q || u_dut.held_q) ? 8'(u_dut.hold_tail_q) + 8'd1 - 8'(off) : '0;
    held = size0 + size1 + rest;
  end

  logic final_q;  // it is the last byte of its packet
  logic [7:0] ahead_q, value_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      watching_q <= 1'b0;
      final_q    <= 1'b0;
      ahead_q    <= '0;
      value_q    <= '0;
    end else if (watch) begin
      watching_q <= 1'b1;
      final_q    <= in_last_i && lane_i == in_tail_i;
      ahead_q    <= held + 8'(lane_i) - (u_dut.held_q ? 8'd0 : 8'(in_skip_i[3:0])) -
                    (pop ? size0 : 8'd0);
      value_q    <= lane(in_data_i, lane_i);
    end else if (watching_q && pop) begin
      if (ahead_q < size0) watching_q <= 1'b0;
      else ahead_q <= ahead_q - size0;
    end
  end

  // Where the watched byte lies, and whether its packet ends with it there.
  logic [7:0] found, place;
  logic ends;
  always_comb begin
    if (ahead_q < size0) begin
      place = ahead_q;
      found = lane(beats[0].data, 4'(place));
      ends = beats[0].last && place == 8'(beats[0].tail);
    end else if (ahead_q < size0 + size1) begin
      place = ahead_q - size0;
      found = lane(beats[1].data, 4'(place));
      ends = beats[1].last && place == 8'(beats[1].tail);
    end else begin
      place = ahead_q - size0 - size1;
      found = lane(u_dut.hold_q, 4'(place) + off);
      ends = u_dut.spill_q && place == rest - 8'd1;
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      // It is inside until its turn, unchanged, and the packet ends with it or not as it did.
      WatchedIsInside_A : assert (!watching_q || ahead_q < held);
      WatchedIsFound_A : assert (!watching_q || (found == value_q && ends == final_q));
      // Beats are full but at the end, where the bytes beyond are zero.
      FullBeats_A : assert (!out_valid || out_beat.last || out_beat.tail == 4'd15);
      ZeroBeyond_A : assert (!out_valid || zero_beyond(out_beat.data, out_beat.tail));
      // For the induction.
      InvFullBeats_A : assert ((size0 == '0 || beats[0].last || beats[0].tail == 4'd15) &&
                               (size1 == '0 || beats[1].last || beats[1].tail == 4'd15));
      InvZeroBeyond_A : assert (size1 == '0 || zero_beyond(beats[1].data, beats[1].tail));
      InvDropped_A : assert (u_dut.dropped_q == beats_q && beats_q <= skip_q[6:4] &&
                             (inside_q || beats_q == '0));
      InvHeld_A : assert (!u_dut.held_q || (inside_q && skip_q[3:0] != '0 &&
                                            u_dut.hold_tail_q == 4'd15 &&
                                            beats_q == skip_q[6:4]));
      InvOneHolds_A : assert (!(u_dut.held_q && u_dut.spill_q));
      InvSpill_A : assert (!u_dut.spill_q ||
                           (u_dut.hold_tail_q >= u_dut.spill_off_q &&
                            zero_beyond(u_dut.hold_q, u_dut.hold_tail_q)));
      Spilled_C : cover (watching_q && final_q && u_dut.spill_q);
    end
  end

endmodule
