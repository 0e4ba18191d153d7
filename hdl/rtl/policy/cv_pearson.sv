// Pearson's hash of a string of bytes (see pearson_pkg).
//
// Function     Takes a string with start_i and has its hash in hash_o when done_o is set; both stay
//              until the next start_i, which may come at any time.
// Parameters   MaxBytes (of the string), HashBytes (bytes a cycle), HashBits (of the result).
// Latency      ceil(n / HashBytes) + 1 cycles from start_i to done_o for n bytes, n at least 1.
// Comb. paths  none from input to output.

`include "culvert_assert.svh"

module cv_pearson
  import pearson_pkg::*;
#(
  parameter  int unsigned MaxBytes   = 40,
  parameter  int unsigned HashBytes  = 2,
  parameter  int unsigned HashBits   = 11,
  localparam int unsigned CountWidth = $clog2(MaxBytes + 1)
) (
  input logic clk_i,
  input logic rst_ni,

  input logic                  start_i,
  input logic [8*MaxBytes-1:0] string_i,  // first byte highest
  input logic [CountWidth-1:0] bytes_i,

  output logic                done_o,
  output logic [HashBits-1:0] hash_o
);

  localparam int unsigned Hashes = (HashBits + 7) / 8;
  typedef logic [CountWidth-1:0] count_t;

  logic [8*MaxBytes-1:0] string_q;
  count_t left_q;
  logic done_q;
  logic [Hashes-1:0][7:0] hash_q, hash_d;

  always_comb begin
    hash_d = hash_q;
    for (int unsigned k = 0; k < Hashes; k++) begin
      for (int unsigned i = 0; i < HashBytes; i++) begin
        // With none left hash_d is not taken, so the first table does not wait for the count.
        if (i == 0 || 32'(left_q) > i) hash_d[k] = step(hash_d[k], string_q[8*(MaxBytes-i)-1-:8]);
      end
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      left_q <= '0;
      done_q <= 1'b0;
    end else if (start_i) begin
      left_q <= bytes_i;
      done_q <= 1'b0;
    end else begin
      left_q <= (left_q > count_t'(HashBytes)) ? left_q - count_t'(HashBytes) : '0;
      done_q <= left_q <= count_t'(HashBytes);
    end
  end

  always_ff @(posedge clk_i) begin
    if (start_i) begin
      string_q <= string_i;
      for (int unsigned k = 0; k < Hashes; k++) hash_q[k] <= 8'(k);
    end else if (left_q != '0) begin
      string_q <= string_q << 8 * HashBytes;
      hash_q   <= hash_d;
    end
  end

  assign done_o = done_q;
  assign hash_o = HashBits'(hash_q);

  // A string has at least one byte and fits.
  `CV_ASSUME(StringFits_A, !start_i || (bytes_i != '0 && 32'(bytes_i) <= MaxBytes))

endmodule
