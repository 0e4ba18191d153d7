// DES-ECB, one block a cycle. For benchmarks only: it shows the published gateway's figures, whose
// cipher was ECB. ECB hides no patterns and is no cipher for ESP; no SA can ask for it.
//
// Function     En- or decrypts a packet's blocks one by one, with key1 of its job. Payloads are
//              whole blocks of 8 bytes. The header `Rest` passes through.
// Parameters   Rest (header type).
// Latency      18 cycles from a packet's first beat to its first output beat.
// Throughput   2 cycles a beat: 64 bits a cycle, without gaps between packets.
// Comb. paths  none from input to output.
// Stalls       in_ready_o is low in the first of a beat's two cycles, and while 16 beats are under
//              way that the output has not taken.

`include "culvert_assert.svh"

module cv_des_ecb
  import culvert_pkg::*;
  import des_pkg::*;
#(
  parameter type Rest = logic [7:0]
) (
  input logic clk_i,
  input logic rst_ni,

  input  logic     in_valid_i,
  output logic     in_ready_o,
  input  beat_t    in_beat_i,
  // Read with a packet's first beat.
  input  des_job_t in_job_i,
  input  Rest      in_rest_i,

  output logic  out_valid_o,
  input  logic  out_ready_i,
  output beat_t out_beat_o,
  output Rest   out_rest_o
);

  localparam int unsigned Credits = 16;
  localparam int unsigned CreditWidth = $clog2(Credits + 1);

  // Goes along with a block.
  typedef struct packed {
    logic       low;   // the second block of its beat
    logic [3:0] tail;
    logic       last;
    Rest        rest;
  } tag_t;

  typedef struct packed {
    beat_t beat;
    Rest   rest;
  } out_t;

  logic at_first_q, low_q, one_block, send, leave;
  logic [CreditWidth-1:0] credits_q;
  block_t key_q;
  logic decrypt_q;
  Rest rest_q;

  assign one_block  = in_beat_i.tail == 4'd7;
  assign send       = in_valid_i && (low_q || credits_q != '0);
  assign in_ready_o = send && (low_q || one_block);
  assign leave      = out_valid_o && out_ready_i;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      at_first_q <= 1'b1;
      low_q      <= 1'b0;
      credits_q  <= CreditWidth'(Credits);
    end else begin
      if (in_ready_o) at_first_q <= in_beat_i.last;
      if (send) low_q <= !low_q && !one_block;
      credits_q <= credits_q - CreditWidth'(send && !low_q) + CreditWidth'(leave);
    end
  end

  logic first;
  assign first = at_first_q && !low_q;

  always_ff @(posedge clk_i) begin
    if (send && first) begin
      key_q     <= in_job_i.key1;
      decrypt_q <= in_job_i.decrypt;
      rest_q    <= in_rest_i;
    end
  end

  logic pipe_valid;
  block_t pipe_out, high_q;
  tag_t tag, pipe_tag;

  assign tag = '{low: low_q, tail: in_beat_i.tail, last: in_beat_i.last,
                 rest: first ? in_rest_i : rest_q};

  cv_des_pipe #(
    .Tag(tag_t)
  ) u_pipe (
    .clk_i,
    .rst_ni,
    .in_valid_i  (send),
    .in_block_i  (low_q ? in_beat_i.data[63:0] : in_beat_i.data[127:64]),
    .in_key_i    (first ? in_job_i.key1 : key_q),
    .in_decrypt_i(first ? in_job_i.decrypt : decrypt_q),
    .in_tag_i    (tag),
    .out_valid_o (pipe_valid),
    .out_block_o (pipe_out),
    .out_tag_o   (pipe_tag)
  );

  always_ff @(posedge clk_i) begin
    if (pipe_valid && !pipe_tag.low) high_q <= pipe_out;
  end

  out_t out_in, out_out;
  logic whole, out_room;
  assign whole = pipe_valid && (pipe_tag.low || pipe_tag.tail == 4'd7);
  assign out_in.beat = '{
    data: pipe_tag.low ? {high_q, pipe_out} : {pipe_out, 64'd0},
    tail: pipe_tag.tail,
    last: pipe_tag.last
  };
  assign out_in.rest = pipe_tag.rest;

  cv_fifo #(
    .T    (out_t),
    .Depth(Credits)
  ) u_out (
    .clk_i,
    .rst_ni,
    .in_valid_i (whole),
    .in_ready_o (out_room),
    .in_data_i  (out_in),
    .out_valid_o,
    .out_ready_i,
    .out_data_o (out_out),
    .count_o    ()
  );

  assign out_beat_o = out_out.beat;
  assign out_rest_o = out_out.rest;

  // The environment offers whole blocks.
  `CV_ASSUME(WholeBlocks_A, !in_valid_i || in_beat_i.tail[2:0] == 3'd7)
  // Credits see to it that a finished beat finds room.
  `CV_ASSERT(OutFindsRoom_A, !whole || out_room)

endmodule
