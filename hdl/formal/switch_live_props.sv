// No packet stays for ever in cv_switch: with outputs that are ready, a packet of either class
// leaves within `Bound` cycles of its arrival, whatever the other input sends.
//
// One output, packets of one beat; the watched packet is any one of input 0 (the solver picks), and
// input 1 may send packets of the higher class in every cycle.

module switch_live_props #(
  parameter int unsigned Bound = 18
) (
  input logic       clk_i,
  input logic       rst_ni,
  input logic [1:0] valid_i,
  input logic [1:0] low_i,
  input logic       choose_i  // free: the solver picks the packet to follow
);

  import culvert_pkg::*;

  beat_t [1:0] in_beat;
  logic [1:0] in_hdr, in_ready;
  logic out_valid, out_hdr;

  cv_switch #(
    .Hdr       (logic),
    .NumIn     (2),
    .NumOut    (1),
    .NumTypes  (1),
    .OutType   (4'd0),
    .InDepth   (1),
    .InPackets (1),
    .OutDepth  (1),
    .OutPackets(1),
    .LowEvery  (1)
  ) u_dut (
    .clk_i,
    .rst_ni,
    .in_valid_i (valid_i),
    .in_ready_o (in_ready),
    .in_beat_i  (in_beat),
    .in_hdr_i   (in_hdr),
    .in_type_i  (2'b00),
    .in_low_i   (low_i),
    .out_valid_o(out_valid),
    .out_ready_i(1'b1),
    .out_beat_o (),
    .out_hdr_o  (out_hdr)
  );

  logic started_q = 1'b0;
  always_ff @(posedge clk_i) started_q <= 1'b1;
  always_comb assume (rst_ni == started_q);

  logic watch, watching_q, seen_q;
  logic [7:0] age_q;

  assign watch  = valid_i[0] && in_ready[0] && choose_i && !seen_q;
  assign in_hdr = {1'b0, watch};
  assign in_beat[0] = '{data: '0, tail: 4'd15, last: 1'b1};
  assign in_beat[1] = '{data: '0, tail: 4'd15, last: 1'b1};

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      watching_q <= 1'b0;
      seen_q     <= 1'b0;
      age_q      <= '0;
    end else if (watch) begin
      watching_q <= 1'b1;
      seen_q     <= 1'b1;
      age_q      <= '0;
    end else if (watching_q) begin
      if (out_valid && out_hdr) watching_q <= 1'b0;
      else age_q <= age_q + 1'b1;
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      LeavesInTime_A : assert (!watching_q || 32'(age_q) <= Bound);
      // It comes out once.
      ComesOnce_A : assert (!(out_valid && out_hdr) || watching_q);
    end
  end

endmodule
