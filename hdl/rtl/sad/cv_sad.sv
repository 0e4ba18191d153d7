// Security association database of one direction, in a clock domain of its own, for several clients.
//
// Function     Holds SAs and their states, and does each packet's read-modify-write: SadSend takes
//              the next sequence number, SadFind finds an inbound SA and says whether the number may
//              be new, SadAccept accepts a number exactly once, SadCount counts an accepted packet's
//              payload (both name the SPI again: an SA that another one has replaced meanwhile
//              accepts and counts nothing). Counts lifetimes, raises events.
// Lifetimes    Bytes are those of the packet that is protected (RFC 4301 section 4.4.2.1), as Linux counts
//              them: in tunnel mode all of it, in transport mode what stands behind the IP header.
//              Inbound packets count when they are accepted, bytes when they are known, behind the
//              cipher: so a limit in bytes may let a few more packets through than are counted yet. A
//              limit of n packets lets n packets through; one of n bytes lets packets through while
//              fewer than n bytes have gone. An event comes with the packet that reaches a limit (a
//              hard one stands for the soft one too), EventNumbers with the first packet refused.
// Parameters   N (clients), Inbound (SadFind, SadAccept and SadCount, else SadSend; another operation gets
//              DropUnsupported), HashBytes (see cv_pearson).
// Latency      With both clocks alike: 11 cycles from req to rsp; SadFind 4 + ceil(b / HashBytes)
//              more (b: 8 bytes IPv4, 20 bytes IPv6), and 5 for each further SA of its bucket.
// Throughput   A client has one request under way; with a fast clk_i it comes round in 8 cycles of
//              sad_clk_i. Together: one a cycle of sad_clk_i for different SAs, one in 4 for the same
//              SA.
// Comb. paths  none from input to output.
// Stalls       req_ready_o is low while the client's request is under way. No request is answered for
//              2^BucketBits cycles after reset, in which every record is marked empty.
// Clocks       Any ratio. Both resets are asserted together. Requests, events and the table port
//              belong to clk_i.
// Events       Kept in a FIFO of 32. An event that finds it full is given with the SA's next packet
//              that gets as far, and event_missed_o is set until event_clear_i: look at the states.
// Table port   As cv_spd's. Writing an SA leaves its state alone. Accesses go through the same
//              pipeline as packets do, so a state is written between two packets, never under one.

`include "culvert_assert.svh"

module cv_sad
  import gateway_pkg::*;
  import sad_pkg::*;
#(
  parameter  int unsigned N         = 4,
  parameter  bit          Inbound   = 1'b0,
  parameter  int unsigned HashBytes = 2,
  localparam int unsigned TblBits   = $bits(sa_t)
) (
  input logic clk_i,
  input logic rst_ni,
  input logic sad_clk_i,
  input logic sad_rst_ni,

  input  logic     [N-1:0] req_valid_i,
  output logic     [N-1:0] req_ready_o,
  input  sad_req_t [N-1:0] req_i,
  output logic     [N-1:0] rsp_valid_o,
  input  logic     [N-1:0] rsp_ready_i,
  output sad_rsp_t [N-1:0] rsp_o,

  output logic      event_valid_o,
  input  logic      event_ready_i,
  output sa_event_t event_o,
  output logic      event_missed_o,
  input  logic      event_clear_i,

  input  logic               tbl_valid_i,
  output logic               tbl_ready_o,
  input  logic               tbl_write_i,
  input  logic [1:0]         tbl_table_i,  // 0: SAs, 1: states, 2: buckets (inbound)
  input  logic [15:0]        tbl_index_i,
  input  logic [TblBits-1:0] tbl_data_i,   // the record in the lowest bits
  output logic [TblBits-1:0] tbl_data_o
);

  localparam int unsigned Requesters = N + 1;
  localparam int unsigned EventDepth = 32;

  logic core_ready, buckets_ready, ready;
  assign ready = core_ready && buckets_ready;

  // ---- Crossings ---------------------------------------------------------------------------

  // All below is in the SAD's domain, but for the ports.
  logic [N-1:0] srv_valid;
  sad_req_t [N-1:0] srv_req;
  sad_rsp_t [N-1:0] rsp;
  logic [Requesters-1:0] done, grant, pend_valid, pend_miss;
  logic [N-1:0] again;
  op_e [Requesters-1:0] pend_op;
  sa_index_t [Requesters-1:0] pend_sa;
  sa_index_t next;

  logic [Requesters-1:0] bucket_req, bucket_grant, bucket_valid;
  bucket_t [Requesters-1:0] bucket_index;
  sa_bucket_t bucket;

  for (genvar i = 0; i < N; i++) begin : gen_client
    cv_cross #(
      .Req(sad_req_t)
    ) u_cross (
      .clk_i,
      .rst_ni,
      .req_valid_i(req_valid_i[i]),
      .req_ready_o(req_ready_o[i]),
      .req_i      (req_i[i]),
      .rsp_valid_o(rsp_valid_o[i]),
      .rsp_ready_i(rsp_ready_i[i]),
      .srv_clk_i  (sad_clk_i),
      .srv_rst_ni (sad_rst_ni),
      .srv_valid_o(srv_valid[i]),
      .srv_req_o  (srv_req[i]),
      .srv_done_i (done[i])
    );

    cv_sad_client #(
      .Inbound  (Inbound),
      .HashBytes(HashBytes)
    ) u_client (
      .clk_i         (sad_clk_i),
      .rst_ni        (sad_rst_ni),
      .ready_i       (ready),
      .srv_valid_i   (srv_valid[i]),
      .srv_req_i     (srv_req[i]),
      .pend_valid_o  (pend_valid[i]),
      .pend_op_o     (pend_op[i]),
      .pend_sa_o     (pend_sa[i]),
      .pend_miss_o   (pend_miss[i]),
      .pend_grant_i  (grant[i]),
      .done_i        (done[i]),
      .again_i       (again[i]),
      .next_i        (next),
      .bucket_req_o  (bucket_req[i]),
      .bucket_grant_i(bucket_grant[i]),
      .bucket_index_o(bucket_index[i]),
      .bucket_valid_i(bucket_valid[i]),
      .bucket_i      (bucket)
    );
  end

  assign rsp_o = rsp;

  // ---- Table port --------------------------------------------------------------------------

  localparam logic [1:0] TableSas = 2'd0;
  localparam logic [1:0] TableStates = 2'd1;
  localparam logic [1:0] TableBuckets = 2'd2;

  typedef struct packed {
    logic        write;
    logic [1:0]  table_;
    logic [15:0] index;
  } access_t;

  typedef enum logic [2:0] {
    TblIdle,
    TblPend,
    TblFly,
    TblAsk,
    TblWait,
    TblDone
  } tbl_e;

  tbl_e tbl_q;
  logic tbl_asked, tbl_srv_valid, tbl_of_core, tbl_of_bucket, bucket_write;
  access_t access;
  logic [TblBits-1:0] core_data;
  sa_bucket_t bucket_q;

  cv_cross #(
    .Req(access_t)
  ) u_tbl_cross (
    .clk_i,
    .rst_ni,
    .req_valid_i(tbl_valid_i),
    .req_ready_o(tbl_asked),
    .req_i      ('{write: tbl_write_i, table_: tbl_table_i, index: tbl_index_i}),
    .rsp_valid_o(tbl_ready_o),
    .rsp_ready_i(1'b1),
    .srv_clk_i  (sad_clk_i),
    .srv_rst_ni (sad_rst_ni),
    .srv_valid_o(tbl_srv_valid),
    .srv_req_o  (access),
    .srv_done_i (tbl_q == TblDone)
  );

  assign tbl_of_core = access.table_ inside {TableSas, TableStates};
  assign tbl_of_bucket = Inbound && access.table_ == TableBuckets;
  assign bucket_write = tbl_q == TblIdle && tbl_srv_valid && ready && access.write &&
                        access.table_ == TableBuckets;

  always_ff @(posedge sad_clk_i or negedge sad_rst_ni) begin
    if (!sad_rst_ni) begin
      tbl_q <= TblIdle;
    end else begin
      unique case (tbl_q)
        TblIdle: begin
          if (tbl_srv_valid && ready) begin
            if (tbl_of_core) tbl_q <= TblPend;
            else if (tbl_of_bucket && !access.write) tbl_q <= TblAsk;
            else tbl_q <= TblDone;
          end
        end
        TblPend: if (grant[N]) tbl_q <= TblFly;
        TblFly:  if (done[N]) tbl_q <= TblDone;
        TblAsk:  if (bucket_grant[N]) tbl_q <= TblWait;
        TblWait: if (bucket_valid[N]) tbl_q <= TblDone;
        default: tbl_q <= TblIdle;
      endcase
    end
  end

  assign pend_valid[N] = tbl_q == TblPend;
  assign pend_sa[N]    = access.index[SaBits-1:0];
  assign pend_miss[N]  = 1'b0;
  always_comb begin
    if (access.table_ == TableSas) pend_op[N] = access.write ? OpWriteSa : OpReadSa;
    else pend_op[N] = access.write ? OpWriteState : OpReadState;
  end

  assign bucket_req[N]   = tbl_q == TblAsk;
  assign bucket_index[N] = access.index[BucketBits-1:0];

  always_ff @(posedge sad_clk_i) begin
    if (bucket_valid[N]) bucket_q <= bucket;
  end

  // The core's answer is zero while a bucket is read.
  assign tbl_data_o = core_data | TblBits'(tbl_of_bucket ? bucket_q : '0);

  // ---- Buckets: grant, address register, read ----------------------------------------------

  if (Inbound) begin : gen_buckets
    logic [$clog2(Requesters)-1:0] pick;
    bucket_t address_q;
    logic [Requesters-1:0] granted_q, valid_q;

    cv_arbiter #(
      .N(Requesters)
    ) u_arbiter (
      .clk_i  (sad_clk_i),
      .rst_ni (sad_rst_ni),
      .req_i  (bucket_req),
      .high_i ('1),
      .valid_o(),
      .ready_i(1'b1),
      .index_o(pick),
      .grant_o(bucket_grant)
    );

    always_ff @(posedge sad_clk_i or negedge sad_rst_ni) begin
      if (!sad_rst_ni) begin
        granted_q <= '0;
        valid_q   <= '0;
      end else begin
        granted_q <= bucket_grant;
        valid_q   <= granted_q;
      end
    end

    always_ff @(posedge sad_clk_i) address_q <= bucket_index[pick];

    assign bucket_valid = valid_q;

    cv_table_ram #(
      .T   (sa_bucket_t),
      .Bits(BucketBits)
    ) u_buckets (
      .clk_i        (sad_clk_i),
      .rst_ni       (sad_rst_ni),
      .ready_o      (buckets_ready),
      .write_i      (bucket_write),
      .write_index_i(access.index[BucketBits-1:0]),
      .write_data_i (tbl_data_i[$bits(sa_bucket_t)-1:0]),
      .read_index_i (address_q),
      .read_data_o  (bucket)
    );
  end else begin : gen_no_buckets
    assign buckets_ready = 1'b1;
    assign bucket_grant  = '0;
    assign bucket_valid  = '0;
    assign bucket        = '0;
    logic unused;
    assign unused = ^{bucket_req, bucket_index, bucket_write, access.index[15:SaBits]};
  end

  // ---- Pipeline ----------------------------------------------------------------------------

  logic event_valid, event_ready;
  sa_event_t told;

  cv_sad_core #(
    .N      (N),
    .Inbound(Inbound)
  ) u_core (
    .clk_i        (sad_clk_i),
    .rst_ni       (sad_rst_ni),
    .ready_o      (core_ready),
    .pend_valid_i (pend_valid),
    .pend_op_i    (pend_op),
    .pend_sa_i    (pend_sa),
    .pend_miss_i  (pend_miss),
    .grant_o      (grant),
    .done_o       (done),
    .again_o      (again),
    .next_o       (next),
    .req_i        (srv_req),
    .rsp_o        (rsp),
    .tbl_data_i,
    .tbl_clear_i  (tbl_q == TblAsk),
    .tbl_data_o   (core_data),
    .event_valid_o(event_valid),
    .event_ready_i(event_ready),
    .event_o      (told)
  );

  // ---- Events ------------------------------------------------------------------------------

  cv_fifo_async #(
    .T    (sa_event_t),
    .Depth(EventDepth)
  ) u_events (
    .clk_i      (sad_clk_i),
    .rst_ni     (sad_rst_ni),
    .in_valid_i (event_valid),
    .in_ready_o (event_ready),
    .in_data_i  (told),
    .out_clk_i  (clk_i),
    .out_rst_ni (rst_ni),
    .out_valid_o(event_valid_o),
    .out_ready_i(event_ready_i),
    .out_data_o (event_o)
  );

  // A level over, and the wish to clear it back, until either side has seen the other.
  logic missed_q, missed, clear_q, clear;

  always_ff @(posedge sad_clk_i or negedge sad_rst_ni) begin
    if (!sad_rst_ni) missed_q <= 1'b0;
    else missed_q <= (event_valid && !event_ready) || (missed_q && !clear);
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) clear_q <= 1'b0;
    else clear_q <= missed && (clear_q || event_clear_i);
  end

  cv_sync u_missed (
    .clk_i,
    .rst_ni,
    .data_i(missed_q),
    .data_o(missed)
  );

  cv_sync u_clear (
    .clk_i (sad_clk_i),
    .rst_ni(sad_rst_ni),
    .data_i(clear_q),
    .data_o(clear)
  );

  assign event_missed_o = missed && !clear_q;

  // An access stays, unchanged, until it is done.
  `CV_ASSERT_STABLE(TblStable_A, tbl_valid_i, tbl_ready_o,
                    ({tbl_write_i, tbl_table_i, tbl_index_i, tbl_data_i}))
  // An access is taken where it is answered, once.
  `CV_ASSERT(TblOnce_A, !tbl_ready_o || !tbl_asked)

endmodule
