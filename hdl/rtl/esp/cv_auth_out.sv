// HMAC section, outbound: computes a packet's ICV, and puts the packet together for the wire.
//
// Function     Hashes ESP header, data and, with ESN, the upper half of the number (RFC 4303,
//              sections 2.8 and 3.3.2.1; RFC 2404, RFC 4868) while the packet waits here. It leaves
//              as IP header, ESP header, data, ICV, in full beats. With AuthNone there is no HMAC:
//              a packet of AES-GCM, whose data ends with its tag, leaves as IP header, ESP header,
//              IV, data.
//
//                in -+-> cv_prepend -> cv_append -> cv_hmac -> ICV
//                    |     (ESP header)  (upper half)           |
//                    +-> cv_hold ------------------ cv_prepend -+-> cv_append -> out
//
// Parameters   Auth, RoundsPerCycle (see cv_sha1, cv_sha256), MaxBytes (longest data).
// Latency      With B cycles a block and n blocks in all: n * B + 13 cycles from a packet's first
//              beat to its first one at the output, if its beats come without gaps. AuthNone: 2.
// Throughput   n * B + 1 cycles a packet: the next one is hashed while this one leaves. AuthNone:
//              1 output beat a cycle, none lost between packets.
// Comb. paths  none from input to output. in_ready_o depends on in_beat_i.
// Stalls       in_ready_o is low while the HMAC's FIFO (16 beats), the packet memory or the FIFO of
//              4 headers is full. A packet with an HMAC leaves without gaps once it has begun to;
//              one without leaves as it comes.

`include "culvert_assert.svh"

module cv_auth_out
  import culvert_pkg::*;
  // By name: the package has a MaxBytes of its own.
  import gateway_pkg::auth_e, gateway_pkg::AuthNone, gateway_pkg::AuthSha1, gateway_pkg::AuthSha256;
  import gateway_pkg::auth_hdr_t, gateway_pkg::NetBytes;
#(
  parameter auth_e       Auth           = AuthSha1,
  parameter int unsigned RoundsPerCycle = 2,
  parameter int unsigned MaxBytes       = gateway_pkg::MaxBytes
) (
  input logic clk_i,
  input logic rst_ni,

  input  logic      in_valid_i,
  output logic      in_ready_o,
  input  beat_t     in_beat_i,
  input  auth_hdr_t in_hdr_i,    // read with a packet's first beat

  output logic  out_valid_o,
  input  logic  out_ready_i,
  output beat_t out_beat_o
);

  // What stands before the data.
  localparam int unsigned FrontBytes = NetBytes + 8 + 8;
  typedef logic [$clog2(FrontBytes+1)-1:0] front_bytes_t;
  typedef struct packed {
    logic [8*NetBytes-1:0] net;
    logic                  v6;       // the IP header has 40 bytes, else 20
    logic [63:0]           esp;
    logic                  iv_here;
    logic [63:0]           iv;
  } front_t;
  typedef logic [BusBits-1:0] icv_t;  // left-aligned
  typedef struct packed {
    front_t front;
    icv_t   icv;
  } leave_t;

  front_t front_in;
  assign front_in = '{
    net: in_hdr_i.frame.net,
    v6: in_hdr_i.frame.net_bytes != 6'd20,
    esp: in_hdr_i.frame.esp,
    // No cipher that needs an HMAC has its IV in the header.
    iv_here: Auth == AuthNone && in_hdr_i.frame.iv_here,
    iv: (Auth == AuthNone) ? in_hdr_i.frame.iv : '0
  };

  // The packet on its way out, behind the point at which it waited.
  logic leave_valid, leave_ready;
  beat_t leave_beat;
  leave_t leave;

  logic [8*FrontBytes-1:0] front;
  front_bytes_t front_bytes;
  always_comb begin
    front = {leave.front.net, leave.front.esp, leave.front.iv};
    front_bytes = front_bytes_t'(NetBytes + 8);
    if (!leave.front.v6) begin
      front = {leave.front.net[8*NetBytes-1-:160], leave.front.esp, leave.front.iv, 160'd0};
      front_bytes = front_bytes_t'(20 + 8);
    end
    if (leave.front.iv_here) front_bytes = front_bytes + front_bytes_t'(8);
  end

  logic sealed_valid, sealed_ready;
  beat_t sealed_beat;
  icv_t sealed_icv;

  cv_prepend #(
    .MaxBytes(FrontBytes),
    .Rest    (icv_t)
  ) u_front (
    .clk_i,
    .rst_ni,
    .in_valid_i (leave_valid),
    .in_ready_o (leave_ready),
    .in_beat_i  (leave_beat),
    .in_prefix_i(front),
    .in_bytes_i (front_bytes),
    .in_rest_i  (leave.icv),
    .out_valid_o(sealed_valid),
    .out_ready_i(sealed_ready),
    .out_beat_o (sealed_beat),
    .out_rest_o (sealed_icv)
  );

  if (Auth == AuthNone) begin : gen_none
    // Enough to take in a packet's data while the front of the one before leaves.
    front_t waiting;

    cv_packet_fifo #(
      .Hdr    (front_t),
      .Depth  (16),
      .Packets(4)
    ) u_wait (
      .clk_i,
      .rst_ni,
      .in_valid_i,
      .in_ready_o,
      .in_beat_i,
      .in_hdr_i   (front_in),
      .out_valid_o(leave_valid),
      .out_ready_i(leave_ready),
      .out_beat_o (leave_beat),
      .out_hdr_o  (waiting),
      .packets_o  ()
    );

    assign leave        = '{front: waiting, icv: '0};
    assign out_valid_o  = sealed_valid;
    assign sealed_ready = out_ready_i;
    assign out_beat_o   = sealed_beat;
  end else begin : gen_hmac
    localparam bit Sha256 = Auth == AuthSha256;
    localparam int unsigned StateBits = Sha256 ? 256 : 160;
    localparam int unsigned IcvBytes = Sha256 ? 16 : 12;
    // Beats that the HMAC takes in ahead of its core, while the packet before is still here.
    localparam int unsigned Ahead = 32;

    typedef struct packed {
      logic [StateBits-1:0] inner;
      logic [StateBits-1:0] outer;
    } keys_t;
    typedef struct packed {
      logic        esn;
      logic [31:0] high;
    } high_t;

    // A beat goes to the memory and to the HMAC at once, a packet's header into two FIFOs: each part
    // waits for the point at which it is needed.
    logic at_first_q, hdr_ready, hold_ready, text_ready, take, take_first;
    logic front_ready, keys_ready;
    assign hdr_ready  = !at_first_q || (front_ready && keys_ready);
    assign in_ready_o = hold_ready && text_ready && hdr_ready;
    assign take       = in_valid_i && in_ready_o;
    assign take_first = take && at_first_q;

    always_ff @(posedge clk_i or negedge rst_ni) begin
      if (!rst_ni) at_first_q <= 1'b1;
      else if (take) at_first_q <= in_beat_i.last;
    end

    // The text under the HMAC: ESP header, data, upper half of the number.
    logic text_valid, text_take;
    beat_t text_beat;
    high_t high, high_q, text_high;
    assign high = at_first_q ? '{esn: in_hdr_i.frame.esn, high: in_hdr_i.frame.high} : high_q;

    always_ff @(posedge clk_i) begin
      if (take_first) high_q <= high;
    end

    cv_prepend #(
      .MaxBytes(8),
      .Rest    (high_t)
    ) u_esp (
      .clk_i,
      .rst_ni,
      .in_valid_i (in_valid_i && hold_ready && hdr_ready),
      .in_ready_o (text_ready),
      .in_beat_i,
      .in_prefix_i(in_hdr_i.frame.esp),
      .in_bytes_i (4'd8),
      .in_rest_i  (high),
      .out_valid_o(text_valid),
      .out_ready_i(text_take),
      .out_beat_o (text_beat),
      .out_rest_o (text_high)
    );

    // The text may run a cycle ahead of the states, which are taken with the first beat of data.
    logic message_valid, message_ready, keys_valid, hash_ready;
    beat_t message_beat;
    keys_t keys;
    assign message_ready = hash_ready && keys_valid;

    cv_append u_high (
      .clk_i,
      .rst_ni,
      .in_valid_i (text_valid),
      .in_ready_o (text_take),
      .in_beat_i  (text_beat),
      .in_rest_i  ('0),
      .in_suffix_i({text_high.high, 96'd0}),
      .in_bytes_i (text_high.esn ? 5'd4 : 5'd0),
      .out_valid_o(message_valid),
      .out_ready_i(message_ready),
      .out_beat_o (message_beat),
      .out_rest_o ()
    );

    cv_fifo #(
      .T    (keys_t),
      .Depth(4)
    ) u_keys (
      .clk_i,
      .rst_ni,
      .in_valid_i (take_first),
      .in_ready_o (keys_ready),
      .in_data_i  ('{inner: in_hdr_i.auth_keys[511-:StateBits],
                     outer: in_hdr_i.auth_keys[255-:StateBits]}),
      .out_valid_o(keys_valid),
      .out_ready_i(message_valid && message_ready && message_beat.last),
      .out_data_o (keys),
      .count_o    ()
    );

    logic mac_valid, mac_ready;
    logic [StateBits-1:0] mac;

    cv_hmac #(
      .Sha256        (Sha256),
      .RoundsPerCycle(RoundsPerCycle)
    ) u_hmac (
      .clk_i,
      .rst_ni,
      .in_valid_i (message_valid && keys_valid),
      .in_ready_o (hash_ready),
      .in_beat_i  (message_beat),
      .in_inner_i (keys.inner),
      .in_outer_i (keys.outer),
      .mac_valid_o(mac_valid),
      .mac_ready_i(mac_ready),
      .mac_o      (mac)
    );

    // The packet waits for its ICV.
    logic front_valid;
    front_t waiting;

    cv_fifo #(
      .T    (front_t),
      .Depth(4)
    ) u_fronts (
      .clk_i,
      .rst_ni,
      .in_valid_i (take_first),
      .in_ready_o (front_ready),
      .in_data_i  (front_in),
      .out_valid_o(front_valid),
      .out_ready_i(mac_valid && mac_ready),
      .out_data_o (waiting),
      .count_o    ()
    );

    cv_hold #(
      .Hdr    (leave_t),
      .Depth  ((MaxBytes + BusBytes - 1) / BusBytes + Ahead),
      .Packets(4)
    ) u_hold (
      .clk_i,
      .rst_ni,
      .in_valid_i     (in_valid_i && text_ready && hdr_ready),
      .in_ready_o     (hold_ready),
      .in_beat_i,
      .verdict_valid_i(mac_valid),
      .verdict_ready_o(mac_ready),
      .verdict_keep_i (1'b1),
      .verdict_hdr_i  ('{front: waiting, icv: icv_t'(mac[StateBits-1-:8*IcvBytes]) <<
                                              (BusBits - 8 * IcvBytes)}),
      .out_valid_o    (leave_valid),
      .out_ready_i    (leave_ready),
      .out_beat_o     (leave_beat),
      .out_hdr_o      (leave)
    );

    cv_append u_icv (
      .clk_i,
      .rst_ni,
      .in_valid_i (sealed_valid),
      .in_ready_o (sealed_ready),
      .in_beat_i  (sealed_beat),
      .in_rest_i  ('0),
      .in_suffix_i(sealed_icv),
      .in_bytes_i (5'(IcvBytes)),
      .out_valid_o,
      .out_ready_i,
      .out_beat_o,
      .out_rest_o ()
    );

    // An ICV finds what stands before its packet.
    `CV_ASSERT(FrontIsThere_A, !mac_valid || front_valid)
    // The environment brings no IV in the header of a packet for an HMAC.
    `CV_ASSUME(NoIvHere_A, !take_first || !in_hdr_i.frame.iv_here)
  end

  // IP headers are whole: IPv4 without options, or IPv6.
  `CV_ASSUME(NetBytesKnown_A, !in_valid_i || !in_ready_o || in_hdr_i.frame.net_bytes == 6'd20 ||
             in_hdr_i.frame.net_bytes == 6'd40)

endmodule
