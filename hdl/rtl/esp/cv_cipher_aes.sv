// Cipher section, AES-CBC: the cipher unit between the gateway's internal headers, either direction.
//
// Function     Takes a packet's key from its header and hands on the shorter header of the next
//              section. Outbound the data begins with the nonce block, which under a zero IV
//              encrypts to the packet's IV and chains into its payload (SP 800-38A, appendix C).
//              Inbound it begins with the IV: the first block that leaves is to be skipped, and the
//              IV chains into the second one.
// Parameters   Decrypt (0: seal_hdr_t in, auth_hdr_t out; 1: open_hdr_t in, clear_hdr_t out).
// Latency      that of cv_aes_cbc.
// Throughput   that of cv_aes_cbc: 10/12/14 cycles a block, and inbound 3 cycles a packet.
// Comb. paths  none from input to output.
// Stalls       those of cv_aes_cbc.

module cv_cipher_aes
  import culvert_pkg::*;
  import aes_pkg::*;
  import gateway_pkg::*;
#(
  parameter  bit          Decrypt = 1'b0,
  localparam int unsigned InBits  = Decrypt ? $bits(open_hdr_t) : $bits(seal_hdr_t),
  localparam int unsigned OutBits = Decrypt ? $bits(clear_hdr_t) : $bits(auth_hdr_t)
) (
  input logic clk_i,
  input logic rst_ni,

  input  logic              in_valid_i,
  output logic              in_ready_o,
  input  beat_t             in_beat_i,   // whole blocks of 16 bytes
  input  logic [InBits-1:0] in_hdr_i,    // read with a packet's first beat

  output logic               out_valid_o,
  input  logic               out_ready_i,
  output beat_t              out_beat_o,
  output logic [OutBits-1:0] out_hdr_o    // the same during all beats of a packet
);

  job_t job;
  logic [OutBits-1:0] rest;

  if (Decrypt) begin : gen_open
    open_hdr_t hdr;
    clear_hdr_t next;
    assign hdr  = in_hdr_i;
    assign next = '{
      low: hdr.low,
      clear: 1'b0,
      skip: 5'd16,
      sa: hdr.sa,
      spi: hdr.spi,
      reqid: hdr.reqid,
      tunnel: hdr.tunnel,
      net: hdr.net,
      ip: hdr.ip
    };
    assign rest = next;
    assign job  = '{key: hdr.key, iv: '0, len: hdr.key_len, decrypt: 1'b1};
  end else begin : gen_seal
    seal_hdr_t hdr;
    auth_hdr_t next;
    assign hdr  = in_hdr_i;
    assign next = '{low: hdr.low, auth: hdr.auth, auth_keys: hdr.auth_keys, frame: hdr.frame};
    assign rest = next;
    assign job  = '{key: hdr.key, iv: '0, len: hdr.key_len, decrypt: 1'b0};
  end

  cv_aes_cbc #(
    .Rest    (logic [OutBits-1:0]),
    .Encrypts(!Decrypt),
    .Decrypts(Decrypt)
  ) u_core (
    .clk_i,
    .rst_ni,
    .in_valid_i,
    .in_ready_o,
    .in_beat_i,
    .in_job_i  (job),
    .in_rest_i (rest),
    .out_valid_o,
    .out_ready_i,
    .out_beat_o,
    .out_rest_o(out_hdr_o)
  );

endmodule
