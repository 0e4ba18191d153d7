// Types and constants that every section of the gateway shares.
//
// Byte order: network order. The first byte of a packet is data[127:120] of its first beat. The
// AXI4-Stream ports at the top level turn this round (there byte 0 is tdata[7:0]).

package culvert_pkg;

  // Width of the data bus.
  localparam int unsigned BusBits = 128;
  localparam int unsigned BusBytes = BusBits / 8;

  // One beat of a packet. `last` marks the final beat; there `tail` is the number of valid bytes
  // minus one, and bytes beyond it are zero. In all other beats every byte is valid and `tail`
  // is 15.
  typedef struct packed {
    logic [BusBits-1:0] data;
    logic [3:0]         tail;
    logic               last;
  } beat_t;

  // Priority classes of the packet switches; class 0 is the higher one.
  localparam int unsigned NumClasses = 2;

endpackage
