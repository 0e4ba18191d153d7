// The SAD's pipeline: every read-modify-write of an SA's state, and software's accesses, one after the
// other.
//
// Function     Five stages: grant (round robin among those who pend), read, memory's output register,
//              compute, write. An operation that changes a state waits while one of the same SA is in
//              the three stages behind the grant, so each sees what the one before it wrote. SadFind
//              changes nothing and waits for nobody: its replay check is repeated by SadAccept. Behind
//              software's write of an SA nothing is granted for a cycle, so nobody reads it just then.
// Interlock    An SA carries nothing (DropNoSa) until its state was written since reset.
// Latency      Done in the 4th cycle after the grant; the response is stable from the next one.
// Throughput   One operation a cycle; one in 4 cycles of the same SA.
// Comb. paths  pend_* -> grant_o.

`include "culvert_assert.svh"

module cv_sad_core
  import gateway_pkg::*;
  import sad_pkg::*;
#(
  parameter  int unsigned N          = 4,      // clients
  parameter  bit          Inbound    = 1'b0,
  localparam int unsigned Requesters = N + 1,  // ... and the table port, the last one
  localparam int unsigned TblBits    = $bits(sa_t)
) (
  input logic clk_i,
  input logic rst_ni,

  output logic ready_o,  // the tables are empty and may be used

  input  logic      [Requesters-1:0] pend_valid_i,
  input  op_e       [Requesters-1:0] pend_op_i,
  input  sa_index_t [Requesters-1:0] pend_sa_i,
  input  logic      [Requesters-1:0] pend_miss_i,
  output logic      [Requesters-1:0] grant_o,
  output logic      [Requesters-1:0] done_o,
  output logic      [N-1:0]          again_o,
  output sa_index_t                  next_o,

  input  sad_req_t [N-1:0] req_i,  // stable until done
  output sad_rsp_t [N-1:0] rsp_o,  // stable until the client's next request

  input  logic [TblBits-1:0] tbl_data_i,
  input  logic               tbl_clear_i,  // makes tbl_data_o zero
  output logic [TblBits-1:0] tbl_data_o,

  // An event for one cycle; event_ready_i says whether it can be kept.
  output logic      event_valid_o,
  input  logic      event_ready_i,
  output sa_event_t event_o
);

  localparam int unsigned PickWidth = $clog2(Requesters);

  typedef struct packed {
    logic                 valid;
    logic [PickWidth-1:0] who;
    op_e                  op;
    sa_index_t            sa;
    logic                 miss;
  } stage_t;

  // A state as it is kept. `restored` says that software has written it since reset: a state that was
  // only emptied would give its SA's numbers, and so its nonces, a second time.
  typedef struct packed {
    logic      restored;
    sa_state_t data;
  } kept_t;

  // Stages behind the grant: read, output register, compute, write.
  stage_t read_q, out_q, comp_q, write_q;

  // ---- Grant -------------------------------------------------------------------------------

  function automatic logic holds(stage_t stage, sa_index_t sa);
    return stage.valid && locks(stage.op) && stage.sa == sa;
  endfunction

  logic [Requesters-1:0] free;
  logic [PickWidth-1:0] pick;
  logic granted, halts_q;

  always_comb begin
    for (int unsigned i = 0; i < Requesters; i++) begin
      free[i] = pend_valid_i[i] && !halts_q &&
                !(locks(pend_op_i[i]) && (holds(read_q, pend_sa_i[i]) ||
                                          holds(out_q, pend_sa_i[i]) ||
                                          holds(comp_q, pend_sa_i[i])));
    end
  end

  cv_arbiter #(
    .N(Requesters)
  ) u_arbiter (
    .clk_i,
    .rst_ni,
    .req_i  (free),
    .high_i ('1),
    .valid_o(granted),
    .ready_i(1'b1),
    .index_o(pick),
    .grant_o(grant_o)
  );

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      read_q  <= '0;
      out_q   <= '0;
      comp_q  <= '0;
      write_q <= '0;
      halts_q <= 1'b0;
    end else begin
      read_q <= '{
          valid: granted,
          who: pick,
          op: pend_op_i[pick],
          sa: pend_sa_i[pick],
          miss: pend_miss_i[pick]
      };
      out_q   <= read_q;
      comp_q  <= out_q;
      write_q <= comp_q;
      halts_q <= out_q.valid && out_q.op == OpWriteSa;
    end
  end

  // ---- Memories ----------------------------------------------------------------------------

  logic sas_ready, states_ready, sa_write, state_write;
  sa_t sa, sa_q;
  kept_t state, state_q;
  sa_state_t state_next;
  sad_req_t req_q;

  assign ready_o = sas_ready && states_ready;

  cv_table_ram #(
    .T       (sa_t),
    .Bits    (SaBits),
    .Cleared (1),  // its `valid`
    .ReadsOld(1'b0)
  ) u_sas (
    .clk_i,
    .rst_ni,
    .ready_o      (sas_ready),
    .write_i      (sa_write),
    .write_index_i(write_q.sa),
    .write_data_i (tbl_data_i),
    .read_index_i (read_q.sa),
    .read_data_o  (sa)
  );

  // SadFind may read a state while it is written; outbound all who use it wait for one another.
  cv_table_ram #(
    .T       (kept_t),
    .Bits    (SaBits),
    .ReadsOld(Inbound)
  ) u_states (
    .clk_i,
    .rst_ni,
    .ready_o      (states_ready),
    .write_i      (state_write),
    .write_index_i(write_q.sa),
    .write_data_i ('{restored: 1'b1, data: state_next}),
    .read_index_i (read_q.sa),
    .read_data_o  (state)
  );

  always_ff @(posedge clk_i) begin
    sa_q    <= sa;
    state_q <= state;
    req_q   <= '0;
    for (int unsigned i = 0; i < N; i++) begin
      if (32'(out_q.who) == i) begin
        req_q <= req_i[i];
        if (!Inbound && !sa.tunnel) req_q.bytes <= req_i[i].payload;
      end
    end
  end

  // ---- Compute -----------------------------------------------------------------------------

  // A sum with its carry. It is kept saturated, but compared as it is, which is one step less.
  typedef logic [$bits(volume_t):0] wide_t;

  function automatic wide_t add(volume_t sum, volume_t more);
    return {1'b0, sum} + {1'b0, more};
  endfunction

  function automatic volume_t saturated(wide_t wide);
    return wide[$bits(volume_t)] ? '1 : wide[$bits(volume_t)-1:0];
  endfunction

  function automatic logic reached(wide_t count, volume_t limit);
    return limit != '0 && count >= {1'b0, limit};
  endfunction

  typedef struct packed {
    volume_t bytes;
    volume_t packets;
  } volumes_t;

  typedef struct packed {
    wide_t bytes;
    wide_t packets;
  } totals_t;

  totals_t total;
  logic over, at_soft, at_hard, exhausted, same;
  logic [63:0] top_next;
  drop_e refusal;

  assign total.bytes = add(state_q.data.bytes, volume_t'(req_q.bytes));
  assign total.packets = add(state_q.data.packets, volume_t'(comp_q.op != OpCount));
  assign over = reached({1'b0, state_q.data.bytes}, sa_q.limits.hard_bytes) ||
                reached({1'b0, state_q.data.packets}, sa_q.limits.hard_packets);
  assign at_soft = reached(total.bytes, sa_q.limits.soft_bytes) ||
                reached(total.packets, sa_q.limits.soft_packets);
  assign at_hard = reached(total.bytes, sa_q.limits.hard_bytes) ||
                reached(total.packets, sa_q.limits.hard_packets);
  assign top_next = state_q.data.top + 64'd1;
  // The last number without ESN is 2^32 - 1 (RFC 4303, section 3.3.3: it must not cycle).
  assign exhausted = sa_q.esn ? state_q.data.top == '1 : state_q.data.top >= 64'hffff_ffff;
  assign same = sa_q.valid && sa_q.spi == req_q.spi && sa_q.v6 == req_q.v6 &&
                sa_q.dst[127:96] == req_q.dst[127:96] &&
                (!sa_q.v6 || sa_q.dst[95:0] == req_q.dst[95:0]);

  // What can be said before the replay check.
  always_comb begin
    refusal = DropNone;
    unique case (comp_q.op)
      OpFind: begin
        if (comp_q.miss || !same || !state_q.restored) refusal = DropNoSa;
        else if (over) refusal = DropHardLimit;
      end
      OpSend, OpAccept: begin
        if (!sa_q.valid || !state_q.restored) refusal = DropNoSa;
        else if (comp_q.op == OpAccept && sa_q.spi != req_q.spi) refusal = DropNoSa;
        else if (over) refusal = DropHardLimit;
        else if (comp_q.op == OpSend && exhausted) refusal = DropNumbers;
      end
      // What was let in is counted, also behind a limit.
      OpCount: if (!sa_q.valid || !state_q.restored || sa_q.spi != req_q.spi) refusal = DropNoSa;
      default: refusal = DropUnsupported;
    endcase
  end

  // ---- Write -------------------------------------------------------------------------------

  sa_state_t old_q;
  volumes_t sum_q;
  drop_e refusal_q, drop;
  logic soft_q, hard_q, again_q, restored_q;
  sa_index_t next_q;
  logic [63:0] number_q, number;
  logic fresh, late;
  logic [31:0] high;
  logic [63:0] replay_top;
  logic [ReplayWindow-1:0] replay_seen;

  always_ff @(posedge clk_i) begin
    old_q      <= state_q.data;
    sum_q      <= '{bytes: saturated(total.bytes), packets: saturated(total.packets)};
    refusal_q  <= refusal;
    soft_q     <= at_soft;
    hard_q     <= at_hard;
    again_q    <= comp_q.op == OpFind && !comp_q.miss && !same && sa_q.more;
    next_q     <= sa_q.next;
    number_q   <= (comp_q.op == OpSend) ? top_next : {req_q.high, req_q.seq};
    restored_q <= state_q.restored;
  end

  if (Inbound) begin : gen_replay
    logic checked;
    cv_replay #(
      .Window(ReplayWindow)
    ) u_replay (
      .clk_i,
      .rst_ni,
      .in_valid_i (comp_q.valid),
      .in_esn_i   (sa_q.esn),
      .in_seq_i   (req_q.seq),
      .in_top_i   (state_q.data.top),
      .in_seen_i  (state_q.data.seen),
      .out_valid_o(checked),
      .out_fresh_o(fresh),
      .out_late_o (late),
      .out_high_o (high),
      .out_top_o  (replay_top),
      .out_seen_o (replay_seen)
    );
    // The replay check is one cycle behind the compute stage, which is the write stage.
    `CV_ASSERT(CheckInStep_A, checked == write_q.valid)
  end else begin : gen_no_replay
    assign fresh       = 1'b0;
    assign late        = 1'b0;
    assign high        = '0;
    assign replay_top  = '0;
    assign replay_seen = '0;
  end

  logic moved, carries, refuses_hard, refuses_numbers, tells, told;

  // Between SadFind and SadAccept the window can have moved so far that the number's lower half now
  // belongs to another upper half; its own is left of the window then.
  assign moved = write_q.op == OpAccept && high != number_q[63:32];

  always_comb begin
    drop = refusal_q;
    if (write_q.op inside {OpFind, OpAccept} && refusal_q == DropNone) begin
      if (late || moved) drop = DropReplayLate;
      else if (!fresh) drop = DropReplay;
    end
    number = (write_q.op == OpFind) ? {high, number_q[31:0]} : number_q;
  end

  assign carries = write_q.op inside {OpSend, OpAccept, OpCount} && drop == DropNone;
  assign refuses_hard = write_q.op inside {OpSend, OpAccept} && drop == DropHardLimit;
  assign refuses_numbers = drop == DropNumbers;
  assign tells = ((carries && hard_q) || refuses_hard || refuses_numbers) ? !old_q.hard_told :
                 carries && soft_q && !old_q.soft_told;
  assign told = tells && event_ready_i;

  assign event_valid_o = write_q.valid && tells;
  always_comb begin
    event_o = '{kind: EventSoft, sa: write_q.sa};
    if (refuses_numbers) event_o.kind = EventNumbers;
    else if (refuses_hard || hard_q) event_o.kind = EventHard;
  end

  always_comb begin
    state_next = old_q;
    if (carries) begin
      state_next.bytes   = sum_q.bytes;
      state_next.packets = sum_q.packets;
      if (write_q.op == OpSend) state_next.top = number_q;
      if (write_q.op == OpAccept) begin
        state_next.top  = replay_top;
        state_next.seen = replay_seen;
      end
    end
    if (told) begin
      // What says that packets are dropped stands for the soft limit too.
      state_next.soft_told = 1'b1;
      if (event_o.kind != EventSoft) state_next.hard_told = 1'b1;
    end
    if (write_q.op == OpWriteState) state_next = tbl_data_i[$bits(sa_state_t)-1:0];
  end

  assign sa_write = write_q.valid && write_q.op == OpWriteSa;
  assign state_write = write_q.valid && (carries || told || write_q.op == OpWriteState);

  // ---- Responses ---------------------------------------------------------------------------

  assign next_o = next_q;
  always_comb begin
    for (int unsigned i = 0; i < N; i++) begin
      again_o[i] = write_q.valid && 32'(write_q.who) == i && again_q;
    end
    for (int unsigned i = 0; i < Requesters; i++) begin
      done_o[i] = write_q.valid && 32'(write_q.who) == i && !again_q;
    end
  end

  logic [TblBits-1:0] tbl_data_q;
  always_ff @(posedge clk_i) begin
    if (comp_q.valid && comp_q.op == OpReadSa) tbl_data_q <= sa_q;
    if (comp_q.valid && comp_q.op == OpReadState) tbl_data_q <= TblBits'(state_q.data);
    if (tbl_clear_i) tbl_data_q <= '0;
  end
  assign tbl_data_o = tbl_data_q;

  for (genvar i = 0; i < N; i++) begin : gen_rsp
    sad_rsp_t rsp_q;
    always_ff @(posedge clk_i) begin
      if (comp_q.valid && 32'(comp_q.who) == i) rsp_q.data <= sa_q;
      if (done_o[i]) begin
        rsp_q.drop   <= drop;
        rsp_q.sa     <= write_q.sa;
        rsp_q.number <= number;
        rsp_q.iv     <= Inbound ? '0 : number ^ old_q.seen[63:0];
      end
    end
    assign rsp_o[i] = rsp_q;
  end

  // Two that change the same state are never within four stages.
  `CV_ASSERT(OneChange_A, !(read_q.valid && locks(read_q.op)) ||
                          !(holds(out_q, read_q.sa) || holds(comp_q, read_q.sa) ||
                            holds(write_q, read_q.sa)))
  // What a memory gives of a record that is just written is used by nobody.
  `CV_ASSERT(SaClash_A, !(sa_write && read_q.valid && read_q.sa == write_q.sa))
  `CV_ASSERT(StateClash_A, Inbound || !(state_write && holds(read_q, write_q.sa)))
  // A packet that is carried takes a number above all before it (outbound).
  `CV_ASSERT(NumbersRise_A, !(write_q.valid && carries && write_q.op == OpSend) ||
                            state_next.top > old_q.top)
  // No packet is sent, accepted or counted on a state that was not written since reset.
  `CV_ASSERT(Restored_A, !(write_q.valid && carries) || restored_q)

endmodule
