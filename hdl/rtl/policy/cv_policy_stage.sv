// What the policy controllers of both directions have in common: packets wait while their policies
// are looked up.
//
// Function     Reads each packet's headers, asks cv_spd, and shows what was found together with the
//              header that came with the packet (`judge_*`); the owner says in the same cycle which
//              reason to drop there is, if any, and with which header the packet goes on. A packet
//              whose headers or length are wrong is dropped without being judged.
// Parameters   InHdr, OutHdr, Depth (beats that wait; MaxBytes must fit, because a packet's length is
//              known at its end).
// Latency      A packet leaves 3 cycles after its last beat was taken, or 2 cycles after its policy
//              was found, whichever is later.
// Throughput   As many cycles a packet as cv_ip_parse takes for its beats, or 2 more than cv_spd's
//              latency, whichever is more.
// Comb. paths  judge_policy_o, judge_hdr_o -> judge_drop_i, judge_out_i are the owner's.
// Stalls       in_ready_o is low before a packet while four are inside without a verdict, while
//              `Depth` beats wait, and where cv_ip_parse stalls.

`include "culvert_assert.svh"

module cv_policy_stage
  import culvert_pkg::*;
  import gateway_pkg::*;
#(
  parameter type         InHdr  = logic [7:0],
  parameter type         OutHdr = logic [7:0],
  parameter int unsigned Depth  = MaxBytes / BusBytes + 16
) (
  input logic clk_i,
  input logic rst_ni,

  input  logic  in_valid_i,
  output logic  in_ready_o,
  input  beat_t in_beat_i,
  input  InHdr  in_hdr_i,    // read with a packet's first beat

  output logic      look_valid_o,
  input  logic      look_ready_i,
  output selector_t look_o,
  input  logic      found_valid_i,
  input  policy_t   found_i,

  output InHdr     judge_hdr_o,
  output ip_info_t judge_info_o,
  output policy_t  judge_policy_o,
  input  drop_e    judge_drop_i,
  input  OutHdr    judge_out_i,

  output logic  out_valid_o,
  input  logic  out_ready_i,
  output beat_t out_beat_o,
  output OutHdr out_hdr_o,

  output logic  drop_valid_o,
  output drop_e drop_reason_o
);

  // Packets inside that have no verdict yet.
  localparam int unsigned Waiting = 4;
  localparam int unsigned WaitWidth = $clog2(Waiting + 1);

  logic first_q, room, take, parse_ready, hold_ready, hdr_ready;
  logic [WaitWidth-1:0] open_q;
  logic verdict;  // one is given in this cycle

  assign room = !first_q || open_q != WaitWidth'(Waiting);
  assign in_ready_o = parse_ready && hold_ready && room;
  assign take = in_valid_i && in_ready_o;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      first_q <= 1'b1;
      open_q  <= '0;
    end else begin
      if (take) first_q <= in_beat_i.last;
      open_q <= open_q + WaitWidth'(take && first_q) - WaitWidth'(verdict);
    end
  end

  // ---- Headers -----------------------------------------------------------------------------

  typedef struct packed {
    logic      bad;
    ip_info_t  info;
    selector_t select;
  } head_t;

  logic parsed_head, parsed_tail, head_valid, head_ready, tail_valid;
  logic head_room, tail_room;
  head_t parsed, head;
  drop_e parsed_head_drop, parsed_tail_drop, tail_drop;

  cv_ip_parse u_parse (
    .clk_i,
    .rst_ni,
    .in_valid_i     (in_valid_i && hold_ready && room),
    .in_ready_o     (parse_ready),
    .in_beat_i,
    .head_valid_o   (parsed_head),
    .head_drop_o    (parsed_head_drop),
    .head_info_o    (parsed.info),
    .head_select_o  (parsed.select),
    .head_fragment_o(),
    .head_upper_o   (),
    .tail_valid_o   (parsed_tail),
    .tail_drop_o    (parsed_tail_drop)
  );
  assign parsed.bad = parsed_head_drop != DropNone;

  cv_fifo #(
    .T    (head_t),
    .Depth(Waiting)
  ) u_heads (
    .clk_i,
    .rst_ni,
    .in_valid_i (parsed_head),
    .in_ready_o (head_room),
    .in_data_i  (parsed),
    .out_valid_o(head_valid),
    .out_ready_i(head_ready),
    .out_data_o (head),
    .count_o    ()
  );

  cv_fifo #(
    .T    (drop_e),
    .Depth(Waiting)
  ) u_tails (
    .clk_i,
    .rst_ni,
    .in_valid_i (parsed_tail),
    .in_ready_o (tail_room),
    .in_data_i  (parsed_tail_drop),
    .out_valid_o(tail_valid),
    .out_ready_i(verdict),
    .out_data_o (tail_drop),
    .count_o    ()
  );

  cv_fifo #(
    .T    (InHdr),
    .Depth(Waiting)
  ) u_hdrs (
    .clk_i,
    .rst_ni,
    .in_valid_i (take && first_q),
    .in_ready_o (hdr_ready),
    .in_data_i  (in_hdr_i),
    .out_valid_o(),
    .out_ready_i(verdict),
    .out_data_o (judge_hdr_o),
    .count_o    ()
  );

  // ---- Look-up, one packet after the other -------------------------------------------------

  typedef enum logic [1:0] {
    Ask,   // the next packet's headers wait
    Look,  // cv_spd is at work
    Judge  // it has answered, or there is nothing to ask
  } state_e;
  state_e state_q;
  policy_t policy_q;

  assign look_valid_o = state_q == Ask && head_valid && !head.bad;
  assign look_o       = head.select;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= Ask;
    end else begin
      unique case (state_q)
        Ask:     if (head_valid && (head.bad || look_ready_i)) state_q <= head.bad ? Judge : Look;
        Look:    if (found_valid_i) state_q <= Judge;
        default: if (verdict) state_q <= Ask;
      endcase
    end
  end

  always_ff @(posedge clk_i) begin
    if (found_valid_i) policy_q <= found_i;
  end

  assign judge_info_o   = head.info;
  assign judge_policy_o = policy_q;

  // ---- Verdict -----------------------------------------------------------------------------

  logic verdict_valid, verdict_ready, keep;
  drop_e drop;

  assign drop = (tail_drop != DropNone) ? tail_drop : judge_drop_i;
  assign keep = drop == DropNone;
  assign verdict_valid = state_q == Judge && tail_valid;
  assign verdict = verdict_valid && verdict_ready;
  assign head_ready = verdict;

  assign drop_valid_o  = verdict && !keep;
  assign drop_reason_o = drop;

  cv_hold #(
    .Hdr    (OutHdr),
    .Depth  (Depth),
    .Packets(Waiting)
  ) u_hold (
    .clk_i,
    .rst_ni,
    .in_valid_i     (in_valid_i && parse_ready && room),
    .in_ready_o     (hold_ready),
    .in_beat_i,
    .verdict_valid_i(verdict_valid),
    .verdict_ready_o(verdict_ready),
    .verdict_keep_i (keep),
    .verdict_hdr_i  (judge_out_i),
    .out_valid_o,
    .out_ready_i,
    .out_beat_o,
    .out_hdr_o
  );

  // What the parser says of a packet always finds its place.
  `CV_ASSERT(HeadFits_A, !parsed_head || head_room)
  `CV_ASSERT(TailFits_A, !parsed_tail || tail_room)
  `CV_ASSERT(HdrFits_A, !(take && first_q) || hdr_ready)
  // An answer comes only where one was asked for.
  `CV_ASSUME(AnswerIsAsked_A, !found_valid_i || state_q == Look)

endmodule
