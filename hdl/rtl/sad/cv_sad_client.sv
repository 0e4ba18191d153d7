// One client of the SAD, in the SAD's clock domain: brings its request to the pipeline, and finds
// inbound SAs.
//
// Function     SadSend and SadAccept go to the pipeline with the SA they name. For SadFind the address
//              and SPI are hashed (pearson_pkg: destination address, of IPv4 the four bytes that
//              count, then the SPI), the bucket is read, and its SAs go to the pipeline one after the
//              other until one matches. What ends without an SA goes there with `miss`.
// Parameters   see cv_sad; MaxChain: SAs of a bucket that are looked at.
// Latency      1 cycle to pend_valid_o; SadFind 5 + ceil(b / HashBytes).
// Comb. paths  none from input to output.

`include "culvert_assert.svh"

module cv_sad_client
  import gateway_pkg::*;
  import sad_pkg::*;
#(
  parameter bit          Inbound   = 1'b0,
  parameter int unsigned HashBytes = 2,
  parameter int unsigned MaxChain  = 64
) (
  input logic clk_i,
  input logic rst_ni,

  input logic ready_i,  // the tables may be read

  input logic     srv_valid_i,
  input sad_req_t srv_req_i,

  // To the pipeline: held until granted; then `done` or `again` comes once.
  output logic      pend_valid_o,
  output op_e       pend_op_o,
  output sa_index_t pend_sa_o,
  output logic      pend_miss_o,
  input  logic      pend_grant_i,
  input  logic      done_i,
  input  logic      again_i,       // not this SA; the bucket's next one is next_i
  input  sa_index_t next_i,

  // A read of a bucket: held until granted, answered once.
  output logic       bucket_req_o,
  input  logic       bucket_grant_i,
  output bucket_t    bucket_index_o,
  input  logic       bucket_valid_i,
  input  sa_bucket_t bucket_i
);

  typedef enum logic [2:0] {
    Idle,
    Hash,
    AskBucket,
    WaitBucket,
    Pend,
    Fly
  } state_e;

  localparam int unsigned ChainWidth = $clog2(MaxChain + 1);

  state_e state_q;
  sa_index_t sa_q;
  logic miss_q;
  logic starts, finds, hash_done;

  assign starts = state_q == Idle && srv_valid_i && ready_i;
  assign finds  = Inbound && srv_req_i.op == SadFind;

  always_comb begin
    pend_op_o = OpUnknown;
    if (Inbound && srv_req_i.op == SadFind) pend_op_o = OpFind;
    if (Inbound && srv_req_i.op == SadAccept) pend_op_o = OpAccept;
    if (Inbound && srv_req_i.op == SadCount) pend_op_o = OpCount;
    if (!Inbound && srv_req_i.op == SadSend) pend_op_o = OpSend;
  end

  if (Inbound) begin : gen_find
    // The string that is hashed: destination and SPI.
    localparam int unsigned StringBytes4 = 8;
    localparam int unsigned StringBytes6 = 20;
    localparam int unsigned CountWidth = $clog2(StringBytes6 + 1);

    logic [8*StringBytes6-1:0] text;
    logic [ChainWidth-1:0] chain_q;  // SAs of this bucket that have been looked at

    assign text = srv_req_i.v6 ? {srv_req_i.dst, srv_req_i.spi} :
        {srv_req_i.dst[127:96], srv_req_i.spi, {8 * (StringBytes6 - StringBytes4) {1'b0}}};

    cv_pearson #(
      .MaxBytes (StringBytes6),
      .HashBytes(HashBytes),
      .HashBits (BucketBits)
    ) u_hash (
      .clk_i,
      .rst_ni,
      .start_i (starts && finds),
      .string_i(text),
      .bytes_i (srv_req_i.v6 ? CountWidth'(StringBytes6) : CountWidth'(StringBytes4)),
      .done_o  (hash_done),
      .hash_o  (bucket_index_o)
    );

    always_ff @(posedge clk_i) begin
      if (state_q == Idle) begin
        sa_q    <= srv_req_i.sa;
        miss_q  <= 1'b0;
        chain_q <= '0;
      end else if (bucket_valid_i) begin
        sa_q   <= bucket_i.first;
        miss_q <= !bucket_i.valid;
      end else if (again_i) begin
        sa_q    <= next_i;
        miss_q  <= chain_q == ChainWidth'(MaxChain - 1);
        chain_q <= chain_q + 1'b1;
      end
    end

    assign bucket_req_o = state_q == AskBucket;
  end else begin : gen_no_find
    assign hash_done      = 1'b0;
    assign bucket_index_o = '0;
    assign bucket_req_o   = 1'b0;

    always_ff @(posedge clk_i) begin
      if (state_q == Idle) sa_q <= srv_req_i.sa;
    end
    assign miss_q = 1'b0;

    logic unused;
    assign unused = ^{next_i, bucket_i};
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= Idle;
    end else begin
      unique case (state_q)
        Idle:       if (starts) state_q <= finds ? Hash : Pend;
        Hash:       if (hash_done) state_q <= AskBucket;
        AskBucket:  if (bucket_grant_i) state_q <= WaitBucket;
        WaitBucket: if (bucket_valid_i) state_q <= Pend;
        Pend:       if (pend_grant_i) state_q <= Fly;
        default: begin
          if (done_i) state_q <= Idle;
          else if (again_i) state_q <= Pend;
        end
      endcase
    end
  end

  assign pend_valid_o = state_q == Pend;
  assign pend_sa_o    = sa_q;
  assign pend_miss_o  = miss_q;

  // The pipeline answers what is under way.
  `CV_ASSERT(AnswerIsAwaited_A, !(done_i || again_i) || state_q == Fly)
  // The request stays until it is done.
  `CV_ASSERT(RequestStays_A, state_q == Idle || srv_valid_i)

endmodule
