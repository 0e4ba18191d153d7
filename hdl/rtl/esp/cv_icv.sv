// Takes the ICV off an inbound packet's end (RFC 4303 section 2.8).
//
// Function     Beats pass until the last `IcvBytes` bytes of the packet, which are shown whole with
//              its last beat. Their number has to be known: the packet's length comes with it.
// Parameters   IcvBytes (12 or 16).
// Latency      none: a filter in a stream's way.
// Throughput   1 beat a cycle.
// Comb. paths  all, forwards, and out_ready_i to in_ready_o.
// Stalls       with the output; what holds nothing but ICV is taken although the output is blocked.

`include "culvert_assert.svh"

module cv_icv
  import culvert_pkg::*;
  import gateway_pkg::*;
#(
  parameter int unsigned IcvBytes = 12
) (
  input logic clk_i,
  input logic rst_ni,

  input  logic  in_valid_i,
  output logic  in_ready_o,
  input  beat_t in_beat_i,
  input  len_t  in_bytes_i,  // of the packet with the ICV; constant in the packet, above IcvBytes

  output logic  out_valid_o,
  input  logic  out_ready_i,
  output beat_t out_beat_o,

  output logic                  icv_valid_o,  // for the one cycle in which the last beat is taken
  output logic [8*IcvBytes-1:0] icv_o
);

  logic first_q, take, some;
  len_t left_q, left;  // bytes still to come, with the ICV
  logic [4:0] kept;  // bytes of this beat in front of the ICV
  logic [BusBits-1:0] before_q;  // the beat before this one

  assign left = first_q ? in_bytes_i : left_q;
  assign kept = (left >= len_t'(BusBytes + IcvBytes)) ? 5'd16 :
                (left > len_t'(IcvBytes)) ? 5'(left - len_t'(IcvBytes)) : 5'd0;
  assign some = kept != 5'd0;

  assign out_valid_o = in_valid_i && some;
  assign in_ready_o  = out_ready_i || !some;
  assign take        = in_valid_i && in_ready_o;

  always_comb begin
    out_beat_o.last = left <= len_t'(BusBytes + IcvBytes);
    out_beat_o.tail = 4'(kept - 5'd1);
    for (int unsigned i = 0; i < BusBytes; i++) begin
      out_beat_o.data[BusBits-1-8*i-:8] = in_beat_i.data[BusBits-1-8*i-:8] &
                                          {8{i < 32'(kept)}};
    end
  end

  // The packet's last bytes, wherever its end lies.
  assign icv_valid_o = take && in_beat_i.last;
  assign icv_o = (8*IcvBytes)'({before_q, in_beat_i.data} >> {4'd15 - in_beat_i.tail, 3'b000});

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      first_q <= 1'b1;
      left_q  <= '0;
    end else if (take) begin
      first_q <= in_beat_i.last;
      left_q  <= left - len_t'(BusBytes);
    end
  end

  always_ff @(posedge clk_i) begin
    if (take) before_q <= in_beat_i.data;
  end

  // There is something in front of the ICV.
  `CV_ASSUME(LongEnough_A, !in_valid_i || in_bytes_i > len_t'(IcvBytes))
  // The packet has the length that came with it.
  `CV_ASSUME(LengthIsTrue_A, !in_valid_i || (in_beat_i.last ? left == len_t'(in_beat_i.tail) + 14'd1
                                                            : left > len_t'(BusBytes)))

endmodule
