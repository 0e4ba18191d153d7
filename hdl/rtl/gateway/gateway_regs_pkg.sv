// The register map: addresses, tables and counters, as doc/registers.md explains them.

package gateway_regs_pkg;

  localparam logic [31:0] Magic   = 32'h43564757;  // "CVGW"
  localparam logic [31:0] Version = 32'h0001_0002;

  // Addresses in bytes; every register has 32 bits.
  localparam logic [15:0] RegMagic   = 16'h000;
  localparam logic [15:0] RegVersion = 16'h004;
  localparam logic [15:0] RegModules = 16'h008;  // policy, SAD, AES-CBC, DES modules
  localparam logic [15:0] RegLanes   = 16'h00c;  // GCM, SHA-1, SHA-256 modules, rounds a cycle
  localparam logic [15:0] RegModes   = 16'h010;  // bit 0: ECB, bit 1: serial
  localparam logic [15:0] RegSizes   = 16'h014;  // SaBits, PolicyBits, BucketBits, shapes
  localparam logic [15:0] RegLimits  = 16'h018;  // longest packet, replay window
  localparam logic [15:0] RegCommand = 16'h020;
  localparam logic [15:0] RegIndex   = 16'h024;
  localparam logic [15:0] RegStatus  = 16'h028;
  localparam logic [15:0] RegEvent   = 16'h030;
  localparam logic [15:0] RegRecord  = 16'h100;  // to 1fc: word 0 has the lowest bits
  localparam logic [15:0] RegCounter = 16'h400;  // outbound; inbound at 500

  // Tables: bit 3 is the direction (1: inbound).
  localparam logic [3:0] TableOutBuckets  = 4'd0;
  localparam logic [3:0] TableOutPolicies = 4'd1;
  localparam logic [3:0] TableOutShapes   = 4'd2;
  localparam logic [3:0] TableOutSas      = 4'd3;
  localparam logic [3:0] TableOutStates   = 4'd4;
  localparam logic [3:0] TableInBuckets   = 4'd8;
  localparam logic [3:0] TableInPolicies  = 4'd9;
  localparam logic [3:0] TableInShapes    = 4'd10;
  localparam logic [3:0] TableInSas       = 4'd11;
  localparam logic [3:0] TableInStates    = 4'd12;
  localparam logic [3:0] TableInSaBuckets = 4'd13;

  // Counters of one direction, in steps of 8 bytes: the lower half, then the upper one.
  localparam int unsigned CounterPacketsIn  = 0;
  localparam int unsigned CounterPacketsOut = 1;
  localparam int unsigned CounterBytesIn    = 2;
  localparam int unsigned CounterBytesOut   = 3;
  localparam int unsigned CounterDrops      = 4;  // and from here one for each drop_e

endpackage
