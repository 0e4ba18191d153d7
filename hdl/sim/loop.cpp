// Sends random packets through a simulated gateway, out and back in: what comes out at its unprotected
// side is checked by esp.cpp and goes into the same side again, so what comes out at the protected side
// must be what went in there.
//
//   loop PACKETS [SEED]
//
// There is an SA for every suite that the gateway has, in tunnel and transport mode, for IPv4 and IPv6,
// with and without extended sequence numbers (which cross 2^32). Some packets are made to be dropped, on
// the way out or back: each reason's counter must say exactly how many. Inputs pause and outputs stall
// at random. Prints what was covered; status 1 if anything is wrong, lost, doubled or never happened.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <string>

#include "esp.h"

namespace {

constexpr size_t kMaxPacketBytes = 9216;
constexpr size_t kInside = 100;         // packets under way at a time, less than the replay window
constexpr uint64_t kPatience = 100000;  // cycles without a packet
constexpr uint16_t kBypassPort = 500, kDiscardPort = 9, kNoSaPort = 7, kLimitPort = 13;
constexpr unsigned kLimit = 10;         // packets that the limited SA lets through
constexpr unsigned kSpiBase = 0x1000;

struct Tally {
  std::array<uint64_t, kNumDrops> drops = {};
  uint64_t &operator[](Drop reason) { return drops[static_cast<unsigned>(reason)]; }
};

class Loop {
 public:
  Loop(size_t packets, uint64_t seed) : packets_(packets), random_(seed), gateway_(cv_gateway_new()),
                                        tables_(gateway_) {
    load();
    cv_gateway_disturb(gateway_, 20, 20, seed);
    cv_gateway_sad_period(gateway_, 700 + seed % 7 * 100);
  }
  ~Loop() { cv_gateway_free(gateway_); }
  Loop(const Loop &) = delete;
  Loop &operator=(const Loop &) = delete;

  bool run();

 private:
  struct Flow {
    Sa sa;
    std::string name;
    std::set<uint64_t> numbers;  // seen on the wire
    uint64_t first = 0;          // the first number
    uint64_t returned = 0;       // packets that came back
  };

  uint64_t pick(uint64_t count) { return random_() % count; }
  bool one_in(unsigned count) { return pick(count) == 0; }
  Bytes noise(size_t count);

  void load();
  void add_flow(const Sa &suite, const std::string &name, bool tunnel, bool v6, bool esn);
  void add_policies(Direction direction);
  void add_port_policies(Direction direction);

  Selector selector(size_t flow, bool v6);
  void send();
  void from_unprotected(const Bytes &wire);
  void from_protected(const Bytes &packet);
  void inject(const Bytes &wire);
  void step();
  size_t inside() const { return expected_.size(); }
  void expect(const Bytes &packet, size_t flow);

  bool account();
  bool covered();

  size_t packets_;
  std::mt19937_64 random_;
  cv_gateway *gateway_;
  Tables tables_;
  std::vector<Flow> flows_;
  std::map<uint32_t, size_t> by_spi_;
  size_t sent_ = 0;
  unsigned limited_ = 0;  // packets sent to the limited SA
  size_t limit_flow_ = 0;
  std::map<Bytes, size_t> expected_;  // packets that are to come back, and their flow
  std::map<Bytes, size_t> to_wire_;   // packets that are to come out as ESP or in clear
  Tally out_, in_;
  uint64_t replays_ = 0;
  uint64_t bypassed_ = 0;
  std::map<std::string, uint64_t> sizes_;
  uint64_t last_progress_ = 0;
};

constexpr size_t kNoFlow = ~size_t{0};

Bytes Loop::noise(size_t count) {
  Bytes bytes(count);
  for (uint8_t &byte : bytes) byte = static_cast<uint8_t>(random_());
  return bytes;
}

void Loop::add_flow(const Sa &suite, const std::string &name, bool tunnel, bool v6, bool esn) {
  Flow flow;
  const size_t index = flows_.size();
  flow.sa = suite;
  flow.sa.tunnel = tunnel;
  flow.sa.v6 = v6;
  flow.sa.esn = esn;
  flow.sa.spi = static_cast<uint32_t>(kSpiBase + index);
  flow.sa.reqid = static_cast<unsigned>(index);
  flow.sa.hop_limit = static_cast<uint8_t>(1 + pick(255));
  flow.sa.copy_df = one_in(2);
  flow.sa.salt = static_cast<uint32_t>(random_());
  if (tunnel && v6) {
    flow.sa.src = {0x20, 1, 0xd, 0xb8, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
    flow.sa.dst = {0x20, 1, 0xd, 0xb8, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2};
  } else if (tunnel) {
    flow.sa.src = {192, 0, 2, 1};
    flow.sa.dst = {192, 0, 2, 2};
  } else {
    flow.sa.dst = selector(index, v6).dst;
  }
  flow.first = esn ? (uint64_t{1} << 32) - 3 : pick(1 << 30) + 1;
  flow.name = name + (tunnel ? " tunnel" : " transport") + (v6 ? " v6" : " v4") + (esn ? " esn" : "");
  const unsigned out = tables_.add_sa(Direction::kOutbound, flow.sa, flow.first - 1);
  const unsigned in = tables_.add_sa(Direction::kInbound, flow.sa, flow.first - 1);
  if (out != index || in != index) throw std::logic_error("SA indices");
  by_spi_[flow.sa.spi] = index;
  flows_.push_back(flow);
}

// The destination says the flow: 10.1.<flow>.0/24 or 2001:db8:1:<flow>::/64, host 1 always.
Selector Loop::selector(size_t flow, bool v6) {
  Selector selector;
  selector.v6 = v6;
  selector.proto = kProtoUdp;
  const uint8_t number = static_cast<uint8_t>(flow);
  if (v6) {
    selector.src = {0x20, 1, 0xd, 0xb8, 0, 2, 0, number, 0, 0, 0, 0, 0, 0, 0, 7};
    selector.dst = {0x20, 1, 0xd, 0xb8, 0, 1, 0, number, 0, 0, 0, 0, 0, 0, 0, 1};
  } else {
    selector.src = {10, 2, number, 7};
    selector.dst = {10, 1, number, 1};
  }
  return selector;
}

void Loop::load() {
  // What this gateway was built with.
  const Modules modules = tables_.modules();
  std::vector<std::pair<Auth, std::string>> auths;
  if (modules.sha1 != 0) auths.push_back({Auth::kSha1, "sha1"});
  if (modules.sha256 != 0) auths.push_back({Auth::kSha256, "sha256"});

  std::vector<std::pair<Sa, std::string>> suites;
  auto suite = [&](Cipher cipher, size_t key_bytes, Auth auth, const std::string &name) {
    Sa sa;
    sa.cipher = cipher;
    sa.auth = auth;
    sa.key = noise(key_bytes);
    sa.auth_key = noise(auth == Auth::kSha256 ? 32 : 20);
    suites.push_back({sa, name});
  };
  for (const auto &[auth, name] : auths) {
    for (size_t bytes : {16, 24, 32}) {
      if (modules.aes == 0) continue;
      suite(Cipher::kAesCbc, bytes, auth, "aes" + std::to_string(8 * bytes) + "-cbc " + name);
    }
    if (modules.des != 0) suite(Cipher::kDes, 8, auth, "des-cbc " + name);
    if (modules.des != 0) suite(Cipher::k3Des, 24, auth, "3des-cbc " + name);
  }
  for (size_t bytes : {16, 24, 32}) {
    if (modules.gcm == 0) continue;
    suite(Cipher::kAesGcm, bytes, Auth::kNone, "aes" + std::to_string(8 * bytes) + "-gcm");
  }
  for (const auto &[sa, name] : suites) {
    for (unsigned i = 0; i < 8; i++) add_flow(sa, name, i & 1, i & 2, i & 4);
  }
  limit_flow_ = flows_.size();
  Sa limited = suites.front().first;
  limited.hard_packets = kLimit;
  add_flow(limited, "limited", true, false, false);

  for (Direction direction : {Direction::kOutbound, Direction::kInbound}) {
    for (bool v6 : {false, true}) {
      Shape network;
      network.v6 = v6;
      network.dst_bits = v6 ? 64 : 24;
      tables_.add_shape(direction, network);
      Shape port;
      port.v6 = v6;
      port.proto = port.dport = true;
      tables_.add_shape(direction, port);
    }
    add_policies(direction);
    add_port_policies(direction);
  }
}

// Shape 0 (IPv6: 2): each flow's network is protected by its SA. In tunnel mode packets of both
// versions go there.
void Loop::add_policies(Direction direction) {
  for (size_t i = 0; i < flows_.size(); i++) {
    for (bool v6 : {false, true}) {
      if (!flows_[i].sa.tunnel && flows_[i].sa.v6 != v6) continue;
      Policy policy;
      policy.shape = v6 ? 2 : 0;
      policy.selector = selector(i, v6);
      policy.action = Action::kProtect;
      policy.low = i % 3 == 0;
      policy.priority = 20;
      policy.sa = static_cast<unsigned>(i);
      tables_.add_policy(direction, policy);
    }
  }
}

// Shape 1 (IPv6: 3): some UDP ports have a fate of their own, wherever they go.
void Loop::add_port_policies(Direction direction) {
  const struct {
    uint16_t port;
    Action action;
    unsigned sa;
  } fates[] = {{kBypassPort, Action::kBypass, 0},
               {kDiscardPort, Action::kDiscard, 0},
               {kNoSaPort, Action::kProtect, 1000},  // an SA that is not there
               {kLimitPort, Action::kProtect, static_cast<unsigned>(limit_flow_)}};
  for (const auto &fate : fates) {
    for (bool v6 : {false, true}) {
      Policy policy;
      policy.shape = v6 ? 3 : 1;
      policy.selector.v6 = v6;
      policy.selector.proto = kProtoUdp;
      policy.selector.dport = fate.port;
      policy.action = fate.action;
      policy.priority = 10;
      policy.sa = fate.sa;
      tables_.add_policy(direction, policy);
    }
  }
}

void Loop::expect(const Bytes &packet, size_t flow) {
  expected_[packet] = flow;
  to_wire_[packet] = flow;
}

// One packet into the protected side.
void Loop::send() {
  size_t flow = pick(flows_.size() - 1);
  const Sa &sa = flows_[flow].sa;
  const bool v6 = sa.tunnel ? one_in(2) : sa.v6;
  Selector where = selector(flow, v6);
  where.sport = static_cast<uint16_t>(sent_);
  where.dport = static_cast<uint16_t>(1024 + pick(1000));
  const size_t least = (v6 ? kIpv6Bytes : kIpv4Bytes) + kUdpBytes;
  const size_t limits[] = {100, 100, 100, 100, 600, 1500, 1500, 9000};
  size_t bytes = std::max(least, pick(limits[pick(8)] + 1));
  enum {
    kGood, kChecksum, kVersion, kLength, kJumbo, kSealedTooLong, kNoPolicy, kDiscard, kNoSa, kLimited,
    kBypass, kFragment, kFates
  };
  // Two of three are good; a fate that does not suit the packet is a good one too.
  unsigned fate = one_in(3) ? static_cast<unsigned>(pick(kFates)) : unsigned{kGood};
  if (v6 && fate == kChecksum) fate = kGood;
  if (fate == kFragment && (sa.tunnel || v6)) fate = kGood;
  if ((fate == kJumbo || fate == kSealedTooLong) && !one_in(10)) fate = kGood;
  if (fate == kJumbo) bytes = kMaxPacketBytes + 1 + pick(200);
  if (fate == kSealedTooLong) bytes = kMaxPacketBytes - 10;
  if (fate == kNoPolicy) {
    if (v6) where.dst[5] = 99;
    else where.dst[1] = 99;
  }
  if (fate == kDiscard) where.dport = kDiscardPort;
  if (fate == kNoSa) where.dport = kNoSaPort;
  if (fate == kLimited) where.dport = kLimitPort;
  if (fate == kBypass) where.dport = kBypassPort;
  Bytes packet = udp_packet(where, bytes, static_cast<uint8_t>(random_()), one_in(2),
                            static_cast<uint16_t>(sent_ >> 16), noise(97));
  if (fate == kChecksum) packet[10] ^= static_cast<uint8_t>(1 + pick(255));
  if (fate == kVersion) packet[0] ^= 0x80;
  if (fate == kLength) packet.resize(packet.size() - 1 - pick(std::min<size_t>(8, bytes - least + 1)));
  if (fate == kFragment) {
    packet[6] = 0x20;
    write16(packet, 10, 0);
    write16(packet, 10, internet_checksum(packet, 0, kIpv4Bytes));
  }
  switch (fate) {
    case kGood: expect(packet, flow); break;
    case kBypass: expect(packet, kNoFlow); break;
    case kChecksum: case kVersion: out_[Drop::kHeader]++; break;
    case kLength: case kJumbo: case kSealedTooLong: out_[Drop::kTooLong]++; break;
    case kNoPolicy: out_[Drop::kNoPolicy]++; break;
    case kDiscard: out_[Drop::kPolicy]++; break;
    case kNoSa: out_[Drop::kNoSa]++; break;
    case kFragment: out_[Drop::kFragment]++; break;
    case kLimited: {
      // The first ones go out; which ones these are depends on the way through the gateway.
      to_wire_[packet] = limit_flow_;
      if (++limited_ > kLimit) out_[Drop::kHardLimit]++;
      break;
    }
  }
  cv_gateway_push(gateway_, CV_PROTECTED, packet.data(), packet.size());
  sent_++;
}

// A packet came out at the unprotected side: it must be one that was sent. Then it goes in again.
void Loop::from_unprotected(const Bytes &wire) {
  const bool v6 = is_ipv6(wire);
  if (wire.at(v6 ? 6 : 9) != kProtoEsp) {
    const auto sent = to_wire_.find(wire);
    if (sent == to_wire_.end() || sent->second != kNoFlow) throw EspError("in clear, by no policy");
    to_wire_.erase(sent);
    bypassed_++;
    cv_gateway_push(gateway_, CV_UNPROTECTED, wire.data(), wire.size());
    return;
  }
  const size_t index = by_spi_.at(read32(wire, ip_header_bytes(wire)));
  Flow &flow = flows_[index];
  // With extended numbers the upper half is not on the wire: it is that of the first number, or one more.
  const uint32_t high = static_cast<uint32_t>(flow.first >> 32);
  const bool wrapped = read32(wire, ip_header_bytes(wire) + 4) < static_cast<uint32_t>(flow.first);
  const Opened opened = open_esp(wire, flow.sa, high + (flow.sa.esn && wrapped));
  const auto sent = to_wire_.find(opened.packet);
  if (sent == to_wire_.end() || sent->second != index) throw EspError("a packet that was not sent");
  to_wire_.erase(sent);
  if (opened.number < flow.first || !flow.numbers.insert(opened.number).second) {
    throw EspError("a sequence number was used twice, or is below the first");
  }
  if (index == limit_flow_) expected_[opened.packet] = index;
  inject(wire);
}

// An ESP packet into the unprotected side, sometimes not as it came, sometimes twice.
void Loop::inject(const Bytes &wire) {
  const size_t index = by_spi_.at(read32(wire, ip_header_bytes(wire)));
  const Flow &flow = flows_[index];
  const size_t esp = ip_header_bytes(wire);
  Bytes copy = wire;
  const unsigned fate = static_cast<unsigned>(pick(20));
  auto lose = [&] {
    const uint32_t high = static_cast<uint32_t>(flow.first >> 32);
    const bool wrapped = read32(wire, esp + 4) < static_cast<uint32_t>(flow.first);
    expected_.erase(open_esp(wire, flow.sa, high + (flow.sa.esn && wrapped)).packet);
  };
  if (fate == 0) {  // one bit behind the ESP header is wrong
    copy[esp + 8 + pick(wire.size() - esp - 8)] ^= static_cast<uint8_t>(1 << pick(8));
    in_[Drop::kIntegrity]++;
    lose();
  } else if (fate == 1) {  // an SPI that is not there
    write32(copy, esp, 0x99990000);
    in_[Drop::kNoSa]++;
    lose();
  } else if (fate == 2) {  // cut on the way
    copy.pop_back();
    in_[Drop::kTooLong]++;
    lose();
  } else if (fate == 3) {  // what was to be protected comes in clear
    const bool v6 = flow.sa.tunnel ? one_in(2) : flow.sa.v6;
    const Bytes clear = udp_packet(selector(index, v6), 100, 0, false, 1, noise(50));
    cv_gateway_push(gateway_, CV_UNPROTECTED, clear.data(), clear.size());
    in_[Drop::kMismatch]++;
  } else if (fate == 4) {  // twice
    cv_gateway_push(gateway_, CV_UNPROTECTED, copy.data(), copy.size());
    replays_++;
  }
  cv_gateway_push(gateway_, CV_UNPROTECTED, copy.data(), copy.size());
}

// A packet came out at the protected side.
void Loop::from_protected(const Bytes &packet) {
  const auto found = expected_.find(packet);
  if (found == expected_.end()) throw EspError("a packet came back that was not sent, or twice");
  if (found->second != kNoFlow) flows_[found->second].returned++;
  expected_.erase(found);
  const char *names[] = {"up to 64", "up to 128", "up to 600", "up to 1500", "up to 9000"};
  const size_t tops[] = {64, 128, 600, 1500, 9000};
  for (size_t i = 0; i < 5; i++) {
    if (packet.size() <= tops[i]) {
      sizes_[names[i]]++;
      break;
    }
  }
}

void Loop::step() {
  cv_gateway_tick(gateway_, 20);
  Bytes packet(kMaxPacketBytes);
  for (cv_side side : {CV_UNPROTECTED, CV_PROTECTED}) {
    while (const size_t bytes = cv_gateway_pull(gateway_, side, packet.data(), packet.size())) {
      const Bytes whole(packet.begin(), packet.begin() + static_cast<std::ptrdiff_t>(bytes));
      if (side == CV_UNPROTECTED) from_unprotected(whole);
      else from_protected(whole);
      last_progress_ = cv_gateway_cycles(gateway_);
    }
  }
}

bool Loop::run() {
  while (sent_ < packets_ || !expected_.empty()) {
    while (sent_ < packets_ && inside() < kInside && cv_gateway_queued(gateway_, CV_PROTECTED) < 10) {
      send();
    }
    step();
    if (cv_gateway_cycles(gateway_) - last_progress_ > kPatience) {
      std::printf("%zu packets did not come back\n", expected_.size());
      break;
    }
  }
  for (int i = 0; i < 500; i++) step();  // for what should not come, and for the counters
  const bool accounted = account();
  return accounted && covered();
}

// Every packet that went in came out or was dropped, for the reason that it was made for.
bool Loop::account() {
  bool good = expected_.empty();
  // Of the limited SA's packets those that were not sent on remain.
  for (const auto &[packet, flow] : to_wire_) good &= flow == limit_flow_;
  for (Direction direction : {Direction::kOutbound, Direction::kInbound}) {
    const bool out = direction == Direction::kOutbound;
    const Counters counters = tables_.counters(direction);
    Tally want = out ? out_ : in_;
    std::printf("%s: %llu in, %llu out, %llu dropped\n", out ? "outbound" : "inbound",
                static_cast<unsigned long long>(counters.packets_in),
                static_cast<unsigned long long>(counters.packets_out),
                static_cast<unsigned long long>(counters.dropped()));
    if (counters.packets_in != counters.packets_out + counters.dropped()) good = false;
    // A replayed packet may have become late before it was looked at.
    std::array<uint64_t, kNumDrops> drops = counters.drops;
    const unsigned late = static_cast<unsigned>(Drop::kReplayLate);
    const unsigned replay = static_cast<unsigned>(Drop::kReplay);
    drops[replay] += drops[late];
    drops[late] = 0;
    if (!out) want.drops[replay] = replays_;
    for (unsigned i = 0; i < kNumDrops; i++) {
      if (drops[i] == 0 && want.drops[i] == 0) continue;
      const bool same = drops[i] == want.drops[i];
      std::printf("  %-12s %6llu%s\n", kDropNames[i], static_cast<unsigned long long>(drops[i]),
                  same ? "" : "  WRONG");
      if (!same) std::printf("  expected     %6llu\n", static_cast<unsigned long long>(want.drops[i]));
      good &= same;
    }
  }
  return good;
}

// Every kind of SA, size and drop has occurred.
bool Loop::covered() {
  size_t hit = 0, all = 0;
  auto bin = [&](const std::string &name, uint64_t count) {
    all++;
    if (count != 0) hit++;
    else std::printf("  not covered: %s\n", name.c_str());
  };
  for (const Flow &flow : flows_) bin(flow.name, flow.returned);
  for (const auto &[name, count] : sizes_) bin(name, count);
  bin("bypass", bypassed_);
  for (Drop reason : {Drop::kHeader, Drop::kTooLong, Drop::kNoPolicy, Drop::kPolicy, Drop::kNoSa,
                      Drop::kHardLimit, Drop::kFragment}) {
    bin(std::string("outbound ") + kDropNames[static_cast<unsigned>(reason)], out_[reason]);
  }
  for (Drop reason : {Drop::kIntegrity, Drop::kNoSa, Drop::kTooLong, Drop::kMismatch}) {
    bin(std::string("inbound ") + kDropNames[static_cast<unsigned>(reason)], in_[reason]);
  }
  bin("inbound replay", replays_);
  std::printf("%zu packets, %llu cycles; covered %zu of %zu\n", sent_,
              static_cast<unsigned long long>(cv_gateway_cycles(gateway_)), hit, all);
  return hit == all && sizes_.size() == 5;
}

}  // namespace

int main(int argc, char **argv) {
  if (argc < 2 || argc > 3) {
    std::fprintf(stderr, "usage: loop PACKETS [SEED]\n");
    return 2;
  }
  try {
    Loop loop(std::strtoul(argv[1], nullptr, 10), argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1);
    return loop.run() ? 0 : 1;
  } catch (const std::exception &error) {
    std::fprintf(stderr, "loop: %s\n", error.what());
    return 1;
  }
}
