// Security policy controller, outbound: what is to become of a packet.
//
// Function     Checks each packet's headers and length, looks its policy up, and lets it go on with
//              the header of the SAD section (protect) or past all sections (bypass), or drops it.
// Latency, throughput, combinational paths, stalls: as cv_policy_stage.

module cv_policy_out
  import culvert_pkg::*;
  import gateway_pkg::*;
(
  input logic clk_i,
  input logic rst_ni,

  input  logic  in_valid_i,
  output logic  in_ready_o,
  input  beat_t in_beat_i,

  // A client of cv_spd.
  output logic      look_valid_o,
  input  logic      look_ready_i,
  output selector_t look_o,
  input  logic      found_valid_i,
  input  policy_t   found_i,

  output logic        out_valid_o,
  input  logic        out_ready_i,
  output beat_t       out_beat_o,
  output policy_hdr_t out_hdr_o,
  output logic        out_bypass_o,  // constant in a packet; then only out_hdr_o.low and .ip count

  output logic  drop_valid_o,
  output drop_e drop_reason_o
);

  typedef struct packed {
    logic        bypass;
    policy_hdr_t hdr;
  } out_t;

  ip_info_t info;
  policy_t policy;
  drop_e drop;
  out_t judged, out;

  assign judged = '{bypass: policy.action == Bypass,
                    hdr: '{low: policy.low, sa: policy.sa, ip: info}};

  always_comb begin
    drop = DropPolicy;
    if (!policy.valid) drop = DropNoPolicy;
    else if (policy.action inside {Bypass, Protect}) drop = DropNone;
  end

  cv_policy_stage #(
    .InHdr (logic),
    .OutHdr(out_t)
  ) u_stage (
    .clk_i,
    .rst_ni,
    .in_valid_i,
    .in_ready_o,
    .in_beat_i,
    .in_hdr_i      (1'b0),
    .look_valid_o,
    .look_ready_i,
    .look_o,
    .found_valid_i,
    .found_i,
    .judge_hdr_o   (),
    .judge_info_o  (info),
    .judge_policy_o(policy),
    .judge_drop_i  (drop),
    .judge_out_i   (judged),
    .out_valid_o,
    .out_ready_i,
    .out_beat_o,
    .out_hdr_o     (out),
    .drop_valid_o,
    .drop_reason_o
  );

  assign out_hdr_o    = out.hdr;
  assign out_bypass_o = out.bypass;

endmodule
