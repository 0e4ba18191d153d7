// AES in functions (FIPS 197): S-boxes, rounds, key expansion. The tables are computed at
// elaboration from the field arithmetic. A state is 128 bits, first byte highest, as the standard
// numbers them: byte 4c + r is row r of column c.

package aes_pkg;

  typedef logic [7:0] byte_t;
  typedef logic [31:0] word_t;
  typedef logic [127:0] state_t;
  typedef logic [255:0][7:0] table_t;

  // Key length, in the encoding of the internal headers.
  typedef enum logic [1:0] {
    Aes128 = 2'd0,
    Aes192 = 2'd1,
    Aes256 = 2'd2
  } key_len_e;

  function automatic logic [3:0] rounds(key_len_e len);
    unique case (len)
      Aes192:  return 4'd12;
      Aes256:  return 4'd14;
      default: return 4'd10;
    endcase
  endfunction

  function automatic byte_t xtime(byte_t x);
    return {x[6:0], 1'b0} ^ (x[7] ? 8'h1b : 8'h00);
  endfunction

  // Product in GF(2^8).
  function automatic byte_t gmul(byte_t x, byte_t y);
    byte_t sum, power;
    sum   = '0;
    power = x;
    for (int unsigned i = 0; i < 8; i++) begin
      if (y[i]) sum ^= power;
      power = xtime(power);
    end
    return sum;
  endfunction

  // The S-box: inverse in the field, then the affine map. The powers of the generator 3 pair each
  // element with its inverse: 3^n and 3^(255-n).
  function automatic table_t make_sbox();
    table_t power, box;
    byte_t x, inv;
    power = '0;
    box   = '0;
    x     = 8'h01;
    for (int unsigned n = 0; n < 255; n++) begin
      power[n] = x;
      x = x ^ xtime(x);
    end
    for (int unsigned n = 0; n < 255; n++) begin
      inv = power[(255-n)%255];
      box[power[n]] = inv ^ {inv[6:0], inv[7]} ^ {inv[5:0], inv[7:6]} ^ {inv[4:0], inv[7:5]} ^
                      {inv[3:0], inv[7:4]} ^ 8'h63;
    end
    box[0] = 8'h63;
    return box;
  endfunction

  function automatic table_t invert(table_t box);
    table_t inverse;
    inverse = '0;
    for (int unsigned n = 0; n < 256; n++) inverse[box[n]] = byte_t'(n);
    return inverse;
  endfunction

  localparam table_t Sbox = make_sbox();
  localparam table_t InvSbox = invert(Sbox);

  // SubBytes with the products that MixColumns takes: {2 * s, s}.
  function automatic logic [255:0][15:0] make_enc_rom();
    logic [255:0][15:0] rom;
    for (int unsigned n = 0; n < 256; n++) rom[n] = {xtime(Sbox[n]), Sbox[n]};
    return rom;
  endfunction

  // InvSubBytes with the products of InvMixColumns: {14 * s, 9 * s}, and from 256 on
  // {13 * s, 11 * s}. The four together add up to s.
  function automatic logic [511:0][15:0] make_dec_rom();
    logic [511:0][15:0] rom;
    for (int unsigned n = 0; n < 256; n++) begin
      rom[n]     = {gmul(InvSbox[n], 8'h0e), gmul(InvSbox[n], 8'h09)};
      rom[256+n] = {gmul(InvSbox[n], 8'h0d), gmul(InvSbox[n], 8'h0b)};
    end
    return rom;
  endfunction

  localparam logic [255:0][15:0] EncRom = make_enc_rom();
  localparam logic [511:0][15:0] DecRom = make_dec_rom();

  // Byte i of a state.
  function automatic byte_t byte_of(state_t s, int unsigned i);
    return s[127-8*i-:8];
  endfunction

  // Where ShiftRows takes byte i of its output from, and its inverse.
  function automatic int unsigned shifted(int unsigned i);
    return (i + 4 * (i % 4)) % 16;
  endfunction

  function automatic int unsigned unshifted(int unsigned i);
    return (i + 16 - 4 * (i % 4)) % 16;
  endfunction

  // Byte `row` plus `n` of the same column as byte i.
  function automatic int unsigned below(int unsigned i, int unsigned n);
    return (i / 4) * 4 + (i + n) % 4;
  endfunction

  function automatic state_t inv_mix_columns(state_t s);
    state_t out;
    byte_t a0, a1, a2, a3;
    for (int unsigned c = 0; c < 4; c++) begin
      {a0, a1, a2, a3} = s[127-32*c-:32];
      out[127-32*c-:32] = {
        gmul(a0, 8'h0e) ^ gmul(a1, 8'h0b) ^ gmul(a2, 8'h0d) ^ gmul(a3, 8'h09),
        gmul(a0, 8'h09) ^ gmul(a1, 8'h0e) ^ gmul(a2, 8'h0b) ^ gmul(a3, 8'h0d),
        gmul(a0, 8'h0d) ^ gmul(a1, 8'h09) ^ gmul(a2, 8'h0e) ^ gmul(a3, 8'h0b),
        gmul(a0, 8'h0b) ^ gmul(a1, 8'h0d) ^ gmul(a2, 8'h09) ^ gmul(a3, 8'h0e)
      };
    end
    return out;
  endfunction

  // Key expansion, four words at a time. The window holds the last eight words of the expanded key,
  // the newest lowest; `step` counts the calls from 0; `rcon` is the next round constant.
  typedef struct packed {
    logic [255:0] window;
    logic [3:0]   step;
    byte_t        rcon;
  } expand_t;

  // The start: the key, left-aligned in 256 bits, moves to the newest end of the window.
  function automatic expand_t expand_start(logic [255:0] key, key_len_e len);
    expand_t out;
    unique case (len)
      Aes192:  out.window = {key[255:192], key[255:64]};
      Aes256:  out.window = key;
      default: out.window = {key[255:128], key[255:128]};  // the upper half is not looked at
    endcase
    out.step = '0;
    out.rcon = 8'h01;
    return out;
  endfunction

  // With 192 bits every sixth word is special: the first of step 0, the third of step 1, none of
  // step 2. With 256 bits the first of every second step is substituted without rotation.
  function automatic logic expand_third(logic [3:0] step, key_len_e len);
    return len == Aes192 && step inside {4'd1, 4'd4, 4'd7, 4'd10};
  endfunction

  function automatic logic expand_first(logic [3:0] step, key_len_e len);
    return len != Aes192 || step inside {4'd0, 4'd3, 4'd6, 4'd9};
  endfunction

  function automatic logic expand_rotates(logic odd, key_len_e len);
    return !(len == Aes256 && odd);
  endfunction

  // The word that a step sends through the S-boxes, from the newest word and, with 192 bits, the
  // oldest two of the key.
  function automatic word_t expand_sub_in(word_t newest, word_t old0, word_t old1,
                                          logic [3:0] step, key_len_e len);
    word_t word;
    word = newest;
    if (expand_third(step, len)) word ^= old0 ^ old1;
    return expand_rotates(step[0], len) ? {word[23:0], word[31:24]} : word;
  endfunction

  // A step; `subbed` is what the S-boxes made of that word.
  function automatic expand_t expand_step(expand_t in, key_len_e len, word_t subbed);
    expand_t out;
    word_t w0, w1, w2, w3;  // the new words
    word_t o0, o1, o2, o3;  // the words one key length before them
    word_t special;
    logic third, first, rotates;
    unique case (len)
      Aes192:  {o0, o1, o2, o3} = in.window[191-:128];
      Aes256:  {o0, o1, o2, o3} = in.window[255-:128];
      default: {o0, o1, o2, o3} = in.window[127-:128];
    endcase
    third   = expand_third(in.step, len);
    first   = expand_first(in.step, len);
    rotates = expand_rotates(in.step[0], len);
    special = subbed ^ (rotates ? {in.rcon, 24'd0} : 32'd0);
    w0 = o0 ^ (first ? special : in.window[31:0]);
    w1 = o1 ^ w0;
    w2 = o2 ^ (third ? special : w1);
    w3 = o3 ^ w2;
    out.window = {in.window[127:0], w0, w1, w2, w3};
    out.step   = in.step + 4'd1;
    out.rcon   = ((first && rotates) || third) ? xtime(in.rcon) : in.rcon;
    return out;
  endfunction

  // Round key k, from the window after k steps.
  function automatic state_t round_key(logic [255:0] window, key_len_e len);
    unique case (len)
      Aes192:  return window[191-:128];
      Aes256:  return window[255-:128];
      default: return window[127-:128];
    endcase
  endfunction

  // Key expansion of a pipeline, where the step is a constant: step k makes the words 4k + 4 to 4k + 7,
  // which are round key k + 1, from `window`, the eight words before them. expand_step begins behind the
  // key instead, whatever its length, so its words are not the same and a round has to choose its own. What
  // a length does not need any more is whatever costs least.
  function automatic byte_t rcon(int unsigned n);
    rcon = 8'h01;
    for (int unsigned i = 0; i < n; i++) rcon = xtime(rcon);
  endfunction

  // The round constant of step k, 0 where the step has none.
  function automatic byte_t pipe_rcon(int unsigned k, key_len_e len);
    unique case (len)
      Aes192:  return rcon((2 * k) / 3);
      Aes256:  return (k % 2 == 1) ? rcon(k / 2) : 8'h00;
      default: return rcon(k);
    endcase
  endfunction

  // What step k sends through the S-boxes. With 192 bits its third word is a special one if k is a
  // multiple of 3, the first one step before that, and none in between.
  function automatic word_t pipe_sub_in(word_t newest, word_t old0, word_t old1, int unsigned k,
                                        key_len_e len);
    word_t word;
    word = newest;
    if (k % 3 == 0 && len == Aes192) word ^= old0 ^ old1;
    return (k % 2 == 0 && len == Aes256) ? word : {word[23:0], word[31:24]};
  endfunction

  function automatic state_t pipe_step(logic [255:0] window, int unsigned k, key_len_e len,
                                       word_t subbed);
    word_t o0, o1, o2, o3;  // the words one key length before the new ones
    word_t w0, w1, w2, w3, special;
    if (len == Aes256 || k >= 12) {o0, o1, o2, o3} = window[255-:128];
    else if (len == Aes192 || k >= 10) {o0, o1, o2, o3} = window[191-:128];
    else {o0, o1, o2, o3} = window[127-:128];
    special = subbed ^ {pipe_rcon(k, len), 24'd0};
    w0 = o0 ^ ((len == Aes192 && k % 3 != 2) ? window[31:0] : special);
    w1 = o1 ^ w0;
    w2 = o2 ^ ((len == Aes192 && k % 3 == 0) ? special : w1);
    w3 = o3 ^ w2;
    return {w0, w1, w2, w3};
  endfunction

  // Step 0, whose window is the key, left-aligned: of longer keys some of its words are there. Word 3
  // or 5 of the key goes through the S-boxes.
  function automatic word_t pipe_first_sub_in(word_t word3, word_t word5, key_len_e len);
    word_t word;
    word = (len == Aes192) ? word5 : word3;
    return {word[23:0], word[31:24]};
  endfunction

  function automatic state_t pipe_first_step(logic [255:0] key, key_len_e len, word_t subbed);
    word_t k0, k1, k2, k3, special;
    word_t w0, w1, w2, w3;
    {k0, k1, k2, k3} = key[255:128];
    special = subbed ^ {rcon(0), 24'd0};
    unique case (len)
      Aes192: begin
        {w0, w1} = key[127:64];
        w2 = k0 ^ special;
        w3 = k1 ^ w2;
      end
      Aes256: {w0, w1, w2, w3} = key[127:0];
      default: begin
        w0 = k0 ^ special;
        w1 = k1 ^ w0;
        w2 = k2 ^ w1;
        w3 = k3 ^ w2;
      end
    endcase
    return {w0, w1, w2, w3};
  endfunction

  // What a cipher unit is told with a packet's first beat.
  typedef struct packed {
    logic [255:0] key;      // left-aligned
    state_t       iv;
    key_len_e     len;
    logic         decrypt;
  } job_t;

endpackage
