// Decapsulation, first half: an inbound packet's outer header, and its SA.
//
// Function     Parses the outer IP header (RFC 791, RFC 8200). What carries ESP (RFC 4303) directly
//              behind it is looked up in the SAD by SPI and destination, and held until the answer
//              and the packet's end have come; IP header, ESP header and (AES-GCM) IV go into
//              the internal header, and the data behind them leave. Any other packet passes
//              unchanged with out_clear_o. Nothing is authentic yet, so no state changes here.
//                IPv4 options are taken up to 20 bytes in front of ESP. Fragments that carry ESP
//              are not put together. A frame longer or shorter than its IP length is dropped.
// Parameters   Ciphers and Auths (bit n: the gateway has modules for cipher_e or auth_e n; other SAs'
//              packets are dropped as unsupported, and so are a cipher without an HMAC and AES-GCM
//              with one), Depth (beats held; more than MaxBytes / 16).
// Latency      From a packet's last beat or the SAD's answer, whichever is later: 4 cycles, and one
//              for each 16 bytes of headers; a clear packet 3 cycles.
// Throughput   1 beat a cycle; one look-up at a time, asked for as soon as the header is there.
// Comb. paths  none from input to output.
// Stalls       in_ready_o is low while `Depth` beats wait, or four packets for the SAD.

`include "culvert_assert.svh"

module cv_decap
  import culvert_pkg::*;
  import gateway_pkg::*;
#(
  parameter logic [4:0]  Ciphers = '1,
  parameter logic [2:0]  Auths   = '1,
  parameter int unsigned Depth   = 1024
) (
  input logic clk_i,
  input logic rst_ni,

  input  logic  in_valid_i,
  output logic  in_ready_o,
  input  beat_t in_beat_i,

  // Client of the SAD: SadFind.
  output logic     req_valid_o,
  input  logic     req_ready_i,
  output sad_req_t req_o,
  input  logic     rsp_valid_i,
  output logic     rsp_ready_o,
  input  sad_rsp_t rsp_i,

  output logic      out_valid_o,
  input  logic      out_ready_i,
  output beat_t     out_beat_o,
  output open_hdr_t out_hdr_o,    // of a clear packet only `low` and `ip` hold
  output logic      out_clear_o,  // came without ESP

  output logic  drop_valid_o,
  output drop_e drop_reason_o
);

  localparam int unsigned HeadBeats = 4;  // enough for 40 bytes of IP header, ESP header and IV
  localparam int unsigned HeadBytes = HeadBeats * BusBytes;
  localparam int unsigned MaxBeats = MaxBytes / BusBytes;
  localparam int unsigned CountWidth = $clog2(MaxBeats + 1);
  localparam int unsigned Waiting = 4;  // packets
  localparam logic [7:0] ProtoEsp = 8'd50;
  localparam logic [7:0] ProtoFragment = 8'd44;
  localparam int unsigned SkipWidth = 7;
  typedef logic [SkipWidth-1:0] skip_t;

  // ---- Front: counts, collects the head --------------------------------------------------------

  // A packet longer than MaxBytes is ended there, and the rest of it swallowed.
  logic swallow_q, take, cut, hold_ready, front_ready, enter, head_due, head_ready;
  logic [CountWidth-1:0] count_q;  // beats before this one
  beat_t limited;

  assign cut = count_q == CountWidth'(MaxBeats - 1) && !in_beat_i.last;

  always_comb begin
    limited = in_beat_i;
    if (cut) limited.last = 1'b1;
  end

  assign front_ready = hold_ready && enter;
  assign in_ready_o  = swallow_q || front_ready;
  assign take        = in_valid_i && front_ready && !swallow_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      swallow_q <= 1'b0;
      count_q   <= '0;
    end else begin
      if (swallow_q && in_valid_i && in_beat_i.last) swallow_q <= 1'b0;
      if (take) begin
        swallow_q <= cut;
        count_q   <= limited.last ? '0 : count_q + CountWidth'(1);
      end
    end
  end

  // The head, and the sum of the IPv4 header's words as they come: at most ten beats' worth, folded
  // when it is complete.
  logic [HeadBeats-1:0][BusBits-1:0] head_q;  // the first beat highest
  logic [6:0] head_bytes_q;
  logic head_valid_q;
  logic [3:0] ihl_q;
  logic [20:0] sum_d, sum_q;

  assign head_due = limited.last ? count_q < CountWidth'(HeadBeats)
                                 : count_q == CountWidth'(HeadBeats - 1);
  // The head's place is free before the next packet comes.
  assign enter = !head_valid_q || head_ready;

  // The header's words in this beat: 16 bytes belong to any header that is long enough. All are added
  // in one expression, which becomes one tree and one carry chain.
  always_comb begin
    logic [7:0][20:0] word;
    logic [1:0] beat;  // of the head
    beat = count_q[1:0];
    for (int unsigned i = 0; i < 8; i++) begin
      word[i] = 21'(in_beat_i.data[BusBits-1-16*i-:16]);
      if (beat != '0 && {beat, 3'(i)} >= {ihl_q, 1'b0}) word[i] = '0;
    end
    sum_d = ((beat == '0) ? '0 : sum_q) +
            word[0] + word[1] + word[2] + word[3] + word[4] + word[5] + word[6] + word[7];
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) head_valid_q <= 1'b0;
    else if (take && head_due) head_valid_q <= 1'b1;
    else if (head_ready) head_valid_q <= 1'b0;
  end

  always_ff @(posedge clk_i) begin
    if (take && count_q == '0) begin
      head_q <= {in_beat_i.data, {(HeadBeats - 1) * BusBits{1'b0}}};
      ihl_q  <= in_beat_i.data[123:120];
    end else if (take && count_q < CountWidth'(HeadBeats)) begin
      head_q[2'd3-count_q[1:0]] <= in_beat_i.data;
    end
    if (take && count_q < CountWidth'(HeadBeats)) sum_q <= sum_d;
    if (take && head_due) begin
      head_bytes_q <= {1'b0, count_q[1:0], in_beat_i.tail} + 7'd1;
    end
  end

  // What is known at the end.
  typedef struct packed {
    logic too_long;
    len_t bytes;
  } end_t;
  end_t end_in, end_out;
  logic end_room, end_valid, judged;
  assign end_in = '{too_long: cut, bytes: {count_q, 4'd0} + len_t'(in_beat_i.tail) + len_t'(1)};

  cv_fifo #(
    .T    (end_t),
    .Depth(Waiting + 1)
  ) u_ends (
    .clk_i,
    .rst_ni,
    .in_valid_i (take && limited.last),
    .in_ready_o (end_room),
    .in_data_i  (end_in),
    .out_valid_o(end_valid),
    .out_ready_i(judged),
    .out_data_o (end_out),
    .count_o    ()
  );

  // ---- Parse -----------------------------------------------------------------------------------

  // Of a packet, what its head says.
  typedef struct packed {
    logic                  esp;    // to be looked up
    drop_e                 drop;   // or what is wrong with it
    ip_info_t              ip;     // `bytes` as the header has it
    logic                  jumbo;  // ... and more than fits there
    logic [8*NetBytes-1:0] net;
    logic [31:0]           spi;
    logic [31:0]           seq;
    logic [63:0]           iv;
  } parsed_t;

  parsed_t parsed, packet;
  logic packet_valid;
  logic [HeadBytes-1:0][7:0] head;  // head[0] is the first byte
  logic v6, checksum_right, fragment, carries_esp;
  logic [16:0] ip_bytes;
  logic [16:0] folded;
  logic [127:0] esp;
  logic [5:0] hdr_bytes;

  always_comb begin
    for (int unsigned i = 0; i < HeadBytes; i++) begin
      head[i] = head_q[HeadBeats-1-i/BusBytes][BusBits-1-8*(i%BusBytes)-:8];
    end
  end

  // RFC 1071; the sum has at most 30 words, so after one fold the carry is at most 1.
  assign folded = 17'(sum_q[15:0]) + 17'(sum_q[20:16]);
  assign checksum_right = folded[15:0] + 16'(folded[16]) == 16'hffff;

  assign v6 = head[0][7:4] == 4'd6;
  assign hdr_bytes = v6 ? 6'd40 : {head[0][3:0], 2'd0};
  assign ip_bytes = v6 ? 17'({head[4], head[5]}) + 17'd40 : 17'({head[2], head[3]});

  // The 16 bytes behind the IP header.
  always_comb begin
    esp = '0;
    for (int unsigned words_ = 5; words_ <= NetBytes / 4; words_++) begin
      if (hdr_bytes == 6'(4 * words_)) begin
        for (int unsigned i = 0; i < 16; i++) esp[127-8*i-:8] = head[4*words_+i];
      end
    end
  end

  always_comb begin
    parsed              = '0;
    parsed.ip.v6        = v6;
    parsed.ip.hdr_bytes = hdr_bytes;
    if (v6) begin
      parsed.ip.tos       = {head[0][3:0], head[1][7:4]};
      parsed.ip.proto     = head[6];
      // A fragment header on ESP; even of an atomic fragment nothing is put together here.
      fragment    = head[6] == ProtoFragment && head[40] == ProtoEsp;
      carries_esp = head[6] == ProtoEsp || fragment;
    end else begin
      parsed.ip.tos       = head[1];
      parsed.ip.df        = head[6][6];
      parsed.ip.proto     = head[9];
      fragment    = {head[6][5:0], head[7]} != '0;  // more fragments, or an offset
      carries_esp = head[9] == ProtoEsp;
    end
    parsed.ip.bytes = len_t'(ip_bytes);
    parsed.jumbo    = ip_bytes[16:LenBits] != '0;
    parsed.spi      = esp[127:96];
    parsed.seq      = esp[95:64];
    parsed.iv       = esp[63:0];
    for (int unsigned i = 0; i < NetBytes; i++) begin
      if (6'(i) < hdr_bytes) parsed.net[8*NetBytes-1-8*i-:8] = head[i];
    end

    if (!v6 && head[0][7:4] != 4'd4) parsed.drop = DropHeader;
    else if (head_bytes_q < 7'(hdr_bytes) || ip_bytes < 17'(hdr_bytes) ||
             hdr_bytes < 6'd20) parsed.drop = DropHeader;
    else if (!v6 && !checksum_right) parsed.drop = DropHeader;
    else if (carries_esp) begin
      // Longer options would not fit the internal header.
      if (hdr_bytes > 6'(NetBytes)) parsed.drop = DropHeader;
      else if (fragment) parsed.drop = DropFragment;
      else if (head_bytes_q < 7'(hdr_bytes) + 7'd8) parsed.drop = DropShort;
      else parsed.esp = 1'b1;
    end
  end

  cv_fifo #(
    .T    (parsed_t),
    .Depth(Waiting)
  ) u_parsed (
    .clk_i,
    .rst_ni,
    .in_valid_i (head_valid_q),
    .in_ready_o (head_ready),
    .in_data_i  (parsed),
    .out_valid_o(packet_valid),
    .out_ready_i(judged),
    .out_data_o (packet),
    .count_o    ()
  );

  // ---- Look-up and judgement -------------------------------------------------------------------

  logic asked_q, known, hdr_room, verdict_ready;
  drop_e drop;

  assign req_valid_o = packet_valid && packet.esp && !asked_q;
  always_comb begin
    req_o     = '0;
    req_o.op  = SadFind;
    req_o.v6  = packet.ip.v6;
    req_o.spi = packet.spi;
    req_o.seq = packet.seq;
    // IPv6: bytes 24 to 39; IPv4: 16 to 19.
    req_o.dst = packet.ip.v6 ? packet.net[127:0] : {packet.net[191:160], 96'd0};
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) asked_q <= 1'b0;
    else if (judged) asked_q <= 1'b0;
    else if (req_valid_o && req_ready_i) asked_q <= 1'b1;
  end

  // Answer and end are both there.
  assign known       = packet_valid && end_valid && (!packet.esp || (asked_q && rsp_valid_i));
  assign judged      = known && verdict_ready && hdr_room;
  assign rsp_ready_o = judged && packet.esp;

  // Bytes behind the ESP header; what of them the SA's cipher and HMAC take for themselves.
  sa_t sa;
  len_t esp_bytes, own_bytes;
  logic [3:0] odd_bytes;  // of the text, behind its last whole 16
  logic [4:0] icv_bytes;
  logic supported, fits, unused;
  assign sa = rsp_i.data;
  assign unused = ^{sa.spi, sa.src, sa.dst, sa.hop_limit, sa.copy_df, sa.limits, sa.more, sa.next,
                    rsp_i.iv};

  always_comb begin
    unique case (sa.auth)
      AuthSha1:   icv_bytes = 5'd12;
      AuthSha256: icv_bytes = 5'd16;
      default:    icv_bytes = (sa.cipher == CipherAesGcm) ? 5'd16 : 5'd0;
    endcase
    esp_bytes  = end_out.bytes - len_t'(packet.ip.hdr_bytes) - len_t'(8);
    own_bytes  = len_t'(icv_bytes) + ((sa.cipher == CipherAesCbc) ? len_t'(16) : len_t'(8));
    odd_bytes  = 4'(esp_bytes - own_bytes);
    // At least one block of text, and whole blocks; AES-GCM: words (RFC 4303 section 2.4).
    fits = esp_bytes > own_bytes;
    unique case (sa.cipher)
      CipherAesCbc: fits = fits && odd_bytes == '0;
      CipherAesGcm: fits = fits && odd_bytes[1:0] == '0;
      default:      fits = fits && odd_bytes[2:0] == '0;
    endcase
    // No cipher without integrity (RFC 8221 section 4).
    supported = sa.cipher <= CipherDesEcb && sa.auth <= AuthSha256;
    if (supported) begin
      supported = Ciphers[sa.cipher] && Auths[sa.auth] &&
                  (sa.cipher == CipherAesGcm) == (sa.auth == AuthNone);
    end
  end

  always_comb begin
    drop = DropNone;
    if (packet.drop == DropHeader) drop = DropHeader;
    else if (end_out.too_long || packet.jumbo || packet.ip.bytes != end_out.bytes) begin
      drop = DropTooLong;
    end else if (!packet.esp) drop = packet.drop;
    else if (rsp_i.drop != DropNone) drop = rsp_i.drop;
    else if (!sa.valid || sa.v6 != packet.ip.v6) drop = DropNoSa;
    else if (!supported) drop = DropUnsupported;
    else if (!fits) drop = DropShort;
  end

  assign drop_valid_o  = judged && drop != DropNone;
  assign drop_reason_o = drop;

  // ---- Internal header and data ----------------------------------------------------------------

  typedef struct packed {
    logic      clear;
    open_hdr_t hdr;
  } out_t;
  out_t out_in, out_hdr;
  logic gcm;
  skip_t skip_in, skip;
  assign gcm = sa.cipher == CipherAesGcm;
  assign skip_in = !packet.esp ? '0 : skip_t'(packet.ip.hdr_bytes) + (gcm ? 7'd16 : 7'd8);

  always_comb begin
    out_in        = '0;
    out_in.clear  = !packet.esp;
    out_in.hdr.ip = packet.ip;
    if (packet.esp) begin
      out_in.hdr.cipher    = sa.cipher;
      out_in.hdr.auth      = sa.auth;
      out_in.hdr.key_len   = sa.key_len;
      out_in.hdr.key       = sa.key;
      out_in.hdr.salt      = sa.salt;
      out_in.hdr.auth_keys = sa.auth_keys;
      out_in.hdr.sa        = rsp_i.sa;
      out_in.hdr.reqid     = sa.reqid;
      out_in.hdr.tunnel    = sa.tunnel;
      out_in.hdr.spi       = packet.spi;
      out_in.hdr.number    = rsp_i.number;
      out_in.hdr.esn       = sa.esn;
      out_in.hdr.iv        = gcm ? packet.iv : '0;
      out_in.hdr.bytes     = gcm ? esp_bytes - len_t'(8) : esp_bytes;
      out_in.hdr.net       = packet.net;
    end
  end

  logic held_valid, held_ready, hdr_valid;
  beat_t held;

  cv_hold #(
    .Hdr    (skip_t),
    .Depth  (Depth),
    .Packets(Waiting)
  ) u_hold (
    .clk_i,
    .rst_ni,
    .in_valid_i     (in_valid_i && enter && !swallow_q),
    .in_ready_o     (hold_ready),
    .in_beat_i      (limited),
    .verdict_valid_i(known && hdr_room),
    .verdict_ready_o(verdict_ready),
    .verdict_keep_i (drop == DropNone),
    .verdict_hdr_i  (skip_in),
    .out_valid_o    (held_valid),
    .out_ready_i    (held_ready),
    .out_beat_o     (held),
    .out_hdr_o      (skip)
  );

  cv_cut #(
    .MaxSkip(64)
  ) u_cut (
    .clk_i,
    .rst_ni,
    .in_valid_i (held_valid),
    .in_ready_o (held_ready),
    .in_beat_i  (held),
    .in_skip_i  (skip),
    .out_valid_o,
    .out_ready_i,
    .out_beat_o
  );

  cv_fifo #(
    .T    (out_t),
    .Depth(Waiting)
  ) u_hdrs (
    .clk_i,
    .rst_ni,
    .in_valid_i (judged && drop == DropNone),
    .in_ready_o (hdr_room),
    .in_data_i  (out_in),
    .out_valid_o(hdr_valid),
    .out_ready_i(out_valid_o && out_ready_i && out_beat_o.last),
    .out_data_o (out_hdr),
    .count_o    ()
  );

  assign out_hdr_o   = out_hdr.hdr;
  assign out_clear_o = out_hdr.clear;

  // The end of a packet always finds room: no more packets enter than heads do.
  `CV_ASSERT(EndFindsRoom_A, !(take && limited.last) || end_room)
  // A packet never leaves without its header.
  `CV_ASSERT(PacketHasHeader_A, !out_valid_o || hdr_valid)
  // What is looked up is judged with an answer.
  `CV_ASSERT(JudgedIsAnswered_A, !judged || !packet.esp || rsp_valid_i)
  // An offered request stays until it is taken.
  `CV_ASSERT_STABLE(RequestStable_A, req_valid_o, req_ready_i, req_o)

endmodule
