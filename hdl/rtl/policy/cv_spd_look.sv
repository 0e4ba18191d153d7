// One client's look-up in the security policy database: goes through the shapes, hashes, asks for
// buckets and policies, and keeps the best match.
//
// Function     See cv_spd, whose part it is. Of the policy that was found, `selector`, `more` and
//              `next` are not told (0).
// Comb. paths  none from input to output.

`include "culvert_assert.svh"

module cv_spd_look
  import gateway_pkg::*;
#(
  parameter int unsigned HashBytes = 2,
  parameter int unsigned MaxChain  = 64
) (
  input logic clk_i,
  input logic rst_ni,

  input logic                ready_i,  // the tables may be read
  input shape_t [Shapes-1:0] shapes_i,

  input  logic      look_valid_i,
  output logic      look_ready_o,
  input  selector_t look_i,
  output logic      found_valid_o,
  output policy_t   found_o,

  // A read of a bucket: held until granted, answered once.
  output logic           bucket_req_o,
  input  logic           bucket_grant_i,
  output bucket_t        bucket_index_o,
  input  logic           bucket_valid_i,
  input  policy_bucket_t bucket_i,

  // A read of a policy, likewise.
  output logic          policy_req_o,
  input  logic          policy_grant_i,
  output policy_index_t policy_index_o,
  input  logic          policy_valid_i,
  input  policy_t       policy_i
);

  localparam int unsigned ShapeWidth = $clog2(Shapes);
  localparam int unsigned ChainWidth = $clog2(MaxChain + 1);
  // The string that is hashed: version, addresses, protocol, ports, shape.
  localparam int unsigned StringBytes4 = 15;
  localparam int unsigned StringBytes6 = 39;
  localparam int unsigned CountWidth = $clog2(StringBytes6 + 1);

  typedef logic [ShapeWidth-1:0] shape_index_t;

  typedef enum logic [3:0] {
    Idle,
    Pick,        // the next shape
    Mask,        // ... applied, and its hash begun
    Hash,
    AskBucket,
    WaitBucket,
    AskPolicy,
    WaitPolicy,
    Compare,
    Done
  } state_e;

  state_e state_q;
  selector_t select_q, masked, masked_q;
  logic [Shapes-1:0] todo_q;  // shapes that are still to be tried
  shape_index_t shape_q, first;
  logic [ChainWidth-1:0] chain_q;  // policies of this bucket that have been looked at
  policy_index_t index_q;
  policy_t best_q, candidate_q;
  logic same_q;
  bucket_t hash;
  logic hash_done;

  // ---- Masking and hashing -----------------------------------------------------------------

  // Byte by byte: one comparison for each byte instead of one for each bit.
  function automatic logic [127:0] prefix(logic [7:0] bits);
    logic [127:0] mask;
    logic [7:0] part;  // of the byte in which the prefix ends
    for (int unsigned i = 0; i < 8; i++) part[7-i] = i < 32'(bits[2:0]);
    for (int unsigned i = 0; i < 16; i++) begin
      mask[127-8*i-:8] = (32'(bits[7:3]) > i) ? 8'hff : (32'(bits[7:3]) == i) ? part : 8'h00;
    end
    return mask;
  endfunction

  shape_t shape;
  assign shape = shapes_i[shape_q];

  always_comb begin
    masked = select_q;
    masked.src &= prefix(shape.src_bits);
    masked.dst &= prefix(shape.dst_bits);
    if (!shape.proto) masked.proto = '0;
    if (!shape.sport) masked.sport = '0;
    if (!shape.dport) masked.dport = '0;
  end

  logic [8*StringBytes6-1:0] text;
  always_comb begin
    text = {7'd0, masked.v6, masked.src, masked.dst, masked.proto, masked.sport, masked.dport,
            8'(shape_q)};
    if (!masked.v6) begin
      text = {
          7'd0, masked.v6, masked.src[127:96], masked.dst[127:96], masked.proto, masked.sport,
          masked.dport, 8'(shape_q), {8 * (StringBytes6 - StringBytes4) {1'b0}}
      };
    end
  end

  cv_pearson #(
    .MaxBytes (StringBytes6),
    .HashBytes(HashBytes),
    .HashBits (BucketBits)
  ) u_hash (
    .clk_i,
    .rst_ni,
    .start_i (state_q == Mask),
    .string_i(text),
    .bytes_i (masked.v6 ? CountWidth'(StringBytes6) : CountWidth'(StringBytes4)),
    .done_o  (hash_done),
    .hash_o  (hash)
  );

  // ---- Sequence ----------------------------------------------------------------------------

  always_comb begin
    first = '0;
    for (int unsigned i = Shapes; i > 0; i--) begin
      if (todo_q[i-1]) first = shape_index_t'(i - 1);
    end
  end

  logic better;
  assign better = same_q && (!best_q.valid || candidate_q.priority_ < best_q.priority_);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= Idle;
    end else begin
      unique case (state_q)
        Idle:       if (look_valid_i && ready_i) state_q <= Pick;
        Pick:       state_q <= (todo_q == '0) ? Done : Mask;
        Mask:       state_q <= Hash;
        Hash:       if (hash_done) state_q <= AskBucket;
        AskBucket:  if (bucket_grant_i) state_q <= WaitBucket;
        WaitBucket: if (bucket_valid_i) state_q <= bucket_i.valid ? AskPolicy : Pick;
        AskPolicy:  if (policy_grant_i) state_q <= WaitPolicy;
        WaitPolicy: if (policy_valid_i) state_q <= Compare;
        Compare: begin
          // Two policies with the same selector bits differ in nothing that could match.
          state_q <= (!same_q && candidate_q.more && chain_q != ChainWidth'(MaxChain)) ?
                     AskPolicy : Pick;
        end
        default:    state_q <= Idle;
      endcase
    end
  end

  always_ff @(posedge clk_i) begin
    if (state_q == Idle) begin
      select_q <= look_i;
      best_q   <= '0;
      for (int unsigned i = 0; i < Shapes; i++) begin
        todo_q[i] <= shapes_i[i].valid && shapes_i[i].v6 == look_i.v6;
      end
    end
    if (state_q == Pick) begin
      shape_q <= first;
      chain_q <= '0;
    end
    if (state_q == Mask) begin
      todo_q[shape_q] <= 1'b0;
      masked_q <= masked;
    end
    if (bucket_valid_i) index_q <= bucket_i.first;
    if (policy_valid_i) begin
      chain_q <= chain_q + 1'b1;
      same_q  <= policy_i.valid && policy_i.shape == shape_q && policy_i.selector == masked_q;
      candidate_q <= policy_i;
      candidate_q.selector <= '0;
    end
    if (state_q == Compare) begin
      index_q <= candidate_q.next;
      if (better) begin
        best_q <= candidate_q;
        best_q.more <= 1'b0;
        best_q.next <= '0;
      end
    end
  end

  assign look_ready_o   = state_q == Idle && ready_i;
  assign found_valid_o  = state_q == Done;
  assign found_o        = best_q;
  assign bucket_req_o   = state_q == AskBucket;
  assign bucket_index_o = hash;
  assign policy_req_o   = state_q == AskPolicy;
  assign policy_index_o = index_q;

  // A read is answered once, and only where one was asked for.
  `CV_ASSERT(BucketIsAsked_A, !bucket_valid_i || state_q == WaitBucket)
  `CV_ASSERT(PolicyIsAsked_A, !policy_valid_i || state_q == WaitPolicy)

endmodule
