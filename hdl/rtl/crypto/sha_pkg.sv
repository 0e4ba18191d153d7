// Constants and functions of SHA-1 and SHA-256 (FIPS 180-4). Words are numbered from the most
// significant end, as the standard writes them.

package sha_pkg;

  typedef logic [31:0] word_t;
  typedef word_t [0:4] sha1_state_t;
  typedef word_t [0:7] sha256_state_t;
  typedef word_t [0:15] block_t;

  localparam sha1_state_t Sha1Init = {
    32'h67452301, 32'hefcdab89, 32'h98badcfe, 32'h10325476, 32'hc3d2e1f0
  };
  localparam sha256_state_t Sha256Init = {
    32'h6a09e667, 32'hbb67ae85, 32'h3c6ef372, 32'ha54ff53a,
    32'h510e527f, 32'h9b05688c, 32'h1f83d9ab, 32'h5be0cd19
  };

  // The additive constant of rounds 0-19, 20-39, 40-59, 60-79.
  localparam word_t [0:3] Sha1K = {32'h5a827999, 32'h6ed9eba1, 32'h8f1bbcdc, 32'hca62c1d6};

  localparam word_t [0:63] Sha256K = {
    32'h428a2f98, 32'h71374491, 32'hb5c0fbcf, 32'he9b5dba5, 32'h3956c25b, 32'h59f111f1,
    32'h923f82a4, 32'hab1c5ed5, 32'hd807aa98, 32'h12835b01, 32'h243185be, 32'h550c7dc3,
    32'h72be5d74, 32'h80deb1fe, 32'h9bdc06a7, 32'hc19bf174, 32'he49b69c1, 32'hefbe4786,
    32'h0fc19dc6, 32'h240ca1cc, 32'h2de92c6f, 32'h4a7484aa, 32'h5cb0a9dc, 32'h76f988da,
    32'h983e5152, 32'ha831c66d, 32'hb00327c8, 32'hbf597fc7, 32'hc6e00bf3, 32'hd5a79147,
    32'h06ca6351, 32'h14292967, 32'h27b70a85, 32'h2e1b2138, 32'h4d2c6dfc, 32'h53380d13,
    32'h650a7354, 32'h766a0abb, 32'h81c2c92e, 32'h92722c85, 32'ha2bfe8a1, 32'ha81a664b,
    32'hc24b8b70, 32'hc76c51a3, 32'hd192e819, 32'hd6990624, 32'hf40e3585, 32'h106aa070,
    32'h19a4c116, 32'h1e376c08, 32'h2748774c, 32'h34b0bcb5, 32'h391c0cb3, 32'h4ed8aa4a,
    32'h5b9cca4f, 32'h682e6ff3, 32'h748f82ee, 32'h78a5636f, 32'h84c87814, 32'h8cc70208,
    32'h90befffa, 32'ha4506ceb, 32'hbef9a3f7, 32'hc67178f2
  };

  function automatic word_t rotl(word_t x, int unsigned n);
    return word_t'(({x, x} << n) >> 32);
  endfunction

  function automatic word_t rotr(word_t x, int unsigned n);
    return word_t'({x, x} >> n);
  endfunction

  // The round function of SHA-1 for a quarter of its rounds.
  function automatic word_t sha1_f(logic [1:0] quarter, word_t b, word_t c, word_t d);
    unique case (quarter)
      2'd0: return (b & c) | (~b & d);
      2'd2: return (b & c) | (b & d) | (c & d);
      default: return b ^ c ^ d;
    endcase
  endfunction

endpackage
