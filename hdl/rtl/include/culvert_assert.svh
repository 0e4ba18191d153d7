// Macros for assertions and cover points. Each takes a name, which appears in simulator and prover output, and each use
// stands below a comment that says what the property means. They expect clk_i and rst_ni in scope.
//
// Simulation checks them (Verilator --assert); formal/ proves those of the cells it lists; synthesis
// leaves them out (SYNTHESIS is defined there).

`ifndef CULVERT_ASSERT_SVH
`define CULVERT_ASSERT_SVH

// A synthesis front end defines SYNTHESIS, also when it reads a design for a proof.
`ifdef SYNTHESIS
`ifndef FORMAL
`define CV_NO_ASSERT
`endif
`endif

`ifdef CV_NO_ASSERT

`define CV_ASSERT(name, prop)
`define CV_ASSUME(name, prop)
`define CV_ASSERT_STABLE(name, valid, ready, payload)
`define CV_COVER(name, prop)

`else

// `prop` holds at every rising clock edge out of reset.
`define CV_ASSERT(name, prop) \
  name : assert property (@(posedge clk_i) disable iff (!rst_ni) (prop));

// `prop` is what the environment promises: an assertion in simulation, an assumption in proofs.
`ifdef FORMAL
`define CV_ASSUME(name, prop) \
  name : assume property (@(posedge clk_i) disable iff (!rst_ni) (prop));
`else
`define CV_ASSUME(name, prop) `CV_ASSERT(name, prop)
`endif

// `prop` is worth seeing: simulations that never saw it have not tested the module. Counted with
// --coverage-user, and added up by tb/coverage.py. Proofs have cover points of their own.
`ifdef FORMAL
`define CV_COVER(name, prop)
`else
`define CV_COVER(name, prop) \
  name : cover property (@(posedge clk_i) disable iff (!rst_ni) (prop));
`endif

// The valid/ready contract of a source: an offer stays, unchanged, until it is taken. Written with
// registers, because the formal front end takes only Boolean properties. In simulation the result is
// a register, too, and so seen a cycle later: a simulator keeps a sampled copy of whatever a
// property names, and that would be the whole memory of a FIFO whose output is the payload.
`define CV_STABLE_STATE(name, valid, ready, payload) \
  logic name``_held_q; \
  logic [$bits(payload)-1:0] name``_payload_q; \
  always_ff @(posedge clk_i or negedge rst_ni) begin \
    if (!rst_ni) begin \
      name``_held_q <= 1'b0; \
      name``_payload_q <= '0; \
    end else begin \
      name``_held_q <= (valid) && !(ready); \
      name``_payload_q <= payload; \
    end \
  end

`ifdef FORMAL
`define CV_ASSERT_STABLE(name, valid, ready, payload) \
  `CV_STABLE_STATE(name, valid, ready, payload) \
  `CV_ASSERT(name, !name``_held_q || ((valid) && (payload) == name``_payload_q))
`else
`define CV_ASSERT_STABLE(name, valid, ready, payload) \
  `CV_STABLE_STATE(name, valid, ready, payload) \
  logic name``_broken_q; \
  always_ff @(posedge clk_i or negedge rst_ni) begin \
    if (!rst_ni) name``_broken_q <= 1'b0; \
    else name``_broken_q <= name``_held_q && !((valid) && (payload) == name``_payload_q); \
  end \
  `CV_ASSERT(name, !name``_broken_q)
`endif

`endif  // CV_NO_ASSERT

`endif  // CULVERT_ASSERT_SVH
