// The verilated gateway behind the C interface of gateway.h: clocks, reset, streams, AXI4-Lite.

#include "gateway.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <random>
#include <vector>

#include "Vtop.h"
#include "verilated.h"

namespace {

constexpr size_t kBeatBytes = 16;
using Packet = std::vector<uint8_t>;

// Percentage of cycles in which something happens, by random numbers.
class Chance {
 public:
  void set(unsigned percent, uint64_t seed) {
    percent_ = percent;
    random_.seed(seed);
  }
  bool hit() { return percent_ != 0 && random_() % 100 < percent_; }

 private:
  unsigned percent_ = 0;
  std::mt19937_64 random_;
};

// The queue in front of an AXI4-Stream input. `drive` runs once a cycle, after the clock's edge.
class Input {
 public:
  void push(const uint8_t *packet, size_t bytes) { queue_.emplace_back(packet, packet + bytes); }
  size_t queued() const { return queue_.size(); }

  // The beat on the lines was taken at the edge that is now.
  bool take() {
    if (!valid_) return false;
    offset_ += kBeatBytes;
    valid_ = false;
    if (offset_ < queue_.front().size()) return false;
    queue_.pop_front();
    offset_ = 0;
    return true;
  }

  template <typename Data>
  void drive(CData &valid, Data &data, SData &keep, CData &last) {
    if (!valid_ && !queue_.empty() && !idle.hit()) {
      const Packet &packet = queue_.front();
      const size_t bytes = std::min(kBeatBytes, packet.size() - offset_);
      uint8_t beat[kBeatBytes] = {};
      std::memcpy(beat, packet.data() + offset_, bytes);
      for (size_t word = 0; word < kBeatBytes / 4; word++) {
        data[word] = beat[4 * word] | beat[4 * word + 1] << 8 | beat[4 * word + 2] << 16 |
                     uint32_t{beat[4 * word + 3]} << 24;
      }
      keep = static_cast<SData>((1u << bytes) - 1);
      last = offset_ + bytes == packet.size();
      valid_ = true;
    }
    valid = valid_;
  }

  void clear() {
    queue_.clear();
    offset_ = 0;
    valid_ = false;
  }

  Chance idle;

 private:
  std::deque<Packet> queue_;
  size_t offset_ = 0;  // of the beat on the lines in the first packet
  bool valid_ = false;
};

// The queue behind an AXI4-Stream output.
class Output {
 public:
  // A beat came out at the edge that is now; returns whether it ended a packet.
  template <typename Data>
  bool take(const Data &data, SData keep, bool last) {
    for (size_t i = 0; i < kBeatBytes; i++) {
      if (keep >> i & 1) current_.push_back(static_cast<uint8_t>(data[i / 4] >> 8 * (i % 4)));
    }
    if (!last) return false;
    queue_.push_back(std::move(current_));
    current_.clear();
    return true;
  }

  size_t pull(uint8_t *packet, size_t capacity) {
    if (queue_.empty()) return 0;
    const size_t bytes = queue_.front().size();
    if (bytes <= capacity) {
      std::memcpy(packet, queue_.front().data(), bytes);
      queue_.pop_front();
    }
    return bytes;
  }

  void clear() {
    queue_.clear();
    current_.clear();
  }

  Chance stall;

 private:
  std::deque<Packet> queue_;
  Packet current_;
};

}  // namespace

struct cv_gateway {
  cv_gateway() : top(&context) {
    top.clk_i = 0;
    top.sad_clk_i = 1;
    top.axil_bready_i = top.axil_rready_i = 1;
    top.axil_wstrb_i = 15;
    reset();
  }
  ~cv_gateway() { top.final(); }

  void reset() {
    for (int side = 0; side < 2; side++) {
      inputs[side].clear();
      outputs[side].clear();
      traffic[side] = {};
    }
    next = Lines();
    top.rst_ni = 0;
    top.sad_rst_ni = 0;
    top.axil_awvalid_i = top.axil_wvalid_i = top.axil_arvalid_i = 0;
    top.prot_rx_tvalid_i = top.unprot_rx_tvalid_i = 0;
    top.prot_tx_tready_i = top.unprot_tx_tready_i = 0;
    top.eval();
    for (int i = 0; i < 4; i++) clock();
    top.rst_ni = 1;
    top.sad_rst_ni = 1;
    clock();
    cycles = 0;
  }

  // One cycle of the clock. Outputs do not depend on inputs within a cycle (cv_gateway has no such
  // paths), so what they show before the edge decides with what the inputs were given after the last.
  void tick() {
    if (top.prot_rx_tvalid_i && top.prot_rx_tready_o) entered(CV_PROTECTED);
    if (top.unprot_rx_tvalid_i && top.unprot_rx_tready_o) entered(CV_UNPROTECTED);
    if (top.prot_tx_tvalid_o && top.prot_tx_tready_i) {
      left(CV_PROTECTED, top.prot_tx_tdata_o, top.prot_tx_tkeep_o, top.prot_tx_tlast_o);
    }
    if (top.unprot_tx_tvalid_o && top.unprot_tx_tready_i) {
      left(CV_UNPROTECTED, top.unprot_tx_tdata_o, top.unprot_tx_tkeep_o, top.unprot_tx_tlast_o);
    }
    inputs[CV_PROTECTED].drive(next.valid[0], next.data[0], next.keep[0], next.last[0]);
    inputs[CV_UNPROTECTED].drive(next.valid[1], next.data[1], next.keep[1], next.last[1]);
    clock();
    cycles++;
  }

  // Both edges of the clock, with the SAD's edges where they fall. New inputs appear right after the
  // rising edge.
  void clock() {
    edge(top.clk_i, 1);
    top.prot_rx_tvalid_i = next.valid[0];
    top.unprot_rx_tvalid_i = next.valid[1];
    top.prot_rx_tdata_i = next.data[0];
    top.unprot_rx_tdata_i = next.data[1];
    top.prot_rx_tkeep_i = next.keep[0];
    top.unprot_rx_tkeep_i = next.keep[1];
    top.prot_rx_tlast_i = next.last[0];
    top.unprot_rx_tlast_i = next.last[1];
    top.prot_tx_tready_i = !outputs[CV_PROTECTED].stall.hit();
    top.unprot_tx_tready_i = !outputs[CV_UNPROTECTED].stall.hit();
    edge(top.clk_i, 0);
  }

  void edge(CData &line, CData level) {
    constexpr unsigned half_period = 500;  // of the main clock, in per mille of its period
    unsigned left = half_period;
    while (sad_left < left) {
      left -= sad_left;
      flip_sad();
      top.eval();
    }
    sad_left -= left;
    if (sad_left == 0) flip_sad();
    line = level;
    top.eval();
  }

  void flip_sad() {
    top.sad_clk_i = !top.sad_clk_i;
    sad_left = sad_half_period;
  }

  void entered(cv_side side) {
    if (traffic[side].first_beat_in == 0) traffic[side].first_beat_in = cycles;
    if (inputs[side].take()) traffic[side].packets_in++;
  }

  template <typename Data>
  void left(cv_side side, const Data &data, SData keep, bool last) {
    if (!outputs[side].take(data, keep, last)) return;
    traffic[side].packets_out++;
    traffic[side].last_beat_out = cycles;
  }

  VerilatedContext context;
  Vtop top;
  uint64_t cycles = 0;
  // The SAD's clock: half its period, and what is left to its next edge, in per mille of the main
  // clock's period. With equal periods it rises where the main clock falls.
  unsigned sad_half_period = 500;
  unsigned sad_left = 500;

  Input inputs[2];
  Output outputs[2];
  cv_traffic traffic[2] = {};
  // What the inputs will show after the next rising edge.
  struct Lines {
    CData valid[2] = {};
    VlWide<4> data[2] = {};
    SData keep[2] = {};
    CData last[2] = {};
  };
  Lines next;
};

cv_gateway *cv_gateway_new(void) { return new cv_gateway(); }

void cv_gateway_free(cv_gateway *gateway) { delete gateway; }

void cv_gateway_reset(cv_gateway *gateway) { gateway->reset(); }

void cv_gateway_tick(cv_gateway *gateway, uint64_t cycles) {
  for (uint64_t i = 0; i < cycles; i++) gateway->tick();
}

uint64_t cv_gateway_cycles(const cv_gateway *gateway) { return gateway->cycles; }

void cv_gateway_push(cv_gateway *gateway, cv_side side, const uint8_t *packet, size_t bytes) {
  if (bytes != 0) gateway->inputs[side].push(packet, bytes);
}

size_t cv_gateway_queued(const cv_gateway *gateway, cv_side side) {
  return gateway->inputs[side].queued();
}

size_t cv_gateway_pull(cv_gateway *gateway, cv_side side, uint8_t *packet, size_t capacity) {
  return gateway->outputs[side].pull(packet, capacity);
}

uint32_t cv_gateway_read(cv_gateway *gateway, uint16_t address) {
  Vtop &top = gateway->top;
  top.axil_araddr_i = address;
  top.axil_arvalid_i = 1;
  while (true) {
    const bool taken = top.axil_arvalid_i && top.axil_arready_o;
    const bool answered = top.axil_rvalid_o;
    const uint32_t value = top.axil_rdata_o;
    gateway->tick();
    if (taken) top.axil_arvalid_i = 0;
    if (answered) return value;
  }
}

void cv_gateway_write(cv_gateway *gateway, uint16_t address, uint32_t value) {
  Vtop &top = gateway->top;
  top.axil_awaddr_i = address;
  top.axil_wdata_i = value;
  top.axil_awvalid_i = 1;
  top.axil_wvalid_i = 1;
  while (true) {
    const bool address_taken = top.axil_awvalid_i && top.axil_awready_o;
    const bool data_taken = top.axil_wvalid_i && top.axil_wready_o;
    const bool answered = top.axil_bvalid_o;
    gateway->tick();
    if (address_taken) top.axil_awvalid_i = 0;
    if (data_taken) top.axil_wvalid_i = 0;
    if (answered) return;
  }
}

int cv_gateway_irq(const cv_gateway *gateway) { return gateway->top.irq_o; }

void cv_gateway_disturb(cv_gateway *gateway, unsigned idle_percent, unsigned stall_percent,
                        uint64_t seed) {
  for (unsigned side = 0; side < 2; side++) {
    gateway->inputs[side].idle.set(idle_percent, seed + 2 * side);
    gateway->outputs[side].stall.set(stall_percent, seed + 2 * side + 1);
  }
}

void cv_gateway_sad_period(cv_gateway *gateway, unsigned per_mille) {
  gateway->sad_half_period = per_mille / 2;
}

cv_traffic cv_gateway_traffic(const cv_gateway *gateway, cv_side side) {
  return gateway->traffic[side];
}
