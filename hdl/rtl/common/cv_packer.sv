// Joins chunks of 1 to 16 bytes into full beats, without gaps.
//
// Function     A packet comes as chunks, left-aligned, each with its number of bytes; it leaves as
//              beats of 16 bytes, the last one shorter where need be, with the rest of it zero.
// Latency      1 cycle for a chunk that completes a beat.
// Throughput   1 chunk a cycle; a packet whose last chunk spills over a beat takes one cycle more.
// Comb. paths  none from input to output or back.
// Stalls       in_ready_o is low during the extra cycle and while two beats wait at the output.

`include "culvert_assert.svh"

module cv_packer
  import culvert_pkg::*;
(
  input logic clk_i,
  input logic rst_ni,

  input  logic               in_valid_i,
  output logic               in_ready_o,
  input  logic [BusBits-1:0] in_data_i,
  input  logic [4:0]         in_bytes_i,  // 1 to 16; bytes beyond are ignored
  input  logic               in_last_i,

  output logic  out_valid_o,
  input  logic  out_ready_i,
  output beat_t out_beat_o
);

  logic [BusBits-1:0] hold_d, hold_q;  // bytes that wait for a full beat, left-aligned
  logic [3:0] fill_d, fill_q;  // how many
  logic spill_d, spill_q;  // hold_q is the rest of a packet whose last chunk has come

  logic emit, room;
  beat_t beat;

  logic [2*BusBits-1:0] joined;
  logic [BusBits-1:0] chunk;
  logic [5:0] total;

  always_comb begin
    for (int unsigned i = 0; i < BusBytes; i++) begin
      chunk[BusBits-1-8*i-:8] = (i < 32'(in_bytes_i)) ? in_data_i[BusBits-1-8*i-:8] : 8'h00;
    end
  end

  assign joined = {hold_q, BusBits'(0)} | ({chunk, BusBits'(0)} >> {fill_q, 3'b000});
  assign total = 6'(fill_q) + 6'(in_bytes_i);
  assign in_ready_o = room && !spill_q;

  always_comb begin
    hold_d  = hold_q;
    fill_d  = fill_q;
    spill_d = spill_q;
    emit    = 1'b0;
    beat    = '{data: joined[2*BusBits-1-:BusBits], tail: 4'd15, last: 1'b0};
    if (room && spill_q) begin
      emit    = 1'b1;
      beat    = '{data: hold_q, tail: fill_q - 4'd1, last: 1'b1};
      hold_d  = '0;
      fill_d  = '0;
      spill_d = 1'b0;
    end else if (in_ready_o && in_valid_i) begin
      emit = total >= 6'd16 || in_last_i;
      if (emit) begin
        hold_d  = joined[BusBits-1:0];
        fill_d  = (total >= 6'd16) ? total[3:0] : 4'd0;
        spill_d = in_last_i && total > 6'd16;
        beat.last = in_last_i && total <= 6'd16;
        if (beat.last) begin
          beat.tail = 4'(total - 6'd1);
          hold_d    = '0;
          fill_d    = '0;
        end
      end else begin
        hold_d = joined[2*BusBits-1-:BusBits];
        fill_d = total[3:0];
      end
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      hold_q  <= '0;
      fill_q  <= '0;
      spill_q <= 1'b0;
    end else begin
      hold_q  <= hold_d;
      fill_q  <= fill_d;
      spill_q <= spill_d;
    end
  end

  cv_fifo #(
    .T    (beat_t),
    .Depth(2)
  ) u_out (
    .clk_i,
    .rst_ni,
    .in_valid_i (emit),
    .in_ready_o (room),
    .in_data_i  (beat),
    .out_valid_o,
    .out_ready_i,
    .out_data_o (out_beat_o),
    .count_o    ()
  );

  // A packet's last chunk spilled over a beat; one filled it exactly; the output was blocked.
  `CV_COVER(Spill_C, emit && spill_q)
  `CV_COVER(Exact_C, emit && !spill_q && beat.last && beat.tail == 4'd15)
  `CV_COVER(Blocked_C, in_valid_i && !room)
  // The environment offers between 1 and 16 bytes.
  `CV_ASSUME(BytesInRange_A, !in_valid_i || (in_bytes_i >= 5'd1 && in_bytes_i <= 5'd16))
  // Only a spilled rest stays behind a packet's end.
  `CV_ASSERT(SpillHasBytes_A, !spill_q || fill_q != '0)
  // A beat that is not the last is full.
  `CV_ASSERT(FullBeats_A, !out_valid_o || out_beat_o.last || out_beat_o.tail == 4'd15)

endmodule
