// SAD section, outbound: asks the SAD for a packet's SA and number, and makes the packet ready for
// the cipher (RFC 4303, section 3.3; RFC 4301, section 5.1).
//
// Function     Tunnel mode, IPv4 or IPv6 in either: the packet is the payload, and a new header is
//              built, whose traffic class is the inner one (RFC 4301 section 5.1.2, RFC 6040 normal
//              mode). Transport mode: the IP header is taken off, patched, and the rest is the
//              payload. The data that leaves is the nonce block (not for AES-GCM), payload, padding
//              and trailer; the header that leaves holds all that the later sections need.
//
//                beats -> FIFO -> cv_cut -> cv_prepend -> cv_esp_trailer -> out
//                header -> SAD -> decide, build, sum up -------------------> out
//
// Drops        What the SAD says (DropNoSa, DropHardLimit, DropNumbers). DropTooLong: the sealed
//              packet would have more than MaxBytes. DropUnsupported: a cipher or HMAC that is not
//              built in, a cipher without integrity (RFC 8221 section 5); in transport mode IPv4
//              options, IPv6 extension headers, or no payload. DropFragment: a fragment in transport
//              mode (RFC 4303 section 3.3.4). DropInner: in transport mode, a packet of the other IP
//              version than its SA. The number that such a packet took stays unused.
// Parameters   Has* (what is built in), Packets (held at the same time).
// Latency      4 cycles from the SAD's answer to a packet's first output beat. In transport mode 2
//              (IPv4) or 3 (IPv6) more, for the beats that hold the IP header. The request goes out with
//              the first beat.
// Throughput   1 beat a cycle, at least 4 cycles a packet (5 in transport mode where the last bytes
//              spill), or 1 cycle more than the time from request to answer if that is longer.
// Comb. paths  in_valid_i, in_beat_i and in_hdr_i to req_valid_o and req_o: while nobody waits, the
//              request goes out as the packet comes. in_ready_o depends on in_beat_i.
// Stalls       in_ready_o is low while the FIFO (32 beats) is full or `Packets` packets wait for
//              their answer. The request for the next packet goes out when the answer before is
//              there.

`include "culvert_assert.svh"

module cv_encap
  import culvert_pkg::*;
  import gateway_pkg::*;
#(
  parameter bit          HasAes    = 1'b1,
  parameter bit          HasGcm    = 1'b1,
  parameter bit          HasDes    = 1'b1,
  parameter bit          HasEcb    = 1'b0,
  parameter bit          HasSha1   = 1'b1,
  parameter bit          HasSha256 = 1'b1,
  parameter int unsigned Packets   = 4
) (
  input logic clk_i,
  input logic rst_ni,

  input  logic        in_valid_i,
  output logic        in_ready_o,
  input  beat_t       in_beat_i,
  input  policy_hdr_t in_hdr_i,    // read with a packet's first beat

  // To the SAD and back: SadSend, one request outstanding.
  output logic     req_valid_o,
  input  logic     req_ready_i,
  output sad_req_t req_o,
  input  logic     rsp_valid_i,
  output logic     rsp_ready_o,
  input  sad_rsp_t rsp_i,

  output logic      out_valid_o,
  input  logic      out_ready_i,
  output beat_t     out_beat_o,
  output seal_hdr_t out_hdr_o,   // the same during all beats of a packet

  // For one cycle: a packet was dropped.
  output logic  drop_valid_o,
  output drop_e drop_reason_o
);

  typedef logic [8*NetBytes-1:0] net_t;  // the first byte highest

  localparam logic [7:0] ProtoIpv4 = 8'd4;
  localparam logic [7:0] ProtoIpv6 = 8'd41;
  localparam logic [7:0] ProtoEsp = 8'd50;
  // Extension headers of IPv6 that stand, or may stand, in front of ESP (RFC 4303 section 3.1.1).
  localparam logic [7:0] ProtoHopByHop = 8'd0;
  localparam logic [7:0] ProtoRouting = 8'd43;
  localparam logic [7:0] ProtoFragment = 8'd44;
  localparam logic [7:0] ProtoDestOptions = 8'd60;

  // ---- In: the packet waits, its header is taken out, the SAD is asked ------------------------

  logic wait_valid, wait_ready, beat_room, ask_room, look_room, take, take_head;
  beat_t wait_beat;
  logic [1:0] index_q;  // of the beat that comes, up to 2
  logic head_q;  // the beats of the IP header are still coming
  logic head_end;
  logic [1:0][BusBits-1:0] head_beats_q;
  policy_hdr_t hdr_q, hdr;

  // With this beat the IP header, or a packet as short, is complete.
  assign head_end   = head_q && (index_q == 2'd2 || in_beat_i.last);
  assign in_ready_o = beat_room && ask_room && look_room;
  assign take       = in_valid_i && in_ready_o;
  assign take_head  = take && head_end;
  assign hdr        = (index_q == 2'd0) ? in_hdr_i : hdr_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      index_q <= '0;
      head_q  <= 1'b1;
    end else if (take) begin
      index_q <= in_beat_i.last ? '0 : (index_q == 2'd2) ? index_q : index_q + 2'd1;
      head_q  <= in_beat_i.last || (head_q && !head_end);
    end
  end

  always_ff @(posedge clk_i) begin
    if (take && index_q == 2'd0) hdr_q <= in_hdr_i;
    if (take && head_q && index_q != 2'd2) head_beats_q[index_q[0]] <= in_beat_i.data;
  end

  cv_fifo #(
    .T    (beat_t),
    .Depth(32)
  ) u_wait (
    .clk_i,
    .rst_ni,
    .in_valid_i (take),
    .in_ready_o (beat_room),
    .in_data_i  (in_beat_i),
    .out_valid_o(wait_valid),
    .out_ready_i(wait_ready),
    .out_data_o (wait_beat),
    .count_o    ()
  );

  typedef struct packed {
    sa_index_t sa;
    len_t      bytes;
    len_t      payload;
  } ask_t;
  ask_t ask, ask_in;
  logic ask_valid, asked_q, ask_now, rsp_take;
  assign ask_in = '{
    sa: in_hdr_i.sa,
    bytes: in_hdr_i.ip.bytes,
    payload: in_hdr_i.ip.bytes - len_t'(in_hdr_i.ip.hdr_bytes)
  };
  // Nobody is before this packet.
  assign ask_now = take && index_q == 2'd0 && !ask_valid && !asked_q;

  cv_fifo #(
    .T    (ask_t),
    .Depth(Packets)
  ) u_ask (
    .clk_i,
    .rst_ni,
    .in_valid_i (take && index_q == 2'd0 && !(ask_now && req_ready_i)),
    .in_ready_o (ask_room),
    .in_data_i  (ask_in),
    .out_valid_o(ask_valid),
    .out_ready_i(req_ready_i && !asked_q),
    .out_data_o (ask),
    .count_o    ()
  );

  assign req_valid_o = (ask_valid && !asked_q) || ask_now;
  always_comb begin
    req_o         = '0;
    req_o.op      = SadSend;
    req_o.sa      = ask_valid ? ask.sa : ask_in.sa;
    req_o.bytes   = ask_valid ? ask.bytes : ask_in.bytes;
    req_o.payload = ask_valid ? ask.payload : ask_in.payload;
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) asked_q <= 1'b0;
    else asked_q <= (req_valid_o && req_ready_i) || (asked_q && !rsp_take);
  end

  typedef struct packed {
    policy_hdr_t hdr;
    net_t        net;
  } look_t;
  look_t look_in, look;
  logic look_valid, look_take;
  assign look_in = '{
    hdr: hdr,
    net: (index_q == 2'd2) ? {head_beats_q[0], head_beats_q[1], in_beat_i.data[127:64]} :
                             {head_beats_q[0], in_beat_i.data, 64'd0}
  };

  cv_fifo #(
    .T    (look_t),
    .Depth(Packets)
  ) u_look (
    .clk_i,
    .rst_ni,
    .in_valid_i (take_head),
    .in_ready_o (look_room),
    .in_data_i  (look_in),
    .out_valid_o(look_valid),
    .out_ready_i(look_take),
    .out_data_o (look),
    .count_o    ()
  );

  // ---- Decide, build, sum up: a packet at a time, a cycle each step ---------------------------

  typedef enum logic [1:0] {
    StAnswer,  // the SAD answers: may the packet pass? Its data may go then
    StSize,    // bytes of data, and of the whole; IP header without its length
    StSum,     // the header's words' sum
    StGo       // its length and checksum; hands the header on
  } state_e;

  state_e state_d, state_q;
  sa_t sa, sa_q;
  logic [63:0] number_q, iv_q;
  drop_e drop_q, drop;
  len_t payload_q, data_q, whole_q;
  logic [6:0] around_q;  // IP header, ESP header, IV in clear, ICV
  net_t net_q, net, net_summed;
  logic [19:0] sum_q;
  logic data_room, seal_room, go;

  // The answer as it comes; behind StAnswer sa_q holds it.
  assign sa = rsp_i.data;

  // Ciphers without integrity have blocks of their own and a nonce block; AES-GCM has neither.
  function automatic logic is_gcm(cipher_e cipher);
    return cipher == CipherAesGcm;
  endfunction
  function automatic logic is_des(cipher_e cipher);
    return !is_gcm(cipher) && cipher != CipherAesCbc;
  endfunction
  // Payload and trailer end on 4 bytes (0), 8 (1) or 16 (2).
  function automatic logic [1:0] align(cipher_e cipher);
    return is_gcm(cipher) ? 2'd0 : is_des(cipher) ? 2'd1 : 2'd2;
  endfunction
  function automatic len_t mask(cipher_e cipher);
    return is_gcm(cipher) ? len_t'(3) : is_des(cipher) ? len_t'(7) : len_t'(15);
  endfunction
  function automatic logic [4:0] nonce_bytes(cipher_e cipher);
    return is_gcm(cipher) ? 5'd0 : is_des(cipher) ? 5'd8 : 5'd16;
  endfunction
  function automatic logic [5:0] net_bytes(logic v6);
    return v6 ? 6'd40 : 6'd20;
  endfunction
  // What stands around the data on the wire.
  function automatic logic [6:0] around(cipher_e cipher, auth_e auth, logic v6);
    return 7'(net_bytes(v6)) + 7'd8 +
           (is_gcm(cipher) ? 7'd24 : (auth == AuthSha256) ? 7'd16 : 7'd12);
  endfunction
  // The longest payload that leaves room for padding and trailer.
  function automatic len_t max_payload(cipher_e cipher, auth_e auth, logic v6);
    len_t room;
    room = len_t'(MaxBytes) - len_t'(around(cipher, auth, v6)) - len_t'(nonce_bytes(cipher));
    return (room & ~mask(cipher)) - len_t'(2);
  endfunction

  len_t payload;
  logic [7:0] next_header, inner_next;
  assign payload     = look.hdr.ip.bytes - (sa.tunnel ? '0 : len_t'(net_bytes(sa.v6)));
  // IPv4's protocol, IPv6's next header.
  assign inner_next  = look.hdr.ip.v6 ? look.net[271:264] : look.net[247:240];
  assign next_header = !sa.tunnel ? inner_next : look.hdr.ip.v6 ? ProtoIpv6 : ProtoIpv4;

  // What the gateway was built without, and what nobody should use: ciphers without integrity.
  logic supported, auth_here;
  assign auth_here = (sa.auth == AuthSha1 && HasSha1) || (sa.auth == AuthSha256 && HasSha256);
  always_comb begin
    unique case (sa.cipher)
      CipherAesCbc: supported = HasAes && auth_here;
      CipherAesGcm: supported = HasGcm && sa.auth == AuthNone;
      CipherDes, Cipher3Des: supported = HasDes && auth_here;
      CipherDesEcb: supported = HasEcb && auth_here;
      default: supported = 1'b0;
    endcase
  end

  always_comb begin
    drop = rsp_i.drop;
    if (drop == DropNone && !sa.valid) drop = DropNoSa;
    if (drop == DropNone && !supported) drop = DropUnsupported;
    if (drop == DropNone && !sa.tunnel) begin
      if (sa.v6 != look.hdr.ip.v6) begin
        drop = DropInner;
      end else if (sa.v6) begin
        if (inner_next == ProtoFragment) begin
          drop = DropFragment;
        end else if (inner_next == ProtoHopByHop || inner_next == ProtoRouting ||
                     inner_next == ProtoDestOptions) begin
          drop = DropUnsupported;
        end
      end else if (look.net[269:256] != '0) begin  // more fragments, or an offset
        drop = DropFragment;
      end
      if (drop == DropNone && (look.hdr.ip.hdr_bytes != net_bytes(sa.v6) ||
                               look.hdr.ip.bytes == len_t'(net_bytes(sa.v6)))) begin
        drop = DropUnsupported;
      end
    end
    if (drop == DropNone && payload > max_payload(sa.cipher, sa.auth, sa.v6)) drop = DropTooLong;
  end

  // Payload, padding and trailer end on a whole block.
  len_t data;
  assign data = ((payload_q + len_t'(2) + mask(sa_q.cipher)) & ~mask(sa_q.cipher)) +
                len_t'(nonce_bytes(sa_q.cipher));

  // The IP header, without its length and IPv4's checksum.
  logic df;
  logic [15:0] ident;
  assign df    = !(sa_q.copy_df && !look.hdr.ip.v6 && !look.hdr.ip.df);
  // Nobody may fragment with DF (RFC 6864 section 4.1); without it numbers of one SA differ, and
  // the SPI sets SAs between the same two hosts apart.
  assign ident = df ? '0 : number_q[15:0] + (sa_q.spi[31:16] ^ sa_q.spi[15:0]);
  always_comb begin
    unique case ({sa_q.tunnel, sa_q.v6})
      2'b10: net = {8'h45, look.hdr.ip.tos, 16'd0, ident, 1'b0, df, 14'd0, sa_q.hop_limit, ProtoEsp,
                    16'd0, sa_q.src[127:96], sa_q.dst[127:96], 160'd0};
      2'b11: net = {4'd6, look.hdr.ip.tos, 20'd0, 16'd0, ProtoEsp, sa_q.hop_limit, sa_q.src,
                    sa_q.dst};
      2'b00: net = {look.net[319:304], 16'd0, look.net[287:248], ProtoEsp, 16'd0, look.net[223:160],
                    160'd0};
      default: net = {look.net[319:288], 16'd0, ProtoEsp, look.net[263:0]};
    endcase
  end

  // IPv6 has no checksum, and its length is that of what follows.
  logic [19:0] sum;
  logic [16:0] folded;
  always_comb begin
    sum = 20'(whole_q);
    for (int unsigned i = 0; i < 10; i++) sum += 20'(net_q[8*NetBytes-1-16*i-:16]);
  end
  assign folded = 17'(sum_q[15:0]) + 17'(sum_q[19:16]);
  always_comb begin
    net_summed = net_q;
    if (sa_q.v6) begin
      net_summed[287:272] = 16'(whole_q) - 16'd40;
    end else begin
      net_summed[303:288] = 16'(whole_q);
      net_summed[239:224] = ~(folded[15:0] + 16'(folded[16]));
    end
  end

  assign rsp_ready_o = state_q == StAnswer && look_valid && data_room;
  assign rsp_take    = rsp_valid_i && rsp_ready_o;
  assign go          = state_q == StGo && seal_room;
  assign look_take   = go;

  always_comb begin
    state_d = state_q;
    unique case (state_q)
      StAnswer: if (rsp_take) state_d = StSize;
      StSize:   state_d = StSum;
      StSum:    state_d = StGo;
      default:  if (go) state_d = StAnswer;
    endcase
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) state_q <= StAnswer;
    else state_q <= state_d;
  end

  always_ff @(posedge clk_i) begin
    unique case (state_q)
      StAnswer: begin
        sa_q      <= sa;
        number_q  <= rsp_i.number;
        iv_q      <= rsp_i.iv;
        drop_q    <= drop;
        payload_q <= payload;
        around_q  <= around(sa.cipher, sa.auth, sa.v6);
      end
      StSize: begin
        data_q  <= data;
        whole_q <= data + len_t'(around_q);
        net_q   <= net;
      end
      StSum: sum_q <= sum;
      default: ;
    endcase
  end

  assign drop_valid_o  = go && drop_q != DropNone;
  assign drop_reason_o = drop_q;

  // ---- Out: the payload is cut out, nonce block and trailer are added -------------------------

  typedef struct packed {
    logic       drop;
    logic [5:0] skip;
  } cut_t;
  typedef struct packed {
    logic [1:0] align;
    logic [7:0] next_header;
  } trailer_t;
  typedef struct packed {
    logic [127:0] nonce;
    logic [4:0]   nonce_bytes;
    trailer_t     trailer;
  } front_t;

  cut_t cut, cut_in;
  front_t front, front_in;
  seal_hdr_t seal_in;
  logic cut_valid, cut_room, cut_ready, front_valid, front_room, seal_valid;

  assign data_room = cut_room && front_room;

  assign cut_in   = '{drop: drop != DropNone, skip: sa.tunnel ? '0 : net_bytes(sa.v6)};
  assign front_in = '{
    nonce: is_des(sa.cipher) ? {rsp_i.iv, 64'd0} : {64'd0, rsp_i.iv},
    nonce_bytes: nonce_bytes(sa.cipher),
    trailer: '{align: align(sa.cipher), next_header: next_header}
  };
  assign seal_in = '{
    low: look.hdr.low,
    cipher: sa_q.cipher,
    auth: sa_q.auth,
    key_len: sa_q.key_len,
    key: sa_q.key,
    salt: sa_q.salt,
    bytes: data_q,
    auth_keys: sa_q.auth_keys,
    frame: '{
      net: net_summed,
      net_bytes: net_bytes(sa_q.v6),
      esp: {sa_q.spi, number_q[31:0]},
      high: number_q[63:32],
      esn: sa_q.esn,
      iv_here: is_gcm(sa_q.cipher),
      iv: iv_q
    }
  };

  cv_fifo #(
    .T    (cut_t),
    .Depth(2)
  ) u_cuts (
    .clk_i,
    .rst_ni,
    .in_valid_i (rsp_take),
    .in_ready_o (cut_room),
    .in_data_i  (cut_in),
    .out_valid_o(cut_valid),
    .out_ready_i(wait_valid && wait_ready && wait_beat.last),
    .out_data_o (cut),
    .count_o    ()
  );

  assign wait_ready = cut_valid && (cut.drop || cut_ready);

  logic payload_valid, payload_ready, plain_valid, plain_ready, whole_valid;
  beat_t payload_beat, plain_beat;
  trailer_t trailer;

  cv_cut #(
    .MaxSkip(NetBytes)
  ) u_cut (
    .clk_i,
    .rst_ni,
    .in_valid_i (wait_valid && cut_valid && !cut.drop),
    .in_ready_o (cut_ready),
    .in_beat_i  (wait_beat),
    .in_skip_i  (cut.skip),
    .out_valid_o(payload_valid),
    .out_ready_i(payload_ready),
    .out_beat_o (payload_beat)
  );

  cv_fifo #(
    .T    (front_t),
    .Depth(4)
  ) u_fronts (
    .clk_i,
    .rst_ni,
    .in_valid_i (rsp_take && drop == DropNone),
    .in_ready_o (front_room),
    .in_data_i  (front_in),
    .out_valid_o(front_valid),
    .out_ready_i(payload_valid && payload_ready && payload_beat.last),
    .out_data_o (front),
    .count_o    ()
  );

  cv_prepend #(
    .MaxBytes(16),
    .Rest    (trailer_t)
  ) u_nonce (
    .clk_i,
    .rst_ni,
    .in_valid_i (payload_valid),
    .in_ready_o (payload_ready),
    .in_beat_i  (payload_beat),
    .in_prefix_i(front.nonce),
    .in_bytes_i (front.nonce_bytes),
    .in_rest_i  (front.trailer),
    .out_valid_o(plain_valid),
    .out_ready_i(plain_ready),
    .out_beat_o (plain_beat),
    .out_rest_o (trailer)
  );

  cv_esp_trailer u_trailer (
    .clk_i,
    .rst_ni,
    .in_valid_i      (plain_valid),
    .in_ready_o      (plain_ready),
    .in_beat_i       (plain_beat),
    .in_align_i      (trailer.align),
    .in_next_header_i(trailer.next_header),
    .in_rest_i       ('0),
    .out_valid_o     (whole_valid),
    .out_ready_i     (out_ready_i && seal_valid),
    .out_beat_o,
    .out_rest_o      ()
  );
  // The header may come behind the data.
  assign out_valid_o = whole_valid && seal_valid;

  cv_fifo #(
    .T    (seal_hdr_t),
    .Depth(4)
  ) u_hdrs (
    .clk_i,
    .rst_ni,
    .in_valid_i (go && drop_q == DropNone),
    .in_ready_o (seal_room),
    .in_data_i  (seal_in),
    .out_valid_o(seal_valid),
    .out_ready_i(out_valid_o && out_ready_i && out_beat_o.last),
    .out_data_o (out_hdr_o),
    .count_o    ()
  );

  // What belongs to a packet is there when the packet gets to the point that needs it.
  `CV_ASSERT(FrontIsThere_A, !payload_valid || front_valid)
  // An answer comes only to a request.
  `CV_ASSUME(AnswerToRequest_A, !rsp_valid_i || asked_q)
  // A packet has the bytes of its IP header at least.
  `CV_ASSUME(HeaderIsWhole_A, !take || !in_beat_i.last || index_q != 2'd0)
  // An offered beat and its header stay until the beat is taken.
  `CV_ASSERT_STABLE(OutStable_A, out_valid_o, out_ready_i, ({out_beat_o, out_hdr_o}))

endmodule
