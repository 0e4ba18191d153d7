// Bench wrapper: the outbound sections in a row, one module each, without the switches between them.
// `Cipher` chooses the cipher section (0 AES-CBC, 1 DES, 2 AES-GCM), `Auth` the HMAC section.

module esp_out_chain
  import culvert_pkg::*;
  import gateway_pkg::*;
#(
  parameter int unsigned Cipher         = 0,
  parameter auth_e       Auth           = AuthSha1,
  parameter int unsigned RoundsPerCycle = 2
) (
  input logic clk_i,
  input logic rst_ni,

  input  logic        in_valid_i,
  output logic        in_ready_o,
  input  beat_t       in_beat_i,
  input  policy_hdr_t in_hdr_i,

  output logic     req_valid_o,
  input  logic     req_ready_i,
  output sad_req_t req_o,
  input  logic     rsp_valid_i,
  output logic     rsp_ready_o,
  input  sad_rsp_t rsp_i,

  output logic  out_valid_o,
  input  logic  out_ready_i,
  output beat_t out_beat_o,

  output logic  drop_valid_o,
  output drop_e drop_reason_o
);

  logic plain_valid, plain_ready, data_valid, data_ready, cipher_drop, encap_drop;
  beat_t plain_beat, data_beat;
  seal_hdr_t plain_hdr;
  auth_hdr_t data_hdr;
  drop_e encap_reason, cipher_reason;

  cv_encap #(
    .HasAes   (Cipher == 0),
    .HasDes   (Cipher == 1),
    .HasGcm   (Cipher == 2),
    .HasSha1  (Auth == AuthSha1),
    .HasSha256(Auth == AuthSha256)
  ) u_encap (
    .clk_i,
    .rst_ni,
    .in_valid_i,
    .in_ready_o,
    .in_beat_i,
    .in_hdr_i,
    .req_valid_o,
    .req_ready_i,
    .req_o,
    .rsp_valid_i,
    .rsp_ready_o,
    .rsp_i,
    .out_valid_o  (plain_valid),
    .out_ready_i  (plain_ready),
    .out_beat_o   (plain_beat),
    .out_hdr_o    (plain_hdr),
    .drop_valid_o (encap_drop),
    .drop_reason_o(encap_reason)
  );

  if (Cipher == 0) begin : gen_aes
    cv_cipher_aes u_cipher (
      .clk_i,
      .rst_ni,
      .in_valid_i (plain_valid),
      .in_ready_o (plain_ready),
      .in_beat_i  (plain_beat),
      .in_hdr_i   (plain_hdr),
      .out_valid_o(data_valid),
      .out_ready_i(data_ready),
      .out_beat_o (data_beat),
      .out_hdr_o  (data_hdr)
    );
    assign cipher_drop   = 1'b0;
    assign cipher_reason = DropNone;
  end else if (Cipher == 1) begin : gen_des
    cv_cipher_des u_cipher (
      .clk_i,
      .rst_ni,
      .in_valid_i   (plain_valid),
      .in_ready_o   (plain_ready),
      .in_beat_i    (plain_beat),
      .in_hdr_i     (plain_hdr),
      .out_valid_o  (data_valid),
      .out_ready_i  (data_ready),
      .out_beat_o   (data_beat),
      .out_hdr_o    (data_hdr),
      .drop_valid_o (cipher_drop),
      .drop_reason_o(cipher_reason)
    );
  end else begin : gen_gcm
    cv_cipher_gcm_out u_cipher (
      .clk_i,
      .rst_ni,
      .in_valid_i (plain_valid),
      .in_ready_o (plain_ready),
      .in_beat_i  (plain_beat),
      .in_hdr_i   (plain_hdr),
      .out_valid_o(data_valid),
      .out_ready_i(data_ready),
      .out_beat_o (data_beat),
      .out_hdr_o  (data_hdr)
    );
    assign cipher_drop   = 1'b0;
    assign cipher_reason = DropNone;
  end

  cv_auth_out #(
    .Auth          (Auth),
    .RoundsPerCycle(RoundsPerCycle)
  ) u_auth (
    .clk_i,
    .rst_ni,
    .in_valid_i (data_valid),
    .in_ready_o (data_ready),
    .in_beat_i  (data_beat),
    .in_hdr_i   (data_hdr),
    .out_valid_o,
    .out_ready_i,
    .out_beat_o
  );

  assign drop_valid_o  = encap_drop || cipher_drop;
  assign drop_reason_o = encap_drop ? encap_reason : cipher_reason;

endmodule
