// What an observer sees of cv_merge: the packets of each input come out whole, once and in their
// order. No input starves: that is its arbiter's proof, once every packet has an end.

module merge_props #(
  parameter int unsigned N = 3
) (
  input logic         clk_i,
  input logic         rst_ni,
  input logic [N-1:0] valid_i,
  input logic [N-1:0] last_i,
  input logic         out_ready_i
);

  import culvert_pkg::*;

  typedef logic [1:0] place_t;  // of a beat in its packet: 0, then 1, 2, 1, 2 ...

  function automatic place_t after(place_t place, logic last);
    if (last) return 2'd0;
    return (place == 2'd1) ? 2'd2 : 2'd1;
  endfunction

  logic [N-1:0] in_ready;
  beat_t [N-1:0] in_beat;
  logic out_valid;
  beat_t out_beat;

  cv_merge #(
    .N(N)
  ) u_dut (
    .clk_i,
    .rst_ni,
    .in_valid_i (valid_i),
    .in_ready_o (in_ready),
    .in_beat_i  (in_beat),
    .out_valid_o(out_valid),
    .out_ready_i,
    .out_beat_o (out_beat)
  );

  // Reset in the first cycle, and never again.
  logic started_q = 1'b0;
  always_ff @(posedge clk_i) started_q <= 1'b1;
  always_comb assume (rst_ni == started_q);

  // The contract of a source: an offer stays until it is taken.
  logic [N-1:0] held_q, last_q;
  always_ff @(posedge clk_i) begin
    held_q <= rst_ni ? valid_i & ~in_ready : '0;
    last_q <= last_i;
  end

  // Each beat says its input, its place, and the number of its packet among those of its input.
  place_t [N-1:0] in_place_q;
  place_t out_place_q;
  logic [N-1:0][1:0] sent_q, got_q;
  logic [1:0] from_q;  // input of the packet that is coming out

  for (genvar i = 0; i < N; i++) begin : gen_in
    assign in_beat[i] = '{data: in_place_q[i], tail: {sent_q[i], 2'(i)}, last: last_i[i]};
    always_comb assume (!held_q[i] || (valid_i[i] && last_i[i] == last_q[i]));
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      in_place_q  <= '0;
      out_place_q <= '0;
      sent_q      <= '0;
      got_q       <= '0;
      from_q      <= '0;
    end else begin
      for (int unsigned i = 0; i < N; i++) begin
        if (valid_i[i] && in_ready[i]) begin
          in_place_q[i] <= after(in_place_q[i], last_i[i]);
          if (last_i[i]) sent_q[i] <= sent_q[i] + 1'b1;
        end
      end
      if (out_valid && out_ready_i) begin
        out_place_q <= after(out_place_q, out_beat.last);
        from_q      <= out_beat.tail[1:0];
        if (out_beat.last) got_q[out_beat.tail[1:0]] <= got_q[out_beat.tail[1:0]] + 1'b1;
      end
    end
  end

  // For the induction: the beats inside, the older first, continue the packet that is coming out.
  logic [1:0] count, from;
  beat_t [1:0] beats;
  place_t place;
  logic [N-1:0][1:0] next;
  logic places, numbers, whole;
  always_comb begin
    count = u_dut.u_out.count_q;
    beats[0] = u_dut.u_out.mem_q[u_dut.u_out.rptr_q];
    beats[1] = u_dut.u_out.mem_q[!u_dut.u_out.rptr_q];
    place = out_place_q;
    from = from_q;
    next = got_q;
    places = 1'b1;
    numbers = 1'b1;
    whole = 1'b1;
    for (int unsigned k = 0; k < 2; k++) begin
      if (k < 32'(count)) begin
        places &= beats[k].data == place;
        whole &= 32'(beats[k].tail[1:0]) < N && (place == '0 || beats[k].tail[1:0] == from);
        from = beats[k].tail[1:0];
        numbers &= beats[k].tail[3:2] == next[from];
        if (beats[k].last) next[from] += 1'b1;
        place = after(place, beats[k].last);
      end
    end
  end

  logic others;  // inputs that are inside a packet beside the one whose turn it is
  always_comb begin
    others = 1'b0;
    for (int unsigned i = 0; i < N; i++) begin
      if (in_place_q[i] != '0 && !(u_dut.inside_q && 32'(u_dut.lane_q) == i)) others = 1'b1;
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      // Whole packets, never mixed.
      NextBeat_A : assert (!out_valid || out_beat.data == out_place_q);
      OneInput_A : assert (!out_valid || out_place_q == '0 || out_beat.tail[1:0] == from_q);
      // No loss, no duplicate, order: exactly the next packet of its input.
      NextNumber_A : assert (!out_valid || out_beat.tail[3:2] == got_q[out_beat.tail[1:0]]);
      // For the induction.
      InvPlaces_A : assert (places && whole && 32'(u_dut.lane_q) < N &&
                            place == (u_dut.inside_q ? in_place_q[u_dut.lane_q] : '0));
      InvNumbers_A : assert (numbers && next == sent_q);
      InvFrom_A : assert (place == '0 || from == u_dut.lane_q);
      InvInside_A : assert (!others && (!u_dut.inside_q || in_place_q[u_dut.lane_q] != '0));
      AllThree_C : cover (got_q[0] == 2'd1 && got_q[N-1] == 2'd2 && out_place_q == 2'd2);
    end
  end

endmodule
