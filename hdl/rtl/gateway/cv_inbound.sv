// The inbound half of the gateway: packets from the unprotected side come in; those that came by the
// SA that policy asks for, or in clear where policy lets them, go out (RFC 4301, section 5.2).
//
// Function
//   in -> cv_spread -> cv_decap x NumSad (each a client of cv_sad)
//                          |
//                      cv_switch -> cv_auth_in: SHA-1 x NumSha1, SHA-256 x NumSha256 (clients of
//                          |        cv_sad); AES-GCM and packets in clear: nothing x NumNone
//                      cv_switch -> cv_cipher_aes x NumAes, cv_cipher_des x NumDes,
//                          |        cv_cipher_gcm_in x NumGcm (clients of cv_sad); clear: nothing
//                      cv_switch -> (cv_uncover, cv_policy_in) x NumPolicy (cv_uncover: clients of
//                                   cv_sad) -> cv_merge -> out
//
//              Packets of one flow may change their order as in cv_outbound.
// Parameters   as cv_outbound.
// Latency      The sum of its sections' and 5 cycles for each switch; doc/gateway.md has figures.
// Throughput   That of the slowest section, at most 1 beat a cycle in and out.
// Comb. paths  none from input to output or back.
// Stalls       in_ready_o is low while no cv_decap has room (Serial: while a packet is inside).

`include "culvert_assert.svh"

module cv_inbound
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
  localparam int unsigned NumNone        = (NumGcm != 0) ? NumGcm : 1,
  localparam int unsigned NumHmac        = NumSha1 + NumSha256,
  localparam int unsigned NumAuth        = NumHmac + NumNone,
  localparam int unsigned NumCipher      = NumAes + NumDes + NumGcm,
  localparam int unsigned Sources        = NumSad + NumAuth + NumCipher + 2 * NumPolicy
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

  // Between decapsulation and ciphers; of a packet in clear only `low` and `ip` hold.
  typedef struct packed {
    logic      clear;
    open_hdr_t open;
  } covered_hdr_t;

  function automatic logic [NumAuth*4-1:0] auth_kinds();
    for (int unsigned i = 0; i < NumAuth; i++) begin
      auth_kinds[4*i+:4] = module_kind(i, NumSha1, NumSha256, NumNone);
    end
  endfunction
  // The last place is the way of packets in clear.
  function automatic logic [(NumCipher+1)*4-1:0] cipher_kinds();
    for (int unsigned i = 0; i < NumCipher + 1; i++) begin
      cipher_kinds[4*i+:4] = module_kind(i, NumAes, NumDes, NumGcm);
    end
  endfunction

  localparam int unsigned GcmClients = 2;
  // Clients of the SAD: decapsulation, HMAC, AES-GCM, what counts bytes.
  localparam int unsigned FirstGcm = NumSad + NumHmac;
  localparam int unsigned FirstCount = FirstGcm + GcmClients * NumGcm;
  localparam int unsigned NumClients = FirstCount + NumPolicy;

  localparam logic [4:0] Ciphers = (5'(NumAes != 0) << CipherAesCbc) |
                                   (5'(NumGcm != 0) << CipherAesGcm) |
                                   (5'(NumDes != 0 && !Ecb) << CipherDes) |
                                   (5'(NumDes != 0 && !Ecb) << Cipher3Des) |
                                   (5'(NumDes != 0 && Ecb) << CipherDesEcb);
  localparam logic [2:0] Auths = (3'(NumGcm != 0) << AuthNone) |
                                 (3'(NumSha1 != 0) << AuthSha1) |
                                 (3'(NumSha256 != 0) << AuthSha256);

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

  // SAD section.
  logic [NumSad-1:0] spread_out_valid, spread_out_ready;
  beat_t [NumSad-1:0] spread_out_beat;

  cv_spread #(
    .N    (NumSad),
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

  logic [NumClients-1:0] req_valid, req_ready, rsp_valid, rsp_ready;
  sad_req_t [NumClients-1:0] req;
  sad_rsp_t [NumClients-1:0] rsp;

  cv_sad #(
    .N      (NumClients),
    .Inbound(1'b1)
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

  logic [NumSad-1:0] decap_valid, decap_ready, decap_low;
  beat_t [NumSad-1:0] decap_beat;
  covered_hdr_t [NumSad-1:0] decap_hdr;
  logic [NumSad-1:0][1:0] decap_type;

  for (genvar i = 0; i < NumSad; i++) begin : gen_decap
    cv_decap #(
      .Ciphers(Ciphers),
      .Auths  (Auths)
    ) u_decap (
      .clk_i,
      .rst_ni,
      .in_valid_i   (spread_out_valid[i]),
      .in_ready_o   (spread_out_ready[i]),
      .in_beat_i    (spread_out_beat[i]),
      .req_valid_o  (req_valid[i]),
      .req_ready_i  (req_ready[i]),
      .req_o        (req[i]),
      .rsp_valid_i  (rsp_valid[i]),
      .rsp_ready_o  (rsp_ready[i]),
      .rsp_i        (rsp[i]),
      .out_valid_o  (decap_valid[i]),
      .out_ready_i  (decap_ready[i]),
      .out_beat_o   (decap_beat[i]),
      .out_hdr_o    (decap_hdr[i].open),
      .out_clear_o  (decap_hdr[i].clear),
      .drop_valid_o (drop_valid_o[i]),
      .drop_reason_o(drop_reason_o[i])
    );
    assign decap_low[i] = decap_hdr[i].open.low;
    assign decap_type[i] = decap_hdr[i].clear ? TypeNone : auth_type(decap_hdr[i].open.auth);
  end

  // HMAC section.
  logic [NumAuth-1:0] auth_in_valid, auth_in_ready;
  beat_t [NumAuth-1:0] auth_in_beat;
  covered_hdr_t [NumAuth-1:0] auth_in_hdr;

  cv_switch #(
    .Hdr      (covered_hdr_t),
    .NumIn    (NumSad),
    .NumOut   (NumAuth),
    .NumTypes (3),
    .OutType  (auth_kinds()),
    .InPackets(4),
    .OutDepth (FifoBeats)
  ) u_to_auth (
    .clk_i,
    .rst_ni,
    .in_valid_i (decap_valid),
    .in_ready_o (decap_ready),
    .in_beat_i  (decap_beat),
    .in_hdr_i   (decap_hdr),
    .in_type_i  (decap_type),
    .in_low_i   (decap_low),
    .out_valid_o(auth_in_valid),
    .out_ready_i(auth_in_ready),
    .out_beat_o (auth_in_beat),
    .out_hdr_o  (auth_in_hdr)
  );

  logic [NumAuth-1:0] auth_valid, auth_ready, auth_low;
  beat_t [NumAuth-1:0] auth_beat;
  covered_hdr_t [NumAuth-1:0] auth_hdr;
  logic [NumAuth-1:0][1:0] auth_cipher;

  for (genvar i = 0; i < NumAuth; i++) begin : gen_auth
    localparam int unsigned Source = NumSad + i;
    if (i < NumHmac) begin : gen_hmac
      localparam auth_e Auth = (i < NumSha1) ? AuthSha1 : AuthSha256;
      localparam int unsigned Client = NumSad + i;
      cv_auth_in #(
        .Auth          (Auth),
        .RoundsPerCycle((Auth == AuthSha256) ? RoundsPerCycle / 2 : RoundsPerCycle)
      ) u_auth (
        .clk_i,
        .rst_ni,
        .in_valid_i   (auth_in_valid[i]),
        .in_ready_o   (auth_in_ready[i]),
        .in_beat_i    (auth_in_beat[i]),
        .in_hdr_i     (auth_in_hdr[i].open),
        .req_valid_o  (req_valid[Client]),
        .req_ready_i  (req_ready[Client]),
        .req_o        (req[Client]),
        .rsp_valid_i  (rsp_valid[Client]),
        .rsp_ready_o  (rsp_ready[Client]),
        .rsp_i        (rsp[Client]),
        .out_valid_o  (auth_valid[i]),
        .out_ready_i  (auth_ready[i]),
        .out_beat_o   (auth_beat[i]),
        .out_hdr_o    (auth_hdr[i].open),
        .drop_valid_o (drop_valid_o[Source]),
        .drop_reason_o(drop_reason_o[Source])
      );
      assign auth_hdr[i].clear = 1'b0;
      // Packets in clear never come this way.
      `CV_ASSERT(HmacNotClear_A, !auth_in_valid[i] || !auth_in_hdr[i].clear)
    end else begin : gen_none
      assign auth_valid[i] = auth_in_valid[i];
      assign auth_in_ready[i] = auth_ready[i];
      assign auth_beat[i] = auth_in_beat[i];
      assign auth_hdr[i] = auth_in_hdr[i];
      assign drop_valid_o[Source] = 1'b0;
      assign drop_reason_o[Source] = DropNone;
    end
    assign auth_low[i] = auth_hdr[i].open.low;
    assign auth_cipher[i] = auth_hdr[i].clear ? TypeClear : cipher_type(auth_hdr[i].open.cipher);
  end

  // Cipher section; place NumCipher is the way of packets in clear.
  logic [NumCipher:0] cipher_in_valid, cipher_in_ready;
  beat_t [NumCipher:0] cipher_in_beat;
  covered_hdr_t [NumCipher:0] cipher_in_hdr;

  cv_switch #(
    .Hdr      (covered_hdr_t),
    .NumIn    (NumAuth),
    .NumOut   (NumCipher + 1),
    .NumTypes (4),
    .OutType  (cipher_kinds()),
    .InPackets(4),
    .OutDepth (FifoBeats)
  ) u_to_cipher (
    .clk_i,
    .rst_ni,
    .in_valid_i (auth_valid),
    .in_ready_o (auth_ready),
    .in_beat_i  (auth_beat),
    .in_hdr_i   (auth_hdr),
    .in_type_i  (auth_cipher),
    .in_low_i   (auth_low),
    .out_valid_o(cipher_in_valid),
    .out_ready_i(cipher_in_ready),
    .out_beat_o (cipher_in_beat),
    .out_hdr_o  (cipher_in_hdr)
  );

  logic [NumCipher:0] cipher_valid, cipher_ready, cipher_low;
  beat_t [NumCipher:0] cipher_beat;
  clear_hdr_t [NumCipher:0] cipher_hdr;

  for (genvar i = 0; i < NumCipher; i++) begin : gen_cipher
    localparam int unsigned Source = NumSad + NumAuth + i;
    if (i < NumAes) begin : gen_aes
      cv_cipher_aes #(
        .Decrypt(1'b1)
      ) u_cipher (
        .clk_i,
        .rst_ni,
        .in_valid_i (cipher_in_valid[i]),
        .in_ready_o (cipher_in_ready[i]),
        .in_beat_i  (cipher_in_beat[i]),
        .in_hdr_i   (cipher_in_hdr[i].open),
        .out_valid_o(cipher_valid[i]),
        .out_ready_i(cipher_ready[i]),
        .out_beat_o (cipher_beat[i]),
        .out_hdr_o  (cipher_hdr[i])
      );
      assign drop_valid_o[Source]  = 1'b0;
      assign drop_reason_o[Source] = DropNone;
    end else if (i < NumAes + NumDes) begin : gen_des
      cv_cipher_des #(
        .Decrypt(1'b1),
        .Ecb    (Ecb)
      ) u_cipher (
        .clk_i,
        .rst_ni,
        .in_valid_i   (cipher_in_valid[i]),
        .in_ready_o   (cipher_in_ready[i]),
        .in_beat_i    (cipher_in_beat[i]),
        .in_hdr_i     (cipher_in_hdr[i].open),
        .out_valid_o  (cipher_valid[i]),
        .out_ready_i  (cipher_ready[i]),
        .out_beat_o   (cipher_beat[i]),
        .out_hdr_o    (cipher_hdr[i]),
        .drop_valid_o (drop_valid_o[Source]),
        .drop_reason_o(drop_reason_o[Source])
      );
    end else begin : gen_gcm
      localparam int unsigned Client = FirstGcm + GcmClients * (i - NumAes - NumDes);
      cv_cipher_gcm_in #(
        .Clients(GcmClients)
      ) u_cipher (
        .clk_i,
        .rst_ni,
        .in_valid_i   (cipher_in_valid[i]),
        .in_ready_o   (cipher_in_ready[i]),
        .in_beat_i    (cipher_in_beat[i]),
        .in_hdr_i     (cipher_in_hdr[i].open),
        .req_valid_o  (req_valid[Client+:GcmClients]),
        .req_ready_i  (req_ready[Client+:GcmClients]),
        .req_o        (req[Client+:GcmClients]),
        .rsp_valid_i  (rsp_valid[Client+:GcmClients]),
        .rsp_ready_o  (rsp_ready[Client+:GcmClients]),
        .rsp_i        (rsp[Client+:GcmClients]),
        .out_valid_o  (cipher_valid[i]),
        .out_ready_i  (cipher_ready[i]),
        .out_beat_o   (cipher_beat[i]),
        .out_hdr_o    (cipher_hdr[i]),
        .drop_valid_o (drop_valid_o[Source]),
        .drop_reason_o(drop_reason_o[Source])
      );
    end
    // Packets in clear never come this way.
    `CV_ASSERT(CipherNotClear_A, !cipher_in_valid[i] || !cipher_in_hdr[i].clear)
  end

  assign cipher_valid[NumCipher] = cipher_in_valid[NumCipher];
  assign cipher_in_ready[NumCipher] = cipher_ready[NumCipher];
  assign cipher_beat[NumCipher] = cipher_in_beat[NumCipher];
  always_comb begin
    cipher_hdr[NumCipher]       = '0;
    cipher_hdr[NumCipher].low   = cipher_in_hdr[NumCipher].open.low;
    cipher_hdr[NumCipher].clear = 1'b1;
    cipher_hdr[NumCipher].ip    = cipher_in_hdr[NumCipher].open.ip;
  end
  // Only packets in clear come this way.
  `CV_ASSERT(ClearIsClear_A, !cipher_in_valid[NumCipher] || cipher_in_hdr[NumCipher].clear)

  for (genvar i = 0; i <= NumCipher; i++) begin : gen_cipher_low
    assign cipher_low[i] = cipher_hdr[i].low;
  end

  // Policy section.
  logic [NumPolicy-1:0] cover_valid, cover_ready;
  beat_t [NumPolicy-1:0] cover_beat;
  clear_hdr_t [NumPolicy-1:0] cover_hdr;

  cv_switch #(
    .Hdr      (clear_hdr_t),
    .NumIn    (NumCipher + 1),
    .NumOut   (NumPolicy),
    .NumTypes (1),
    .OutType  ({NumPolicy{4'd0}}),
    .InPackets(4)
  ) u_to_policy (
    .clk_i,
    .rst_ni,
    .in_valid_i (cipher_valid),
    .in_ready_o (cipher_ready),
    .in_beat_i  (cipher_beat),
    .in_hdr_i   (cipher_hdr),
    .in_type_i  ('0),
    .in_low_i   (cipher_low),
    .out_valid_o(cover_valid),
    .out_ready_i(cover_ready),
    .out_beat_o (cover_beat),
    .out_hdr_o  (cover_hdr)
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

  logic [NumPolicy-1:0] inner_valid, inner_ready;
  beat_t [NumPolicy-1:0] inner_beat;
  clear_hdr_t [NumPolicy-1:0] inner_hdr;
  logic [NumPolicy-1:0] end_valid, end_ready;
  beat_t [NumPolicy-1:0] end_beat;

  for (genvar i = 0; i < NumPolicy; i++) begin : gen_policy
    localparam int unsigned Source = NumSad + NumAuth + NumCipher + 2 * i;
    cv_uncover u_uncover (
      .clk_i,
      .rst_ni,
      .in_valid_i   (cover_valid[i]),
      .in_ready_o   (cover_ready[i]),
      .in_beat_i    (cover_beat[i]),
      .in_hdr_i     (cover_hdr[i]),
      .req_valid_o  (req_valid[FirstCount+i]),
      .req_ready_i  (req_ready[FirstCount+i]),
      .req_o        (req[FirstCount+i]),
      .rsp_valid_i  (rsp_valid[FirstCount+i]),
      .rsp_ready_o  (rsp_ready[FirstCount+i]),
      .out_valid_o  (inner_valid[i]),
      .out_ready_i  (inner_ready[i]),
      .out_beat_o   (inner_beat[i]),
      .out_hdr_o    (inner_hdr[i]),
      .drop_valid_o (drop_valid_o[Source]),
      .drop_reason_o(drop_reason_o[Source])
    );
    cv_policy_in u_policy (
      .clk_i,
      .rst_ni,
      .in_valid_i   (inner_valid[i]),
      .in_ready_o   (inner_ready[i]),
      .in_beat_i    (inner_beat[i]),
      .in_low_i     (inner_hdr[i].low),
      .in_clear_i   (inner_hdr[i].clear),
      .in_reqid_i   (inner_hdr[i].reqid),
      .look_valid_o (look_valid[i]),
      .look_ready_i (look_ready[i]),
      .look_o       (look[i]),
      .found_valid_i(found_valid[i]),
      .found_i      (found[i]),
      .out_valid_o  (end_valid[i]),
      .out_ready_i  (end_ready[i]),
      .out_beat_o   (end_beat[i]),
      .out_low_o    (),
      .drop_valid_o (drop_valid_o[Source+1]),
      .drop_reason_o(drop_reason_o[Source+1])
    );
  end

  cv_merge #(
    .N(NumPolicy)
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
