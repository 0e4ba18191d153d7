// Security policy database: policies in a hash table, looked up by several clients at once.
//
// Function     A client asks with a packet's selector; the answer is the matching policy of the
//              smallest priority, of equal ones that of the lowest shape, or one with `valid` clear.
//              For each valid shape of the packet's version the selector is masked and hashed
//              (pearson_pkg: its bytes in the order of selector_t, of IPv4 addresses the four that
//              count, then the number of the shape); the policies of that bucket are compared
//              exactly, one after the other.
// Parameters   N (clients), HashBytes (bytes hashed a cycle), MaxChain (policies of a bucket that are
//              looked at; a longer chain is cut, so that a broken one stops nobody).
// Latency      2 + s * (11 + ceil(b / HashBytes)) cycles with s shapes of b bytes (IPv4 15, IPv6 39)
//              and one policy a bucket, 5 more for each further policy, if no other client is in the
//              way.
// Throughput   One look-up a client at a time, every 1 cycle more than the latency: IPv4 with two
//              shapes 41 cycles. Each memory serves one client a cycle, so that N clients at work all
//              the time take at most N cycles longer.
// Comb. paths  none from input to output.
// Stalls       look_ready_o is low while a look-up of that client runs, and for 2^BucketBits cycles
//              after reset, in which every bucket is marked empty.
// Table port   One access at a time: the inputs stay from tbl_valid_i to the one cycle of tbl_ready_o.
//              tbl_data_o is valid from then to the next access. A record is written in one piece.

`include "culvert_assert.svh"

module cv_spd
  import gateway_pkg::*;
#(
  parameter  int unsigned N         = 4,
  parameter  int unsigned HashBytes = 2,
  parameter  int unsigned MaxChain  = 64,
  localparam int unsigned TblBits   = $bits(policy_t)
) (
  input logic clk_i,
  input logic rst_ni,

  input  logic      [N-1:0] look_valid_i,
  output logic      [N-1:0] look_ready_o,
  input  selector_t [N-1:0] look_i,
  output logic      [N-1:0] found_valid_o,  // for one cycle, to be taken at once
  output policy_t   [N-1:0] found_o,

  input  logic               tbl_valid_i,
  output logic               tbl_ready_o,
  input  logic               tbl_write_i,
  input  logic [1:0]         tbl_table_i,  // 0: buckets, 1: policies, 2: shapes
  input  logic [15:0]        tbl_index_i,
  input  logic [TblBits-1:0] tbl_data_i,   // the record in the lowest bits
  output logic [TblBits-1:0] tbl_data_o
);

  // Readers of the memories: the clients, then the table port.
  localparam int unsigned Readers = N + 1;
  localparam int unsigned ShapeWidth = $clog2(Shapes);

  shape_t [Shapes-1:0] shapes_q;
  logic buckets_ready, policies_ready, ready;
  assign ready = buckets_ready && policies_ready;

  // ---- Clients -----------------------------------------------------------------------------

  logic [Readers-1:0] bucket_req, bucket_grant, bucket_valid;
  logic [Readers-1:0] policy_req, policy_grant, policy_valid;
  bucket_t [Readers-1:0] bucket_index;
  policy_index_t [Readers-1:0] policy_index;
  policy_bucket_t bucket;
  policy_t policy, policy_q;

  for (genvar i = 0; i < N; i++) begin : gen_look
    cv_spd_look #(
      .HashBytes(HashBytes),
      .MaxChain (MaxChain)
    ) u_look (
      .clk_i,
      .rst_ni,
      .ready_i       (ready),
      .shapes_i      (shapes_q),
      .look_valid_i  (look_valid_i[i]),
      .look_ready_o  (look_ready_o[i]),
      .look_i        (look_i[i]),
      .found_valid_o (found_valid_o[i]),
      .found_o       (found_o[i]),
      .bucket_req_o  (bucket_req[i]),
      .bucket_grant_i(bucket_grant[i]),
      .bucket_index_o(bucket_index[i]),
      .bucket_valid_i(bucket_valid[i]),
      .bucket_i      (bucket),
      .policy_req_o  (policy_req[i]),
      .policy_grant_i(policy_grant[i]),
      .policy_index_o(policy_index[i]),
      .policy_valid_i(policy_valid[i]),
      .policy_i      (policy_q)
    );
  end

  // ---- Memories: grant, address register, read, and for policies a register behind ---------

  bucket_t bucket_address_q;
  policy_index_t policy_address_q;
  logic [Readers-1:0] bucket_granted_q, bucket_valid_q;
  logic [Readers-1:0] policy_granted_q, policy_read_q, policy_valid_q;
  logic [Readers-1:0] may_read;
  logic [$clog2(Readers)-1:0] bucket_pick, policy_pick;

  cv_arbiter #(
    .N(Readers)
  ) u_bucket_arbiter (
    .clk_i,
    .rst_ni,
    .req_i  (bucket_req & may_read),
    .high_i ('1),
    .valid_o(),
    .ready_i(1'b1),
    .index_o(bucket_pick),
    .grant_o(bucket_grant)
  );

  cv_arbiter #(
    .N(Readers)
  ) u_policy_arbiter (
    .clk_i,
    .rst_ni,
    .req_i  (policy_req & may_read),
    .high_i ('1),
    .valid_o(),
    .ready_i(1'b1),
    .index_o(policy_pick),
    .grant_o(policy_grant)
  );

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      bucket_granted_q <= '0;
      bucket_valid_q   <= '0;
      policy_granted_q <= '0;
      policy_read_q    <= '0;
      policy_valid_q   <= '0;
    end else begin
      bucket_granted_q <= bucket_grant;
      bucket_valid_q   <= bucket_granted_q;
      policy_granted_q <= policy_grant;
      policy_read_q    <= policy_granted_q;
      policy_valid_q   <= policy_read_q;
    end
  end

  always_ff @(posedge clk_i) begin
    bucket_address_q <= bucket_index[bucket_pick];
    policy_address_q <= policy_index[policy_pick];
    policy_q         <= policy;
  end

  assign bucket_valid = bucket_valid_q;
  assign policy_valid = policy_valid_q;

  logic bucket_write, policy_write, shape_write;

  cv_table_ram #(
    .T       (policy_bucket_t),
    .Bits    (BucketBits),
    .ReadsOld(1'b0)
  ) u_buckets (
    .clk_i,
    .rst_ni,
    .ready_o      (buckets_ready),
    .write_i      (bucket_write),
    .write_index_i(tbl_index_i[BucketBits-1:0]),
    .write_data_i (tbl_data_i[$bits(policy_bucket_t)-1:0]),
    .read_index_i (bucket_address_q),
    .read_data_o  (bucket)
  );

  cv_table_ram #(
    .T       (policy_t),
    .Bits    (PolicyBits),
    .Cleared (1),  // its `valid`
    .ReadsOld(1'b0)
  ) u_policies (
    .clk_i,
    .rst_ni,
    .ready_o      (policies_ready),
    .write_i      (policy_write),
    .write_index_i(tbl_index_i[PolicyBits-1:0]),
    .write_data_i (tbl_data_i),
    .read_index_i (policy_address_q),
    .read_data_o  (policy)
  );

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      shapes_q <= '0;
    end else if (shape_write) begin
      shapes_q[tbl_index_i[ShapeWidth-1:0]] <= tbl_data_i[$bits(shape_t)-1:0];
    end
  end

  // ---- Table port --------------------------------------------------------------------------

  localparam logic [1:0] TableBuckets = 2'd0;
  localparam logic [1:0] TablePolicies = 2'd1;
  localparam logic [1:0] TableShapes = 2'd2;

  // In TblHalt nobody is granted a read, so that nobody reads in the next cycle, TblWrite.
  typedef enum logic [2:0] {
    TblIdle,
    TblHalt,
    TblWrite,
    TblAsk,
    TblWait,
    TblDone
  } tbl_e;
  tbl_e tbl_q;
  logic [TblBits-1:0] data_q;
  logic begins, of_memory;

  assign begins = tbl_q == TblIdle && tbl_valid_i && ready;
  assign bucket_write = tbl_q == TblWrite && tbl_table_i == TableBuckets;
  assign policy_write = tbl_q == TblWrite && tbl_table_i == TablePolicies;
  assign shape_write  = tbl_q == TblWrite && tbl_table_i == TableShapes;
  assign of_memory    = tbl_table_i inside {TableBuckets, TablePolicies};
  assign may_read     = {Readers{tbl_q != TblHalt}};

  assign bucket_req[N]   = tbl_q == TblAsk && tbl_table_i == TableBuckets;
  assign policy_req[N]   = tbl_q == TblAsk && tbl_table_i == TablePolicies;
  assign bucket_index[N] = tbl_index_i[BucketBits-1:0];
  assign policy_index[N] = tbl_index_i[PolicyBits-1:0];

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      tbl_q <= TblIdle;
    end else begin
      unique case (tbl_q)
        TblIdle: begin
          if (begins) begin
            if (tbl_write_i) tbl_q <= TblHalt;
            else tbl_q <= of_memory ? TblAsk : TblDone;
          end
        end
        TblHalt: tbl_q <= TblWrite;
        TblWrite: tbl_q <= TblDone;
        TblAsk:  if (bucket_grant[N] || policy_grant[N]) tbl_q <= TblWait;
        TblWait: if (bucket_valid[N] || policy_valid[N]) tbl_q <= TblDone;
        default: tbl_q <= TblIdle;
      endcase
    end
  end

  always_ff @(posedge clk_i) begin
    if (begins) begin
      data_q <= (tbl_table_i == TableShapes) ? TblBits'(shapes_q[tbl_index_i[ShapeWidth-1:0]]) : '0;
    end
    if (bucket_valid[N]) data_q <= TblBits'(bucket);
    if (policy_valid[N]) data_q <= policy_q;
  end

  assign tbl_ready_o = tbl_q == TblDone;
  assign tbl_data_o  = data_q;

  // Nobody reads a record while it is written.
  `CV_ASSERT(NoClash_A, tbl_q != TblWrite || (bucket_granted_q | policy_granted_q) == '0)
  // An access stays, unchanged, until it is done.
  `CV_ASSERT_STABLE(TblStable_A, tbl_valid_i, tbl_ready_o,
                    ({tbl_write_i, tbl_table_i, tbl_index_i, tbl_data_i}))

endmodule
