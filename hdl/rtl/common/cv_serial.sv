// Lets one packet at a time into a section: the published prototype worked so.
//
// Function     hold_o is high from a packet's last beat until the packet has left or was dropped.
// Parameters   Enable (0: hold_o is never high).
// Latency      1 cycle.
// Comb. paths  none.

module cv_serial #(
  parameter bit Enable = 1'b0
) (
  input logic clk_i,
  input logic rst_ni,

  input  logic come_i,  // for one cycle: a packet's last beat came in
  input  logic gone_i,  // for one cycle: it went out whole, or was dropped, maybe before come_i
  output logic hold_o
);

  if (Enable) begin : gen_serial
    logic inside_q, early_q;  // has come, not gone; has gone before it came in whole

    always_ff @(posedge clk_i or negedge rst_ni) begin
      if (!rst_ni) begin
        inside_q <= 1'b0;
        early_q  <= 1'b0;
      end else if (come_i) begin
        inside_q <= !early_q && !gone_i;
        early_q  <= 1'b0;
      end else if (gone_i) begin
        inside_q <= 1'b0;
        early_q  <= !inside_q;
      end
    end
    assign hold_o = inside_q;
  end else begin : gen_parallel
    logic unused;
    assign unused = &{1'b0, clk_i, rst_ni, come_i, gone_i};
    assign hold_o = 1'b0;
  end

endmodule
