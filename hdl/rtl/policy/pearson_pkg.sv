// Pearson's hash (P. Pearson, "Fast hashing of variable-length text strings", CACM 33 (6), 1990): a
// byte of hash goes through a fixed permutation of 256 values, once for each byte of the string.
//
// More than 8 bits are several hashes side by side: hash number k begins with the value k, and bits
// 8k + 7 to 8k of the result are its own.
//
// The permutation: the numbers 0 to 255 in order, shuffled from the last place down to place 1; place
// i changes with place (x >> 16) mod (i + 1), where x, at first 1, becomes 1664525 x + 1013904223
// modulo 2^32 before each change.

package pearson_pkg;

  typedef logic [255:0][7:0] table_t;

  function automatic table_t shuffle();
    table_t places;
    logic [31:0] x;
    logic [7:0] other, kept;
    for (int unsigned i = 0; i < 256; i++) places[i] = 8'(i);
    x = 32'd1;
    for (int unsigned i = 255; i > 0; i--) begin
      x = x * 32'd1664525 + 32'd1013904223;
      other = 8'((x >> 16) % (i + 32'd1));
      kept = places[i];
      places[i] = places[other];
      places[other] = kept;
    end
    return places;
  endfunction

  localparam table_t Table = shuffle();

  // One byte more.
  function automatic logic [7:0] step(logic [7:0] hash, logic [7:0] next);
    return Table[hash ^ next];
  endfunction

endpackage
