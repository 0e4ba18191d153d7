// GCM in functions (NIST SP 800-38D), and the job of the GCM unit (RFC 4106).
//
// A field element is 128 bits; its bit 0, the coefficient of x^0, is the highest bit of the first
// byte: data[127].

package gcm_pkg;

  import aes_pkg::*;

  // The stages of the multiplier, and so the powers of H that GHASH needs.
  localparam int unsigned Stages = 4;

  typedef struct packed {
    logic [255:0]                  key;      // left-aligned
    key_len_e                      len;
    logic                          decrypt;
    logic [95:0]                   nonce;    // salt, then the packet's IV
    logic [95:0]                   aad;      // left-aligned
    logic                          aad_long; // 12 bytes (with ESN), else 8
    logic [15:0]                   bytes;    // of payload; at least 1
    // H, H^2, H^3, H^4 of this key; H at index 0. Software computes them once per SA.
    logic [Stages-1:0][127:0]      powers;
  } gcm_job_t;

  typedef logic [31:0] limb_t;
  typedef logic [62:0] limb_product_t;
  // The products of a Karatsuba multiplication over two levels, three times three: for the low half
  // of both operands, the high one, and their sum; in each, for the low limb, the high one, and
  // their sum.
  typedef limb_product_t [2:0][2:0] products_t;

  // An element as a polynomial with the coefficient of x^0 in bit 0, or back.
  function automatic state_t reflect(state_t y);
    state_t out;
    for (int unsigned i = 0; i < 128; i++) out[i] = y[127-i];
    return out;
  endfunction

  // The product of two polynomials. Each bit is written as one sum, so that it becomes a tree.
  function automatic limb_product_t limb_product(limb_t a, limb_t b);
    limb_product_t out;
    limb_t mirrored;
    logic [93:0] window;
    for (int unsigned i = 0; i < 32; i++) mirrored[i] = b[31-i];
    window = {31'd0, mirrored, 31'd0};
    // Bit k adds up the bits i of a and k - i of b.
    for (int unsigned k = 0; k < 63; k++) out[k] = ^(a & window[62-k+:32]);
    return out;
  endfunction

  // Low half, high half and their sum.
  function automatic logic [2:0][63:0] halves(state_t y);
    return {y[127:64] ^ y[63:0], y[127:64], y[63:0]};
  endfunction

  function automatic logic [2:0][31:0] limbs(logic [63:0] y);
    return {y[63:32] ^ y[31:0], y[63:32], y[31:0]};
  endfunction

  function automatic products_t multiply(state_t a, state_t b);
    products_t out;
    logic [2:0][63:0] ah, bh;
    logic [2:0][31:0] al, bl;
    ah = halves(a);
    bh = halves(b);
    for (int unsigned h = 0; h < 3; h++) begin
      al = limbs(ah[h]);
      bl = limbs(bh[h]);
      for (int unsigned l = 0; l < 3; l++) out[h][l] = limb_product(al[l], bl[l]);
    end
    return out;
  endfunction

  // The product of the whole operands from those of their parts.
  function automatic logic [254:0] combine(products_t p);
    logic [2:0][126:0] half;
    for (int unsigned h = 0; h < 3; h++) begin
      half[h] = {p[h][1], 1'b0, p[h][0]} ^ {32'd0, p[h][2] ^ p[h][1] ^ p[h][0], 32'd0};
    end
    return {half[1], 1'b0, half[0]} ^ {64'd0, half[2] ^ half[1] ^ half[0], 64'd0};
  endfunction

  // The rest modulo x^128 + x^7 + x^2 + x + 1.
  function automatic state_t reduce(logic [254:0] y);
    logic [133:0] once;
    logic [13:0] twice;
    once  = 134'(y[254:128]);
    once  = once ^ (once << 1) ^ (once << 2) ^ (once << 7);
    twice = 14'(once[133:128]);
    twice = twice ^ (twice << 1) ^ (twice << 2) ^ (twice << 7);
    return y[127:0] ^ once[127:0] ^ 128'(twice);
  endfunction

endpackage
