// DES in functions (FIPS 46-3). Bits are numbered from 1 at the most significant end in the
// standard's tables, which stand here as it prints them.

package des_pkg;

  typedef logic [63:0] block_t;
  typedef logic [31:0] half_t;
  typedef logic [27:0] key_half_t;

  // What a cipher unit is told with a packet's first beat.
  typedef struct packed {
    block_t key1;     // parity bits are ignored
    block_t key2;
    block_t key3;
    block_t iv;
    logic   triple;   // three keys (EDE), else key1 alone
    logic   decrypt;
  } des_job_t;

  localparam int unsigned Ip[64] = '{
    58, 50, 42, 34, 26, 18, 10, 2, 60, 52, 44, 36, 28, 20, 12, 4,
    62, 54, 46, 38, 30, 22, 14, 6, 64, 56, 48, 40, 32, 24, 16, 8,
    57, 49, 41, 33, 25, 17,  9, 1, 59, 51, 43, 35, 27, 19, 11, 3,
    61, 53, 45, 37, 29, 21, 13, 5, 63, 55, 47, 39, 31, 23, 15, 7
  };
  localparam int unsigned Expand[48] = '{
    32,  1,  2,  3,  4,  5,  4,  5,  6,  7,  8,  9,  8,  9, 10, 11,
    12, 13, 12, 13, 14, 15, 16, 17, 16, 17, 18, 19, 20, 21, 20, 21,
    22, 23, 24, 25, 24, 25, 26, 27, 28, 29, 28, 29, 30, 31, 32,  1
  };
  localparam int unsigned Perm[32] = '{
    16,  7, 20, 21, 29, 12, 28, 17,  1, 15, 23, 26,  5, 18, 31, 10,
     2,  8, 24, 14, 32, 27,  3,  9, 19, 13, 30,  6, 22, 11,  4, 25
  };
  localparam int unsigned Pc1[56] = '{
    57, 49, 41, 33, 25, 17,  9,  1, 58, 50, 42, 34, 26, 18,
    10,  2, 59, 51, 43, 35, 27, 19, 11,  3, 60, 52, 44, 36,
    63, 55, 47, 39, 31, 23, 15,  7, 62, 54, 46, 38, 30, 22,
    14,  6, 61, 53, 45, 37, 29, 21, 13,  5, 28, 20, 12,  4
  };
  localparam int unsigned Pc2[48] = '{
    14, 17, 11, 24,  1,  5,  3, 28, 15,  6, 21, 10, 23, 19, 12,  4,
    26,  8, 16,  7, 27, 20, 13,  2, 41, 52, 31, 37, 47, 55, 30, 40,
    51, 45, 33, 48, 44, 49, 39, 56, 34, 53, 46, 42, 50, 36, 29, 32
  };
  // S1 to S8, four rows of 16 entries each.
  localparam logic [3:0] Sboxes[512] = '{
    14,  4, 13,  1,  2, 15, 11,  8,  3, 10,  6, 12,  5,  9,  0,  7,
     0, 15,  7,  4, 14,  2, 13,  1, 10,  6, 12, 11,  9,  5,  3,  8,
     4,  1, 14,  8, 13,  6,  2, 11, 15, 12,  9,  7,  3, 10,  5,  0,
    15, 12,  8,  2,  4,  9,  1,  7,  5, 11,  3, 14, 10,  0,  6, 13,
    15,  1,  8, 14,  6, 11,  3,  4,  9,  7,  2, 13, 12,  0,  5, 10,
     3, 13,  4,  7, 15,  2,  8, 14, 12,  0,  1, 10,  6,  9, 11,  5,
     0, 14,  7, 11, 10,  4, 13,  1,  5,  8, 12,  6,  9,  3,  2, 15,
    13,  8, 10,  1,  3, 15,  4,  2, 11,  6,  7, 12,  0,  5, 14,  9,
    10,  0,  9, 14,  6,  3, 15,  5,  1, 13, 12,  7, 11,  4,  2,  8,
    13,  7,  0,  9,  3,  4,  6, 10,  2,  8,  5, 14, 12, 11, 15,  1,
    13,  6,  4,  9,  8, 15,  3,  0, 11,  1,  2, 12,  5, 10, 14,  7,
     1, 10, 13,  0,  6,  9,  8,  7,  4, 15, 14,  3, 11,  5,  2, 12,
     7, 13, 14,  3,  0,  6,  9, 10,  1,  2,  8,  5, 11, 12,  4, 15,
    13,  8, 11,  5,  6, 15,  0,  3,  4,  7,  2, 12,  1, 10, 14,  9,
    10,  6,  9,  0, 12, 11,  7, 13, 15,  1,  3, 14,  5,  2,  8,  4,
     3, 15,  0,  6, 10,  1, 13,  8,  9,  4,  5, 11, 12,  7,  2, 14,
     2, 12,  4,  1,  7, 10, 11,  6,  8,  5,  3, 15, 13,  0, 14,  9,
    14, 11,  2, 12,  4,  7, 13,  1,  5,  0, 15, 10,  3,  9,  8,  6,
     4,  2,  1, 11, 10, 13,  7,  8, 15,  9, 12,  5,  6,  3,  0, 14,
    11,  8, 12,  7,  1, 14,  2, 13,  6, 15,  0,  9, 10,  4,  5,  3,
    12,  1, 10, 15,  9,  2,  6,  8,  0, 13,  3,  4, 14,  7,  5, 11,
    10, 15,  4,  2,  7, 12,  9,  5,  6,  1, 13, 14,  0, 11,  3,  8,
     9, 14, 15,  5,  2,  8, 12,  3,  7,  0,  4, 10,  1, 13, 11,  6,
     4,  3,  2, 12,  9,  5, 15, 10, 11, 14,  1,  7,  6,  0,  8, 13,
     4, 11,  2, 14, 15,  0,  8, 13,  3, 12,  9,  7,  5, 10,  6,  1,
    13,  0, 11,  7,  4,  9,  1, 10, 14,  3,  5, 12,  2, 15,  8,  6,
     1,  4, 11, 13, 12,  3,  7, 14, 10, 15,  6,  8,  0,  5,  9,  2,
     6, 11, 13,  8,  1,  4, 10,  7,  9,  5,  0, 15, 14,  2,  3, 12,
    13,  2,  8,  4,  6, 15, 11,  1, 10,  9,  3, 14,  5,  0, 12,  7,
     1, 15, 13,  8, 10,  3,  7,  4, 12,  5,  6, 11,  0, 14,  9,  2,
     7, 11,  4,  1,  9, 12, 14,  2,  0,  6, 10, 13, 15,  3,  5,  8,
     2,  1, 14,  7,  4, 10,  8, 13, 15, 12,  9,  0,  3,  5,  6, 11
  };

  function automatic block_t initial_permutation(block_t x);
    block_t out;
    for (int unsigned i = 0; i < 64; i++) out[63-i] = x[64-Ip[i]];
    return out;
  endfunction

  // The inverse of the initial one.
  function automatic block_t final_permutation(block_t x);
    block_t out;
    for (int unsigned i = 0; i < 64; i++) out[64-Ip[i]] = x[63-i];
    return out;
  endfunction

  // The two halves of the key schedule's start; the parity bits fall away.
  function automatic logic [55:0] key_start(logic [63:0] key);
    logic [55:0] out;
    for (int unsigned i = 0; i < 56; i++) out[55-i] = key[64-Pc1[i]];
    return out;
  endfunction

  // Rounds 1, 2, 9 and 16 rotate the key halves by one place, all others by two.
  function automatic logic rotates_once(int unsigned round);
    return round == 1 || round == 2 || round == 9 || round == 16;
  endfunction

  function automatic key_half_t rotate_left(key_half_t x, logic once);
    return once ? {x[26:0], x[27]} : {x[25:0], x[27:26]};
  endfunction

  function automatic key_half_t rotate_right(key_half_t x, logic once);
    return once ? {x[0], x[27:1]} : {x[1:0], x[27:2]};
  endfunction

  // The round function: expansion, key, S-boxes, permutation.
  function automatic half_t feistel(half_t x, logic [55:0] key);
    logic [47:0] mixed;
    half_t subbed, out;
    logic [5:0] six;
    for (int unsigned i = 0; i < 48; i++) mixed[47-i] = x[32-Expand[i]] ^ key[56-Pc2[i]];
    for (int unsigned s = 0; s < 8; s++) begin
      six = mixed[47-6*s-:6];
      subbed[31-4*s-:4] = Sboxes[{3'(s), six[5], six[0], six[4:1]}];
    end
    for (int unsigned i = 0; i < 32; i++) out[31-i] = subbed[32-Perm[i]];
    return out;
  endfunction

endpackage
