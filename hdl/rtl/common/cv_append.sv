// Puts up to 16 bytes behind a packet's last one.
//
// Function     A packet leaves as data, then suffix, in full beats, the last one shorter where need
//              be. The header `Rest` passes through.
// Parameters   Rest (header type).
// Latency      1 cycle.
// Throughput   1 output beat a cycle, none lost between packets: n bytes and a suffix of s bytes
//              take ceil((n + s) / 16) cycles.
// Comb. paths  none from input to output. in_ready_o depends on in_bytes_i and in_beat_i, not on
//              in_valid_i or out_ready_i.
// Stalls       in_ready_o is low during the first of the two cycles of a last beat that spills, and
//              while two beats wait at the output.

`include "culvert_assert.svh"

module cv_append
  import culvert_pkg::*;
#(
  parameter type Rest = logic [7:0]
) (
  input logic clk_i,
  input logic rst_ni,

  input  logic  in_valid_i,
  output logic  in_ready_o,
  input  beat_t in_beat_i,
  input  Rest   in_rest_i,                  // constant during a packet
  // Read with a packet's last beat; whoever has no suffix yet keeps that beat back.
  input  logic [BusBits-1:0] in_suffix_i,  // left-aligned; bytes beyond in_bytes_i are ignored
  input  logic [4:0]         in_bytes_i,   // 0 to 16

  output logic  out_valid_o,
  input  logic  out_ready_i,
  output beat_t out_beat_o,
  output Rest   out_rest_o    // the same during all beats of a packet
);

  logic spill_d, spill_q;  // all that is left is what does not fit beside the last beat's data
  logic spill, put, room;
  logic [4:0] used;  // data bytes of the last beat
  logic [5:0] total;
  logic [5:0] place;  // of a byte, counted from the last beat's first
  logic [BusBits-1:0] rotated;  // the suffix, its first byte behind the data
  beat_t beat;

  assign used    = 5'(in_beat_i.tail) + 5'd1;
  assign total   = 6'(used) + 6'(in_bytes_i);
  assign spill   = in_beat_i.last && total > 6'd16;
  assign rotated = BusBits'({in_suffix_i, in_suffix_i} >> {used[3:0], 3'd0});

  always_comb begin
    beat  = in_beat_i;
    place = '0;
    if (in_beat_i.last) begin
      for (int unsigned i = 0; i < BusBytes; i++) begin
        place = 6'(i) + (spill_q ? 6'd16 : 6'd0);
        if (place >= total) beat.data[BusBits-1-8*i-:8] = 8'd0;
        else if (place >= 6'(used)) beat.data[BusBits-1-8*i-:8] = rotated[BusBits-1-8*i-:8];
      end
      beat.last = spill_q || !spill;
      beat.tail = beat.last ? 4'(total - 6'd1) : 4'd15;
    end
  end

  assign put        = in_valid_i && room;
  assign in_ready_o = room && (spill_q || !spill);
  assign spill_d    = put ? spill && !spill_q : spill_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) spill_q <= 1'b0;
    else spill_q <= spill_d;
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

  // The suffix is not longer than the port.
  `CV_ASSUME(SuffixInRange_A, !in_valid_i || !in_beat_i.last || in_bytes_i <= 5'd16)
  // A beat that spills is the last one.
  `CV_ASSERT(SpillAtEnd_A, !spill_q || !in_valid_i || spill)

endmodule
