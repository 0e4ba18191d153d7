// The outbound half of the gateway: packets in clear from the protected side come in, ESP packets
// (and packets that a policy lets pass in clear) go out (RFC 4301, section 5.1).
//
// Function
//   in -> cv_spread -> cv_policy_out x NumPolicy --bypass------------------------------------+
//                          | protect                                                         |
//                      cv_switch -> cv_encap x NumSad (each a client of cv_sad)              |
//                          |                                                                 |
//                      cv_switch -> cv_cipher_aes x NumAes, cv_cipher_des x NumDes,          |
//                          |        cv_cipher_gcm_out x NumGcm                               v
//                      cv_switch -> cv_auth_out: SHA-1 x NumSha1, SHA-256 x NumSha256    -> cv_merge
//                      (GCM: none)  and, behind each AES-GCM lane, one without HMAC            |
//                                                                                           out
//
//              Modules of one kind share the work packet by packet, so packets of one flow may leave
//              in another order than they came, within the packets that are inside. Sequence numbers
//              are given in the SAD section.
// Parameters   Num* (modules of each kind), RoundsPerCycle (of SHA-1; SHA-256 has half), Ecb (the DES
//              modules do DES-ECB, for benchmarks), Serial (one packet inside at a time: the published
//              prototype), FifoBeats (beats in front of each cipher and HMAC module; a packet that
//              fits leaves the section before it free at once).
// Latency      The sum of its sections' and 5 cycles for each switch; doc/gateway.md has figures.
// Throughput   That of the slowest section, at most 1 beat a cycle in and out.
// Comb. paths  none from input to output or back.
// Stalls       in_ready_o is low while no policy module has room (Serial: while a packet is inside).

`include "culvert_assert.svh"

module cv_outbound
  import culvert_pkg::*;
  import gateway_pkg::*;
#(
  parameter  int unsigned NumPolicy      = 2,
  parameter  int unsigned NumSad         = 2,
  parameter  int unsigned NumAes         = 2,
  parameter  int unsigned NumDes         = 1,
  parameter  int unsigned NumGcm         = 1,
  parameter  int unsigned NumSha1        = 2,
  parameter  int unsigned NumSha256      = 1,
  parameter  int unsigned RoundsPerCycle = 2,
  parameter  bit          Ecb            = 1'b0,
  parameter  bit          Serial         = 1'b0,
  parameter  int unsigned FifoBeats      = 512,
  localparam int unsigned NumCbc         = NumAes + NumDes,
  localparam int unsigned NumCipher      = NumCbc + NumGcm,
  localparam int unsigned NumHmac        = NumSha1 + NumSha256,
  localparam int unsigned NumAuth        = NumHmac + NumGcm,
  localparam int unsigned Sources        = NumPolicy + NumSad + NumCipher
) (
  input logic clk_i,
  input logic rst_ni,
  input logic sad_clk_i,
  input logic sad_rst_ni,

  input  logic  in_valid_i,
  output logic  in_ready_o,
  input  beat_t in_beat_i,

  output logic  out_valid_o,
  input  logic  out_ready_i,
  output beat_t out_beat_o,

  // Table ports of the SPD and the SAD (see cv_spd, cv_sad).
  input  logic                       spd_valid_i,
  output logic                       spd_ready_o,
  output logic [$bits(policy_t)-1:0] spd_data_o,
  input  logic                       sad_valid_i,
  output logic                       sad_ready_o,
  output logic [$bits(sa_t)-1:0]     sad_data_o,
  input  logic                       tbl_write_i,
  input  logic [1:0]                 tbl_table_i,
  input  logic [15:0]                tbl_index_i,
  input  logic [$bits(sa_t)-1:0]     tbl_data_i,

  output logic      event_valid_o,
  input  logic      event_ready_i,
  output sa_event_t event_o,
  output logic      event_missed_o,
  input  logic      event_clear_i,

  // Each for one cycle: a module dropped a packet.
  output logic  [Sources-1:0] drop_valid_o,
  output drop_e [Sources-1:0] drop_reason_o
);

  function automatic logic [NumCipher*4-1:0] cipher_kinds();
    for (int unsigned i = 0; i < NumCipher; i++) begin
      cipher_kinds[4*i+:4] = module_kind(i, NumAes, NumDes, NumGcm);
    end
  endfunction
  function automatic logic [NumAuth*4-1:0] auth_kinds();
    for (int unsigned i = 0; i < NumAuth; i++) begin
      auth_kinds[4*i+:4] = module_kind(i, NumSha1, NumSha256, NumGcm);
    end
  endfunction
  localparam logic [NumAuth*4-1:0] AuthKinds = auth_kinds();

  logic hold_back, spread_ready;
  assign in_ready_o = spread_ready && !hold_back;

  cv_serial #(
    .Enable(Serial)
  ) u_serial (
    .clk_i,
    .rst_ni,
    .come_i(in_valid_i && in_ready_o && in_beat_i.last),
    .gone_i((out_valid_o && out_ready_i && out_beat_o.last) || drop_valid_o != '0),
    .hold_o(hold_back)
  );

  // Policy section.
  logic [NumPolicy-1:0] spread_out_valid, spread_out_ready;
  beat_t [NumPolicy-1:0] spread_out_beat;

  cv_spread #(
    .N    (NumPolicy),
    .Depth(16)
  ) u_spread (
    .clk_i,
    .rst_ni,
    .in_valid_i (in_valid_i && !hold_back),
    .in_ready_o (spread_ready),
    .in_beat_i,
    .out_valid_o(spread_out_valid),
    .out_ready_i(spread_out_ready),
    .out_beat_o (spread_out_beat)
  );

  logic [NumPolicy-1:0] look_valid, look_ready, found_valid;
  selector_t [NumPolicy-1:0] look;
  policy_t [NumPolicy-1:0] found;

  cv_spd #(
    .N(NumPolicy)
  ) u_spd (
    .clk_i,
    .rst_ni,
    .look_valid_i (look_valid),
    .look_ready_o (look_ready),
    .look_i       (look),
    .found_valid_o(found_valid),
    .found_o      (found),
    .tbl_valid_i  (spd_valid_i),
    .tbl_ready_o  (spd_ready_o),
    .tbl_write_i,
    .tbl_table_i,
    .tbl_index_i,
    .tbl_data_i   (tbl_data_i[$bits(policy_t)-1:0]),
    .tbl_data_o   (spd_data_o)
  );

  logic [NumPolicy-1:0] policy_valid, policy_bypass, protect_ready;
  beat_t [NumPolicy-1:0] policy_beat;
  policy_hdr_t [NumPolicy-1:0] policy_hdr;
  logic [NumPolicy-1:0] policy_low;

  // Streams into the merge: the HMAC section's, then what bypasses.
  logic [NumAuth+NumPolicy-1:0] end_valid, end_ready;
  beat_t [NumAuth+NumPolicy-1:0] end_beat;

  for (genvar i = 0; i < NumPolicy; i++) begin : gen_policy
    cv_policy_out u_policy (
      .clk_i,
      .rst_ni,
      .in_valid_i   (spread_out_valid[i]),
      .in_ready_o   (spread_out_ready[i]),
      .in_beat_i    (spread_out_beat[i]),
      .look_valid_o (look_valid[i]),
      .look_ready_i (look_ready[i]),
      .look_o       (look[i]),
      .found_valid_i(found_valid[i]),
      .found_i      (found[i]),
      .out_valid_o  (policy_valid[i]),
      .out_ready_i  (policy_bypass[i] ? end_ready[NumAuth+i] : protect_ready[i]),
      .out_beat_o   (policy_beat[i]),
      .out_hdr_o    (policy_hdr[i]),
      .out_bypass_o (policy_bypass[i]),
      .drop_valid_o (drop_valid_o[i]),
      .drop_reason_o(drop_reason_o[i])
    );
    assign policy_low[i] = policy_hdr[i].low;
    assign end_valid[NumAuth+i] = policy_valid[i] && policy_bypass[i];
    assign end_beat[NumAuth+i] = policy_beat[i];
  end

  // SAD section.
  logic [NumSad-1:0] encap_in_valid, encap_in_ready;
  beat_t [NumSad-1:0] encap_in_beat;
  policy_hdr_t [NumSad-1:0] encap_in_hdr;

  cv_switch #(
    .Hdr     (policy_hdr_t),
    .NumIn   (NumPolicy),
    .NumOut  (NumSad),
    .NumTypes(1),
    .OutType ({NumSad{4'd0}})
  ) u_to_sad (
    .clk_i,
    .rst_ni,
    .in_valid_i (policy_valid & ~policy_bypass),
    .in_ready_o (protect_ready),
    .in_beat_i  (policy_beat),
    .in_hdr_i   (policy_hdr),
    .in_type_i  ('0),
    .in_low_i   (policy_low),
    .out_valid_o(encap_in_valid),
    .out_ready_i(encap_in_ready),
    .out_beat_o (encap_in_beat),
    .out_hdr_o  (encap_in_hdr)
  );

  logic [NumSad-1:0] req_valid, req_ready, rsp_valid, rsp_ready;
  sad_req_t [NumSad-1:0] req;
  sad_rsp_t [NumSad-1:0] rsp;

  cv_sad #(
    .N      (NumSad),
    .Inbound(1'b0)
  ) u_sad (
    .clk_i,
    .rst_ni,
    .sad_clk_i,
    .sad_rst_ni,
    .req_valid_i(req_valid),
    .req_ready_o(req_ready),
    .req_i      (req),
    .rsp_valid_o(rsp_valid),
    .rsp_ready_i(rsp_ready),
    .rsp_o      (rsp),
    .event_valid_o,
    .event_ready_i,
    .event_o,
    .event_missed_o,
    .event_clear_i,
    .tbl_valid_i(sad_valid_i),
    .tbl_ready_o(sad_ready_o),
    .tbl_write_i,
    .tbl_table_i,
    .tbl_index_i,
    .tbl_data_i,
    .tbl_data_o (sad_data_o)
  );

  logic [NumSad-1:0] encap_valid, encap_ready, encap_low;
  beat_t [NumSad-1:0] encap_beat;
  seal_hdr_t [NumSad-1:0] encap_hdr;
  logic [NumSad-1:0][1:0] encap_type;

  for (genvar i = 0; i < NumSad; i++) begin : gen_encap
    cv_encap #(
      .HasAes   (NumAes != 0),
      .HasGcm   (NumGcm != 0),
      .HasDes   (NumDes != 0 && !Ecb),
      .HasEcb   (NumDes != 0 && Ecb),
      .HasSha1  (NumSha1 != 0),
      .HasSha256(NumSha256 != 0)
    ) u_encap (
      .clk_i,
      .rst_ni,
      .in_valid_i   (encap_in_valid[i]),
      .in_ready_o   (encap_in_ready[i]),
      .in_beat_i    (encap_in_beat[i]),
      .in_hdr_i     (encap_in_hdr[i]),
      .req_valid_o  (req_valid[i]),
      .req_ready_i  (req_ready[i]),
      .req_o        (req[i]),
      .rsp_valid_i  (rsp_valid[i]),
      .rsp_ready_o  (rsp_ready[i]),
      .rsp_i        (rsp[i]),
      .out_valid_o  (encap_valid[i]),
      .out_ready_i  (encap_ready[i]),
      .out_beat_o   (encap_beat[i]),
      .out_hdr_o    (encap_hdr[i]),
      .drop_valid_o (drop_valid_o[NumPolicy+i]),
      .drop_reason_o(drop_reason_o[NumPolicy+i])
    );
    assign encap_low[i] = encap_hdr[i].low;
    assign encap_type[i] = cipher_type(encap_hdr[i].cipher);
  end

  // Cipher section.
  logic [NumCipher-1:0] cipher_in_valid, cipher_in_ready;
  beat_t [NumCipher-1:0] cipher_in_beat;
  seal_hdr_t [NumCipher-1:0] cipher_in_hdr;

  cv_switch #(
    .Hdr      (seal_hdr_t),
    .NumIn    (NumSad),
    .NumOut   (NumCipher),
    .NumTypes (3),
    .OutType  (cipher_kinds()),
    .InPackets(4),
    .OutDepth (FifoBeats)
  ) u_to_cipher (
    .clk_i,
    .rst_ni,
    .in_valid_i (encap_valid),
    .in_ready_o (encap_ready),
    .in_beat_i  (encap_beat),
    .in_hdr_i   (encap_hdr),
    .in_type_i  (encap_type),
    .in_low_i   (encap_low),
    .out_valid_o(cipher_in_valid),
    .out_ready_i(cipher_in_ready),
    .out_beat_o (cipher_in_beat),
    .out_hdr_o  (cipher_in_hdr)
  );

  logic [NumCipher-1:0] cipher_valid, cipher_ready;
  beat_t [NumCipher-1:0] cipher_beat;
  auth_hdr_t [NumCipher-1:0] cipher_hdr;

  for (genvar i = 0; i < NumCipher; i++) begin : gen_cipher
    localparam int unsigned Source = NumPolicy + NumSad + i;
    if (i < NumAes) begin : gen_aes
      cv_cipher_aes u_cipher (
        .clk_i,
        .rst_ni,
        .in_valid_i (cipher_in_valid[i]),
        .in_ready_o (cipher_in_ready[i]),
        .in_beat_i  (cipher_in_beat[i]),
        .in_hdr_i   (cipher_in_hdr[i]),
        .out_valid_o(cipher_valid[i]),
        .out_ready_i(cipher_ready[i]),
        .out_beat_o (cipher_beat[i]),
        .out_hdr_o  (cipher_hdr[i])
      );
      assign drop_valid_o[Source]  = 1'b0;
      assign drop_reason_o[Source] = DropNone;
    end else if (i < NumAes + NumDes) begin : gen_des
      cv_cipher_des #(
        .Ecb(Ecb)
      ) u_cipher (
        .clk_i,
        .rst_ni,
        .in_valid_i   (cipher_in_valid[i]),
        .in_ready_o   (cipher_in_ready[i]),
        .in_beat_i    (cipher_in_beat[i]),
        .in_hdr_i     (cipher_in_hdr[i]),
        .out_valid_o  (cipher_valid[i]),
        .out_ready_i  (cipher_ready[i]),
        .out_beat_o   (cipher_beat[i]),
        .out_hdr_o    (cipher_hdr[i]),
        .drop_valid_o (drop_valid_o[Source]),
        .drop_reason_o(drop_reason_o[Source])
      );
    end else begin : gen_gcm
      cv_cipher_gcm_out u_cipher (
        .clk_i,
        .rst_ni,
        .in_valid_i (cipher_in_valid[i]),
        .in_ready_o (cipher_in_ready[i]),
        .in_beat_i  (cipher_in_beat[i]),
        .in_hdr_i   (cipher_in_hdr[i]),
        .out_valid_o(cipher_valid[i]),
        .out_ready_i(cipher_ready[i]),
        .out_beat_o (cipher_beat[i]),
        .out_hdr_o  (cipher_hdr[i])
      );
      assign drop_valid_o[Source]  = 1'b0;
      assign drop_reason_o[Source] = DropNone;
    end
  end

  // HMAC section.
  logic [NumAuth-1:0] auth_in_valid, auth_in_ready;
  beat_t [NumAuth-1:0] auth_in_beat;
  auth_hdr_t [NumAuth-1:0] auth_in_hdr;

  // Ciphers without integrity of their own share the HMAC modules.
  if (NumCbc != 0 && NumHmac != 0) begin : gen_to_hmac
    logic [NumCbc-1:0] low, sha256;
    for (genvar i = 0; i < NumCbc; i++) begin : gen_type
      assign low[i]    = cipher_hdr[i].low;
      assign sha256[i] = 1'(auth_type(cipher_hdr[i].auth));
    end

    cv_switch #(
      .Hdr      (auth_hdr_t),
      .NumIn    (NumCbc),
      .NumOut   (NumHmac),
      .NumTypes (2),
      .OutType  (AuthKinds[NumHmac*4-1:0]),
      .InPackets(4),
      .OutDepth (FifoBeats)
    ) u_to_hmac (
      .clk_i,
      .rst_ni,
      .in_valid_i (cipher_valid[NumCbc-1:0]),
      .in_ready_o (cipher_ready[NumCbc-1:0]),
      .in_beat_i  (cipher_beat[NumCbc-1:0]),
      .in_hdr_i   (cipher_hdr[NumCbc-1:0]),
      .in_type_i  (sha256),
      .in_low_i   (low),
      .out_valid_o(auth_in_valid[NumHmac-1:0]),
      .out_ready_i(auth_in_ready[NumHmac-1:0]),
      .out_beat_o (auth_in_beat[NumHmac-1:0]),
      .out_hdr_o  (auth_in_hdr[NumHmac-1:0])
    );
  end else begin : gen_no_hmac
    // cv_encap drops what needs both a cipher and an HMAC.
    for (genvar i = 0; i < NumCbc; i++) begin : gen_cbc
      assign cipher_ready[i] = 1'b0;
    end
    for (genvar i = 0; i < NumHmac; i++) begin : gen_hmac
      assign auth_in_valid[i] = 1'b0;
      assign auth_in_beat[i]  = '0;
      assign auth_in_hdr[i]   = '0;
    end
  end

  // An AES-GCM lane has a way of its own: through a switch with one input and one output a packet of
  // n beats would take n + 3 cycles.
  for (genvar i = 0; i < NumGcm; i++) begin : gen_to_none
    assign auth_in_valid[NumHmac+i] = cipher_valid[NumCbc+i];
    assign auth_in_beat[NumHmac+i]  = cipher_beat[NumCbc+i];
    assign auth_in_hdr[NumHmac+i]   = cipher_hdr[NumCbc+i];
    assign cipher_ready[NumCbc+i]   = auth_in_ready[NumHmac+i];
  end

  for (genvar i = 0; i < NumAuth; i++) begin : gen_auth
    localparam auth_e Auth = (i < NumSha1) ? AuthSha1 :
                             (i < NumHmac) ? AuthSha256 : AuthNone;
    cv_auth_out #(
      .Auth          (Auth),
      .RoundsPerCycle((Auth == AuthSha256) ? RoundsPerCycle / 2 : RoundsPerCycle)
    ) u_auth (
      .clk_i,
      .rst_ni,
      .in_valid_i (auth_in_valid[i]),
      .in_ready_o (auth_in_ready[i]),
      .in_beat_i  (auth_in_beat[i]),
      .in_hdr_i   (auth_in_hdr[i]),
      .out_valid_o(end_valid[i]),
      .out_ready_i(end_ready[i]),
      .out_beat_o (end_beat[i])
    );
  end

  cv_merge #(
    .N(NumAuth + NumPolicy)
  ) u_merge (
    .clk_i,
    .rst_ni,
    .in_valid_i(end_valid),
    .in_ready_o(end_ready),
    .in_beat_i (end_beat),
    .out_valid_o,
    .out_ready_i,
    .out_beat_o
  );

  // A drop has a reason.
  for (genvar i = 0; i < Sources; i++) begin : gen_drop
    `CV_ASSERT(DropHasReason_A, !drop_valid_o[i] || drop_reason_o[i] != DropNone)
  end

endmodule
