// What the sections of the gateway tell one another: selectors, security associations, and the
// internal header that goes with a packet from section to section.
//
// The header is longest behind the SAD section and shrinks from there: `seal_hdr_t` with every key,
// then `auth_hdr_t` with the HMAC states only, then nothing. Inbound it is `open_hdr_t`, then
// `clear_hdr_t`, then nothing.

package gateway_pkg;

  import aes_pkg::*;

  // ---- Sizes -------------------------------------------------------------------------------

  localparam int unsigned SaBits = 10;        // SAs of one direction: 2^SaBits
  localparam int unsigned PolicyBits = 10;    // policies of one direction: 2^PolicyBits
  localparam int unsigned BucketBits = 11;    // hash buckets in front of either
  localparam int unsigned Shapes = 8;         // kinds of selectors, see shape_t
  localparam int unsigned LenBits = 14;       // lengths of packets in bytes
  localparam int unsigned MaxBytes = 9216;    // longest packet on any port
  localparam int unsigned NetBytes = 40;      // longest IP header in front of ESP
  localparam int unsigned ReplayWindow = 128;

  typedef logic [SaBits-1:0] sa_index_t;
  typedef logic [PolicyBits-1:0] policy_index_t;
  typedef logic [BucketBits-1:0] bucket_t;
  typedef logic [LenBits-1:0] len_t;
  typedef logic [47:0] volume_t;              // packets or bytes of an SA's lifetime

  // ---- Kinds of modules --------------------------------------------------------------------

  // What the packet switches tell apart.
  typedef enum logic [1:0] {
    TypeAes   = 2'd0,
    TypeDes   = 2'd1,
    TypeGcm   = 2'd2,
    TypeClear = 2'd3   // no cipher: the way of packets in clear
  } cipher_type_e;
  typedef enum logic [1:0] {
    TypeSha1   = 2'd0,
    TypeSha256 = 2'd1,
    TypeNone   = 2'd2
  } auth_type_e;

  // The type of one of modules that are numbered kind by kind: `a` of the first, then `b` of the
  // second, `c` of the third.
  function automatic logic [3:0] module_kind(int unsigned index, int unsigned a, int unsigned b,
                                             int unsigned c);
    return (index < a) ? 4'd0 : (index < a + b) ? 4'd1 : (index < a + b + c) ? 4'd2 : 4'd3;
  endfunction

  // ---- What was done with a packet ---------------------------------------------------------

  // Why a packet was dropped. Each has a counter; the order is the register map's.
  typedef enum logic [4:0] {
    DropNone        = 5'd0,
    DropHeader      = 5'd1,   // not IPv4 or IPv6, bad length or header checksum, options in the way
    DropTooLong     = 5'd2,   // more than MaxBytes, or an IP length that is not the packet's
    DropNoPolicy    = 5'd3,   // no policy matches (RFC 4301 section 5: discard)
    DropPolicy      = 5'd4,   // the policy says discard
    DropMismatch    = 5'd5,   // inbound: in clear though to be protected, or by another SA
    DropNoSa        = 5'd6,   // no SA with this SPI and address, or the policy's SA is not there
    DropHardLimit   = 5'd7,   // a lifetime is over
    DropNumbers     = 5'd8,   // no sequence numbers left
    DropReplayLate  = 5'd9,   // left of the window, or number 0
    DropReplay      = 5'd10,  // accepted before
    DropIntegrity   = 5'd11,  // the ICV is wrong
    DropPadding     = 5'd12,  // padding or pad length is wrong
    DropInner       = 5'd13,  // what was inside is not what the SA carries
    DropFragment    = 5'd14,  // a fragment that would have to be put together first
    DropShort       = 5'd15,  // inbound: shorter than its SA's headers and ICV, or no whole blocks
    DropUnsupported = 5'd16   // the SA asks for a cipher or HMAC that this gateway is built without
  } drop_e;
  localparam int unsigned NumDrops = 17;

  // ---- Policies ----------------------------------------------------------------------------

  typedef enum logic [1:0] {
    Discard = 2'd0,
    Bypass  = 2'd1,
    Protect = 2'd2
  } action_e;

  // What policies are compared with. IPv4 addresses lie in the highest 32 bits. Ports are 0 where
  // the protocol has none (not TCP, UDP, UDP-Lite, SCTP or DCCP) and in later fragments; ICMP's type
  // and code lie in the source port.
  typedef struct packed {
    logic         v6;
    logic [127:0] src;
    logic [127:0] dst;
    logic [7:0]   proto;
    logic [15:0]  sport;
    logic [15:0]  dport;
  } selector_t;

  // A shape says which bits of a selector count. The policies of one shape differ in these bits
  // only, so one look-up in the hash table finds the one that matches. A packet is looked up in
  // every valid shape of its version; of what is found the smallest `priority` counts, and of equal
  // ones the lower shape.
  typedef struct packed {
    logic       valid;
    logic       v6;
    logic [7:0] src_bits;    // prefix length
    logic [7:0] dst_bits;
    logic       proto;
    logic       sport;
    logic       dport;
  } shape_t;

  typedef struct packed {
    logic          valid;
    logic [2:0]    shape;
    selector_t     selector;   // bits that do not count are zero
    action_e       action;
    logic          low;        // priority class of its packets; 1 is the lower one
    logic [15:0]   priority_;  // smaller goes first
    sa_index_t     sa;         // Protect: the SA that packets take; inbound the reqid of SAs that
                               // they may have come by
    logic          more;       // another policy has the same hash:
    policy_index_t next;
  } policy_t;

  // First policy, or first SA, of a bucket.
  typedef struct packed {
    logic                valid;
    logic [PolicyBits-1:0] first;
  } policy_bucket_t;
  typedef struct packed {
    logic      valid;
    sa_index_t first;
  } sa_bucket_t;

  // ---- Security associations ---------------------------------------------------------------

  typedef enum logic [2:0] {
    CipherAesCbc  = 3'd0,
    CipherAesGcm  = 3'd1,   // RFC 4106, ICV of 16 bytes; auth is AuthNone
    CipherDes     = 3'd2,   // DES-CBC
    Cipher3Des    = 3'd3,
    CipherDesEcb  = 3'd4    // benchmark only
  } cipher_e;

  typedef enum logic [1:0] {
    AuthNone   = 2'd0,
    AuthSha1   = 2'd1,      // HMAC-SHA1-96
    AuthSha256 = 2'd2       // HMAC-SHA2-256-128
  } auth_e;

  function automatic cipher_type_e cipher_type(cipher_e cipher);
    unique case (cipher)
      CipherAesCbc: return TypeAes;
      CipherAesGcm: return TypeGcm;
      default:      return TypeDes;
    endcase
  endfunction

  function automatic auth_type_e auth_type(auth_e auth);
    unique case (auth)
      AuthSha1:   return TypeSha1;
      AuthSha256: return TypeSha256;
      default:    return TypeNone;
    endcase
  endfunction

  typedef struct packed {
    volume_t soft_bytes;    // 0: no limit
    volume_t hard_bytes;
    volume_t soft_packets;
    volume_t hard_packets;
  } limits_t;

  // What software writes of an SA. It does not change while the SA lives.
  typedef struct packed {
    logic         valid;
    logic         tunnel;
    logic         v6;         // version of the outer header (tunnel), or of the packets (transport)
    logic         esn;
    cipher_e      cipher;
    key_len_e     key_len;    // AES
    auth_e        auth;
    logic [31:0]  spi;
    logic [127:0] src;        // outer addresses; IPv4 in the highest 32 bits
    logic [127:0] dst;
    logic [7:0]   hop_limit;  // of the outer header
    logic         copy_df;    // IPv4 in IPv4: DF of the inner header goes out; else DF is set
    logic [255:0] key;        // AES left-aligned; DES: key1, key2, key3 from the left
    logic [31:0]  salt;       // AES-GCM
    // HMAC: the state after the inner pad in the upper half, after the outer pad in the lower one,
    // each left-aligned. AES-GCM: H^4, H^3, H^2, H from the left.
    logic [511:0] auth_keys;
    // Inbound: what policies know it by. An SA and its successor have the same, so that packets of
    // either pass while peers change over.
    sa_index_t    reqid;
    limits_t      limits;
    logic         more;       // inbound: another SA has the same hash:
    sa_index_t    next;
  } sa_t;

  // What changes with every packet. Outbound `top` is the last number used; inbound it is the
  // highest one accepted, and seen[i] says that top - i was. Outbound there is no window: seen[63:0]
  // is what numbers are combined with to make IVs, random bits of this state, so that none comes
  // twice where two SAs have one key, or the numbers begin again.
  typedef struct packed {
    logic [63:0]             top;
    logic [ReplayWindow-1:0] seen;
    volume_t                 bytes;
    volume_t                 packets;
    logic                    soft_told;  // the soft limit's event was given
    logic                    hard_told;
  } sa_state_t;

  typedef enum logic [1:0] {
    EventSoft    = 2'd0,   // a soft limit was reached
    EventHard    = 2'd1,   // a hard limit was reached; packets are dropped
    EventNumbers = 2'd2    // sequence numbers ran out; packets are dropped
  } event_e;

  typedef struct packed {
    event_e    kind;
    sa_index_t sa;
  } sa_event_t;

  // What a section asks of the SAD, one request at a time, and what it is told.
  typedef enum logic [1:0] {
    SadSend   = 2'd0,   // outbound: the SA at `sa`; take a number, count `bytes`
    SadFind   = 2'd1,   // inbound: the SA with `spi` and `dst`; is `seq` new?
    SadAccept = 2'd2,   // inbound: the packet with number `high, seq` of `sa` is authentic: accept
                        // it once
    SadCount  = 2'd3    // inbound: count `bytes`, the payload of a packet of `sa` that was accepted
  } sad_op_e;

  typedef struct packed {
    sad_op_e      op;
    sa_index_t    sa;
    logic         v6;
    logic [31:0]  spi;
    logic [127:0] dst;
    logic [31:0]  high;
    logic [31:0]  seq;
    len_t         bytes;   // what is counted (outbound in tunnel mode: the whole packet)
    len_t         payload; // outbound: what is counted in transport mode, without the IP header
  } sad_req_t;

  typedef struct packed {
    drop_e       drop;     // DropNone: go on
    sa_index_t   sa;
    logic [63:0] number;   // the packet's; inbound with the upper half that belongs to it
    logic [63:0] iv;       // outbound: of AES-GCM; CBC's nonce block
    sa_t         data;     // not after SadAccept
  } sad_rsp_t;

  // The request that accepts an authentic packet. It names the SPI again: its place may have another
  // SA by now.
  function automatic sad_req_t accept_request(sa_index_t sa, logic [31:0] spi,
                                              logic [63:0] number);
    accept_request      = '0;
    accept_request.op   = SadAccept;
    accept_request.sa   = sa;
    accept_request.spi  = spi;
    accept_request.high = number[63:32];
    accept_request.seq  = number[31:0];
  endfunction

  // ---- The internal header -----------------------------------------------------------------

  // Of a parsed IP header.
  typedef struct packed {
    logic        v6;
    len_t        bytes;       // of the whole packet
    logic [5:0]  hdr_bytes;   // of the IP header (IPv6: without extension headers)
    logic [7:0]  tos;         // DSCP and ECN
    logic        df;
    logic [7:0]  proto;       // IPv4 protocol, IPv6 next header
  } ip_info_t;

  // Policy section to SAD section, outbound.
  typedef struct packed {
    logic      low;
    sa_index_t sa;
    ip_info_t  ip;
  } policy_hdr_t;

  // What stands before the cipher's data on the wire.
  typedef struct packed {
    logic [8*NetBytes-1:0] net;        // IP header, left-aligned, ready to send
    logic [5:0]            net_bytes;  // 20 or 40
    logic [63:0]           esp;        // SPI, lower half of the number
    logic [31:0]           high;       // upper half; under the ICV where esn is set
    logic                  esn;
    logic                  iv_here;    // AES-GCM: the IV follows, in clear
    logic [63:0]           iv;
  } frame_t;

  // SAD section to cipher section, outbound: the longest one. Data: for CBC the nonce block (the
  // SAD's `iv` in one cipher block, which encrypts to the IV: SP 800-38A appendix C), then
  // payload and trailer; for GCM payload and trailer.
  typedef struct packed {
    logic         low;
    cipher_e      cipher;
    auth_e        auth;
    key_len_e     key_len;
    logic [255:0] key;
    logic [31:0]  salt;
    len_t         bytes;      // of data
    logic [511:0] auth_keys;
    frame_t       frame;
  } seal_hdr_t;

  // Cipher section to HMAC section, outbound. Data: what stands behind `frame` on the wire, but for
  // the HMAC (AES-GCM's tag is there already).
  typedef struct packed {
    logic         low;
    auth_e        auth;
    logic [511:0] auth_keys;
    frame_t       frame;
  } auth_hdr_t;

  // SAD section to HMAC section, and from there to the cipher section, inbound. Data: for CBC the IV,
  // ciphertext (and, before the HMAC section, the ICV); for GCM ciphertext and ICV.
  typedef struct packed {
    logic         low;
    cipher_e      cipher;
    auth_e        auth;
    key_len_e     key_len;
    logic [255:0] key;
    logic [31:0]  salt;
    logic [511:0] auth_keys;  // behind the HMAC section: GCM's only
    sa_index_t    sa;
    sa_index_t    reqid;
    logic         tunnel;
    logic [31:0]  spi;
    logic [63:0]  number;
    logic         esn;
    logic [63:0]  iv;         // AES-GCM
    len_t         bytes;      // of data, with the ICV
    logic [8*NetBytes-1:0] net;  // IP header that stood in front of ESP
    ip_info_t     ip;            // ... parsed
  } open_hdr_t;

  // Cipher section to policy section, inbound. Data: for CBC a block to be skipped (what the IV
  // decrypts to), then payload and trailer; for GCM payload and trailer. Authentic and accepted.
  typedef struct packed {
    logic        low;
    logic        clear;      // came without ESP: data is the packet, and only `ip` holds
    logic [4:0]  skip;       // bytes of data to be skipped: 0, 8 or 16
    sa_index_t   sa;         // whose payload this is
    logic [31:0] spi;
    sa_index_t   reqid;
    logic        tunnel;
    logic [8*NetBytes-1:0] net;
    ip_info_t    ip;
  } clear_hdr_t;

endpackage
