// Packet switch between two sections of the gateway.
//
// Function     Takes packets from NumIn modules and gives each to one of the NumOut modules of the
//              next section that has the packet's type. Within a type the modules are served in
//              turn; an idle module comes before one that still works. Two priority classes.
//
//                in 0 -> input FIFOs --+                        +-- output FIFO -> out 0
//                        (one a class) |  queue FIFOs, one a    |
//                in 1 -> input FIFOs --+  class, then type      +-- output FIFO -> out 1
//                         ...          |  FIFOs, one a type     |    ...
//                        register -----+  and class             |
//                                  \-> sort --> dispatch: data paths input -> output
//
//              Three state machines: `register` enters the number of each input FIFO that has a new
//              packet at its head into the queue FIFO of its class; `sort` moves numbers on into
//              the FIFO of the packet's type; `dispatch`, one for each type, joins the packet at
//              the head with a module that has room. A joined pair moves a beat a cycle; all pairs
//              run in parallel.
// Order        Packets of one input and one class reach the modules in the order in which they
//              came; at any one output they leave in that order. Nothing is lost or doubled.
// Parameters   Hdr, NumIn, NumOut, NumTypes, OutType (type of each output, packed, 4 bits each),
//              InDepth and OutDepth (beats), InPackets and OutPackets (packets held in a FIFO),
//              LowEvery (see cv_arbiter).
// Latency      5 cycles from the first beat at an input to the first at an output.
// Throughput   1 beat a cycle at every input and output; 1 new packet a cycle in all.
// Comb. paths  in_low_i -> in_ready_o.
// Stalls       An input whose FIFO is full waits. A packet waits until a module of its type holds
//              fewer than OutPackets packets.

`include "culvert_assert.svh"

module cv_switch
  import culvert_pkg::*;
#(
  parameter  type                       Hdr        = logic [15:0],
  parameter  int unsigned               NumIn      = 2,
  parameter  int unsigned               NumOut     = 3,
  parameter  int unsigned               NumTypes   = 2,
  parameter  logic        [NumOut*4-1:0] OutType   = {4'd1, 4'd0, 4'd0},
  parameter  int unsigned               InDepth    = 16,
  parameter  int unsigned               InPackets  = 8,
  parameter  int unsigned               OutDepth   = 8,
  parameter  int unsigned               OutPackets = 2,
  parameter  int unsigned               LowEvery   = 8,
  localparam int unsigned               TypeWidth  = (NumTypes > 1) ? $clog2(NumTypes) : 1
) (
  input logic clk_i,
  input logic rst_ni,

  input  logic  [NumIn-1:0]                in_valid_i,
  output logic  [NumIn-1:0]                in_ready_o,
  input  beat_t [NumIn-1:0]                in_beat_i,
  // These three are read with a packet's first beat.
  input  Hdr    [NumIn-1:0]                in_hdr_i,
  input  logic  [NumIn-1:0][TypeWidth-1:0] in_type_i,
  input  logic  [NumIn-1:0]                in_low_i,   // class: 1 is the lower one

  output logic  [NumOut-1:0] out_valid_o,
  input  logic  [NumOut-1:0] out_ready_i,
  output beat_t [NumOut-1:0] out_beat_o,
  output Hdr    [NumOut-1:0] out_hdr_o
);

  // Input FIFOs are numbered 2 * input + class.
  localparam int unsigned NumQueues = NumIn * NumClasses;
  localparam int unsigned QueueWidth = $clog2(NumQueues);
  localparam int unsigned OutCountWidth = $clog2(OutPackets + 1);
  typedef logic [QueueWidth-1:0] queue_t;
  typedef struct packed {
    logic [TypeWidth-1:0] typ;
    Hdr                   hdr;
  } entry_t;

  logic   [NumQueues-1:0] head_valid, head_pop;
  beat_t  [NumQueues-1:0] head_beat;
  entry_t [NumQueues-1:0] head_entry;

  // Input FIFOs.
  for (genvar i = 0; i < NumIn; i++) begin : gen_in
    logic inside_q, low_q, low;  // in the middle of a packet; its class
    logic [NumClasses-1:0] ready;
    entry_t entry;

    assign low = inside_q ? low_q : in_low_i[i];
    assign in_ready_o[i] = ready[low];
    assign entry = '{typ: in_type_i[i], hdr: in_hdr_i[i]};

    always_ff @(posedge clk_i or negedge rst_ni) begin
      if (!rst_ni) begin
        inside_q <= 1'b0;
        low_q    <= 1'b0;
      end else if (in_valid_i[i] && in_ready_o[i]) begin
        inside_q <= !in_beat_i[i].last;
        low_q    <= low;
      end
    end

    for (genvar c = 0; c < NumClasses; c++) begin : gen_class
      cv_packet_fifo #(
        .Hdr    (entry_t),
        .Depth  (InDepth),
        .Packets(InPackets)
      ) u_fifo (
        .clk_i,
        .rst_ni,
        .in_valid_i (in_valid_i[i] && low == 1'(c)),
        .in_ready_o (ready[c]),
        .in_beat_i  (in_beat_i[i]),
        .in_hdr_i   (entry),
        .out_valid_o(head_valid[2*i+c]),
        .out_ready_i(head_pop[2*i+c]),
        .out_beat_o (head_beat[2*i+c]),
        .out_hdr_o  (head_entry[2*i+c]),
        .packets_o  ()
      );
    end
  end

  // Register: every packet that reaches the head of an input FIFO is entered once.
  logic [NumQueues-1:0] known_q, is_new, reg_grant;
  logic reg_valid, reg_ready;
  queue_t reg_index;
  logic [NumClasses-1:0] queue_ready;

  assign is_new = head_valid & ~known_q;
  assign reg_ready = queue_ready[reg_index[0]];

  cv_arbiter #(
    .N       (NumQueues),
    .LowEvery(LowEvery)
  ) u_register (
    .clk_i,
    .rst_ni,
    .req_i  (is_new),
    .high_i ({NumIn{2'b01}}),
    .valid_o(reg_valid),
    .ready_i(reg_ready),
    .index_o(reg_index),
    .grant_o(reg_grant)
  );

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      known_q <= '0;
    end else begin
      for (int unsigned q = 0; q < NumQueues; q++) begin
        if (head_valid[q] && head_pop[q] && head_beat[q].last) known_q[q] <= 1'b0;
        else if (reg_grant[q] && reg_ready) known_q[q] <= 1'b1;
      end
    end
  end

  // Queue FIFOs, one a class.
  logic [NumClasses-1:0] queue_valid, queue_pop;
  queue_t [NumClasses-1:0] queue_head;

  for (genvar c = 0; c < NumClasses; c++) begin : gen_queue
    cv_fifo #(
      .T    (queue_t),
      .Depth(NumIn)
    ) u_queue (
      .clk_i,
      .rst_ni,
      .in_valid_i (reg_valid && reg_index[0] == 1'(c)),
      .in_ready_o (queue_ready[c]),
      .in_data_i  (reg_index),
      .out_valid_o(queue_valid[c]),
      .out_ready_i(queue_pop[c]),
      .out_data_o (queue_head[c]),
      .count_o    ()
    );
  end

  // Sort: from the queue FIFOs into the type FIFOs.
  logic sort_valid, sort_class;
  queue_t sort_queue;
  logic [TypeWidth-1:0] sort_type;
  logic [NumTypes-1:0][NumClasses-1:0] type_ready;
  logic sort_ready;

  cv_arbiter #(
    .N       (NumClasses),
    .LowEvery(LowEvery)
  ) u_sort (
    .clk_i,
    .rst_ni,
    .req_i  (queue_valid),
    .high_i (2'b01),
    .valid_o(sort_valid),
    .ready_i(sort_ready),
    .index_o(sort_class),
    .grant_o()
  );

  assign sort_queue = queue_head[sort_class];
  assign sort_type  = head_entry[sort_queue].typ;
  assign sort_ready = type_ready[sort_type][sort_class];

  always_comb begin
    queue_pop = '0;
    queue_pop[sort_class] = sort_valid && sort_ready;
  end

  // Dispatch: one state machine for each type, and the state of every output.
  logic [NumOut-1:0] joined_q, join_now, out_fifo_ready;
  queue_t [NumOut-1:0] source_q;
  logic [NumTypes-1:0][QueueWidth-1:0] join_queue;
  logic [NumOut-1:0][OutCountWidth-1:0] out_packets;

  logic [NumTypes-1:0][NumOut-1:0] type_join;

  for (genvar t = 0; t < NumTypes; t++) begin : gen_type
    logic [NumClasses-1:0] type_valid, type_pop;
    queue_t [NumClasses-1:0] type_head;
    logic class_valid, class_index;
    logic [NumOut-1:0] has_room, is_idle, out_req, out_grant;
    logic out_valid;

    for (genvar c = 0; c < NumClasses; c++) begin : gen_class
      cv_fifo #(
        .T    (queue_t),
        .Depth(NumIn)
      ) u_type (
        .clk_i,
        .rst_ni,
        .in_valid_i (sort_valid && 32'(sort_type) == t && sort_class == 1'(c)),
        .in_ready_o (type_ready[t][c]),
        .in_data_i  (sort_queue),
        .out_valid_o(type_valid[c]),
        .out_ready_i(type_pop[c]),
        .out_data_o (type_head[c]),
        .count_o    ()
      );
    end

    cv_arbiter #(
      .N       (NumClasses),
      .LowEvery(LowEvery)
    ) u_class (
      .clk_i,
      .rst_ni,
      .req_i  (type_valid),
      .high_i (2'b01),
      .valid_o(class_valid),
      .ready_i(out_valid),
      .index_o(class_index),
      .grant_o()
    );

    always_comb begin
      for (int unsigned o = 0; o < NumOut; o++) begin
        has_room[o] = OutType[4*o+:4] == 4'(t) && !joined_q[o] &&
                      out_packets[o] != OutCountWidth'(OutPackets);
        is_idle[o] = has_room[o] && out_packets[o] == '0;
      end
      out_req = (is_idle != '0) ? is_idle : has_room;
      type_pop = '0;
      type_pop[class_index] = class_valid && out_valid;
    end

    cv_arbiter #(
      .N(NumOut)
    ) u_out (
      .clk_i,
      .rst_ni,
      .req_i  (out_req),
      .high_i ('1),
      .valid_o(out_valid),
      .ready_i(class_valid),
      .index_o(),
      .grant_o(out_grant)
    );

    // Packets of both classes waited for a module of the type.
    `CV_COVER(BothClasses_C, type_valid == '1)

    assign type_join[t]  = class_valid ? out_grant : '0;
    assign join_queue[t] = type_head[class_index];
  end

  always_comb begin
    join_now = '0;
    for (int unsigned t = 0; t < NumTypes; t++) join_now |= type_join[t];
  end

  // Data paths and output FIFOs.
  for (genvar o = 0; o < NumOut; o++) begin : gen_out
    localparam int unsigned Type = 32'(OutType[4*o+:4]);
    logic move;
    assign move = joined_q[o] && head_valid[source_q[o]];

    always_ff @(posedge clk_i or negedge rst_ni) begin
      if (!rst_ni) begin
        joined_q[o] <= 1'b0;
        source_q[o] <= '0;
      end else if (join_now[o]) begin
        joined_q[o] <= 1'b1;
        source_q[o] <= join_queue[Type];
      end else if (move && out_fifo_ready[o] && head_beat[source_q[o]].last) begin
        joined_q[o] <= 1'b0;
      end
    end

    cv_packet_fifo #(
      .Hdr    (Hdr),
      .Depth  (OutDepth),
      .Packets(OutPackets)
    ) u_fifo (
      .clk_i,
      .rst_ni,
      .in_valid_i (move),
      .in_ready_o (out_fifo_ready[o]),
      .in_beat_i  (head_beat[source_q[o]]),
      .in_hdr_i   (head_entry[source_q[o]].hdr),
      .out_valid_o(out_valid_o[o]),
      .out_ready_i(out_ready_i[o]),
      .out_beat_o (out_beat_o[o]),
      .out_hdr_o  (out_hdr_o[o]),
      .packets_o  (out_packets[o])
    );

    // A packet went to a module that was idle, and to one that still worked; a module was full.
    `CV_COVER(JoinIdle_C, join_now[o] && out_packets[o] == '0)
    `CV_COVER(JoinBusy_C, join_now[o] && out_packets[o] != '0)
    `CV_COVER(OutputFull_C, out_packets[o] == OutCountWidth'(OutPackets))
    // A joined packet waited for the rest of it to come.
    `CV_COVER(HalfCame_C, joined_q[o] && !head_valid[source_q[o]])
    // An output takes a packet only when it is free.
    `CV_ASSERT(JoinFree_A, !join_now[o] || !joined_q[o])
    // A joined packet is one that has been registered.
    `CV_ASSERT(JoinedIsKnown_A, !joined_q[o] || known_q[source_q[o]])
    // No two outputs read the same input FIFO.
    for (genvar p = 0; p < o; p++) begin : gen_pair
      `CV_ASSERT(SourceOnce_A,
                 !joined_q[o] || !joined_q[p] || source_q[o] != source_q[p])
    end
  end

  always_comb begin
    head_pop = '0;
    for (int unsigned o = 0; o < NumOut; o++) begin
      if (joined_q[o] && out_fifo_ready[o]) head_pop[source_q[o]] = 1'b1;
    end
  end

  // All outputs moved a beat in the same cycle.
  logic [NumOut-1:0] moving;
  always_comb begin
    for (int unsigned o = 0; o < NumOut; o++) begin
      moving[o] = joined_q[o] && head_valid[source_q[o]] && out_fifo_ready[o];
    end
  end
  `CV_COVER(AllMove_C, moving == '1)
  // Every input FIFO held a packet.
  `CV_COVER(AllHeads_C, head_valid == '1)
  // Each input FIFO is in at most one queue or type FIFO, so these never refuse.
  `CV_ASSERT(QueueHasRoom_A, !reg_valid || reg_ready)
  `CV_ASSERT(TypeHasRoom_A, !sort_valid || sort_ready)
  // A packet's type exists.
  for (genvar i = 0; i < NumIn; i++) begin : gen_type_check
    `CV_ASSUME(TypeExists_A, !in_valid_i[i] || 32'(in_type_i[i]) < NumTypes)
  end

endmodule
