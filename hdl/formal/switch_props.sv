// What an observer sees of cv_switch: no loss, no duplication, order per input and class, packets
// whole and at a module of their type; and, with `Bound`, no starvation.
//
// The solver picks an input and a class, and of the packets that come there any two, A and then B.
// They carry a tag, and so does every beat of them. All other traffic is free: packets of any
// length, type and class at every input, idle cycles and back-pressure everywhere.
//
// The assertions come in two parts. `Spec` is what is promised, in terms of ports. `Inv` is what
// makes it inductive: what lies where inside the switch, for every state that can be reached.
//
// Bound        0, or: every output is always ready, packets have one beat, and A leaves at most
//              this many cycles after it came.

module switch_props #(
  parameter  int unsigned               NumOut     = 2,
  parameter  int unsigned               NumTypes   = 2,
  parameter  logic        [NumOut*4-1:0] OutType   = {4'd1, 4'd0},
  parameter  int unsigned               InDepth    = 2,
  parameter  int unsigned               InPackets  = 2,
  parameter  int unsigned               OutDepth   = 2,
  parameter  int unsigned               OutPackets = 2,
  parameter  int unsigned               LowEvery   = 2,
  parameter  int unsigned               Bound      = 0,
  localparam int unsigned               NumIn      = 2,
  localparam int unsigned               NumQueues  = 2 * NumIn,
  localparam int unsigned               TypeWidth  = (NumTypes > 1) ? $clog2(NumTypes) : 1
) (
  input logic                            clk_i,
  input logic                            rst_ni,
  input logic [NumIn-1:0]                valid_i,
  input logic [NumIn-1:0]                last_i,
  input logic [NumIn-1:0][TypeWidth-1:0] type_i,
  input logic [NumIn-1:0]                low_i,
  input logic [NumOut-1:0]               out_ready_i,
  input logic [1:0]                      watched_i,  // free: input and class of A and B
  input logic [1:0]                      choose_i    // free: this packet is A; is B
);

  import culvert_pkg::*;

  localparam int unsigned A = 0;
  localparam int unsigned B = 1;
  typedef logic [1:0] tag_t;
  // Place of a beat in its packet: 0 the first one, then 1, 2, 1, 2 ...
  typedef logic [1:0] place_t;
  typedef struct packed {
    logic [TypeWidth-1:0] typ;
    tag_t                 tag;
  } hdr_t;
  typedef logic [1:0] queue_t;  // input and class

  function automatic place_t after(place_t place, logic last);
    if (last) return 2'd0;
    return (place == 2'd1) ? 2'd2 : 2'd1;
  endfunction

  beat_t [NumIn-1:0] in_beat;
  hdr_t [NumIn-1:0] in_hdr;
  logic [NumIn-1:0] in_ready;
  beat_t [NumOut-1:0] out_beat;
  hdr_t [NumOut-1:0] out_hdr;
  logic [NumOut-1:0] out_valid;

  cv_switch #(
    .Hdr       (hdr_t),
    .NumIn     (NumIn),
    .NumOut    (NumOut),
    .NumTypes  (NumTypes),
    .OutType   (OutType),
    .InDepth   (InDepth),
    .InPackets (InPackets),
    .OutDepth  (OutDepth),
    .OutPackets(OutPackets),
    .LowEvery  (LowEvery)
  ) u_dut (
    .clk_i,
    .rst_ni,
    .in_valid_i (valid_i),
    .in_ready_o (in_ready),
    .in_beat_i  (in_beat),
    .in_hdr_i   (in_hdr),
    .in_type_i  (type_i),
    .in_low_i   (low_i),
    .out_valid_o(out_valid),
    .out_ready_i,
    .out_beat_o (out_beat),
    .out_hdr_o  (out_hdr)
  );

  // Reset in the first cycle, and never again.
  logic started_q = 1'b0;
  always_ff @(posedge clk_i) started_q <= 1'b1;
  always_comb assume (rst_ni == started_q);

  queue_t watched_q;
  always_ff @(posedge clk_i) watched_q <= watched_i;
  always_comb assume (!started_q || watched_i == watched_q);

  // ---- Traffic, and what has been seen of it -----------------------------------------------

  place_t [NumQueues-1:0] in_place_q;   // of the next beat that goes in
  place_t [NumQueues-1:0] head_place_q; // of the beat at the head of the input FIFO
  place_t [NumOut-1:0] out_place_q;     // of the next beat that comes out
  hdr_t [NumIn-1:0] sent_q, sent;       // header of the packet that is going in
  logic [NumIn-1:0] inside_q, low_q;    // a packet is half in; its class
  queue_t [NumIn-1:0] to;               // where the beat goes
  logic [1:0] came_q, left_q;           // A and B: first beat came, last beat left
  logic [NumOut-1:0] b_at_q;            // B began to leave there
  logic [7:0] age_q;

  for (genvar i = 0; i < NumIn; i++) begin : gen_traffic
    assign to[i] = {1'(i), low_i[i]};
    always_comb begin
      sent[i] = sent_q[i];
      if (!inside_q[i]) begin
        sent[i].typ = type_i[i];
        sent[i].tag[A] = to[i] == watched_i && choose_i[A] && !came_q[A];
        sent[i].tag[B] = to[i] == watched_i && choose_i[B] && came_q[A] && !came_q[B];
      end
      in_hdr[i] = sent[i];
      in_beat[i] = '{data: in_place_q[to[i]], tail: {2'b00, sent[i].tag}, last: last_i[i]};
      assume (32'(type_i[i]) < NumTypes);
      // The class is read with the first beat; the switch ignores it in the others.
      assume (!inside_q[i] || low_i[i] == low_q[i]);
      assume (Bound == 0 || last_i[i]);
    end
  end
  always_comb assume (Bound == 0 || out_ready_i == '1);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      in_place_q   <= '0;
      head_place_q <= '0;
      out_place_q  <= '0;
      sent_q       <= '0;
      inside_q     <= '0;
      low_q        <= '0;
      came_q       <= '0;
      left_q       <= '0;
      b_at_q       <= '0;
      age_q        <= '0;
    end else begin
      for (int unsigned i = 0; i < NumIn; i++) begin
        if (valid_i[i] && in_ready[i]) begin
          in_place_q[to[i]] <= after(in_place_q[to[i]], last_i[i]);
          inside_q[i]       <= !last_i[i];
          low_q[i]          <= low_i[i];
          sent_q[i]         <= sent[i];
          if (sent[i].tag[A]) came_q[A] <= 1'b1;
          if (sent[i].tag[B]) came_q[B] <= 1'b1;
        end
      end
      for (int unsigned q = 0; q < NumQueues; q++) begin
        if (u_dut.head_valid[q] && u_dut.head_pop[q]) begin
          head_place_q[q] <= after(head_place_q[q], u_dut.head_beat[q].last);
        end
      end
      for (int unsigned o = 0; o < NumOut; o++) begin
        if (out_valid[o] && out_hdr[o].tag[B]) b_at_q[o] <= 1'b1;
        if (out_valid[o] && out_ready_i[o]) begin
          out_place_q[o] <= after(out_place_q[o], out_beat[o].last);
          if (out_beat[o].last && out_hdr[o].tag[A]) left_q[A] <= 1'b1;
          if (out_beat[o].last && out_hdr[o].tag[B]) left_q[B] <= 1'b1;
        end
      end
      if (came_q[A] && !left_q[A] && age_q != '1) age_q <= age_q + 1'b1;
    end
  end

  // ---- Spec --------------------------------------------------------------------------------

  for (genvar o = 0; o < NumOut; o++) begin : gen_spec
    always_ff @(posedge clk_i) begin
      if (rst_ni && out_valid[o]) begin
        // A packet comes out at a module of its type.
        RightType_A : assert (4'(out_hdr[o].typ) == OutType[4*o+:4]);
        // Its beats are its own, all of them, in their order.
        NextBeat_A : assert (out_beat[o].data == out_place_q[o]);
        OwnBeat_A : assert (out_beat[o].tail == {2'b00, out_hdr[o].tag});
        // It comes out only after it went in, and once.
        OnceA_A : assert (!out_hdr[o].tag[A] || (came_q[A] && !left_q[A]));
        OnceB_A : assert (!out_hdr[o].tag[B] || (came_q[B] && !left_q[B]));
        // Order: at one output A comes before B.
        Order_A : assert (!out_hdr[o].tag[A] || !b_at_q[o]);
      end
    end
  end

  // Every packet leaves, in time.
  always_ff @(posedge clk_i) begin
    if (rst_ni && Bound != 0) LeavesInTime_A : assert (left_q[A] || 32'(age_q) <= Bound);
  end

  // The proof is about something: both come and leave, one behind the other.
  always_ff @(posedge clk_i) begin
    if (rst_ni) BothLeave_C : cover (left_q == 2'b11);
  end

  // ---- What lies where ---------------------------------------------------------------------
  // FIFO contents, the oldest first.

  typedef struct packed {
    logic [7:0]           count;
    beat_t [InDepth-1:0]  beat;
  } in_beats_t;
  typedef struct packed {
    logic [7:0]           count;
    hdr_t [InPackets-1:0] hdr;
  } in_hdrs_t;
  typedef struct packed {
    logic [7:0]           count;
    beat_t [OutDepth-1:0] beat;
  } out_beats_t;
  typedef struct packed {
    logic [7:0]            count;
    hdr_t [OutPackets-1:0] hdr;
  } out_hdrs_t;
  typedef struct packed {
    logic [7:0]         count;
    queue_t [NumIn-1:0] queue;
  } list_t;

  in_beats_t [NumQueues-1:0] ib;
  in_hdrs_t [NumQueues-1:0] ih;
  logic [NumQueues-1:0] in_first;
  out_beats_t [NumOut-1:0] ob;
  out_hdrs_t [NumOut-1:0] oh;
  logic [NumOut-1:0] out_first;
  list_t [NumClasses-1:0] queues;
  list_t [NumTypes*NumClasses-1:0] types;  // 2 * type + class

  for (genvar i = 0; i < NumIn; i++) begin : gen_see_in
    for (genvar c = 0; c < NumClasses; c++) begin : gen_class
      always_comb begin
        ib[2*i+c].count = 8'(u_dut.gen_in[i].gen_class[c].u_fifo.gen_regs.u_data.count_q);
        ih[2*i+c].count = 8'(u_dut.gen_in[i].gen_class[c].u_fifo.u_hdr.count_q);
        in_first[2*i+c] = u_dut.gen_in[i].gen_class[c].u_fifo.first_q;
        for (int unsigned k = 0; k < InDepth; k++) begin
          ib[2*i+c].beat[k] = u_dut.gen_in[i].gen_class[c].u_fifo.gen_regs.u_data.mem_q[
              (32'(u_dut.gen_in[i].gen_class[c].u_fifo.gen_regs.u_data.rptr_q) + k) % InDepth];
        end
        for (int unsigned k = 0; k < InPackets; k++) begin
          ih[2*i+c].hdr[k] = u_dut.gen_in[i].gen_class[c].u_fifo.u_hdr.mem_q[
              (32'(u_dut.gen_in[i].gen_class[c].u_fifo.u_hdr.rptr_q) + k) % InPackets].hdr;
        end
      end
      // The type beside the header is the one in the header.
      for (genvar k = 0; k < InPackets; k++) begin : gen_typ
        always_ff @(posedge clk_i) begin
          if (rst_ni) begin
            InvTypeIsHeaders_A : assert (k >= ih[2*i+c].count ||
              u_dut.gen_in[i].gen_class[c].u_fifo.u_hdr.mem_q[
                (32'(u_dut.gen_in[i].gen_class[c].u_fifo.u_hdr.rptr_q) + k) % InPackets].typ
                == ih[2*i+c].hdr[k].typ);
          end
        end
      end
    end
  end

  for (genvar c = 0; c < NumClasses; c++) begin : gen_see_list
    always_comb begin
      queues[c].count = 8'(u_dut.gen_queue[c].u_queue.count_q);
      for (int unsigned k = 0; k < NumIn; k++) begin
        queues[c].queue[k] = u_dut.gen_queue[c].u_queue.mem_q[
            (32'(u_dut.gen_queue[c].u_queue.rptr_q) + k) % NumIn];
      end
    end
    for (genvar t = 0; t < NumTypes; t++) begin : gen_type
      always_comb begin
        types[2*t+c].count = 8'(u_dut.gen_type[t].gen_class[c].u_type.count_q);
        for (int unsigned k = 0; k < NumIn; k++) begin
          types[2*t+c].queue[k] = u_dut.gen_type[t].gen_class[c].u_type.mem_q[
              (32'(u_dut.gen_type[t].gen_class[c].u_type.rptr_q) + k) % NumIn];
        end
      end
    end
  end

  for (genvar o = 0; o < NumOut; o++) begin : gen_see_out
    always_comb begin
      ob[o].count = 8'(u_dut.gen_out[o].u_fifo.gen_regs.u_data.count_q);
      oh[o].count = 8'(u_dut.gen_out[o].u_fifo.u_hdr.count_q);
      out_first[o] = u_dut.gen_out[o].u_fifo.first_q;
      for (int unsigned k = 0; k < OutDepth; k++) begin
        ob[o].beat[k] = u_dut.gen_out[o].u_fifo.gen_regs.u_data.mem_q[
            (32'(u_dut.gen_out[o].u_fifo.gen_regs.u_data.rptr_q) + k) % OutDepth];
      end
      for (int unsigned k = 0; k < OutPackets; k++) begin
        oh[o].hdr[k] = u_dut.gen_out[o].u_fifo.u_hdr.mem_q[
            (32'(u_dut.gen_out[o].u_fifo.u_hdr.rptr_q) + k) % OutPackets];
      end
    end
  end

  // ---- Inv: queue and type FIFOs -----------------------------------------------------------

  logic [NumQueues-1:0][7:0] entered;  // how often each input FIFO's number stands somewhere
  logic [NumQueues-1:0] at_output;     // ... joined to an output
  always_comb begin
    entered = '0;
    at_output = '0;
    for (int unsigned q = 0; q < NumQueues; q++) begin
      for (int unsigned k = 0; k < NumIn; k++) begin
        for (int unsigned c = 0; c < NumClasses; c++) begin
          entered[q] += 8'(k < 32'(queues[c].count) && 32'(queues[c].queue[k]) == q);
        end
        for (int unsigned l = 0; l < NumTypes * NumClasses; l++) begin
          entered[q] += 8'(k < 32'(types[l].count) && 32'(types[l].queue[k]) == q);
        end
      end
      for (int unsigned o = 0; o < NumOut; o++) begin
        if (u_dut.joined_q[o] && 32'(u_dut.source_q[o]) == q) begin
          entered[q] += 8'd1;
          at_output[q] = 1'b1;
        end
      end
    end
  end

  for (genvar q = 0; q < NumQueues; q++) begin : gen_inv_queue
    always_ff @(posedge clk_i) begin
      if (rst_ni) begin
        // A number stands in one place if its packet is registered, else nowhere.
        InvEnteredOnce_A : assert (entered[q] == 8'(u_dut.known_q[q]));
        // While it waits, the whole packet, or what came of it, is at the head.
        InvWaitsWhole_A : assert (!u_dut.known_q[q] || at_output[q] ||
                                  (ib[q].count != '0 && head_place_q[q] == '0));
        InvKnownHasHeader_A : assert (!u_dut.known_q[q] || ih[q].count != '0);
        InvUnknownUntouched_A : assert (u_dut.known_q[q] || head_place_q[q] == '0);
      end
    end
  end

  for (genvar c = 0; c < NumClasses; c++) begin : gen_inv_list
    for (genvar k = 0; k < NumIn; k++) begin : gen_place
      // A list holds numbers of its class, and of its type.
      always_ff @(posedge clk_i) begin
        if (rst_ni) begin
          InvQueueClass_A : assert (k >= queues[c].count || queues[c].queue[k][0] == 1'(c));
        end
      end
      for (genvar t = 0; t < NumTypes; t++) begin : gen_type
        always_ff @(posedge clk_i) begin
          if (rst_ni) begin
            InvTypeClass_A : assert (k >= types[2*t+c].count ||
                                     (types[2*t+c].queue[k][0] == 1'(c) &&
                                      32'(ih[types[2*t+c].queue[k]].hdr[0].typ) == t));
          end
        end
      end
    end
  end

  // ---- Inv: input FIFOs --------------------------------------------------------------------

  for (genvar q = 0; q < NumQueues; q++) begin : gen_inv_in
    place_t place;
    logic places, own, types_exist;
    logic [7:0] whole;  // packets whose last beat is there
    always_comb begin
      place = head_place_q[q];
      places = 1'b1;
      own = 1'b1;
      whole = '0;
      for (int unsigned k = 0; k < InDepth; k++) begin
        if (k < 32'(ib[q].count)) begin
          places &= ib[q].beat[k].data == place;
          own &= whole < ih[q].count && ib[q].beat[k].tail == {2'b00, ih[q].hdr[whole].tag};
          place = after(place, ib[q].beat[k].last);
          whole += 8'(ib[q].beat[k].last);
        end
      end
      types_exist = 1'b1;
      for (int unsigned k = 0; k < InPackets; k++) begin
        if (k < 32'(ih[q].count)) types_exist &= 32'(ih[q].hdr[k].typ) < NumTypes;
      end
    end
    always_ff @(posedge clk_i) begin
      if (rst_ni) begin
        // The beats follow each other from the one at the head to the one that comes next.
        InvInPlaces_A : assert (places && place == in_place_q[q]);
        // Each has its header; a header more is there while a packet is half in.
        InvInOwn_A : assert (own);
        InvInHeaders_A : assert (ih[q].count == whole + 8'(in_place_q[q] != '0));
        InvInFirst_A : assert (in_first[q] == (in_place_q[q] == '0));
        InvInTypes_A : assert (types_exist);
        InvInHalf_A : assert (in_place_q[q] == '0 || (ih[q].count != '0 &&
                              ih[q].hdr[ih[q].count-1] == sent_q[q/2]));
        InvOneClass_A : assert ((in_place_q[q] != '0) == (inside_q[q/2] && 32'(low_q[q/2]) == q % 2));
        // Packets of one beat, where that is assumed.
        InvSingle_A : assert (Bound == 0 || (in_place_q[q] == '0 && head_place_q[q] == '0));
      end
    end
  end
  for (genvar i = 0; i < NumIn; i++) begin : gen_inv_inside
    always_ff @(posedge clk_i) begin
      if (rst_ni) begin
        InvHalfIn_A : assert (u_dut.gen_in[i].inside_q == inside_q[i]);
        InvLow_A : assert (!inside_q[i] || u_dut.gen_in[i].low_q == low_q[i]);
      end
    end
  end

  // ---- Inv: outputs ------------------------------------------------------------------------

  logic [NumOut-1:0] half;  // a packet is half in the output FIFO, half in its input FIFO
  for (genvar o = 0; o < NumOut; o++) begin : gen_inv_out
    place_t place, next_place;
    logic places, own, types_right;
    logic [7:0] whole;
    hdr_t head;  // of the packet at the joined input
    assign head = ih[u_dut.source_q[o]].hdr[0];
    assign next_place = u_dut.joined_q[o] ? head_place_q[u_dut.source_q[o]] : '0;
    assign half[o] = next_place != '0;
    always_comb begin
      place = out_place_q[o];
      places = 1'b1;
      own = 1'b1;
      whole = '0;
      for (int unsigned k = 0; k < OutDepth; k++) begin
        if (k < 32'(ob[o].count)) begin
          places &= ob[o].beat[k].data == place;
          own &= whole < oh[o].count && ob[o].beat[k].tail == {2'b00, oh[o].hdr[whole].tag};
          place = after(place, ob[o].beat[k].last);
          whole += 8'(ob[o].beat[k].last);
        end
      end
      types_right = 1'b1;
      for (int unsigned k = 0; k < OutPackets; k++) begin
        if (k < 32'(oh[o].count)) types_right &= 4'(oh[o].hdr[k].typ) == OutType[4*o+:4];
      end
    end
    always_ff @(posedge clk_i) begin
      if (rst_ni) begin
        // As at the inputs; what comes next is the head of the joined input.
        InvOutPlaces_A : assert (places && place == next_place);
        InvOutOwn_A : assert (own);
        InvOutHeaders_A : assert (oh[o].count == whole + 8'(half[o]));
        InvOutFirst_A : assert (out_first[o] == !half[o]);
        InvOutTypes_A : assert (types_right);
        InvOutHalf_A : assert (!half[o] || (oh[o].count != '0 &&
                               oh[o].hdr[oh[o].count-1] == head));
        // A joined packet is of the output's type, and finds room for its header.
        InvJoinedType_A : assert (!u_dut.joined_q[o] || 4'(head.typ) == OutType[4*o+:4]);
        InvJoinedRoom_A : assert (!u_dut.joined_q[o] || half[o] || 32'(oh[o].count) < OutPackets);
      end
    end
  end

  // ---- Inv: A and B ------------------------------------------------------------------------

  logic [1:0][7:0] copies;         // headers with the tag, one counted once while half moved
  logic [1:0] at_input, stray;     // in the input FIFO; in an input FIFO that is not theirs
  logic [1:0][NumOut-1:0] at_out;  // in an output FIFO
  logic in_order;                  // nowhere is B before A
  always_comb begin
    copies = '0;
    at_input = '0;
    stray = '0;
    at_out = '0;
    in_order = 1'b1;
    for (int unsigned x = 0; x < 2; x++) begin
      for (int unsigned q = 0; q < NumQueues; q++) begin
        for (int unsigned k = 0; k < InPackets; k++) begin
          if (k < 32'(ih[q].count) && ih[q].hdr[k].tag[x]) begin
            copies[x] += 8'd1;
            at_input[x] = 1'b1;
            if (q != 32'(watched_i)) stray[x] = 1'b1;
          end
        end
      end
      for (int unsigned o = 0; o < NumOut; o++) begin
        for (int unsigned k = 0; k < OutPackets; k++) begin
          if (k < 32'(oh[o].count) && oh[o].hdr[k].tag[x]) begin
            copies[x] += 8'd1;
            at_out[x][o] = 1'b1;
          end
        end
        if (half[o] && ih[u_dut.source_q[o]].hdr[0].tag[x]) copies[x] -= 8'd1;
      end
    end
    for (int unsigned l = 0; l < InPackets; l++) begin
      for (int unsigned k = 0; k <= l; k++) begin
        if (l < 32'(ih[watched_i].count) && ih[watched_i].hdr[k].tag[B] &&
            ih[watched_i].hdr[l].tag[A]) in_order = 1'b0;
      end
    end
    for (int unsigned o = 0; o < NumOut; o++) begin
      for (int unsigned l = 0; l < OutPackets; l++) begin
        for (int unsigned k = 0; k <= l; k++) begin
          if (l < 32'(oh[o].count) && oh[o].hdr[k].tag[B] && oh[o].hdr[l].tag[A]) in_order = 1'b0;
        end
      end
      // B began to leave there: A will not.
      if (b_at_q[o] && at_out[A][o]) in_order = 1'b0;
    end
    // B is beyond the input FIFO: so is A.
    if ((at_out[B] != '0 || b_at_q != '0) && at_input[A]) in_order = 1'b0;
  end

  for (genvar x = 0; x < 2; x++) begin : gen_inv_tag
    always_ff @(posedge clk_i) begin
      if (rst_ni) begin
        // No loss: what came and has not left is inside, once.
        InvInside_A : assert (copies[x] == 8'(came_q[x] && !left_q[x]));
        InvLeftCame_A : assert (!left_q[x] || came_q[x]);
        InvNoStray_A : assert (!stray[x]);
      end
    end
  end
  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      InvOrder_A : assert (in_order);
      InvBAfterA_A : assert (!came_q[B] || came_q[A]);
      InvAge_A : assert (came_q[A] || age_q == '0);
      InvBBegan_A : assert (b_at_q == '0 || came_q[B]);
    end
  end

endmodule
