// What an observer sees of cv_spread: each packet comes out at one output, once and whole, and at any
// one output packets keep their order.
//
// The solver picks any two packets, A and then B; their beats carry a tag.

module spread_props #(
  parameter int unsigned N     = 3,
  parameter int unsigned Depth = 2
) (
  input logic         clk_i,
  input logic         rst_ni,
  input logic         valid_i,
  input logic         last_i,
  input logic [N-1:0] out_ready_i,
  input logic [1:0]   choose_i      // free: this packet is A; is B
);

  import culvert_pkg::*;

  localparam int unsigned A = 0;
  localparam int unsigned B = 1;
  typedef logic [1:0] tag_t;
  typedef logic [1:0] place_t;  // of a beat in its packet: 0, then 1, 2, 1, 2 ...

  function automatic place_t after(place_t place, logic last);
    if (last) return 2'd0;
    return (place == 2'd1) ? 2'd2 : 2'd1;
  endfunction

  logic in_ready;
  beat_t in_beat;
  logic [N-1:0] out_valid;
  beat_t [N-1:0] out_beat;

  cv_spread #(
    .N    (N),
    .Depth(Depth)
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

  place_t in_place_q;
  tag_t sent_q, sent;         // tag of the packet that is going in
  tag_t came_q, left_q;       // first beat came, last beat left
  logic [1:0][N-1:0] at_q;    // the output where A, where B began to leave
  place_t [N-1:0] out_place_q;
  tag_t [N-1:0] out_tag_q;    // of the packet that is coming out

  always_comb begin
    sent = sent_q;
    if (in_place_q == '0) begin
      sent[A] = choose_i[A] && !came_q[A];
      sent[B] = choose_i[B] && came_q[A] && !came_q[B];
    end
  end
  assign in_beat = '{data: in_place_q, tail: {2'b00, sent}, last: last_i};

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      in_place_q  <= '0;
      sent_q      <= '0;
      came_q      <= '0;
      left_q      <= '0;
      at_q        <= '0;
      out_place_q <= '0;
      out_tag_q   <= '0;
    end else begin
      if (valid_i && in_ready) begin
        in_place_q <= after(in_place_q, last_i);
        sent_q     <= sent;
        came_q     <= came_q | sent;
      end
      for (int unsigned o = 0; o < N; o++) begin
        if (out_valid[o] && out_ready_i[o]) begin
          out_place_q[o] <= after(out_place_q[o], out_beat[o].last);
          out_tag_q[o]   <= out_beat[o].tail[1:0];
          for (int unsigned x = 0; x < 2; x++) begin
            if (out_beat[o].tail[x]) at_q[x][o] <= 1'b1;
            if (out_beat[o].tail[x] && out_beat[o].last) left_q[x] <= 1'b1;
          end
        end
      end
    end
  end

  // For the induction: what is in each FIFO continues what is coming out there, up to the beat that
  // comes next.
  logic [N-1:0] fits, ordered, half;
  logic [1:0][N-1:0] found;        // beats of A, of B, are at the output, or coming out there
  logic [1:0][N-1:0][7:0] begun;   // packets that are: one coming out, and each first beat
  for (genvar o = 0; o < N; o++) begin : gen_out
    place_t place;
    tag_t tag;
    logic [7:0] count;
    beat_t [Depth-1:0] beats;
    logic b_seen;
    assign half[o] = u_dut.inside_q && u_dut.lane_q[o];
    always_comb begin
      count = 8'(u_dut.gen_out[o].u_fifo.count_q);
      place = out_place_q[o];
      tag = out_tag_q[o];
      fits[o] = 1'b1;
      ordered[o] = 1'b1;
      b_seen = at_q[B][o];
      for (int unsigned x = 0; x < 2; x++) begin
        found[x][o] = place != '0 && tag[x];
        begun[x][o] = 8'(found[x][o]);
      end
      if (found[A][o] && b_seen) ordered[o] = 1'b0;
      for (int unsigned k = 0; k < Depth; k++) begin
        beats[k] = u_dut.gen_out[o].u_fifo.mem_q[(32'(u_dut.gen_out[o].u_fifo.rptr_q) + k) % Depth];
        if (k < 32'(count)) begin
          fits[o] &= beats[k].data == place && beats[k].tail[3:2] == '0;
          fits[o] &= place == '0 || beats[k].tail[1:0] == tag;
          tag = beats[k].tail[1:0];
          place = after(place, beats[k].last);
          for (int unsigned x = 0; x < 2; x++) begin
            found[x][o] |= tag[x];
            begun[x][o] += 8'(tag[x] && beats[k].data == '0);
          end
          b_seen |= tag[B];
          if (b_seen && tag[A]) ordered[o] = 1'b0;
        end
      end
      fits[o] &= place == (half[o] ? in_place_q : '0);
      fits[o] &= place == '0 || tag == sent_q;
    end
    always_ff @(posedge clk_i) begin
      if (rst_ni && out_valid[o]) begin
        // Whole packets, never mixed.
        NextBeat_A : assert (out_beat[o].data == out_place_q[o]);
        OnePacket_A : assert (out_place_q[o] == '0 || out_beat[o].tail[1:0] == out_tag_q[o]);
        // Once, and at one output.
        OnceA_A : assert (!out_beat[o].tail[A] || (came_q[A] && !left_q[A]));
        OnceB_A : assert (!out_beat[o].tail[B] || (came_q[B] && !left_q[B]));
        OneOutput_A : assert ((!out_beat[o].tail[A] || (at_q[A] & ~(N'(1) << o)) == '0) &&
                              (!out_beat[o].tail[B] || (at_q[B] & ~(N'(1) << o)) == '0));
        // Order: at one output A comes before B.
        Order_A : assert (!out_beat[o].tail[A] || !at_q[B][o]);
      end
    end
  end

  for (genvar x = 0; x < 2; x++) begin : gen_inv_tag
    logic [7:0] total;
    always_comb begin
      total = '0;
      for (int unsigned o = 0; o < N; o++) total += begun[x][o];
    end
    always_ff @(posedge clk_i) begin
      if (rst_ni) begin
        // No loss: what came and has not left is inside, at one output.
        InvInside_A : assert ((came_q[x] && !left_q[x]) ? $onehot(found[x]) : found[x] == '0);
        InvOnce_A : assert (total == 8'(came_q[x] && !left_q[x]));
        InvCame_A : assert (came_q[x] || (!left_q[x] && at_q[x] == '0));
        InvAt_A : assert (left_q[x] ? $onehot(at_q[x]) : (at_q[x] & ~found[x]) == '0);
      end
    end
  end
  // A packet is tagged once: A is not also B, and a tag does not come back.
  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      InvFits_A : assert (fits == '1 && ordered == '1);
      InvLane_A : assert (u_dut.inside_q == (in_place_q != '0) &&
                          (!u_dut.inside_q || $onehot(u_dut.lane_q)));
      InvSent_A : assert ((sent_q & ~came_q) == '0 && (came_q[A] || !came_q[B]) && sent_q != '1);
      Both_C : cover (left_q == '1 && at_q[A] == at_q[B]);
    end
  end

endmodule
