// The shared package as the proofs see it: a data bus of 2 bits. The cells that are proved never
// look at the data, so a narrow bus shows the same behaviour, and the solver has less to carry.

package culvert_pkg;

  localparam int unsigned BusBits = 2;
  localparam int unsigned NumClasses = 2;

  typedef struct packed {
    logic [BusBits-1:0] data;
    logic [3:0]         tail;
    logic               last;
  } beat_t;

endpackage
