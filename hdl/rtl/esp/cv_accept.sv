// Judges inbound packets whose ICV has been computed: accepts them at the SAD, in order.
//
// Function     Takes for each packet whether its ICV agrees, and the request that accepts it. Where it
//              agrees the SAD is asked, and its answer is the judgement; where it does not, the
//              judgement is DropIntegrity and the SAD is not asked. Judgements leave in the order in
//              which the packets came.
// Parameters   Clients (ports to the SAD, used in turn), Pending (packets that wait for judgement).
// Latency      2 cycles and the SAD's; 1 cycle for a wrong ICV.
// Throughput   one packet a cycle with wrong ICVs; else each port has one request under way.
// Comb. paths  rsp_valid_i and rsp_i to done_valid_o and done_drop_o; done_ready_i to rsp_ready_o.
// Stalls       ask_ready_o is low while the port whose turn it is has a request under way, and while
//              `Pending` packets wait.

`include "culvert_assert.svh"

module cv_accept
  import gateway_pkg::*;
#(
  parameter int unsigned Clients = 1,
  parameter int unsigned Pending = 4
) (
  input logic clk_i,
  input logic rst_ni,

  input  logic     ask_valid_i,
  output logic     ask_ready_o,
  input  logic     ask_agrees_i,
  input  sad_req_t ask_req_i,

  output logic     [Clients-1:0] req_valid_o,
  input  logic     [Clients-1:0] req_ready_i,
  output sad_req_t [Clients-1:0] req_o,
  input  logic     [Clients-1:0] rsp_valid_i,
  output logic     [Clients-1:0] rsp_ready_o,
  input  sad_rsp_t [Clients-1:0] rsp_i,

  output logic  done_valid_o,
  input  logic  done_ready_i,
  output drop_e done_drop_o
);

  localparam int unsigned ClientWidth = (Clients > 1) ? $clog2(Clients) : 1;
  typedef logic [ClientWidth-1:0] client_t;
  typedef struct packed {
    logic    agrees;
    client_t client;  // that asks for it
  } turn_t;

  logic [Clients-1:0] busy_q;  // from the request to the answer
  client_t next_q;
  logic ask, done, turn_room, turn_valid;
  turn_t turn;

  assign ask_ready_o = turn_room && (!ask_agrees_i || !busy_q[next_q]);
  assign ask = ask_valid_i && ask_ready_o;

  cv_fifo #(
    .T    (turn_t),
    .Depth(Pending)
  ) u_turns (
    .clk_i,
    .rst_ni,
    .in_valid_i (ask),
    .in_ready_o (turn_room),
    .in_data_i  ('{agrees: ask_agrees_i, client: next_q}),
    .out_valid_o(turn_valid),
    .out_ready_i(done),
    .out_data_o (turn),
    .count_o    ()
  );

  assign done_valid_o = turn_valid && (!turn.agrees || rsp_valid_i[turn.client]);
  assign done_drop_o  = turn.agrees ? rsp_i[turn.client].drop : DropIntegrity;
  assign done         = done_valid_o && done_ready_i;

  for (genvar c = 0; c < Clients; c++) begin : gen_client
    logic mine;
    assign mine = turn_valid && turn.agrees && turn.client == client_t'(c);
    assign rsp_ready_o[c] = mine && done_ready_i;

    always_ff @(posedge clk_i or negedge rst_ni) begin
      if (!rst_ni) begin
        busy_q[c]      <= 1'b0;
        req_valid_o[c] <= 1'b0;
      end else begin
        if (ask && ask_agrees_i && next_q == client_t'(c)) begin
          busy_q[c]      <= 1'b1;
          req_valid_o[c] <= 1'b1;
        end else begin
          if (done && mine) busy_q[c] <= 1'b0;
          if (req_ready_i[c]) req_valid_o[c] <= 1'b0;
        end
      end
    end

    always_ff @(posedge clk_i) begin
      if (ask && ask_agrees_i && next_q == client_t'(c)) req_o[c] <= ask_req_i;
    end

    // An answer comes only to a request that was taken.
    `CV_ASSUME(AnswerWasAsked_A, !rsp_valid_i[c] || (busy_q[c] && !req_valid_o[c]))
    // An offered request stays until it is taken.
    `CV_ASSERT_STABLE(RequestStable_A, req_valid_o[c], req_ready_i[c], req_o[c])
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) next_q <= '0;
    else if (ask && ask_agrees_i) begin
      next_q <= (next_q == client_t'(Clients - 1)) ? '0 : next_q + client_t'(1);
    end
  end

  // A packet passes only if its ICV agreed and the SAD took it.
  `CV_ASSERT(PassIsAccepted_A, !done_valid_o || done_drop_o != DropNone ||
             (turn.agrees && busy_q[turn.client] && rsp_valid_i[turn.client]))
  // No request without an ICV that agreed waits or is under way: as many as there are busy ports.
  `CV_ASSERT(BusyHasTurn_A, busy_q == '0 || turn_valid)

endmodule
