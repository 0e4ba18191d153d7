// Fairness of cv_arbiter, for every request and both classes.
//
// One watched request (the solver picks which) is held, in one class, until it is granted. Then:
// at most N - 1 other requests of its class go before it, and while a low request waits at most
// LowEvery high ones go in a row.

module arbiter_props #(
  parameter int unsigned N        = 4,
  parameter int unsigned LowEvery = 3,
  localparam int unsigned IndexWidth = $clog2(N)
) (
  input logic         clk_i,
  input logic         rst_ni,
  input logic [N-1:0] req_i,
  input logic [N-1:0] high_i,
  input logic         ready_i,
  input logic [IndexWidth:0] watched_i
);
  logic valid;
  logic [IndexWidth-1:0] index;
  logic [N-1:0] grant;

  cv_arbiter #(
    .N       (N),
    .LowEvery(LowEvery)
  ) u_dut (
    .clk_i,
    .rst_ni,
    .req_i,
    .high_i,
    .valid_o(valid),
    .ready_i,
    .index_o(index),
    .grant_o(grant)
  );

  logic started_q = 1'b0;
  always_ff @(posedge clk_i) started_q <= 1'b1;
  always_comb assume (rst_ni == started_q);

  // A constant that the solver picks.
  logic [IndexWidth-1:0] watched, watched_q;
  logic watched_high, watched_high_q;
  assign {watched_high, watched} = watched_i;
  always_ff @(posedge clk_i) {watched_high_q, watched_q} <= watched_i;
  always_comb assume (!started_q || {watched_high_q, watched_q} == watched_i);
  always_comb assume (32'(watched) < N);

  logic take, waits, lost_to_class, lost_to_high;
  logic waited_q;  // the watched request was there in the last cycle and was not granted
  logic [7:0] class_q, high_q;  // grants of its class, and of high ones in a row, since it came

  assign take = valid && ready_i;
  assign waits = req_i[watched] && high_i[watched] == watched_high &&
                 !(take && index == watched);
  assign lost_to_class = waits && take && high_i[index] == watched_high;
  assign lost_to_high = waits && take && !watched_high && high_i[index];

  // A request that waits stays, in its class.
  always_comb assume (!waited_q || (req_i[watched] && high_i[watched] == watched_high));

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      waited_q <= 1'b0;
      class_q  <= '0;
      high_q   <= '0;
    end else begin
      waited_q <= waits;
      class_q  <= !waits ? '0 : class_q + 8'(lost_to_class);
      high_q   <= (!waits || (take && !high_i[index])) ? '0 : high_q + 8'(lost_to_high);
    end
  end

  // How many places before the watched one its class's pointer stands.
  logic [IndexWidth-1:0] last;
  logic [7:0] distance;
  assign last = watched_high ? u_dut.high_last_q : u_dut.low_last_q;
  assign distance = 8'((32'(watched) + 2 * N - 32'(last) - 1) % N);

  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      LastInRange_A : assert (32'(u_dut.high_last_q) < N && 32'(u_dut.low_last_q) < N);
      // No starvation inside the class.
      ClassBound_A : assert (32'(class_q) <= N - 1);
      // No starvation of the low class.
      LowBound_A : assert (32'(high_q) <= LowEvery);
      // For the induction: each grant of the class brings the pointer nearer; the run counter
      // counts every loss.
      Nearer_A : assert (32'(class_q) + 32'(distance) <= N - 1);
      RunCounts_A : assert (watched_high || 32'(high_q) <= 32'(u_dut.run_q));
      CountsNeedWait_A : assert (waited_q || (class_q == '0 && high_q == '0));
    end
  end

endmodule
