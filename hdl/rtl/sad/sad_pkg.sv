// What the parts of cv_sad tell one another.

package sad_pkg;

  // Operations of the pipeline: those of sad_op_e, and software's.
  typedef enum logic [2:0] {
    OpSend       = 3'd0,
    OpFind       = 3'd1,
    OpAccept     = 3'd2,
    OpUnknown    = 3'd3,
    OpReadSa     = 3'd4,
    OpWriteSa    = 3'd5,
    OpReadState  = 3'd6,
    OpWriteState = 3'd7
  } op_e;

  // Whether an operation must not overtake, or be overtaken by, another one on the same SA.
  function automatic logic locks(op_e op);
    return op inside {OpSend, OpAccept, OpReadState, OpWriteState};
  endfunction

endpackage
