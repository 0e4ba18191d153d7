// GCM in functions (NIST SP 800-38D), and the job of the GCM unit (RFC 4106).
//
// A field element is 128 bits; its bit 0, the coefficient of x^0, is the highest bit of the first
// byte: data[127].

package gcm_pkg;

  import aes_pkg::*;

  // The stages of the multiplier, and so the powers of H that GHASH needs.
  localparam int unsigned Stages = 4;
  localparam int unsigned DigitBits = 128 / Stages;

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

  // y * x^n for a small n.
  function automatic state_t times_x(state_t y, int unsigned n);
    state_t out;
    out = y;
    for (int unsigned i = 0; i < n; i++) begin
      out = (out >> 1) ^ (out[0] ? {8'he1, 120'd0} : 128'd0);
    end
    return out;
  endfunction

  // digit * y, where bit 0 of the digit in the field's order is its highest bit.
  function automatic state_t digit_product(logic [DigitBits-1:0] digit, state_t y);
    state_t sum, power;
    sum   = '0;
    power = y;
    for (int unsigned i = 0; i < DigitBits; i++) begin
      if (digit[DigitBits-1-i]) sum ^= power;
      power = times_x(power, 1);
    end
    return sum;
  endfunction

endpackage
