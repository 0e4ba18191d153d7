// What the parts of cv_sad tell one another.

package sad_pkg;

  // Operations of the pipeline: those of sad_op_e, and software's.
  typedef enum logic [3:0] {
    OpSend       = 4'd0,
    OpFind       = 4'd1,
    OpAccept     = 4'd2,
    OpUnknown    = 4'd3,
    OpReadSa     = 4'd4,
    OpWriteSa    = 4'd5,
    OpReadState  = 4'd6,
    OpWriteState = 4'd7,
    OpCount      = 4'd8
  } op_e;

  // Whether an operation must not overtake, or be overtaken by, another one on the same SA.
  function automatic logic locks(op_e op);
    return op inside {OpSend, OpAccept, OpCount, OpReadState, OpWriteState};
  endfunction

endpackage
