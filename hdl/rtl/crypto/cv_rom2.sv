// ROM with two read ports, as a block RAM: one cycle, and no logic.
//
// Function     Each port reads its own word; `en_i` low keeps what was read.
// Parameters   Width, Depth (a power of two), Words (the contents, word 0 lowest).
// Latency      1 cycle.
// Throughput   1 word a cycle and port.
// Comb. paths  none.
// Stalls       none.

module cv_rom2 #(
  parameter  int unsigned                  Width    = 8,
  parameter  int unsigned                  Depth    = 256,
  parameter  logic [Depth-1:0][Width-1:0]  Words    = '0,
  localparam int unsigned                  AddrBits = $clog2(Depth)
) (
  input logic clk_i,
  input logic en_i,

  input  logic [1:0][AddrBits-1:0] addr_i,
  output logic [1:0][   Width-1:0] data_o
);

  (* ram_style = "block" *) logic [Width-1:0] words[Depth];

  initial begin
    for (int unsigned i = 0; i < Depth; i++) words[i] = Words[i];
  end

  for (genvar p = 0; p < 2; p++) begin : gen_port
    logic [Width-1:0] data_q;
    // No reset, so that it maps to the block RAM's own register.
    always_ff @(posedge clk_i) begin
      if (en_i) data_q <= words[addr_i[p]];
    end
    assign data_o[p] = data_q;
  end

endmodule
