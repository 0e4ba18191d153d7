// One lane of the inbound half for its bench: decapsulation, integrity, cipher, inner packet.
//
//   in -> cv_decap -+-> cv_auth_in -> cv_cipher_aes -+-> cv_uncover -> out
//                   +-> cv_cipher_gcm_in ------------+   (one of the two, by parameter)
//                   +-> clear packets: counted, not passed
//
// Client 0 of the SAD finds, client 1 accepts, client 2 counts. Drops: decap, integrity, uncover from bit 0.

module inbound_lane
  import culvert_pkg::*;
  import gateway_pkg::*;
#(
  parameter auth_e Auth = AuthSha1  // AuthNone: the lane is AES-GCM's
) (
  input logic clk_i,
  input logic rst_ni,

  input  logic  in_valid_i,
  output logic  in_ready_o,
  input  beat_t in_beat_i,

  output logic     [2:0] req_valid_o,
  input  logic     [2:0] req_ready_i,
  output sad_req_t [2:0] req_o,
  input  logic     [2:0] rsp_valid_i,
  output logic     [2:0] rsp_ready_o,
  input  sad_rsp_t [2:0] rsp_i,

  output logic       out_valid_o,
  input  logic       out_ready_i,
  output beat_t      out_beat_o,
  output clear_hdr_t out_hdr_o,

  output logic       clear_o,       // the last beat of a clear packet
  output logic  [2:0] drop_valid_o,
  output drop_e [2:0] drop_reason_o
);

  logic open_valid, open_ready, open_clear, data_valid, data_ready;
  beat_t open_beat;
  open_hdr_t open_hdr;

  cv_decap u_decap (
    .clk_i,
    .rst_ni,
    .in_valid_i,
    .in_ready_o,
    .in_beat_i,
    .req_valid_o  (req_valid_o[0]),
    .req_ready_i  (req_ready_i[0]),
    .req_o        (req_o[0]),
    .rsp_valid_i  (rsp_valid_i[0]),
    .rsp_ready_o  (rsp_ready_o[0]),
    .rsp_i        (rsp_i[0]),
    .out_valid_o  (open_valid),
    .out_ready_i  (open_ready),
    .out_beat_o   (open_beat),
    .out_hdr_o    (open_hdr),
    .out_clear_o  (open_clear),
    .drop_valid_o (drop_valid_o[0]),
    .drop_reason_o(drop_reason_o[0])
  );

  assign data_valid = open_valid && !open_clear;
  assign open_ready = open_clear || data_ready;
  assign clear_o    = open_valid && open_clear && open_beat.last;

  logic text_valid, text_ready;
  beat_t text_beat;
  clear_hdr_t text_hdr;

  if (Auth == AuthNone) begin : gen_gcm
    cv_cipher_gcm_in u_gcm (
      .clk_i,
      .rst_ni,
      .in_valid_i   (data_valid),
      .in_ready_o   (data_ready),
      .in_beat_i    (open_beat),
      .in_hdr_i     (open_hdr),
      .req_valid_o  (req_valid_o[1]),
      .req_ready_i  (req_ready_i[1]),
      .req_o        (req_o[1]),
      .rsp_valid_i  (rsp_valid_i[1]),
      .rsp_ready_o  (rsp_ready_o[1]),
      .rsp_i        (rsp_i[1]),
      .out_valid_o  (text_valid),
      .out_ready_i  (text_ready),
      .out_beat_o   (text_beat),
      .out_hdr_o    (text_hdr),
      .drop_valid_o (drop_valid_o[1]),
      .drop_reason_o(drop_reason_o[1])
    );
  end else begin : gen_cbc
    logic auth_valid, auth_ready;
    beat_t auth_beat;
    open_hdr_t auth_hdr;

    cv_auth_in #(
      .Auth          (Auth),
      .RoundsPerCycle((Auth == AuthSha1) ? 4 : 2)
    ) u_auth (
      .clk_i,
      .rst_ni,
      .in_valid_i   (data_valid),
      .in_ready_o   (data_ready),
      .in_beat_i    (open_beat),
      .in_hdr_i     (open_hdr),
      .req_valid_o  (req_valid_o[1]),
      .req_ready_i  (req_ready_i[1]),
      .req_o        (req_o[1]),
      .rsp_valid_i  (rsp_valid_i[1]),
      .rsp_ready_o  (rsp_ready_o[1]),
      .rsp_i        (rsp_i[1]),
      .out_valid_o  (auth_valid),
      .out_ready_i  (auth_ready),
      .out_beat_o   (auth_beat),
      .out_hdr_o    (auth_hdr),
      .drop_valid_o (drop_valid_o[1]),
      .drop_reason_o(drop_reason_o[1])
    );

    cv_cipher_aes #(
      .Decrypt(1'b1)
    ) u_aes (
      .clk_i,
      .rst_ni,
      .in_valid_i (auth_valid),
      .in_ready_o (auth_ready),
      .in_beat_i  (auth_beat),
      .in_hdr_i   (auth_hdr),
      .out_valid_o(text_valid),
      .out_ready_i(text_ready),
      .out_beat_o (text_beat),
      .out_hdr_o  (text_hdr)
    );
  end

  cv_uncover u_uncover (
    .clk_i,
    .rst_ni,
    .in_valid_i   (text_valid),
    .in_ready_o   (text_ready),
    .in_beat_i    (text_beat),
    .in_hdr_i     (text_hdr),
    .req_valid_o  (req_valid_o[2]),
    .req_ready_i  (req_ready_i[2]),
    .req_o        (req_o[2]),
    .rsp_valid_i  (rsp_valid_i[2]),
    .rsp_ready_o  (rsp_ready_o[2]),
    .out_valid_o,
    .out_ready_i,
    .out_beat_o,
    .out_hdr_o,
    .drop_valid_o (drop_valid_o[2]),
    .drop_reason_o(drop_reason_o[2])
  );

endmodule
