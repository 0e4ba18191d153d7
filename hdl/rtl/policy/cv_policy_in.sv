// Security policy controller, inbound: may this packet have come in this way?
//
// Function     Checks each packet's headers and length, looks its policy up, and passes it if it came
//              by the SA that its policy names, or in clear where the policy says bypass
//              (RFC 4301, section 5.2). Packets are the inner ones, as they go on to their hosts.
// Latency, throughput, combinational paths, stalls: as cv_policy_stage.

module cv_policy_in
  import culvert_pkg::*;
  import gateway_pkg::*;
(
  input logic clk_i,
  input logic rst_ni,

  input  logic      in_valid_i,
  output logic      in_ready_o,
  input  beat_t     in_beat_i,
  // Read with a packet's first beat.
  input  logic      in_low_i,    // priority class
  input  logic      in_clear_i,  // came without ESP
  input  sa_index_t in_reqid_i,  // else: by an SA with this reqid

  // A client of cv_spd.
  output logic      look_valid_o,
  input  logic      look_ready_i,
  output selector_t look_o,
  input  logic      found_valid_i,
  input  policy_t   found_i,

  output logic  out_valid_o,
  input  logic  out_ready_i,
  output beat_t out_beat_o,
  output logic  out_low_o,  // constant in a packet

  output logic  drop_valid_o,
  output drop_e drop_reason_o
);

  typedef struct packed {
    logic      low;
    logic      clear;
    sa_index_t reqid;
  } came_t;

  came_t came;
  policy_t policy;
  drop_e drop;

  always_comb begin
    drop = DropMismatch;
    if (!policy.valid) drop = DropNoPolicy;
    else if (policy.action == Bypass && came.clear) drop = DropNone;
    else if (policy.action == Protect && !came.clear && policy.sa == came.reqid) drop = DropNone;
    else if (!(policy.action inside {Bypass, Protect})) drop = DropPolicy;
  end

  cv_policy_stage #(
    .InHdr (came_t),
    .OutHdr(logic)
  ) u_stage (
    .clk_i,
    .rst_ni,
    .in_valid_i,
    .in_ready_o,
    .in_beat_i,
    .in_hdr_i      ('{low: in_low_i, clear: in_clear_i, reqid: in_reqid_i}),
    .look_valid_o,
    .look_ready_i,
    .look_o,
    .found_valid_i,
    .found_i,
    .judge_hdr_o   (came),
    .judge_info_o  (),
    .judge_policy_o(policy),
    .judge_drop_i  (drop),
    .judge_out_i   (came.low),
    .out_valid_o,
    .out_ready_i,
    .out_beat_o,
    .out_hdr_o     (out_low_o),
    .drop_valid_o,
    .drop_reason_o
  );

endmodule
