// Decapsulation, second half: from decrypted data to the inner packet (RFC 4303 sections 2.4 to 2.7).
//
// Function     Checks padding and next header, cuts off what stands before and behind the payload,
//              and makes the packet that was protected:
//                tunnel     version and length of the inner header are checked, TFC padding behind
//                           it is cut, and the outer header's ECN is carried over (RFC 6040);
//                transport  the IP header that stood in front of ESP is put before the payload,
//                           with length, protocol and checksum set.
//              Dummy packets (next header 59) end here, as DropInner. Clear packets pass unchanged.
//              The SAD is told how many bytes of payload came by ESP, padding for traffic flow with
//              them, as Linux counts them; of a packet that is dropped here, none.
//
//                in -+-> hold ------------------------> header, payload -> cv_packer -> out
//                    +-> scan -> lengths -> headers -> verdict
//
// Parameters   Depth (beats held; more than MaxBytes / 16), Packets (that may wait).
// Latency      From a packet's last beat to the first one out: 7 cycles.
// Throughput   1 beat a cycle, and for a packet that does not end or begin with a beat, or gets its
//              header back, up to 4 cycles more; not more packets than the SAD counts.
// Comb. paths  none from input to output.
// Stalls       in_ready_o is low while the memory is full, `Packets` verdicts wait, or 4 packets wait
//              to be counted.

`include "culvert_assert.svh"

module cv_uncover
  import culvert_pkg::*;
  import gateway_pkg::*;
#(
  parameter int unsigned Depth   = 1024,
  parameter int unsigned Packets = 8
) (
  input logic clk_i,
  input logic rst_ni,

  input  logic       in_valid_i,
  output logic       in_ready_o,
  input  beat_t      in_beat_i,
  input  clear_hdr_t in_hdr_i,   // constant during a packet

  // Client of the SAD: SadCount. Its answer says nothing.
  output logic     req_valid_o,
  input  logic     req_ready_i,
  output sad_req_t req_o,
  input  logic     rsp_valid_i,
  output logic     rsp_ready_o,

  output logic       out_valid_o,
  input  logic       out_ready_i,
  output beat_t      out_beat_o,
  output clear_hdr_t out_hdr_o,  // only `low`, `clear` and `reqid`; the rest is zero

  output logic  drop_valid_o,
  output drop_e drop_reason_o
);

  localparam logic [7:0] NextIpv4 = 8'd4;
  localparam logic [7:0] NextIpv6 = 8'd41;
  localparam logic [7:0] NextNone = 8'd59;

  // How a packet leaves: its header's bytes, then `bytes` of what is behind `skip`, the first 16 of
  // them XORed with `mask`.
  typedef struct packed {
    logic                  low;
    logic                  clear;
    sa_index_t             reqid;
    logic [8*NetBytes-1:0] net;
    logic [5:0]            net_bytes;
    logic [4:0]            skip;
    len_t                  bytes;
    logic [BusBits-1:0]    mask;
  } plan_t;

  // Everything up to the verdict moves together, or waits for room for it.
  logic go, take, hold_ready, verdict_valid, verdict_ready, count_room;
  assign go         = !verdict_valid || (verdict_ready && count_room);
  assign in_ready_o = hold_ready && go;
  assign take       = in_valid_i && in_ready_o;

  // ---- Step 1: scan --------------------------------------------------------------------------

  // A beat is looked at in the cycle after it came.
  logic beat_valid_q, first_q, beat_first_q;
  beat_t beat_q;
  clear_hdr_t hdr_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      beat_valid_q <= 1'b0;
      first_q      <= 1'b1;
    end else if (go) begin
      beat_valid_q <= take;
      if (take) first_q <= in_beat_i.last;
    end
  end

  always_ff @(posedge clk_i) begin
    if (take) begin
      beat_q       <= in_beat_i;
      beat_first_q <= first_q;
      if (first_q) hdr_q <= in_hdr_i;
    end
  end

  logic [BusBytes-1:0][7:0] bytes;  // bytes[0] is the first
  always_comb begin
    for (int unsigned i = 0; i < BusBytes; i++) bytes[i] = beat_q.data[BusBits-1-8*i-:8];
  end

  // Padding is 1, 2, 3, ... up to its length, so the last byte of a run that begins with 1 says how
  // long the run is. follows[i]: byte i is one more than the byte before it.
  logic [BusBytes-1:0] follows;
  logic [7:0] run_d, run_q;  // length of the run that the beat before ends with, 0: none
  always_comb begin
    follows[0] = run_q != 8'd0 && bytes[0] == run_q + 8'd1;
    for (int unsigned i = 1; i < BusBytes; i++) follows[i] = bytes[i] == bytes[i-1] + 8'd1;
  end

  // Whether a run ends with byte `at`: it began in this beat, or all of the beat continues it.
  function automatic logic is_run(logic [BusBytes-1:0][7:0] data, logic [BusBytes-1:0] follow,
                                  int unsigned at);
    logic ok;
    ok = data[at] != 8'd0;
    for (int unsigned i = 0; i < BusBytes; i++) begin
      // Byte i belongs to the run if no more than data[at] - 1 bytes lie between, and then follows
      // the one before, unless it is the run's first.
      if (i <= at && 32'(data[at]) > at - i + 1 && !follow[i]) ok = 1'b0;
    end
    return ok;
  endfunction

  assign run_d = is_run(bytes, follows, BusBytes - 1) ? bytes[BusBytes-1] : 8'd0;

  // The trailer. What the ciphers give is whole words of 4 bytes, so it lies in one beat.
  logic [7:0] pad_bytes, next_header;
  logic pad_right;
  always_comb begin
    pad_bytes   = '0;
    next_header = '0;
    pad_right   = 1'b0;
    for (int unsigned end_ = 3; end_ < BusBytes; end_ += 4) begin
      if (32'(beat_q.tail) == end_) begin
        pad_bytes   = bytes[end_-1];
        next_header = bytes[end_];
        pad_right   = bytes[end_-1] == 8'd0 ||
                      (bytes[end_-1] == bytes[end_-2] && is_run(bytes, follows, end_ - 2));
      end
    end
  end

  // Its first 16 bytes behind what is skipped, and its length.
  logic [BusBits-1:0] front_d, front_q;
  logic [1:0] number_q, number;  // of the beat: 0, 1, more
  len_t ahead_q, ahead;  // bytes in the beats before

  assign number = beat_first_q ? 2'd0 : number_q;
  assign ahead = beat_first_q ? '0 : ahead_q;

  always_comb begin
    front_d = front_q;
    unique case (hdr_q.skip)
      5'd0:    if (number == 2'd0) front_d = beat_q.data;
      5'd16:   if (number <= 2'd1) front_d = (number == 2'd0) ? '0 : beat_q.data;
      default: begin
        if (number == 2'd0) front_d = {beat_q.data[63:0], 64'd0};
        if (number == 2'd1) front_d[63:0] = beat_q.data[127:64];
      end
    endcase
  end

  logic ended_q;  // the registers below are those of a whole packet
  len_t length_q;
  logic [7:0] pad_bytes_q, next_header_q;
  logic pad_right_q;
  clear_hdr_t ended_hdr_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) ended_q <= 1'b0;
    else if (go) ended_q <= beat_valid_q && beat_q.last;
  end

  always_ff @(posedge clk_i) begin
    if (go && beat_valid_q) begin
      number_q <= (number == 2'd2) ? 2'd2 : number + 2'd1;
      ahead_q <= ahead + len_t'(BusBytes);
      run_q    <= beat_q.last ? 8'd0 : run_d;
      front_q  <= front_d;
      if (beat_q.last) begin
        length_q      <= ahead + len_t'(beat_q.tail) + len_t'(1);
        pad_bytes_q   <= pad_bytes;
        next_header_q <= next_header;
        pad_right_q   <= pad_right;
        ended_hdr_q   <= hdr_q;
      end
    end
  end

  // ---- Step 2: lengths -----------------------------------------------------------------------

  // Of what was decrypted, skipped bytes and trailer; of the payload what is left.
  len_t overhead, payload;
  logic pad_fits;
  assign overhead = len_t'(ended_hdr_q.skip) + len_t'(pad_bytes_q) + len_t'(2);
  assign payload  = length_q - overhead;
  assign pad_fits = length_q >= overhead;

  // The inner header: version, length, ECN.
  logic inner_v6, inner_fits;
  logic [16:0] inner_bytes;
  logic [1:0] inner_ecn, outer_ecn, new_ecn;
  logic ecn_lost;
  assign inner_v6    = next_header_q == NextIpv6;
  assign inner_bytes = inner_v6 ? 17'(front_q[95:80]) + 17'd40 : 17'(front_q[111:96]);
  assign inner_fits  = inner_bytes <= 17'(payload) && payload >= (inner_v6 ? 14'd40 : 14'd20) &&
                       inner_bytes >= 17'd20;
  assign inner_ecn   = inner_v6 ? front_q[117:116] : front_q[113:112];
  assign outer_ecn   = ended_hdr_q.ip.tos[1:0];

  // RFC 6040 section 4.2, figure 4.
  always_comb begin
    new_ecn  = inner_ecn;
    ecn_lost = 1'b0;
    if (outer_ecn == 2'b11) begin
      ecn_lost = inner_ecn == 2'b00;
      if (inner_ecn != 2'b00) new_ecn = 2'b11;
    end else if (outer_ecn == 2'b01 && inner_ecn == 2'b10) begin
      new_ecn = 2'b01;
    end
  end

  drop_e drop;
  always_comb begin
    drop = DropNone;
    if (ended_hdr_q.clear) drop = DropNone;
    else if (!pad_right_q || !pad_fits) drop = DropPadding;
    else if (next_header_q == NextNone) drop = DropInner;
    else if (ended_hdr_q.tunnel) begin
      if (next_header_q == NextIpv4 ? front_q[127:124] != 4'd4 :
          next_header_q == NextIpv6 ? front_q[127:124] != 4'd6 : 1'b1) drop = DropInner;
      else if (!inner_fits || ecn_lost) drop = DropInner;
    end
  end

  logic decided_q;  // the registers below are those of a packet
  drop_e drop_q;
  clear_hdr_t decided_hdr_q;
  len_t keep_q;  // bytes of the payload that leave
  len_t payload_q;  // all of them
  logic [1:0] ecn_flip_q;
  logic decided_v6_q;
  logic [31:0] marked_q;  // first word and checksum of the inner header
  logic [7:0] proto_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) decided_q <= 1'b0;
    else if (go) decided_q <= ended_q;
  end

  always_ff @(posedge clk_i) begin
    if (go && ended_q) begin
      drop_q        <= drop;
      decided_hdr_q <= ended_hdr_q;
      keep_q        <= ended_hdr_q.clear ? length_q :
                       ended_hdr_q.tunnel ? len_t'(inner_bytes) : payload;
      payload_q     <= payload;
      ecn_flip_q    <= (ended_hdr_q.clear || !ended_hdr_q.tunnel) ? 2'd0 : new_ecn ^ inner_ecn;
      decided_v6_q  <= inner_v6;
      marked_q      <= {front_q[127:112], front_q[47:32]};
      proto_q       <= next_header_q;
    end
  end

  // ---- Step 3: headers -----------------------------------------------------------------------

  // A checksum after one word under it has changed (RFC 1624 equation 3).
  function automatic logic [15:0] mend(logic [15:0] sum, logic [15:0] old, logic [15:0] now);
    logic [17:0] wide;
    logic [16:0] once;
    wide = {2'b00, ~sum} + {2'b00, ~old} + {2'b00, now};
    once = 17'(wide[15:0]) + 17'(wide[17:16]);
    return ~(once[15:0] + 16'(once[16]));
  endfunction

  plan_t plan, plan_out;
  logic [15:0] word, total;
  always_comb begin
    plan           = '0;
    plan.low       = decided_hdr_q.low;
    plan.clear     = decided_hdr_q.clear;
    plan.reqid     = decided_hdr_q.clear ? '0 : decided_hdr_q.reqid;
    plan.skip      = decided_hdr_q.clear ? '0 : decided_hdr_q.skip;
    plan.bytes     = keep_q;
    plan.net       = decided_hdr_q.net;
    plan.net_bytes = (decided_hdr_q.clear || decided_hdr_q.tunnel) ? '0 :
                     decided_hdr_q.ip.hdr_bytes;

    // Tunnel: ECN, in the first word, and IPv4's checksum.
    word = marked_q[31:16] ^ (decided_v6_q ? {10'd0, ecn_flip_q, 4'd0} : {14'd0, ecn_flip_q});
    plan.mask[127:112] = marked_q[31:16] ^ word;
    if (!decided_v6_q && ecn_flip_q != 2'd0) begin
      plan.mask[47:32] = marked_q[15:0] ^ mend(marked_q[15:0], marked_q[31:16], word);
    end

    // Transport: length, protocol, and IPv4's checksum. Byte i of the header is net[319-8*i-:8].
    if (decided_hdr_q.ip.v6) begin
      total = 16'(keep_q);
      plan.net[287:272] = total;
      plan.net[271:264] = proto_q;
    end else begin
      total = 16'(keep_q) + 16'(decided_hdr_q.ip.hdr_bytes);
      plan.net[303:288] = total;
      plan.net[247:240] = proto_q;
      plan.net[239:224] = mend(mend(decided_hdr_q.net[239:224], decided_hdr_q.net[303:288], total),
                               decided_hdr_q.net[255:240], plan.net[255:240]);
    end
  end

  assign verdict_valid = decided_q;
  assign drop_valid_o  = verdict_valid && go && drop_q != DropNone;
  assign drop_reason_o = drop_q;

  // What is let through is counted, a request at a time.
  typedef struct packed {
    sa_index_t   sa;
    logic [31:0] spi;
    len_t        bytes;
  } count_t;
  count_t count;
  logic count_valid, asked_q;

  cv_fifo #(
    .T    (count_t),
    .Depth(4)
  ) u_counts (
    .clk_i,
    .rst_ni,
    .in_valid_i (verdict_valid && go && drop_q == DropNone && !decided_hdr_q.clear),
    .in_ready_o (count_room),
    .in_data_i  ('{sa: decided_hdr_q.sa, spi: decided_hdr_q.spi, bytes: payload_q}),
    .out_valid_o(count_valid),
    .out_ready_i(req_ready_i && !asked_q),
    .out_data_o (count),
    .count_o    ()
  );

  assign req_valid_o = count_valid && !asked_q;
  assign rsp_ready_o = 1'b1;
  always_comb begin
    req_o       = '0;
    req_o.op    = SadCount;
    req_o.sa    = count.sa;
    req_o.spi   = count.spi;
    req_o.bytes = count.bytes;
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) asked_q <= 1'b0;
    else asked_q <= (req_valid_o && req_ready_i) || (asked_q && !rsp_valid_i);
  end

  logic held_valid, held_ready;
  beat_t held;

  cv_hold #(
    .Hdr    (plan_t),
    .Depth  (Depth),
    .Packets(Packets)
  ) u_hold (
    .clk_i,
    .rst_ni,
    .in_valid_i     (in_valid_i && go),
    .in_ready_o     (hold_ready),
    .in_beat_i,
    .verdict_valid_i(verdict_valid && count_room),
    .verdict_ready_o(verdict_ready),
    .verdict_keep_i (drop_q == DropNone),
    .verdict_hdr_i  (plan),
    .out_valid_o    (held_valid),
    .out_ready_i    (held_ready),
    .out_beat_o     (held),
    .out_hdr_o      (plan_out)
  );

  // ---- Step 4: the packet --------------------------------------------------------------------

  logic held_first_q, net_q;  // the next beat is a packet's first; the header is out or under way
  logic [1:0] net_chunk_q;
  logic [5:0] net_left;
  logic in_net;
  logic [4:0] skip, skip_q, kept, used;
  len_t left, left_q;
  logic some, chunk_valid, chunk_ready, chunk_last, tags_room;
  logic [4:0] chunk_bytes;
  logic [BusBits-1:0] chunk, mask, mask_q;
  logic put;

  assign net_left = plan_out.net_bytes - {net_chunk_q, 4'd0};
  assign in_net   = held_first_q && !net_q && plan_out.net_bytes != '0;
  assign skip     = held_first_q ? plan_out.skip : skip_q;
  assign left     = held_first_q ? plan_out.bytes : left_q;
  assign mask     = held_first_q ? plan_out.mask : mask_q;
  assign used     = 5'(held.tail) + 5'd1 - skip;  // skip is 0, 8 or 16, and no more than there is
  assign kept     = (left >= len_t'(used)) ? used : 5'(left);
  assign some     = kept != '0;

  always_comb begin
    if (in_net) begin
      chunk       = plan_out.net[8*NetBytes-1-:BusBits];
      if (net_chunk_q == 2'd1) chunk = plan_out.net[8*NetBytes-BusBits-1-:BusBits];
      if (net_chunk_q == 2'd2) chunk = {plan_out.net[8*NetBytes-2*BusBits-1:0], 64'd0};
      chunk_bytes = (net_left >= 6'd16) ? 5'd16 : 5'(net_left);
      chunk_last  = net_left <= 6'd16 && plan_out.bytes == '0;
      chunk_valid = held_valid && tags_room;
    end else begin
      chunk       = (held.data << {skip, 3'b000}) ^ mask;
      chunk_bytes = kept;
      chunk_last  = left == len_t'(kept);
      chunk_valid = held_valid && some && tags_room;
    end
  end

  assign put        = chunk_valid && chunk_ready;
  assign held_ready = !in_net && (!some || (chunk_ready && tags_room));

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      held_first_q <= 1'b1;
      net_q        <= 1'b0;
      net_chunk_q  <= '0;
      skip_q       <= '0;
      left_q       <= '0;
      mask_q       <= '0;
    end else begin
      if (in_net && put) begin
        net_chunk_q <= net_chunk_q + 2'd1;
        net_q       <= net_left <= 6'd16;
      end
      if (held_valid && held_ready) begin
        held_first_q <= held.last;
        net_q        <= 1'b0;
        net_chunk_q  <= '0;
        // Only the first beat is skipped, whole or half; then the mask's other part is still due.
        skip_q <= '0;
        left_q <= left - len_t'(kept);
        mask_q <= (skip == 5'd16) ? mask : (skip == 5'd8) ? {mask[63:0], 64'd0} : '0;
      end
    end
  end

  // Choosing a chunk and aligning it are a cycle's work each.
  typedef struct packed {
    logic [BusBits-1:0] data;
    logic [4:0]         bytes;
    logic               last;
  } chunk_t;
  chunk_t packed_chunk;
  logic packed_valid, packed_ready;

  cv_fifo #(
    .T    (chunk_t),
    .Depth(2)
  ) u_chunks (
    .clk_i,
    .rst_ni,
    .in_valid_i (chunk_valid),
    .in_ready_o (chunk_ready),
    .in_data_i  ('{data: chunk, bytes: chunk_bytes, last: chunk_last}),
    .out_valid_o(packed_valid),
    .out_ready_i(packed_ready),
    .out_data_o (packed_chunk),
    .count_o    ()
  );

  cv_packer u_packer (
    .clk_i,
    .rst_ni,
    .in_valid_i (packed_valid),
    .in_ready_o (packed_ready),
    .in_data_i  (packed_chunk.data),
    .in_bytes_i (packed_chunk.bytes),
    .in_last_i  (packed_chunk.last),
    .out_valid_o,
    .out_ready_i,
    .out_beat_o
  );

  // The header goes along with what the packer and the chunks in front of it hold.
  typedef struct packed {
    logic      low;
    logic      clear;
    sa_index_t reqid;
  } tag_t;
  tag_t tag;
  logic tag_valid, open_q;  // the packet at hand has its tag

  cv_fifo #(
    .T    (tag_t),
    .Depth(6)
  ) u_tags (
    .clk_i,
    .rst_ni,
    .in_valid_i (put && !open_q),
    .in_ready_o (tags_room),
    .in_data_i  ('{low: plan_out.low, clear: plan_out.clear, reqid: plan_out.reqid}),
    .out_valid_o(tag_valid),
    .out_ready_i(out_valid_o && out_ready_i && out_beat_o.last),
    .out_data_o (tag),
    .count_o    ()
  );

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) open_q <= 1'b0;
    else if (put) open_q <= !chunk_last;
  end

  always_comb begin
    out_hdr_o       = '0;
    out_hdr_o.low   = tag.low;
    out_hdr_o.clear = tag.clear;
    out_hdr_o.reqid = tag.reqid;
  end

  // An answer comes only to a request.
  `CV_ASSUME(AnswerToRequest_A, !rsp_valid_i || asked_q)
  // A packet never leaves without its header.
  `CV_ASSERT(PacketHasTag_A, !out_valid_o || tag_valid)
  // No more leaves of a packet than came of it.
  `CV_ASSERT(AllIsThere_A, !held_valid || !held_ready || !held.last || left == len_t'(kept))
  // The ciphers give whole words, and more than what is skipped.
  `CV_ASSUME(WholeWords_A, !in_valid_i || in_hdr_i.clear || !in_beat_i.last ||
                           in_beat_i.tail[1:0] == 2'd3)
  `CV_ASSUME(MoreThanSkip_A, !in_valid_i || in_hdr_i.clear || !in_beat_i.last || !first_q ||
                             5'(in_beat_i.tail) >= in_hdr_i.skip)
  // What is skipped is a cipher block, or nothing.
  `CV_ASSUME(SkipIsBlock_A, !in_valid_i || in_hdr_i.clear || in_hdr_i.skip == 5'd0 ||
                            in_hdr_i.skip == 5'd8 || in_hdr_i.skip == 5'd16)

endmodule
