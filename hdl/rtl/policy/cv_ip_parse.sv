// Reads the headers of IP packets that pass by: version, lengths, checksum, addresses, protocol and
// ports.
//
// Function     Watches a stream of packets. `head_*` says of each packet, once, what its headers
//              hold, or why it is to be dropped; `tail_*` says, once and not before `head_*`, whether
//              the packet is whole. IPv4 options are skipped. Of IPv6's extension headers hop-by-hop,
//              routing, destination options, AH and fragment are, if they end within the first
//              128 bytes; a header that does not is taken for the upper layer, without ports.
//              A fragment's protocol is the upper layer's; later fragments have no ports.
// Checked      Version; IPv4 header length and checksum; that the headers, and the ports (ICMP: type
//              and code) where there must be some, lie inside the packet; that no fragment ends
//              beyond 65535 bytes; that hop-by-hop options come first and the fragment header once:
//              DropHeader. That the packet is as long as its header says and not longer than
//              MaxBytes: DropTooLong, at once when the limit is passed.
// Latency      head_valid_o: 1 cycle after the headers' last 8 bytes were read. tail_valid_o: 1 cycle
//              after the last beat was taken, or after the first one beyond MaxBytes.
// Throughput   1 beat in 2 cycles within the headers, 1 beat a cycle behind them.
// Comb. paths  none; in_ready_o depends on registers only.
// Stalls       in_ready_o is low in the first of those 2 cycles. Nothing else stalls: who cannot take
//              a pulse must not offer a packet.

`include "culvert_assert.svh"

module cv_ip_parse
  import culvert_pkg::*;
  import gateway_pkg::*;
(
  input logic clk_i,
  input logic rst_ni,

  input  logic  in_valid_i,
  output logic  in_ready_o,
  input  beat_t in_beat_i,

  // A pulse of one cycle for each packet.
  output logic       head_valid_o,
  output drop_e      head_drop_o,      // DropNone, or DropHeader: then the rest does not count
  output ip_info_t   head_info_o,      // `bytes` is what the header says
  output selector_t  head_select_o,
  output logic       head_fragment_o,  // first or later fragment
  output logic [7:0] head_upper_o,     // where the upper layer begins

  // A pulse of one cycle for each packet, with head_valid_o or after it.
  output logic  tail_valid_o,
  output drop_e tail_drop_o  // DropNone, DropHeader (as head_drop_o), DropTooLong
);

  localparam int unsigned MaxHeader = 128;
  localparam int unsigned MaxWords = MaxHeader / 8;
  localparam int unsigned WordWidth = $clog2(MaxWords + 2);
  typedef logic [WordWidth-1:0] word_t;  // counts words of 8 bytes

  // Extension headers.
  localparam logic [7:0] HopByHop = 8'd0;
  localparam logic [7:0] Routing = 8'd43;
  localparam logic [7:0] Fragment = 8'd44;
  localparam logic [7:0] Authentication = 8'd51;
  localparam logic [7:0] DestOptions = 8'd60;

  function automatic logic is_extension(logic [7:0] kind);
    return kind inside {HopByHop, Routing, Fragment, Authentication, DestOptions};
  endfunction

  // TCP, UDP, DCCP, SCTP, UDP-Lite.
  function automatic logic has_ports(logic [7:0] kind);
    return kind inside {8'd6, 8'd17, 8'd33, 8'd132, 8'd136};
  endfunction

  function automatic logic is_icmp(logic [7:0] kind);
    return kind inside {8'd1, 8'd58};
  endfunction

  // There is something to be read in a header of this kind.
  function automatic logic is_read(logic [7:0] kind);
    return is_extension(kind) || has_ports(kind) || is_icmp(kind);
  endfunction

  // ---- What is known of the packet ---------------------------------------------------------

  typedef struct packed {
    logic         v6;
    logic [7:0]   tos;
    logic         df;
    logic [16:0]  total;      // length that the header says
    logic [7:0]   proto;      // IPv4 protocol, IPv6 next header
    logic [127:0] src;
    logic [127:0] dst;
    logic [31:0]  ports;      // first four bytes of the upper layer
    logic         fragment;
    logic         later;      // a fragment other than the first
    logic [7:0]   kind;       // header at `next`
    word_t        next;       // IPv6: word where that header begins
    logic [3:0]   ihl;
    logic [20:0]  csum;       // of the IPv4 header's 16-bit words
    logic [17:0]  reach;      // a fragment's offset and its packet's length together,
    logic [17:0]  allowed;    // ... and the most that they may come to
  } known_t;

  known_t known_q, known_d;
  word_t word_q;  // number of the word at hand
  logic half_q;  // it is the lower one of its beat
  logic done_q;  // the headers are read
  logic bad_q, bad_d;
  logic finish;  // the word at hand is the last one that counts
  logic step, take;

  assign in_ready_o = half_q || done_q;
  assign step = in_valid_i && !done_q;
  assign take = in_valid_i && in_ready_o;

  // The word at hand, how many bytes of it there are, and whether the packet ends in it.
  logic [63:0] word;
  logic [4:0] used;
  logic [3:0] bytes;
  logic final_word, whole;

  assign word = half_q ? in_beat_i.data[63:0] : in_beat_i.data[127:64];
  assign used = 5'(in_beat_i.tail) + 5'd1;
  assign final_word = in_beat_i.last && (half_q || used <= 5'd8);

  always_comb begin
    if (!in_beat_i.last) bytes = 4'd8;
    else if (!half_q) bytes = (used >= 5'd8) ? 4'd8 : used[3:0];
    else bytes = (used > 5'd8) ? 4'(used - 5'd8) : 4'd0;
  end
  assign whole = bytes == 4'd8;

  // ---- IPv4 --------------------------------------------------------------------------------

  // Of the header's 32-bit words the upper and the lower one at hand are numbers 2w and 2w + 1.
  logic [5:0] place;
  logic upper_counts, lower_counts;
  logic [16:0] sum_upper, sum_lower;
  logic [7:0] have, need;  // bytes of the packet up to here, and those that have to be there
  logic header_ends;  // the last word that has to be there is at hand
  logic wants;

  assign place = {word_q[4:0], 1'b0};
  assign upper_counts = place < 6'(known_q.ihl);
  assign lower_counts = place + 6'd1 < 6'(known_q.ihl);
  assign sum_upper = 17'(word[63:48]) + 17'(word[47:32]);
  assign sum_lower = 17'(word[31:16]) + 17'(word[15:0]);
  assign have = {word_q[4:0], 3'd0} + 8'(bytes);

  // Of the protocol that was known before: it is in word 1, and IPv4's header goes on behind that.
  always_comb begin
    header_ends = place + 6'd2 >= 6'(known_q.ihl);
    need = {2'd0, known_q.ihl, 2'd0};
    if (!known_q.later && (has_ports(known_q.proto) || is_icmp(known_q.proto))) begin
      header_ends = place + 6'd2 > 6'(known_q.ihl);
      need += is_icmp(known_q.proto) ? 8'd2 : 8'd4;
    end
  end

  // ---- IPv6 --------------------------------------------------------------------------------

  logic [8:0] ext_words;  // length of the extension header that begins in the word at hand
  logic ext_odd;  // ... is no multiple of 8 bytes
  logic starts;  // the header `kind` begins in the word at hand
  logic extension;  // ... and is an extension header
  logic far;  // ... that ends too far away
  logic misplaced;  // ... that may not stand here (RFC 8200, sections 4.1 and 4.5)
  logic follows;  // the next header begins in the next word

  always_comb begin
    ext_odd = 1'b0;
    unique case (known_q.kind)
      Fragment:       ext_words = 9'd1;
      Authentication: begin
        ext_words = 9'(word[55:49]) + 9'd1;
        ext_odd   = word[48];
      end
      default:        ext_words = 9'(word[55:48]) + 9'd1;
    endcase
  end
  assign starts = word_q >= word_t'(5) && word_q == known_q.next;
  assign extension = starts && is_extension(known_q.kind);
  assign far = ext_words > 9'(word_t'(MaxWords) - word_q);
  assign misplaced = (known_q.kind == HopByHop && word_q != word_t'(5)) ||
                     (known_q.kind == Fragment && known_q.fragment);

  // `later` of the packet, and `kind` of what comes behind, hold where the walk goes on; elsewhere
  // `wants` does not count. So they wait for no length.
  always_comb begin
    if (extension) begin
      follows = ext_words == 9'd1;
      wants = is_read(word[63:56]) &&
              !((known_q.kind == Fragment) ? word[47:35] != '0 : known_q.later);
    end else begin
      follows = known_q.next == word_q + word_t'(1);
      wants = is_read(known_q.kind) && !known_q.later;
    end
  end

  always_comb begin
    known_d = known_q;
    bad_d = 1'b0;
    finish = 1'b0;

    if (word_q == '0) begin
      known_d = '0;
      known_d.allowed = 18'hffff;
      if (word[63:60] == 4'd4) begin
        known_d.ihl   = word[59:56];
        known_d.tos   = word[55:48];
        known_d.total = {1'b0, word[47:32]};
        known_d.df    = word[14];
        known_d.later = word[12:0] != '0;
        known_d.fragment = word[13] || known_d.later;
        known_d.csum   = 21'(sum_upper) + 21'(sum_lower);
        known_d.reach  = 18'({word[12:0], 3'd0}) + 18'(word[47:32]);
        bad_d = word[59:56] < 4'd5 || word[47:32] < {10'd0, word[59:56], 2'd0};
      end else begin
        known_d.v6    = 1'b1;
        known_d.tos   = word[59:52];
        known_d.df    = 1'b1;
        known_d.total = 17'(word[31:16]) + 17'd40;
        known_d.proto = word[15:8];
        known_d.kind  = word[15:8];
        known_d.next  = word_t'(5);
        bad_d = word[63:60] != 4'd6;
      end
      if (final_word) bad_d = 1'b1;
      finish = bad_d;

    end else if (!known_q.v6) begin
      known_d.csum = known_q.csum + (upper_counts ? 21'(sum_upper) : '0) +
                    (lower_counts ? 21'(sum_lower) : '0);
      if (word_q == word_t'(1)) begin
        known_d.proto = word[55:48];
        known_d.src[127:96] = word[31:0];
      end
      if (word_q == word_t'(2)) known_d.dst[127:96] = word[63:32];
      if (place == 6'(known_q.ihl)) known_d.ports = word[63:32];
      if (place + 6'd1 == 6'(known_q.ihl)) known_d.ports = word[31:0];
      finish = final_word || header_ends;
      bad_d = final_word && have < need;
      known_d.kind = known_d.proto;

    end else begin
      unique case (word_q)
        word_t'(1): known_d.src[127:64] = word;
        word_t'(2): known_d.src[63:0] = word;
        word_t'(3): known_d.dst[127:64] = word;
        word_t'(4): known_d.dst[63:0] = word;
        default: ;
      endcase
      // A header that ends too far away is taken for the upper layer, without ports. What is cut off
      // or odd may be read all the same: the packet is bad.
      if (extension && !far) begin
        known_d.kind = word[63:56];
        known_d.next = word_q + word_t'(ext_words);
      end
      if (starts && known_q.kind == Fragment && word_q != word_t'(MaxWords)) begin
        known_d.fragment = 1'b1;
        known_d.later = word[47:35] != '0;
        known_d.reach = 18'({word[47:35], 3'd0}) + 18'(known_q.total);
        known_d.allowed = 18'hffff + 18'({word_q[4:0], 3'd0}) + 18'd8;
      end
      if (starts && !extension) known_d.ports = word[63:32];

      finish = final_word || (follows && !wants) || (starts && !extension) ||
               (extension && (!whole || ext_odd || far || misplaced));
      if (extension) begin
        bad_d = !whole || ext_odd || (!far && (misplaced || (final_word && (!follows || wants))));
      end else if (starts) begin
        bad_d = bytes < (is_icmp(known_q.kind) ? 4'd2 : 4'd4);
      end else begin
        bad_d = final_word && (!whole || !follows || wants);
      end
    end
  end

  // ---- The packet's length -----------------------------------------------------------------

  localparam int unsigned LongBits = 18;
  typedef logic [LongBits-1:0] long_t;
  long_t count_q, count_d;  // bytes taken, up to just beyond MaxBytes
  logic told_q;  // DropTooLong was given before the packet's end
  logic too_long;

  assign count_d  = count_q + long_t'(used);
  assign too_long = count_d > long_t'(MaxBytes);

  logic head_valid_q, tail_valid_q, long_q;
  drop_e drop_q, head_drop;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      word_q       <= '0;
      half_q       <= 1'b0;
      done_q       <= 1'b0;
      count_q      <= '0;
      told_q       <= 1'b0;
      head_valid_q <= 1'b0;
      tail_valid_q <= 1'b0;
    end else begin
      head_valid_q <= step && finish;
      tail_valid_q <= take && !told_q && (in_beat_i.last || too_long);
      if (step) begin
        word_q <= word_q + 1'b1;
        half_q <= !half_q;
        done_q <= finish;
      end
      if (take) begin
        half_q <= 1'b0;
        count_q <= in_beat_i.last ? '0 : too_long ? count_q : count_d;
        told_q <= !in_beat_i.last && (told_q || too_long);
        if (in_beat_i.last) begin
          word_q <= '0;
          done_q <= 1'b0;
        end
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (step) begin
      known_q <= known_d;
      bad_q   <= bad_d;
    end
    if (take) long_q <= too_long || count_d != long_t'(known_d.total);
    if (head_valid_q) drop_q <= head_drop;
  end

  // ---- Results -----------------------------------------------------------------------------

  // The checksum of a header with its checksum in it is all ones.
  logic [16:0] fold;
  logic [15:0] folded;
  logic sum_bad, beyond, no_ports;
  assign fold = 17'(known_q.csum[15:0]) + 17'(known_q.csum[20:16]);
  assign folded = 16'(fold) + 16'(fold[16]);
  assign sum_bad = !known_q.v6 && folded != 16'hffff;
  // RFC 8200, section 4.5: no fragment goes beyond 65535 bytes; RFC 791 has no room for more either.
  assign beyond = known_q.reach > known_q.allowed;

  assign head_drop = (bad_q || sum_bad || beyond) ? DropHeader : DropNone;
  assign no_ports = known_q.later || !(has_ports(known_q.kind) || is_icmp(known_q.kind));

  assign head_valid_o = head_valid_q;
  assign head_drop_o = head_drop;
  assign head_info_o = '{
      v6: known_q.v6,
      bytes: len_t'(known_q.total),
      hdr_bytes: known_q.v6 ? 6'd40 : {known_q.ihl, 2'd0},
      tos: known_q.tos,
      df: known_q.df,
      proto: known_q.proto
  };
  assign head_select_o = '{
      v6: known_q.v6,
      src: known_q.src,
      dst: known_q.dst,
      proto: known_q.kind,
      sport: no_ports ? '0 : known_q.ports[31:16],
      dport: (no_ports || is_icmp(known_q.kind)) ? '0 : known_q.ports[15:0]
  };
  assign head_fragment_o = known_q.fragment;
  assign head_upper_o = known_q.v6 ? 8'({known_q.next, 3'd0}) : {2'd0, known_q.ihl, 2'd0};

  assign tail_valid_o = tail_valid_q;
  always_comb begin
    tail_drop_o = head_valid_q ? head_drop : drop_q;
    if (tail_drop_o == DropNone && long_q) tail_drop_o = DropTooLong;
  end

  // A packet's headers are read before its last beat is taken.
  `CV_ASSERT(HeadBeforeTail_A, !(take && in_beat_i.last) || done_q || finish)
  // The walk over extension headers ends.
  `CV_ASSERT(WalkEnds_A, !step || 32'(word_q) <= MaxWords)

endmodule
