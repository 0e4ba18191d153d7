// HMAC section, outbound: computes a packet's ICV, and puts the packet together for the wire.
//
// Function     Hashes ESP header, data and, with ESN, the upper half of the number (RFC 4303,
//              sections 2.8 and 3.3.2.1; RFC 2404, RFC 4868) while the packet waits here. It leaves
//              as IP header, ESP header, data, ICV, in full beats. With AuthNone there is no HMAC:
//              a packet of AES-GCM, whose data ends with its tag, leaves as IP header, ESP header,
//              IV, data.
//
//                in -+-> cv_esp_text -> cv_hmac -> ICV
//                    |                      |       |
//                    +-> cv_hold -----------+-------+
//                                           |       |
//                        cv_prepend <- may leave    |
//                             +---------------> cv_append -> out
//
// Parameters   Auth, RoundsPerCycle (see cv_sha1, cv_sha256), MaxBytes (longest data).
// Latency      With B cycles a block and n blocks in all, if a packet's beats come without gaps: its
//              last beat leaves n * B + 9 cycles after its first one came, one later where the ICV
//              spills over the last beat of data, up to 8 later where it had to begin in the last 8
//              cycles of a block. A packet that takes longer to leave than its HMAC for the last 20
//              beats begins 6 cycles after its last beat came. AuthNone: 2 cycles to the first beat.
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
  import gateway_pkg::auth_hdr_t, gateway_pkg::len_t, gateway_pkg::NetBytes;
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
  front_t leave;

  logic [8*FrontBytes-1:0] front;
  front_bytes_t front_bytes;
  always_comb begin
    front = {leave.net, leave.esp, leave.iv};
    front_bytes = front_bytes_t'(NetBytes + 8);
    if (!leave.v6) begin
      front = {leave.net[8*NetBytes-1-:160], leave.esp, leave.iv, 160'd0};
      front_bytes = front_bytes_t'(20 + 8);
    end
    if (leave.iv_here) front_bytes = front_bytes + front_bytes_t'(8);
  end

  logic sealed_valid, sealed_ready;
  beat_t sealed_beat;

  cv_prepend #(
    .MaxBytes(FrontBytes)
  ) u_front (
    .clk_i,
    .rst_ni,
    .in_valid_i (leave_valid),
    .in_ready_o (leave_ready),
    .in_beat_i  (leave_beat),
    .in_prefix_i(front),
    .in_bytes_i (front_bytes),
    .in_rest_i  ('0),
    .out_valid_o(sealed_valid),
    .out_ready_i(sealed_ready),
    .out_beat_o (sealed_beat),
    .out_rest_o ()
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

    assign leave        = waiting;
    assign out_valid_o  = sealed_valid;
    assign sealed_ready = out_ready_i;
    assign out_beat_o   = sealed_beat;
  end else begin : gen_hmac
    localparam bit Sha256 = Auth == AuthSha256;
    localparam int unsigned StateBits = Sha256 ? 256 : 160;
    localparam int unsigned IcvBytes = Sha256 ? 16 : 12;
    // Beats that the HMAC takes in ahead of its core, while the packet before is still here.
    localparam int unsigned Ahead = 32;
    // Packets that may wait for an HMAC, and as many for the output behind it.
    localparam int unsigned Packets = 4;

    // A beat goes to the memory and to the HMAC at once, what stands before the data into a FIFO until
    // the packet may leave.
    logic at_first_q, hdr_ready, hold_ready, text_ready, take, take_first, take_last;
    logic front_ready;
    assign hdr_ready  = !at_first_q || front_ready;
    assign in_ready_o = hold_ready && text_ready && hdr_ready;
    assign take       = in_valid_i && in_ready_o;
    assign take_first = take && at_first_q;
    assign take_last  = take && in_beat_i.last;

    always_ff @(posedge clk_i or negedge rst_ni) begin
      if (!rst_ni) at_first_q <= 1'b1;
      else if (take) at_first_q <= in_beat_i.last;
    end

    logic message_valid, message_ready, mac_valid, mac_ready, block, block_first;
    beat_t message_beat;
    logic [StateBits-1:0] mac;

    cv_esp_text u_text (
      .clk_i,
      .rst_ni,
      .in_valid_i (in_valid_i && hold_ready && hdr_ready),
      .in_ready_o (text_ready),
      .in_beat_i,
      .in_esp_i   (in_hdr_i.frame.esp),
      .in_esn_i   (in_hdr_i.frame.esn),
      .in_high_i  (in_hdr_i.frame.high),
      .out_valid_o(message_valid),
      .out_ready_i(message_ready),
      .out_beat_o (message_beat)
    );

    cv_hmac #(
      .Sha256        (Sha256),
      .RoundsPerCycle(RoundsPerCycle)
    ) u_hmac (
      .clk_i,
      .rst_ni,
      .in_valid_i   (message_valid),
      .in_ready_o   (message_ready),
      .in_beat_i    (message_beat),
      .in_inner_i   (in_hdr_i.auth_keys[511-:StateBits]),
      .in_outer_i   (in_hdr_i.auth_keys[255-:StateBits]),
      .block_o      (block),
      .block_first_o(block_first),
      .mac_valid_o  (mac_valid),
      .mac_ready_i  (mac_ready),
      .mac_o        (mac)
    );

    // ---- When a packet may leave -----------------------------------------------------------

    // A packet that is here as a whole begins to leave when its HMAC takes no longer than its other
    // bytes do: the ICV is there when its place comes, and the packet leaves without gaps.
    localparam int unsigned BlockCycles = (Sha256 ? 64 : 80) / RoundsPerCycle;
    // From the decision to the cycle in which a packet's last beat of data wants its ICV: as many
    // cycles as beats and GoCycles - 1. From the last inner block to the HMAC 2 * BlockCycles + 3.
    localparam int unsigned GoCycles = 3;
    localparam int unsigned MacCycles = 3;
    // A packet of which the HMAC has more blocks in front of it is not here as a whole.
    localparam int unsigned MaxLeft = 7;
    localparam int unsigned BeatBits = $clog2((FrontBytes + MaxBytes) / BusBytes + 2);
    localparam int unsigned BlockBits = $clog2((MaxBytes + 84) / 64 + 1);
    localparam int unsigned TimeBits = $clog2((MaxLeft + 2) * BlockCycles + (1 << BeatBits)) + 1;
    typedef logic [BeatBits-1:0] beats_t;
    typedef logic [BlockBits-1:0] blocks_t;
    typedef logic signed [TimeBits-1:0] time_t;

    // Of a packet that has come as a whole: inner blocks, and beats up to its last byte of data.
    typedef struct packed {
      blocks_t blocks;
      beats_t  beats;
    } plan_t;

    len_t before_q, bytes;  // of data, before this beat; with it
    logic esn, esn_q, v6, v6_q;
    plan_t plan_in, plan;
    logic plan_valid, plan_room;

    assign esn   = at_first_q ? in_hdr_i.frame.esn : esn_q;
    assign v6    = at_first_q ? front_in.v6 : v6_q;
    assign bytes = (at_first_q ? '0 : before_q) + len_t'(in_beat_i.tail) + len_t'(1);
    always_comb begin
      // ESP header, upper half, 9 bytes of padding at least.
      plan_in.blocks = blocks_t'((bytes + (esn ? len_t'(84) : len_t'(80))) >> 6);
      plan_in.beats  = beats_t'((bytes + (v6 ? len_t'(63) : len_t'(43))) >> 4);
    end

    always_ff @(posedge clk_i) begin
      if (take) before_q <= bytes;
      if (take_first) begin
        esn_q <= esn;
        v6_q  <= v6;
      end
    end

    logic gone_q, go, next_first, fits_q;
    logic last_q;  // the block last taken is the packet's last inner one
    blocks_t done_d, done_q, left;  // blocks that the core has taken; still to take
    time_t wait_d, wait_q;  // cycles from the block last taken to the packet's leaving
    time_t since_q;  // cycles since then

    cv_fifo #(
      .T    (plan_t),
      .Depth(Packets)
    ) u_plans (
      .clk_i,
      .rst_ni,
      .in_valid_i (take_last),
      .in_ready_o (plan_room),
      .in_data_i  (plan_in),
      .out_valid_o(plan_valid),
      .out_ready_i(go),
      .out_data_o (plan),
      .count_o    ()
    );

    assign next_first = block && block_first;
    assign done_d = next_first ? blocks_t'(1) : done_q + blocks_t'(block);
    assign left   = plan.blocks - done_d;
    assign wait_d = time_t'(32'(left[2:0]) * BlockCycles + 2 * BlockCycles + MacCycles - GoCycles) -
                    time_t'({1'b0, plan.beats});
    assign go = fits_q && !gone_q && since_q >= wait_q;

    always_ff @(posedge clk_i or negedge rst_ni) begin
      if (!rst_ni) begin
        gone_q <= 1'b1;
        fits_q <= 1'b0;
      end else begin
        gone_q <= !next_first && (gone_q || go);
        fits_q <= plan_valid && !go && 32'(left) <= MaxLeft;
      end
    end

    always_ff @(posedge clk_i) begin
      done_q <= done_d;
      wait_q <= wait_d;
      last_q <= left == '0;
      // A block that is not there in time may come 8 cycles late: so long do the last beats and the
      // padding need. So nothing is counted of those cycles before it is taken.
      if (block) since_q <= '0;
      else if (last_q || since_q < time_t'(BlockCycles - 8)) since_q <= since_q + time_t'(1);
    end

    // ---- The packet leaves -----------------------------------------------------------------

    // Packets that may leave and have not been let go yet.
    logic [$clog2(Packets+1)-1:0] due_q;
    logic let_go, hold_room, front_valid;
    front_t waiting;

    assign let_go = due_q != '0 && hold_room;

    always_ff @(posedge clk_i or negedge rst_ni) begin
      if (!rst_ni) due_q <= '0;
      else due_q <= due_q + ($bits(due_q))'(go) - ($bits(due_q))'(let_go);
    end

    cv_fifo #(
      .T    (front_t),
      .Depth(Packets)
    ) u_fronts (
      .clk_i,
      .rst_ni,
      .in_valid_i (take_first),
      .in_ready_o (front_ready),
      .in_data_i  (front_in),
      .out_valid_o(front_valid),
      .out_ready_i(let_go),
      .out_data_o (waiting),
      .count_o    ()
    );

    cv_hold #(
      .Hdr    (front_t),
      .Depth  ((MaxBytes + BusBytes - 1) / BusBytes + Ahead),
      .Packets(Packets)
    ) u_hold (
      .clk_i,
      .rst_ni,
      .in_valid_i     (in_valid_i && text_ready && hdr_ready),
      .in_ready_o     (hold_ready),
      .in_beat_i,
      .verdict_valid_i(due_q != '0),
      .verdict_ready_o(hold_room),
      .verdict_keep_i (1'b1),
      .verdict_hdr_i  (waiting),
      .out_valid_o    (leave_valid),
      .out_ready_i    (leave_ready),
      .out_beat_o     (leave_beat),
      .out_hdr_o      (leave)
    );

    // ICVs, of packets that wait for the output too; the first one may come straight from the HMAC.
    typedef logic [8*IcvBytes-1:0] icv_t;
    icv_t icv_kept, icv;
    logic icv_valid, icv_use, seal, seal_ready;

    assign icv = icv_valid ? icv_kept : mac[StateBits-1-:8*IcvBytes];
    // The last beat wants it.
    assign seal         = !sealed_beat.last || icv_valid || mac_valid;
    assign sealed_ready = seal_ready && seal;
    assign icv_use      = sealed_valid && sealed_ready && sealed_beat.last;

    cv_fifo #(
      .T    (icv_t),
      .Depth(2 * Packets)
    ) u_icvs (
      .clk_i,
      .rst_ni,
      .in_valid_i (mac_valid && !(icv_use && !icv_valid)),
      .in_ready_o (mac_ready),
      .in_data_i  (mac[StateBits-1-:8*IcvBytes]),
      .out_valid_o(icv_valid),
      .out_ready_i(icv_use),
      .out_data_o (icv_kept),
      .count_o    ()
    );

    cv_append u_icv (
      .clk_i,
      .rst_ni,
      .in_valid_i (sealed_valid && seal),
      .in_ready_o (seal_ready),
      .in_beat_i  (sealed_beat),
      .in_rest_i  ('0),
      .in_suffix_i(BusBits'(icv) << (BusBits - 8 * IcvBytes)),
      .in_bytes_i (5'(IcvBytes)),
      .out_valid_o,
      .out_ready_i,
      .out_beat_o,
      .out_rest_o ()
    );

    if (StateBits > 8 * IcvBytes) begin : gen_unused
      logic unused;
      assign unused = ^mac[StateBits-8*IcvBytes-1:0];
    end

    // A packet that leaves finds what stands before it, one that has come its place.
    `CV_ASSERT(FrontIsThere_A, due_q == '0 || front_valid)
    `CV_ASSERT(PlanHasRoom_A, !take_last || plan_room)
    // A packet may leave before the core begins with the next one.
    `CV_ASSERT(GoneBeforeNext_A, !next_first || gone_q)
    // A packet begins to leave before its HMAC is there: this is no way round a wait for it.
    `CV_COVER(LeavesEarly_C, let_go && !mac_valid)
    // The environment brings no IV in the header of a packet for an HMAC.
    `CV_ASSUME(NoIvHere_A, !take_first || !in_hdr_i.frame.iv_here)
  end

  // IP headers are whole: IPv4 without options, or IPv6.
  `CV_ASSUME(NetBytesKnown_A, !in_valid_i || !in_ready_o || in_hdr_i.frame.net_bytes == 6'd20 ||
             in_hdr_i.frame.net_bytes == 6'd40)

endmodule
