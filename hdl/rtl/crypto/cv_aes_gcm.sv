// AES-GCM for ESP (RFC 4106), both directions, one block a cycle.
//
// Function     Each packet brings its job with the first beat: key, nonce, additional data, payload
//              length, powers of the hash key. The payload is en- or decrypted; the tag over what
//              is (or was) on the wire comes once for each packet. Comparing tags is left to the
//              user. The header `Rest` passes through.
//
//                beats -> issue -+-> data FIFO ------------------+-> XOR -> output FIFO
//                                +-> AES pipe -> key stream FIFO-+-> GHASH -> tag FIFO
//
// Parameters   Rest (header type).
// Latency      18 cycles from a packet's first beat to its first output beat; the tag follows 6
//              cycles after the last one.
// Throughput   1 beat a cycle, and 2 cycles a packet: n + 2 cycles for n beats.
// Comb. paths  none from input to output.
// Stalls       in_ready_o is low for one cycle before each packet, and while 32 blocks are under
//              way that the output has not taken, or two tags wait.

`include "culvert_assert.svh"

module cv_aes_gcm
  import culvert_pkg::*;
  import aes_pkg::*;
  import gcm_pkg::*;
#(
  parameter type Rest = logic [7:0]
) (
  input logic clk_i,
  input logic rst_ni,

  input  logic     in_valid_i,
  output logic     in_ready_o,
  input  beat_t    in_beat_i,
  // Read with a packet's first beat.
  input  gcm_job_t in_job_i,
  input  Rest      in_rest_i,

  output logic  out_valid_o,
  input  logic  out_ready_i,
  output beat_t out_beat_o,
  output Rest   out_rest_o,

  output logic   tag_valid_o,
  input  logic   tag_ready_i,
  output state_t tag_o
);

  // Blocks under way between issue and XOR: the AES pipe's 15, and what keeps it busy.
  localparam int unsigned Credits = 32;
  localparam int unsigned CreditWidth = $clog2(Credits + 1);
  localparam int unsigned MaxTags = 4;

  // Issue: the counter block 1 for the tag, then one counter block for each beat.
  logic at_first_q, in_packet_q;  // the counter block 1 of this packet is on its way
  logic [31:0] counter_q;
  logic issue, issue_first, credit, job_ready, data_ready;
  logic [CreditWidth-1:0] credits_q;
  logic key_take;

  assign credit = credits_q != '0;
  assign issue_first = in_valid_i && at_first_q && !in_packet_q && credit && job_ready;
  assign in_ready_o = in_packet_q && credit && data_ready;
  assign issue = issue_first || (in_valid_i && in_ready_o);

  logic [255:0] key_q;
  key_len_e len_q;
  logic [95:0] nonce_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      at_first_q  <= 1'b1;
      in_packet_q <= 1'b0;
      counter_q   <= '0;
      credits_q   <= CreditWidth'(Credits);
    end else begin
      if (issue_first) begin
        in_packet_q <= 1'b1;
        counter_q   <= 32'd2;
      end else if (in_valid_i && in_ready_o) begin
        at_first_q <= in_beat_i.last;
        counter_q  <= counter_q + 32'd1;
        if (in_beat_i.last) in_packet_q <= 1'b0;
      end
      credits_q <= credits_q - CreditWidth'(issue) + CreditWidth'(key_take);
    end
  end

  always_ff @(posedge clk_i) begin
    if (issue_first) begin
      key_q   <= in_job_i.key;
      len_q   <= in_job_i.len;
      nonce_q <= in_job_i.nonce;
    end
  end

  logic stream_valid;
  state_t stream;

  cv_aes_pipe u_pipe (
    .clk_i,
    .rst_ni,
    .in_valid_i (issue),
    .in_block_i (issue_first ? {in_job_i.nonce, 32'd1} : {nonce_q, counter_q}),
    .in_key_i   (issue_first ? in_job_i.key : key_q),
    .in_len_i   (issue_first ? in_job_i.len : len_q),
    .out_valid_o(stream_valid),
    .out_block_o(stream)
  );

  logic key_valid, key_room;
  state_t key_block;

  cv_fifo #(
    .T    (state_t),
    .Depth(Credits)
  ) u_key_stream (
    .clk_i,
    .rst_ni,
    .in_valid_i (stream_valid),
    .in_ready_o (key_room),
    .in_data_i  (stream),
    .out_valid_o(key_valid),
    .out_ready_i(key_take),
    .out_data_o (key_block),
    .count_o    ()
  );

  // What the second half needs to know of a packet.
  typedef struct packed {
    logic                     decrypt;
    logic [95:0]              aad;
    logic                     aad_long;
    logic [15:0]              bytes;
    logic [Stages-1:0][127:0] powers;
    Rest                      rest;
  } second_t;

  second_t job;
  logic job_valid, job_take;

  cv_fifo #(
    .T    (second_t),
    .Depth(MaxTags)
  ) u_jobs (
    .clk_i,
    .rst_ni,
    .in_valid_i (issue_first),
    .in_ready_o (job_ready),
    .in_data_i  ('{decrypt: in_job_i.decrypt, aad: in_job_i.aad, aad_long: in_job_i.aad_long,
                   bytes: in_job_i.bytes, powers: in_job_i.powers, rest: in_rest_i}),
    .out_valid_o(job_valid),
    .out_ready_i(job_take),
    .out_data_o (job),
    .count_o    ()
  );

  logic data_valid, data_take;
  beat_t data;

  cv_fifo #(
    .T    (beat_t),
    .Depth(Credits)
  ) u_data (
    .clk_i,
    .rst_ni,
    .in_valid_i (in_valid_i && in_packet_q && credit),
    .in_ready_o (data_ready),
    .in_data_i  (in_beat_i),
    .out_valid_o(data_valid),
    .out_ready_i(data_take),
    .out_data_o (data),
    .count_o    ()
  );

  // XOR and GHASH: additional data, payload, lengths.
  typedef enum logic [1:0] {
    StAad,
    StData,
    StLength
  } state_e;

  state_e state_d, state_q;
  logic [12:0] left_q;  // blocks that follow the next one in GHASH
  logic [12:0] left_start;
  logic hash_valid, mask_room, out_room, tags_room;
  state_t hash_in, mask_in, keep;
  beat_t out_beat;

  // Payload blocks; GHASH has the lengths after them.
  assign left_start = 13'((17'(job.bytes) + 17'd15) >> 4) + 13'd1;

  always_comb begin
    for (int unsigned i = 0; i < BusBytes; i++) begin
      keep[127-8*i-:8] = (i <= 32'(data.tail)) ? 8'hff : 8'h00;
    end
  end

  always_comb begin
    state_d    = state_q;
    hash_valid = 1'b0;
    hash_in    = '0;
    key_take   = 1'b0;
    data_take  = 1'b0;
    job_take   = 1'b0;
    out_beat   = data;
    out_beat.data = (data.data ^ key_block) & keep;
    unique case (state_q)
      StAad: begin
        hash_in = {job.aad[95:32], job.aad_long ? job.aad[31:0] : 32'd0, 32'd0};
        if (key_valid && job_valid && mask_room && tags_room) begin
          hash_valid = 1'b1;
          key_take   = 1'b1;
          state_d    = StData;
        end
      end
      StData: begin
        hash_in = job.decrypt ? data.data & keep : out_beat.data;
        if (key_valid && data_valid && out_room) begin
          hash_valid = 1'b1;
          key_take   = 1'b1;
          data_take  = 1'b1;
          if (data.last) state_d = StLength;
        end
      end
      StLength: begin
        hash_in    = {64'(job.aad_long ? 96 : 64), 45'd0, job.bytes, 3'd0};
        hash_valid = 1'b1;
        job_take   = 1'b1;
        state_d    = StAad;
      end
      default: state_d = StAad;
    endcase
  end

  logic [12:0] left;
  assign left = (state_q == StAad) ? left_start : left_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= StAad;
      left_q  <= '0;
    end else begin
      state_q <= state_d;
      if (hash_valid) left_q <= left - 13'd1;
    end
  end

  cv_packet_fifo #(
    .Hdr    (Rest),
    .Depth  (4),
    .Packets(4)
  ) u_out (
    .clk_i,
    .rst_ni,
    .in_valid_i (data_take),
    .in_ready_o (out_room),
    .in_beat_i  (out_beat),
    .in_hdr_i   (job.rest),
    .out_valid_o,
    .out_ready_i,
    .out_beat_o,
    .out_hdr_o  (out_rest_o),
    .packets_o  ()
  );

  logic hash_done;
  state_t hash;

  cv_ghash u_ghash (
    .clk_i,
    .rst_ni,
    .in_valid_i (hash_valid),
    .in_block_i (hash_in),
    .in_powers_i(job.powers),
    .in_first_i (state_q == StAad),
    .in_after_i ((left > 13'd3) ? 2'd3 : left[1:0]),
    .in_more_i  (left > 13'd3),
    .out_valid_o(hash_done),
    .out_hash_o (hash)
  );

  // The encrypted counter block 1 waits for the hash; a place for the tag is set aside with it.
  logic mask_valid, tag_room;
  state_t mask;
  logic [2:0] tags_q;  // tags that are due or wait

  assign mask_in = key_block;
  assign tags_room = tags_q != 3'(MaxTags);

  cv_fifo #(
    .T    (state_t),
    .Depth(MaxTags)
  ) u_masks (
    .clk_i,
    .rst_ni,
    .in_valid_i (hash_valid && state_q == StAad),
    .in_ready_o (mask_room),
    .in_data_i  (mask_in),
    .out_valid_o(mask_valid),
    .out_ready_i(hash_done),
    .out_data_o (mask),
    .count_o    ()
  );

  cv_fifo #(
    .T    (state_t),
    .Depth(MaxTags)
  ) u_tags (
    .clk_i,
    .rst_ni,
    .in_valid_i (hash_done),
    .in_ready_o (tag_room),
    .in_data_i  (hash ^ mask),
    .out_valid_o(tag_valid_o),
    .out_ready_i(tag_ready_i),
    .out_data_o (tag_o),
    .count_o    ()
  );

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) tags_q <= '0;
    else begin
      tags_q <= tags_q + 3'(hash_valid && state_q == StAad) - 3'(tag_valid_o && tag_ready_i);
    end
  end

  // The key stream always finds room: credits see to it.
  `CV_ASSERT(StreamFindsRoom_A, !stream_valid || key_room)
  // A finished hash finds its mask and a place for its tag.
  `CV_ASSERT(TagFindsRoom_A, !hash_done || (mask_valid && tag_room))
  // The payload has the length that its job says.
  `CV_ASSERT(LengthIsTrue_A, state_q != StLength || left_q == '0)

endmodule
