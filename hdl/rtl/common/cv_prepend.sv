// Puts bytes before a packet's first one: a prefix of any length, without gaps.
//
// Function     A packet leaves as prefix, then data, in full beats, the last one shorter where need
//              be. The header `Rest` passes through.
// Parameters   MaxBytes (longest prefix), Rest (header type).
// Latency      1 cycle.
// Throughput   1 output beat a cycle, none lost between packets: a prefix of p bytes and n bytes of
//              data take ceil((p + n) / 16) cycles.
// Comb. paths  none from input to output. in_ready_o depends on in_bytes_i and in_beat_i, not on
//              in_valid_i or out_ready_i.
// Stalls       in_ready_o is low during whole beats of prefix, during the first of the two cycles
//              of a last beat that spills, and while two beats wait at the output.

`include "culvert_assert.svh"

module cv_prepend
  import culvert_pkg::*;
#(
  parameter  int unsigned MaxBytes  = 16,
  parameter  type         Rest      = logic [7:0],
  localparam int unsigned ByteWidth = $clog2(MaxBytes + 1)
) (
  input logic clk_i,
  input logic rst_ni,

  input  logic                  in_valid_i,
  output logic                  in_ready_o,
  input  beat_t                 in_beat_i,
  // Constant during a packet, but for the prefix, which is read up to the packet's first beat.
  input  logic [8*MaxBytes-1:0] in_prefix_i,  // left-aligned; bytes beyond in_bytes_i are ignored
  input  logic [ByteWidth-1:0]  in_bytes_i,   // 0 to MaxBytes
  input  Rest                   in_rest_i,

  output logic  out_valid_o,
  input  logic  out_ready_i,
  output beat_t out_beat_o,
  output Rest   out_rest_o    // the same during all beats of a packet
);

  localparam int unsigned Chunks = (MaxBytes + BusBytes - 1) / BusBytes;
  localparam int unsigned PaddedBits = BusBits * Chunks;
  localparam int unsigned IndexWidth = $clog2(Chunks + 1);
  typedef logic [IndexWidth-1:0] index_t;

  index_t index_d, index_q;  // whole beats of prefix that have left
  index_t whole;  // ... that this packet has
  logic [3:0] odd;  // prefix bytes behind those
  logic started_d, started_q;  // a data beat has left: what it left behind is in carry_q
  logic spill_d, spill_q;  // the last beat's end is all that is left
  logic room, put, take;
  beat_t beat;

  // The prefix as beats, and the one that is due.
  logic [PaddedBits-1:0] padded;
  logic [BusBits-1:0] chunk;
  assign padded = PaddedBits'(in_prefix_i) << (PaddedBits - 8 * MaxBytes);
  always_comb begin
    chunk = '0;
    for (int unsigned i = 0; i < Chunks; i++) begin
      if (index_q == index_t'(i)) chunk = padded[PaddedBits-1-BusBits*i-:BusBits];
    end
  end

  logic [ByteWidth+3:0] bytes;
  assign bytes = (ByteWidth + 4)'(in_bytes_i);
  assign whole = index_t'(bytes >> 4);
  assign odd   = bytes[3:0];

  // Data, rotated: its first 16 - odd bytes stand where this beat wants them, the others where the
  // next one does.
  logic [BusBits-1:0] rotated, carry_q;
  logic [5:0] total;
  logic spill;
  assign rotated = BusBits'({in_beat_i.data, in_beat_i.data} >> {odd, 3'd0});
  assign total   = 6'(odd) + 6'(in_beat_i.tail) + 6'd1;
  assign spill   = in_beat_i.last && total > 6'd16;

  always_comb begin
    index_d   = index_q;
    started_d = started_q;
    spill_d   = spill_q;
    put       = in_valid_i && room;
    take      = 1'b0;
    beat      = '{data: chunk, tail: 4'd15, last: 1'b0};
    if (index_q != whole) begin
      if (put) index_d = index_q + 1'b1;
    end else begin
      for (int unsigned i = 0; i < BusBytes; i++) begin
        if (spill_q) begin
          beat.data[BusBits-1-8*i-:8] = (i < 32'(odd)) ? rotated[BusBits-1-8*i-:8] : 8'd0;
        end else if (i >= 32'(odd)) begin
          beat.data[BusBits-1-8*i-:8] = rotated[BusBits-1-8*i-:8];
        end else begin
          beat.data[BusBits-1-8*i-:8] = started_q ? carry_q[BusBits-1-8*i-:8] :
                                        chunk[BusBits-1-8*i-:8];
        end
      end
      take      = spill_q || !spill;
      beat.last = in_beat_i.last && take;
      beat.tail = beat.last ? 4'(total - 6'd1) : 4'd15;
      if (put) begin
        spill_d   = !take;
        started_d = !beat.last;
        if (beat.last) index_d = '0;
      end
    end
  end

  assign in_ready_o = room && take;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      index_q   <= '0;
      started_q <= 1'b0;
      spill_q   <= 1'b0;
    end else begin
      index_q   <= index_d;
      started_q <= started_d;
      spill_q   <= spill_d;
    end
  end

  always_ff @(posedge clk_i) begin
    if (put) carry_q <= rotated;
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

  // The prefix is not longer than the port.
  `CV_ASSUME(PrefixInRange_A, !in_valid_i || 32'(in_bytes_i) <= MaxBytes)
  // The beats of prefix never run past what the packet has.
  `CV_ASSERT(PrefixInStep_A, !in_valid_i || index_q <= whole)
  // A beat that spills is the last one.
  `CV_ASSERT(SpillAtEnd_A, !spill_q || !in_valid_i || spill)

endmodule
