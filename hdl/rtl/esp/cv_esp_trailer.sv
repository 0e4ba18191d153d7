// Padding and trailer of an outbound ESP packet (RFC 4303, sections 2.4 to 2.6).
//
// Function     Appends padding (1, 2, 3, ...), its length and the next header to a payload, so that
//              the whole is a multiple of 4, 8 or 16 bytes: what the cipher encrypts. The header
//              `Rest` passes through.
// Parameters   Rest (header type).
// Latency      1 cycle.
// Throughput   1 beat a cycle, and 1 cycle more for a packet whose trailer spills into a beat of
//              its own.
// Comb. paths  none from input to output.
// Stalls       in_ready_o is low in that cycle, and while two beats wait at the output.

`include "culvert_assert.svh"

module cv_esp_trailer
  import culvert_pkg::*;
#(
  parameter type Rest = logic [7:0]
) (
  input logic clk_i,
  input logic rst_ni,

  input  logic       in_valid_i,
  output logic       in_ready_o,
  input  beat_t      in_beat_i,
  // Constant during a packet.
  input  logic [1:0] in_align_i,        // 0: 4 bytes, 1: 8, 2: 16
  input  logic [7:0] in_next_header_i,
  input  Rest        in_rest_i,

  output logic  out_valid_o,
  input  logic  out_ready_i,
  output beat_t out_beat_o,
  output Rest   out_rest_o
);

  logic spill_q, spill, put, room;
  logic [4:0] used;  // payload bytes of the last beat, 1 to 16
  logic [4:0] pad;  // padding bytes, 0 to 15
  logic [5:0] place;  // of a byte, counted from the last beat's first
  logic [5:0] total;  // payload bytes of the last beat, padding, trailer
  logic [3:0] mask;
  beat_t beat;

  // The beats before the last are full, so only the last one's bytes count for the alignment.
  assign mask  = (in_align_i == 2'd0) ? 4'd3 : (in_align_i == 2'd1) ? 4'd7 : 4'd15;
  assign used  = 5'(in_beat_i.tail) + 5'd1;
  assign pad   = {1'b0, (4'd14 - used[3:0]) & mask};
  assign total = 6'(used) + 6'(pad) + 6'd2;
  assign spill = in_valid_i && in_beat_i.last && total > 6'd16;

  always_comb begin
    beat = in_beat_i;
    place = '0;
    if (in_beat_i.last) begin
      for (int unsigned i = 0; i < BusBytes; i++) begin
        place = 6'(i) + (spill_q ? 6'd16 : 6'd0);
        if (place >= 6'(used)) begin
          if (place + 6'd2 < total) begin
            beat.data[BusBits-1-8*i-:8] = 8'(place - 6'(used)) + 8'd1;
          end else if (place + 6'd2 == total) begin
            beat.data[BusBits-1-8*i-:8] = 8'(pad);
          end else if (place + 6'd1 == total) begin
            beat.data[BusBits-1-8*i-:8] = in_next_header_i;
          end else begin
            beat.data[BusBits-1-8*i-:8] = 8'd0;
          end
        end
      end
      beat.last = spill_q || !spill;
      beat.tail = beat.last ? 4'(total - 6'd1) : 4'd15;
    end
  end

  assign put = in_valid_i && room;
  assign in_ready_o = room && (!spill || spill_q);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) spill_q <= 1'b0;
    else if (put) spill_q <= spill && !spill_q;
  end

  cv_output #(
    .Rest(Rest)
  ) u_out (
    .clk_i,
    .rst_ni,
    .in_valid_i(put),
    .in_ready_o(room),
    .in_beat_i (beat),
    .in_rest_i,
    .out_valid_o,
    .out_ready_i,
    .out_beat_o,
    .out_rest_o
  );

  // The alignment is one of the three.
  `CV_ASSUME(AlignIsKnown_A, !in_valid_i || in_align_i != 2'd3)
  // The last beat's length fits the alignment.
  `CV_ASSERT(Aligned_A, !put || !beat.last || ((beat.tail + 4'd1) & mask) == 4'd0)

endmodule
