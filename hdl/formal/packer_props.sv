// What an observer sees of cv_packer: every byte of a packet comes out once, in its turn and
// unchanged, and the packet ends where it ended.
//
// The solver picks a byte, which is followed from the chunk that brings it to the beat that takes
// it away.

module packer_props (
  input logic         clk_i,
  input logic         rst_ni,
  input logic         in_valid_i,
  input logic [127:0] in_data_i,
  input logic [4:0]   in_bytes_i,
  input logic         in_last_i,
  input logic         out_ready_i,
  input logic         choose_i,
  input logic [3:0]   lane_i       // free: which byte of the chunk
);

  import culvert_pkg::*;

  logic in_ready, out_valid;
  beat_t out_beat;

  cv_packer u_dut (
    .clk_i,
    .rst_ni,
    .in_valid_i,
    .in_ready_o (in_ready),
    .in_data_i,
    .in_bytes_i,
    .in_last_i,
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

  logic push, pop, watch, watching_q;
  assign push = in_valid_i && in_ready;
  assign pop = out_valid && out_ready_i;
  assign watch = push && choose_i && !watching_q && 5'(lane_i) < in_bytes_i;

  // Bytes inside: in the two places of the FIFO (the older first), and in the rest.
  beat_t [1:0] beats;
  logic [1:0] count;
  logic [7:0] size0, size1, held;
  always_comb begin
    count = u_dut.u_out.count_q;
    beats[0] = u_dut.u_out.mem_q[u_dut.u_out.rptr_q];
    beats[1] = u_dut.u_out.mem_q[!u_dut.u_out.rptr_q];
    size0 = (count >= 2'd1) ? 8'(beats[0].tail) + 8'd1 : '0;
    size1 = (count == 2'd2) ? 8'(beats[1].tail) + 8'd1 : '0;
    held = size0 + size1 + 8'(u_dut.fill_q);
  end

  logic final_q;  // final_q: it is the last byte of its packet
  logic [7:0] ahead_q, value_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      watching_q <= 1'b0;
      final_q    <= 1'b0;
      ahead_q    <= '0;
      value_q    <= '0;
    end else if (watch) begin
      watching_q <= 1'b1;
      final_q    <= in_last_i && 5'(lane_i) == in_bytes_i - 5'd1;
      ahead_q    <= held + 8'(lane_i) - (pop ? size0 : 8'd0);
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
      found = lane(u_dut.hold_q, 4'(place));
      ends = u_dut.spill_q && place == 8'(u_dut.fill_q) - 8'd1;
    end
  end

  // Bytes of the rest that are not there are zero.
  logic clean;
  always_comb begin
    clean = 1'b1;
    for (int unsigned i = 0; i < 16; i++) begin
      if (i >= 32'(u_dut.fill_q) && lane(u_dut.hold_q, 4'(i)) != '0) clean = 1'b0;
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      // It is inside until its turn, unchanged, and the packet ends with it or not as it did.
      WatchedIsInside_A : assert (!watching_q || ahead_q < held);
      WatchedIsFound_A : assert (!watching_q || (found == value_q && ends == final_q));
      // Beats are full but at the end, where the bytes beyond are zero.
      FullBeats_A : assert (!out_valid || out_beat.last || out_beat.tail == 4'd15);
      ZeroBeyond_A : assert (!out_valid || out_beat.tail == 4'd15 ||
                             (out_beat.data << {5'(out_beat.tail) + 5'd1, 3'b000}) == '0);
      // For the induction.
      InvRestIsClean_A : assert (clean);
      InvFullBeats_A : assert ((size0 == '0 || beats[0].last || beats[0].tail == 4'd15) &&
                               (size1 == '0 || beats[1].last || beats[1].tail == 4'd15));
      InvZeroBeyond_A : assert (size1 == '0 || beats[1].tail == 4'd15 ||
                                (beats[1].data << {5'(beats[1].tail) + 5'd1, 3'b000}) == '0);
      Spilled_C : cover (watching_q && final_q && u_dut.spill_q);
    end
  end

endmodule
