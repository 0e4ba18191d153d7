#include "records.h"

#include <numeric>
#include <stdexcept>

namespace {

// gateway_pkg.sv
constexpr unsigned kSaBits = 10, kPolicyBits = 10, kBucketBits = 11, kShapes = 8;
constexpr unsigned kReplayWindow = 128;

// gateway_regs_pkg.sv
constexpr uint32_t kMagic = 0x43564757;
constexpr uint16_t kRegMagic = 0x000, kRegModules = 0x008, kRegLanes = 0x00c, kRegSizes = 0x014,
                   kRegCommand = 0x020, kRegIndex = 0x024, kRegStatus = 0x028, kRegRecord = 0x100,
                   kRegCounter = 0x400;
constexpr uint16_t kCounterStride = 0x100;  // from the outbound counters to the inbound ones
constexpr uint32_t kCommandWrite = 1 << 8, kStatusBusy = 1;
constexpr unsigned kTableBuckets = 0, kTablePolicies = 1, kTableShapes = 2, kTableSas = 3,
                   kTableStates = 4, kTableSaBuckets = 5, kTableInbound = 8;
constexpr unsigned kCounterPacketsIn = 0, kCounterPacketsOut = 1, kCounterBytesIn = 2,
                   kCounterBytesOut = 3, kCounterDrops = 4;

std::array<uint8_t, 256> shuffled() {
  std::array<uint8_t, 256> places;
  std::iota(places.begin(), places.end(), 0);
  uint32_t x = 1;
  for (uint32_t i = 255; i > 0; i--) {
    x = x * 1664525 + 1013904223;
    std::swap(places[i], places[(x >> 16) % (i + 1)]);
  }
  return places;
}

Address masked(const Address &address, unsigned bits) {
  Address out = {};
  for (unsigned i = 0; i < bits; i++) out[i / 8] |= address[i / 8] & 0x80 >> i % 8;
  return out;
}

Selector masked(const Selector &selector, const Shape &shape) {
  Selector out;
  out.v6 = shape.v6;
  out.src = masked(selector.src, shape.src_bits);
  out.dst = masked(selector.dst, shape.dst_bits);
  out.proto = shape.proto ? selector.proto : 0;
  out.sport = shape.sport ? selector.sport : 0;
  out.dport = shape.dport ? selector.dport : 0;
  return out;
}

void append(Bytes &text, const Address &address, bool v6) {
  text.insert(text.end(), address.begin(), address.begin() + (v6 ? 16 : 4));
}

uint32_t policy_bucket(const Selector &selector, unsigned shape) {
  Bytes text = {selector.v6};
  append(text, selector.src, selector.v6);
  append(text, selector.dst, selector.v6);
  text.push_back(selector.proto);
  for (uint16_t port : {selector.sport, selector.dport}) {
    text.push_back(static_cast<uint8_t>(port >> 8));
    text.push_back(static_cast<uint8_t>(port));
  }
  text.push_back(static_cast<uint8_t>(shape));
  return pearson(text, kBucketBits);
}

uint32_t sa_bucket(const Sa &sa) {
  Bytes text;
  append(text, sa.dst, sa.v6);
  for (int shift = 24; shift >= 0; shift -= 8) text.push_back(static_cast<uint8_t>(sa.spi >> shift));
  return pearson(text, kBucketBits);
}

}  // namespace

const std::array<const char *, kNumDrops> kDropNames = {
    "none",         "header",      "too long", "no policy", "policy",  "mismatch",
    "no SA",        "hard limit",  "numbers",  "late",      "replay",  "integrity",
    "padding",      "inner",       "fragment", "short",     "unsupported"};

uint64_t Counters::dropped() const {
  return std::accumulate(drops.begin(), drops.end(), uint64_t{0});
}

uint32_t pearson(const Bytes &text, unsigned bits) {
  static const std::array<uint8_t, 256> table = shuffled();
  uint32_t result = 0;
  for (unsigned k = 0; 8 * k < bits; k++) {
    uint8_t hash = static_cast<uint8_t>(k);
    for (uint8_t byte : text) hash = table[hash ^ byte];
    result |= uint32_t{hash} << 8 * k;
  }
  return result & ((uint32_t{1} << bits) - 1);
}

// A packed struct, written field by field from the highest bit down.
class Tables::Record {
 public:
  // At most 64 bits.
  void put(unsigned bits, uint64_t value) {
    for (unsigned i = bits; i > 0; i--) bits_.push_back(value >> (i - 1) & 1);
  }
  // The first byte goes highest; missing ones at the end are 0.
  template <typename Container>
  void put_bytes(unsigned count, const Container &bytes) {
    for (unsigned i = 0; i < count; i++) put(8, i < bytes.size() ? bytes[i] : 0);
  }
  // 32 bits each, the lowest ones first.
  std::vector<uint32_t> words() const {
    std::vector<uint32_t> words((bits_.size() + 31) / 32);
    for (size_t i = 0; i < bits_.size(); i++) {
      words[i / 32] |= uint32_t{bits_[bits_.size() - 1 - i]} << i % 32;
    }
    return words;
  }

 private:
  std::vector<bool> bits_;
};

Tables::Tables(cv_gateway *gateway) : gateway_(gateway) {
  const uint32_t sizes = kSaBits << 24 | kPolicyBits << 16 | kBucketBits << 8 | kShapes;
  if (cv_gateway_read(gateway, kRegMagic) != kMagic) throw std::runtime_error("not a gateway");
  if (cv_gateway_read(gateway, kRegSizes) != sizes) {
    throw std::runtime_error("the gateway's tables have other sizes than records.cpp");
  }
  // Until a unit's first access has ended its records are being emptied, and the record is locked.
  for (unsigned table : {kTablePolicies, kTableSas}) {
    for (unsigned base : {0u, kTableInbound}) {
      cv_gateway_write(gateway, kRegIndex, 0);
      cv_gateway_write(gateway, kRegCommand, table + base);
      while (cv_gateway_read(gateway, kRegStatus) & kStatusBusy) {
      }
    }
  }
  for (Side &side : sides_) {
    side.policy_chains.resize(1 << kBucketBits);
    side.sa_chains.resize(1 << kBucketBits);
  }
}

void Tables::write(unsigned table, unsigned index, const Record &record) {
  uint16_t address = kRegRecord;
  for (uint32_t word : record.words()) {
    cv_gateway_write(gateway_, address, word);
    address += 4;
  }
  cv_gateway_write(gateway_, kRegIndex, index);
  cv_gateway_write(gateway_, kRegCommand, table | kCommandWrite);
  while (cv_gateway_read(gateway_, kRegStatus) & kStatusBusy) {
  }
}

unsigned Tables::add_shape(Direction direction, const Shape &shape) {
  Side &side = sides_[static_cast<unsigned>(direction)];
  const unsigned index = static_cast<unsigned>(side.shapes.size());
  if (index >= kShapes) throw std::length_error("more shapes than the gateway has");
  Record record;
  record.put(1, 1);
  record.put(1, shape.v6);
  record.put(8, shape.src_bits);
  record.put(8, shape.dst_bits);
  record.put(1, shape.proto);
  record.put(1, shape.sport);
  record.put(1, shape.dport);
  write(kTableShapes + kTableInbound * static_cast<unsigned>(direction), index, record);
  side.shapes.push_back(shape);
  return index;
}

Tables::Record Tables::policy_record(const Policy &policy, Link link) {
  Record record;
  record.put(1, 1);
  record.put(3, policy.shape);
  record.put(1, policy.selector.v6);
  record.put_bytes(16, policy.selector.src);
  record.put_bytes(16, policy.selector.dst);
  record.put(8, policy.selector.proto);
  record.put(16, policy.selector.sport);
  record.put(16, policy.selector.dport);
  record.put(2, static_cast<unsigned>(policy.action));
  record.put(1, policy.low);
  record.put(16, policy.priority);
  record.put(kSaBits, policy.sa);
  record.put(1, link.more);
  record.put(kPolicyBits, link.next);
  return record;
}

unsigned Tables::add_policy(Direction direction, const Policy &policy) {
  const unsigned base = kTableInbound * static_cast<unsigned>(direction);
  Side &side = sides_[static_cast<unsigned>(direction)];
  const unsigned index = static_cast<unsigned>(side.policies.size());
  if (index >> kPolicyBits) throw std::length_error("more policies than the gateway has");
  Policy stored = policy;
  stored.selector = masked(policy.selector, side.shapes.at(policy.shape));
  const uint32_t bucket = policy_bucket(stored.selector, policy.shape);
  Chain &chain = side.policy_chains[bucket];

  write(base + kTablePolicies, index, policy_record(stored, {}));
  if (chain.any) {
    write(base + kTablePolicies, chain.last,
          policy_record(side.policies[chain.last], {true, index}));
    chain.last = index;
  } else {
    Record record;
    record.put(1, 1);
    record.put(kPolicyBits, index);
    write(base + kTableBuckets, bucket, record);
    chain = {index, index, true};
  }
  side.policies.push_back(stored);
  return index;
}

Tables::Record Tables::sa_record(const Sa &sa, Link link) {
  AuthKeys auth_keys = {};
  if (sa.cipher == Cipher::kAesGcm) auth_keys = gcm_powers(sa.key);
  else if (sa.auth == Auth::kSha1) auth_keys = hmac_sha1_states(sa.auth_key);
  else if (sa.auth == Auth::kSha256) auth_keys = hmac_sha256_states(sa.auth_key);
  const bool aes = sa.cipher == Cipher::kAesCbc || sa.cipher == Cipher::kAesGcm;
  Record record;
  record.put(1, 1);
  record.put(1, sa.tunnel);
  record.put(1, sa.v6);
  record.put(1, sa.esn);
  record.put(3, static_cast<unsigned>(sa.cipher));
  record.put(2, aes ? (sa.key.size() - 16) / 8 : 0);
  record.put(2, static_cast<unsigned>(sa.auth));
  record.put(32, sa.spi);
  record.put_bytes(16, sa.src);
  record.put_bytes(16, sa.dst);
  record.put(8, sa.hop_limit);
  record.put(1, sa.copy_df);
  record.put_bytes(32, sa.key);
  record.put(32, sa.salt);
  record.put_bytes(64, auth_keys);
  record.put(kSaBits, sa.reqid);
  record.put(48, sa.soft_bytes);
  record.put(48, sa.hard_bytes);
  record.put(48, sa.soft_packets);
  record.put(48, sa.hard_packets);
  record.put(1, link.more);
  record.put(kSaBits, link.next);
  return record;
}

unsigned Tables::add_sa(Direction direction, const Sa &sa, uint64_t top) {
  const unsigned base = kTableInbound * static_cast<unsigned>(direction);
  Side &side = sides_[static_cast<unsigned>(direction)];
  const unsigned index = static_cast<unsigned>(side.sas.size());
  if (index >> kSaBits) throw std::length_error("more SAs than the gateway has");

  Record state;
  state.put(64, top);
  state.put(kReplayWindow - 1 - 63, 0);
  state.put(63, 0);
  state.put(1, 1);  // `top` itself was seen
  state.put(48, 0);
  state.put(48, 0);
  state.put(1, 0);
  state.put(1, 0);
  write(base + kTableStates, index, state);
  write(base + kTableSas, index, sa_record(sa, {}));

  if (direction == Direction::kInbound) {
    const uint32_t bucket = sa_bucket(sa);
    Chain &chain = side.sa_chains[bucket];
    if (chain.any) {
      write(base + kTableSas, chain.last, sa_record(side.sas[chain.last], {true, index}));
      chain.last = index;
    } else {
      Record record;
      record.put(1, 1);
      record.put(kSaBits, index);
      write(base + kTableSaBuckets, bucket, record);
      chain = {index, index, true};
    }
  }
  side.sas.push_back(sa);
  return index;
}

Modules Tables::modules() {
  const uint32_t first = cv_gateway_read(gateway_, kRegModules);
  const uint32_t second = cv_gateway_read(gateway_, kRegLanes);
  return {first >> 8 & 0xff, first & 0xff, second >> 24, second >> 16 & 0xff, second >> 8 & 0xff};
}

uint64_t Tables::counter(Direction direction, unsigned number) {
  const uint16_t address = static_cast<uint16_t>(
      kRegCounter + kCounterStride * static_cast<unsigned>(direction) + 8 * number);
  const uint64_t low = cv_gateway_read(gateway_, address);
  return low | uint64_t{cv_gateway_read(gateway_, address + 4)} << 32;
}

Counters Tables::counters(Direction direction) {
  Counters counters;
  counters.packets_in = counter(direction, kCounterPacketsIn);
  counters.packets_out = counter(direction, kCounterPacketsOut);
  counters.bytes_in = counter(direction, kCounterBytesIn);
  counters.bytes_out = counter(direction, kCounterBytesOut);
  for (unsigned i = 0; i < kNumDrops; i++) {
    counters.drops[i] = counter(direction, kCounterDrops + i);
  }
  return counters;
}
