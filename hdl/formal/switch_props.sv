// What an observer sees of cv_switch: no loss, no duplication, order per input and class, packets
// whole and at the right type.
//
// Two inputs, two types with one output each. The solver picks one flow (input, class, type) to
// follow. Its packets are marked and carry a number that counts up; every beat carries its place in
// its packet. At the outputs the numbers must come back without gap, repeat or exchange.

module switch_props (
  input logic            clk_i,
  input logic            rst_ni,
  input logic [1:0]      valid_i,
  input logic [1:0]      last_i,
  input logic [1:0]      type_i,
  input logic [1:0]      low_i,
  input logic [1:0]      out_ready_i,
  input logic [2:0]      watched_i
);

  import culvert_pkg::*;

  localparam int unsigned NumberBits = 3;
  typedef logic [NumberBits-1:0] number_t;
  typedef struct packed {
    logic    typ;
    logic    marked;
    number_t number;
  } hdr_t;

  beat_t [1:0] in_beat, out_beat;
  hdr_t [1:0] in_hdr, out_hdr;
  logic [1:0] in_ready, out_valid;

  cv_switch #(
    .Hdr       (hdr_t),
    .NumIn     (2),
    .NumOut    (2),
    .NumTypes  (2),
    .OutType   ({4'd1, 4'd0}),
    .InDepth   (2),
    .InPackets (2),
    .OutDepth  (2),
    .OutPackets(2),
    .LowEvery  (2)
  ) u_dut (
    .clk_i,
    .rst_ni,
    .in_valid_i (valid_i),
    .in_ready_o (in_ready),
    .in_beat_i  (in_beat),
    .in_hdr_i   (in_hdr),
    .in_type_i  (type_i),
    .in_low_i   (low_i),
    .out_valid_o(out_valid),
    .out_ready_i,
    .out_beat_o (out_beat),
    .out_hdr_o  (out_hdr)
  );

  logic started_q = 1'b0;
  always_ff @(posedge clk_i) started_q <= 1'b1;
  always_comb assume (rst_ni == started_q);

  // The watched flow: a constant that the solver picks.
  typedef struct packed {
    logic source;
    logic low;
    logic typ;
  } flow_t;
  flow_t watched, watched_q;
  assign watched = watched_i;
  always_ff @(posedge clk_i) watched_q <= watched;
  always_comb assume (!started_q || watched == watched_q);

  // Number of its next packet, at its input and at its output.
  number_t sent_q, got_q;
  // Place of the next beat inside its packet.
  logic [1:0] in_place_q[2], out_place_q[2];
  // Class and type of the packet that is being sent: constant inside a packet.
  logic [1:0] low_q, type_q;

  for (genvar i = 0; i < 2; i++) begin : gen_in
    always_comb begin
      in_hdr[i].typ = type_i[i];
      in_hdr[i].marked = {1'(i), low_i[i], type_i[i]} == watched;
      in_hdr[i].number = in_hdr[i].marked ? sent_q : '0;
      in_beat[i] = '{data: in_place_q[i], tail: 4'd15, last: last_i[i]};
      // Packets of at most two beats.
      assume (in_place_q[i] != 2'd1 || last_i[i]);
      if (in_place_q[i] != 2'd0) assume (low_i[i] == low_q[i] && type_i[i] == type_q[i]);
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      sent_q <= '0;
      got_q  <= '0;
      for (int unsigned i = 0; i < 2; i++) in_place_q[i] <= '0;
      for (int unsigned i = 0; i < 2; i++) out_place_q[i] <= '0;
      low_q  <= '0;
      type_q <= '0;
    end else begin
      for (int unsigned i = 0; i < 2; i++) begin
        if (valid_i[i] && in_ready[i]) begin
          in_place_q[i] <= last_i[i] ? '0 : in_place_q[i] + 1'b1;
          low_q[i]      <= low_i[i];
          type_q[i]     <= type_i[i];
          if (last_i[i] && in_hdr[i].marked) sent_q <= sent_q + 1'b1;
        end
        if (out_valid[i] && out_ready_i[i]) begin
          out_place_q[i] <= out_beat[i].last ? '0 : out_place_q[i] + 1'b1;
          if (out_beat[i].last && out_hdr[i].marked) got_q <= got_q + 1'b1;
        end
      end
    end
  end

  for (genvar o = 0; o < 2; o++) begin : gen_out
    always_ff @(posedge clk_i) begin
      if (rst_ni && out_valid[o]) begin
        RightType_A : assert (32'(out_hdr[o].typ) == o);
        // No loss, no duplicate, order: exactly the next number of its flow.
        NextNumber_A : assert (!out_hdr[o].marked || out_hdr[o].number == got_q);
        // Whole packets, never mixed.
        NextBeat_A : assert (out_beat[o].data == out_place_q[o]);
      end
    end
  end

endmodule
