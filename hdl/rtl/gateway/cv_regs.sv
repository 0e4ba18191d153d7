// Registers and table access of the gateway, behind AXI4-Lite.
//
// Function     Identification, counters, events, and one record of one table at a time, as
//              doc/registers.md lists them (constants in gateway_regs_pkg). Index 0 of all paired
//              ports is outbound, 1 inbound.
// Parameters   the gateway's module counts, only to be read out; Sources (of drops, each direction).
// Latency      A read is answered 2 cycles after its address, the lower half of a counter 3; a write 2
//              cycles after the later one of address and data. A table's record that is read comes into
//              RECORD a word a cycle.
// Throughput   One read and one write at a time.
// Comb. paths  none from input to output.
// Stalls       Reads and writes wait 64 cycles after reset, in which counters and RECORD are cleared.
//              While a table access runs (STATUS bit 0), writes to INDEX, COMMAND and the record change
//              nothing and are answered with SLVERR, as is a command for a table that does not exist.
// Interlock    Tables that mark their records empty after reset fill the rest of them with what RECORD
//              holds. So it is locked to zero, its writes answered with SLVERR, until each of the four
//              units has ended its first access, which it does behind that (STATUS bit 3).
// Counters     exact, and reset to 0; what happens shows within 128 cycles.

`include "culvert_assert.svh"

module cv_regs
  import gateway_pkg::*;
  import gateway_regs_pkg::*;
#(
  parameter int unsigned NumPolicy      = 4,
  parameter int unsigned NumSad         = 4,
  parameter int unsigned NumAes         = 4,
  parameter int unsigned NumDes         = 0,
  parameter int unsigned NumGcm         = 0,
  parameter int unsigned NumSha1        = 4,
  parameter int unsigned NumSha256      = 0,
  parameter int unsigned RoundsPerCycle = 2,
  parameter bit          Ecb            = 1'b0,
  parameter bit          Serial         = 1'b0,
  parameter int unsigned Sources        = 4
) (
  input logic clk_i,
  input logic rst_ni,

  input  logic        axil_awvalid_i,
  output logic        axil_awready_o,
  input  logic [15:0] axil_awaddr_i,
  input  logic        axil_wvalid_i,
  output logic        axil_wready_o,
  input  logic [31:0] axil_wdata_i,
  input  logic [3:0]  axil_wstrb_i,
  output logic        axil_bvalid_o,
  input  logic        axil_bready_i,
  output logic [1:0]  axil_bresp_o,
  input  logic        axil_arvalid_i,
  output logic        axil_arready_o,
  input  logic [15:0] axil_araddr_i,
  output logic        axil_rvalid_o,
  input  logic        axil_rready_i,
  output logic [31:0] axil_rdata_o,
  output logic [1:0]  axil_rresp_o,

  // Table ports of cv_spd and cv_sad: `spd_` and `sad_`, each outbound and inbound.
  output logic [1:0]                    spd_valid_o,
  input  logic [1:0]                    spd_ready_i,
  input  logic [1:0][$bits(policy_t)-1:0] spd_data_i,
  output logic [1:0]                    sad_valid_o,
  input  logic [1:0]                    sad_ready_i,
  input  logic [1:0][$bits(sa_t)-1:0]   sad_data_i,
  // Common to all four.
  output logic                          tbl_write_o,
  output logic [1:0]                    tbl_table_o,
  output logic [15:0]                   tbl_index_o,
  output logic [$bits(sa_t)-1:0]        tbl_data_o,  // cv_spd takes the lowest bits

  // Events of cv_sad.
  input  logic      [1:0] event_valid_i,
  output logic      [1:0] event_ready_o,
  input  sa_event_t [1:0] event_i,
  input  logic      [1:0] event_missed_i,
  output logic      [1:0] event_clear_o,
  output logic            irq_o,  // an event waits, or one was missed

  // What passes the gateway's ports in this cycle.
  input logic [1:0]      packet_in_i,   // a last beat came in
  input logic [1:0][4:0] bytes_in_i,    // valid bytes of a beat that came in, else 0
  input logic [1:0]      packet_out_i,
  input logic [1:0][4:0] bytes_out_i,
  // Drops of every module that can drop.
  input logic  [1:0][Sources-1:0] drop_valid_i,
  input drop_e [1:0][Sources-1:0] drop_reason_i
);

  // The record that goes to or came from a table.
  localparam int unsigned RecordWords = ($bits(sa_t) + 31) / 32;
  localparam int unsigned WordWidth = $clog2(RecordWords);  // 6: RECORD has 64 places
  localparam logic [1:0] Okay = 2'b00;
  localparam logic [1:0] SlvErr = 2'b10;

  typedef logic [WordWidth-1:0] word_t;  // its number in the record
  typedef logic [2**WordWidth-1:0][31:0] words_t;

  // The record is there twice: tables take all of it at once, software reads it word by word, which
  // from flip-flops would be the largest mux of the module.
  logic [RecordWords-1:0][31:0] record_q;
  logic [3:0][7:0] shown_q [2**WordWidth];
  logic [15:0] index_q;
  logic [3:0] table_q;
  logic table_write_q, busy_q;
  logic [1:0] spd_valid_q, sad_valid_q;

  function automatic logic [31:0] merge(logic [31:0] old, logic [31:0] data, logic [3:0] strobe);
    for (int unsigned i = 0; i < 4; i++) merge[8*i+:8] = strobe[i] ? data[8*i+:8] : old[8*i+:8];
  endfunction

  // ---- Writes ------------------------------------------------------------------------------

  logic aw_held_q, w_held_q, b_valid_q, writes;
  logic [15:0] waddr_q;
  logic [31:0] wdata_q;
  logic [3:0] wstrb_q;
  logic [1:0] b_resp_q, b_resp;
  logic to_record, commands, counters_ready, record_locked;

  assign axil_awready_o = !aw_held_q && counters_ready;
  assign axil_wready_o  = !w_held_q;
  assign axil_bvalid_o  = b_valid_q;
  assign axil_bresp_o   = b_resp_q;
  assign writes         = aw_held_q && w_held_q && !b_valid_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      aw_held_q <= 1'b0;
      w_held_q  <= 1'b0;
      b_valid_q <= 1'b0;
    end else begin
      if (axil_awvalid_i && axil_awready_o) aw_held_q <= 1'b1;
      else if (writes) aw_held_q <= 1'b0;
      if (axil_wvalid_i && axil_wready_o) w_held_q <= 1'b1;
      else if (writes) w_held_q <= 1'b0;
      if (writes) b_valid_q <= 1'b1;
      else if (axil_bready_i) b_valid_q <= 1'b0;
    end
  end

  always_ff @(posedge clk_i) begin
    if (axil_awvalid_i && axil_awready_o) waddr_q <= {axil_awaddr_i[15:2], 2'b00};
    if (axil_wvalid_i && axil_wready_o) begin
      wdata_q <= axil_wdata_i;
      wstrb_q <= axil_wstrb_i;
    end
    if (writes) b_resp_q <= b_resp;
  end

  // A command names a table: bits 2:0 the kind, bit 3 the direction.
  logic [2:0] kind;
  logic exists;
  assign kind = wdata_q[2:0];
  assign exists = wdata_q[7:4] == '0 &&
                  (kind <= TableOutStates[2:0] || wdata_q[3:0] == TableInSaBuckets);
  assign to_record = waddr_q[15:8] == RegRecord[15:8];

  always_comb begin
    b_resp = Okay;
    if ((to_record || waddr_q inside {RegCommand, RegIndex}) && busy_q) b_resp = SlvErr;
    if (to_record && record_locked) b_resp = SlvErr;
    if (waddr_q == RegCommand && !exists) b_resp = SlvErr;
  end
  assign commands = writes && waddr_q == RegCommand && b_resp == Okay;

  // ---- Table accesses ----------------------------------------------------------------------

  // A table's answer stays until its next access, so it is copied into the record word by word: a
  // record that took it at once would need a mux for each of its bits. A word is read out of the
  // answer in one cycle (`copies`), and lands in the record in the next. Each group of eight words
  // counts for itself: one counter for all would drive a thousand muxes that lie far apart.
  localparam int unsigned GroupBits = 3;
  localparam int unsigned Groups = 2 ** (WordWidth - GroupBits);
  logic done, copies_q, lands_q, of_spd, last_word;
  word_t word_q, landing_q;
  logic [WordWidth-GroupBits-1:0] group;
  logic [Groups-1:0][GroupBits-1:0] inside_q;  // the group's word
  logic [1:0][Groups-1:0][31:0] spd_word, sad_word;
  logic [31:0] answer_q;

  assign done      = ((spd_valid_q & spd_ready_i) | (sad_valid_q & sad_ready_i)) != '0;
  assign of_spd    = table_q[2:0] <= TableOutShapes[2:0];
  assign last_word = word_q == word_t'(RecordWords - 1);
  assign group     = word_q[WordWidth-1:GroupBits];

  for (genvar d = 0; d < 2; d++) begin : gen_answer
    words_t spd_words, sad_words;
    assign spd_words = $bits(words_t)'(spd_data_i[d]);
    assign sad_words = $bits(words_t)'(sad_data_i[d]);
    for (genvar g = 0; g < Groups; g++) begin : gen_group
      assign spd_word[d][g] = spd_words[{(WordWidth-GroupBits)'(g), inside_q[g]}];
      assign sad_word[d][g] = sad_words[{(WordWidth-GroupBits)'(g), inside_q[g]}];
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      inside_q <= '0;
    end else begin
      for (int unsigned g = 0; g < Groups; g++) begin
        if (!copies_q) inside_q[g] <= '0;
        else if (32'(group) == g) inside_q[g] <= inside_q[g] + 1'b1;
      end
    end
  end

  always_ff @(posedge clk_i) begin
    answer_q  <= of_spd ? spd_word[table_q[3]][group] : sad_word[table_q[3]][group];
    landing_q <= word_q;
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      busy_q      <= 1'b0;
      copies_q    <= 1'b0;
      lands_q     <= 1'b0;
      word_q      <= '0;
      spd_valid_q <= '0;
      sad_valid_q <= '0;
    end else if (!counters_ready) begin
      word_q <= word_q + 1'b1;  // through all of RECORD
    end else if (commands) begin
      busy_q <= 1'b1;
      spd_valid_q[wdata_q[3]] <= kind <= TableOutShapes[2:0];
      sad_valid_q[wdata_q[3]] <= kind > TableOutShapes[2:0];
    end else if (done) begin
      busy_q      <= !table_write_q;
      copies_q    <= !table_write_q;
      spd_valid_q <= '0;
      sad_valid_q <= '0;
    end else if (copies_q || lands_q) begin
      busy_q   <= copies_q;
      copies_q <= copies_q && !last_word;
      lands_q  <= copies_q;
      word_q   <= (copies_q && !last_word) ? word_q + 1'b1 : '0;
    end
  end

  // Units that have ended no access since reset, and may still be marking their records empty.
  logic [1:0] spd_locked_q, sad_locked_q;
  assign record_locked = {spd_locked_q, sad_locked_q} != '0;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      spd_locked_q <= '1;
      sad_locked_q <= '1;
    end else begin
      spd_locked_q <= spd_locked_q & ~(spd_valid_q & spd_ready_i);
      sad_locked_q <= sad_locked_q & ~(sad_valid_q & sad_ready_i);
    end
  end

  // What comes into the record: zero after reset, a word of the answer, or bytes that software writes.
  logic [3:0] record_write;
  word_t record_word;
  logic [31:0] record_data;
  always_comb begin
    record_word  = waddr_q[2+:WordWidth];
    record_data  = wdata_q;
    record_write = (writes && b_resp == Okay && to_record) ? wstrb_q : '0;
    if (lands_q) begin
      record_word  = landing_q;
      record_data  = answer_q;
      record_write = '1;
    end else if (!counters_ready) begin
      record_word  = word_q;
      record_data  = '0;
      record_write = '1;
    end
    if (32'(record_word) >= RecordWords) record_write = '0;
  end

  always_ff @(posedge clk_i) begin
    if (commands) begin
      table_q       <= wdata_q[3:0];
      table_write_q <= wdata_q[8];
    end
    if (writes && b_resp == Okay) begin
      if (waddr_q == RegIndex) begin
        index_q <= 16'(merge({16'd0, index_q}, wdata_q, wstrb_q));
      end
    end
    for (int unsigned b = 0; b < 4; b++) begin
      if (record_write[b]) shown_q[record_word][b] <= record_data[8*b+:8];
    end
  end

  // Tables that mark their records empty fill them with this meanwhile: with zeros.
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      record_q <= '0;
    end else begin
      for (int unsigned b = 0; b < 4; b++) begin
        if (record_write[b]) record_q[record_word][8*b+:8] <= record_data[8*b+:8];
      end
    end
  end

  assign spd_valid_o = spd_valid_q;
  assign sad_valid_o = sad_valid_q;
  assign tbl_write_o = table_write_q;
  // SAs, states and SA buckets are tables 0 to 2 of cv_sad, behind cv_spd's three.
  assign tbl_table_o = (table_q[2:0] > TableOutShapes[2:0]) ?
                       2'(table_q[2:0] - TableOutSas[2:0]) : table_q[1:0];
  assign tbl_index_o = index_q;
  assign tbl_data_o  = $bits(sa_t)'(record_q);
  logic unused;  // the last word has more bits than the record
  assign unused = ^record_q[RecordWords-1];

  // ---- Events ------------------------------------------------------------------------------

  logic pops, event_pick;
  logic [1:0] clears_q;
  assign event_pick = !event_valid_i[0];  // outbound first
  assign event_ready_o[0] = pops && event_valid_i[0];
  assign event_ready_o[1] = pops && !event_valid_i[0];
  assign event_clear_o = clears_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      irq_o    <= 1'b0;
      clears_q <= '0;
    end else begin
      irq_o    <= event_valid_i != '0 || event_missed_i != '0;
      clears_q <= (writes && waddr_q == RegStatus && wstrb_q[0]) ? wdata_q[2:1] : '0;
    end
  end

  // ---- Counters ----------------------------------------------------------------------------

  // Small sums run freely; in turn each is added to its counter in a memory.
  localparam int unsigned CounterBits = 5;  // of one direction
  localparam int unsigned Counters = CounterDrops + NumDrops;
  localparam int unsigned SumBits = 14;
  typedef logic [CounterBits:0] counter_t;  // highest bit: direction
  typedef logic [SumBits-1:0] sum_t;

  logic [1:0][Sources-1:0] drop_valid_q;
  drop_e [1:0][Sources-1:0] drop_reason_q;
  sum_t [1:0][Counters-1:0] sum_q, step;
  counter_t turn_q, added_q, read_counter;
  logic adds_q, reads_counter;
  sum_t picked;
  logic [63:0] counter, counter_next;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) drop_valid_q <= '0;
    else drop_valid_q <= drop_valid_i;
  end
  always_ff @(posedge clk_i) drop_reason_q <= drop_reason_i;

  always_comb begin
    step = '0;
    for (int unsigned d = 0; d < 2; d++) begin
      step[d][CounterPacketsIn]  = sum_t'(packet_in_i[d]);
      step[d][CounterPacketsOut] = sum_t'(packet_out_i[d]);
      step[d][CounterBytesIn]    = sum_t'(bytes_in_i[d]);
      step[d][CounterBytesOut]   = sum_t'(bytes_out_i[d]);
      for (int unsigned k = 0; k < NumDrops; k++) begin
        for (int unsigned i = 0; i < Sources; i++) begin
          step[d][CounterDrops+k] += sum_t'(drop_valid_q[d][i] && 32'(drop_reason_q[d][i]) == k);
        end
      end
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      sum_q  <= '0;
      turn_q <= '0;
      adds_q <= 1'b0;
    end else begin
      for (int unsigned d = 0; d < 2; d++) begin
        for (int unsigned k = 0; k < Counters; k++) begin
          sum_q[d][k] <= step[d][k];
          if (!(adds_q && 32'(added_q) == (d << CounterBits) + k)) begin
            sum_q[d][k] <= sum_q[d][k] + step[d][k];
          end
        end
      end
      // A read by software takes the memory for a cycle.
      adds_q <= counters_ready && !reads_counter;
      if (counters_ready && !reads_counter) turn_q <= turn_q + 1'b1;
    end
  end
  always_ff @(posedge clk_i) added_q <= turn_q;

  // First which sum, then one adder: an adder for each sum would be most of the module.
  always_comb begin
    picked = '0;
    for (int unsigned d = 0; d < 2; d++) begin
      for (int unsigned k = 0; k < Counters; k++) begin
        if (32'(added_q) == (d << CounterBits) + k) picked = picked | sum_q[d][k];
      end
    end
  end
  assign counter_next = counter + 64'(picked);

  cv_table_ram #(
    .T   (logic [63:0]),
    .Bits(CounterBits + 1)
  ) u_counters (
    .clk_i,
    .rst_ni,
    .ready_o      (counters_ready),
    .write_i      (adds_q),
    .write_index_i(added_q),
    .write_data_i (counter_next),
    .read_index_i (reads_counter ? read_counter : turn_q),
    .read_data_o  (counter)
  );

  // ---- Reads -------------------------------------------------------------------------------

  typedef enum logic [1:0] {
    RdIdle,
    RdDecode,
    RdCounter,
    RdDone
  } rd_e;
  rd_e rd_q;
  logic [15:0] raddr_q;
  logic [31:0] rdata_q, rdata, high_q;
  logic of_counter;

  assign axil_arready_o = rd_q == RdIdle && counters_ready;
  assign axil_rvalid_o  = rd_q == RdDone;
  assign axil_rdata_o   = rdata_q;
  assign axil_rresp_o   = Okay;

  assign of_counter    = raddr_q[15:9] == RegCounter[15:9];
  assign reads_counter = rd_q == RdDecode && of_counter && !raddr_q[2];
  assign read_counter  = raddr_q[8:3];
  assign pops          = rd_q == RdDecode && raddr_q == RegEvent;

  always_comb begin
    rdata = '0;
    unique case (raddr_q)
      RegMagic:   rdata = Magic;
      RegVersion: rdata = Version;
      RegModules: rdata = {8'(NumPolicy), 8'(NumSad), 8'(NumAes), 8'(NumDes)};
      RegLanes:   rdata = {8'(NumGcm), 8'(NumSha1), 8'(NumSha256), 8'(RoundsPerCycle)};
      RegModes:   rdata = {30'd0, Serial, Ecb};
      RegSizes:   rdata = {8'(SaBits), 8'(PolicyBits), 8'(BucketBits), 8'(Shapes)};
      RegLimits:  rdata = {16'(MaxBytes), 16'(ReplayWindow)};
      RegCommand: rdata = {23'd0, table_write_q, 4'd0, table_q};
      RegIndex:   rdata = {16'd0, index_q};
      RegStatus:  rdata = {28'd0, record_locked, event_missed_i, busy_q};
      RegEvent: begin
        if (event_valid_i != '0) begin
          rdata = {1'b1, event_pick, event_i[event_pick].kind, 12'd0,
                   16'(event_i[event_pick].sa)};
        end
      end
      default: begin
        if (raddr_q >= RegRecord && raddr_q < RegRecord + 16'(4 * RecordWords)) begin
          rdata = shown_q[raddr_q[2+:WordWidth]];
        end
        if (of_counter) rdata = high_q;
      end
    endcase
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      rd_q <= RdIdle;
    end else begin
      unique case (rd_q)
        RdIdle:    if (axil_arvalid_i && axil_arready_o) rd_q <= RdDecode;
        RdDecode:  rd_q <= reads_counter ? RdCounter : RdDone;
        RdCounter: rd_q <= RdDone;
        default:   if (axil_rready_i) rd_q <= RdIdle;
      endcase
    end
  end

  always_ff @(posedge clk_i) begin
    if (axil_arvalid_i && axil_arready_o) raddr_q <= {axil_araddr_i[15:2], 2'b00};
    if (rd_q == RdDecode) rdata_q <= rdata;
    if (rd_q == RdCounter) begin
      rdata_q <= (read_counter[CounterBits-1:0] < CounterBits'(Counters)) ? counter[31:0] : '0;
      high_q  <= (read_counter[CounterBits-1:0] < CounterBits'(Counters)) ? counter[63:32] : '0;
    end
  end

  // ---- Assertions --------------------------------------------------------------------------

  // The sums between two turns fit.
  `CV_ASSERT(SumFits_A, 32'(Sources) * 128 < 2 ** SumBits)
  // RECORD is cleared in the time that the counters take.
  `CV_ASSERT(RecordSwept_A, WordWidth <= CounterBits + 1)
  // Into a record that is locked comes nothing but zeros.
  `CV_ASSERT(LockedIsZero_A, !record_locked || record_write == '0 || record_data == '0)
  // One table access at a time.
  `CV_ASSERT(OneAccess_A, (busy_q && !copies_q && !lands_q) ?
                              $onehot({spd_valid_q, sad_valid_q}) :
                              {spd_valid_q, sad_valid_q} == '0)
  `CV_ASSERT(CopyIsBusy_A, !(copies_q || lands_q) || busy_q)
  // The group that is read stands at its word.
  `CV_ASSERT(GroupInStep_A, !copies_q || inside_q[group] == word_q[GroupBits-1:0])
  // What is copied stays as it is.
  `CV_ASSERT_STABLE(AnswerStable_A, copies_q, last_word,
                    (of_spd ? $bits(sa_t)'(spd_data_i[table_q[3]]) : sad_data_i[table_q[3]]))
  `CV_ASSERT_STABLE(ReadStable_A, axil_rvalid_o, axil_rready_i, axil_rdata_o)
  `CV_ASSERT_STABLE(WriteStable_A, axil_bvalid_o, axil_bready_i, axil_bresp_o)

endmodule
