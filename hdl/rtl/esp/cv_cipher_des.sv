// Cipher section, DES: the cipher unit between the gateway's internal headers, either direction.
//
// Function     As cv_cipher_aes, with blocks of 8 bytes: DES-CBC and 3DES-CBC, or, with `Ecb`, DES-ECB
//              for benchmarks. A packet of more than MaxBeats beats, which the CBC unit has no room
//              for, is dropped before it enters.
// Parameters   Decrypt (0: seal_hdr_t in, auth_hdr_t out; 1: open_hdr_t in, clear_hdr_t out), Ecb,
//              MaxBeats (see cv_des_cbc; a power of two. 1024 holds every packet of MaxBytes).
// Latency      that of cv_des_cbc or cv_des_ecb.
// Throughput   that of cv_des_cbc or cv_des_ecb; a dropped packet takes 1 cycle a beat.
// Comb. paths  none from input to output.
// Stalls       those of the cipher unit.

module cv_cipher_des
  import culvert_pkg::*;
  import des_pkg::*;
  import gateway_pkg::*;
#(
  parameter  bit          Decrypt  = 1'b0,
  parameter  bit          Ecb      = 1'b0,
  parameter  int unsigned MaxBeats = 1024,
  localparam int unsigned InBits   = Decrypt ? $bits(open_hdr_t) : $bits(seal_hdr_t),
  localparam int unsigned OutBits  = Decrypt ? $bits(clear_hdr_t) : $bits(auth_hdr_t)
) (
  input logic clk_i,
  input logic rst_ni,

  input  logic              in_valid_i,
  output logic              in_ready_o,
  input  beat_t             in_beat_i,   // whole blocks of 8 bytes
  input  logic [InBits-1:0] in_hdr_i,    // read with a packet's first beat

  output logic               out_valid_o,
  input  logic               out_ready_i,
  output beat_t              out_beat_o,
  output logic [OutBits-1:0] out_hdr_o,   // the same during all beats of a packet

  // For one cycle: a packet was dropped (DropTooLong).
  output logic  drop_valid_o,
  output drop_e drop_reason_o
);

  des_job_t job;
  logic [OutBits-1:0] rest;
  len_t bytes;

  if (Decrypt) begin : gen_open
    open_hdr_t hdr;
    clear_hdr_t next;
    assign hdr  = in_hdr_i;
    assign next = '{
      low: hdr.low,
      clear: 1'b0,
      skip: 5'd8,
      sa: hdr.sa,
      spi: hdr.spi,
      reqid: hdr.reqid,
      tunnel: hdr.tunnel,
      net: hdr.net,
      ip: hdr.ip
    };
    assign rest  = next;
    assign bytes = hdr.bytes;
    assign job   = '{
      key1: hdr.key[255:192],
      key2: hdr.key[191:128],
      key3: hdr.key[127:64],
      iv: '0,
      triple: hdr.cipher == Cipher3Des,
      decrypt: 1'b1
    };
  end else begin : gen_seal
    seal_hdr_t hdr;
    auth_hdr_t next;
    assign hdr   = in_hdr_i;
    assign next  = '{low: hdr.low, auth: hdr.auth, auth_keys: hdr.auth_keys, frame: hdr.frame};
    assign rest  = next;
    assign bytes = hdr.bytes;
    assign job   = '{
      key1: hdr.key[255:192],
      key2: hdr.key[191:128],
      key3: hdr.key[127:64],
      iv: '0,
      triple: hdr.cipher == Cipher3Des,
      decrypt: 1'b0
    };
  end

  logic enter_valid, enter_ready;

  if (Ecb) begin : gen_ecb
    assign enter_valid   = in_valid_i;
    assign in_ready_o    = enter_ready;
    assign drop_valid_o  = 1'b0;

    cv_des_ecb #(
      .Rest(logic [OutBits-1:0])
    ) u_core (
      .clk_i,
      .rst_ni,
      .in_valid_i(enter_valid),
      .in_ready_o(enter_ready),
      .in_beat_i,
      .in_job_i  (job),
      .in_rest_i (rest),
      .out_valid_o,
      .out_ready_i,
      .out_beat_o,
      .out_rest_o(out_hdr_o)
    );
  end else begin : gen_cbc
    logic at_first_q, dropping_q, too_long, drop;

    assign too_long     = 32'(bytes) > BusBytes * MaxBeats;
    assign drop         = at_first_q ? too_long : dropping_q;
    assign enter_valid  = in_valid_i && !drop;
    assign in_ready_o   = drop || enter_ready;
    assign drop_valid_o = in_valid_i && drop && at_first_q;

    always_ff @(posedge clk_i or negedge rst_ni) begin
      if (!rst_ni) begin
        at_first_q <= 1'b1;
        dropping_q <= 1'b0;
      end else if (in_valid_i && in_ready_o) begin
        at_first_q <= in_beat_i.last;
        dropping_q <= drop;
      end
    end

    cv_des_cbc #(
      .Rest    (logic [OutBits-1:0]),
      .MaxBeats(MaxBeats)
    ) u_core (
      .clk_i,
      .rst_ni,
      .in_valid_i(enter_valid),
      .in_ready_o(enter_ready),
      .in_beat_i,
      .in_job_i  (job),
      .in_rest_i (rest),
      .out_valid_o,
      .out_ready_i,
      .out_beat_o,
      .out_rest_o(out_hdr_o)
    );
  end

  assign drop_reason_o = DropTooLong;

endmodule
