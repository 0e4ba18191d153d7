// Measures one cell of the published tables: how many cycles a stream of packets takes.
//
//   measure CIPHER AUTH BYTES PACKETS
//
// CIPHER is aes128-cbc, aes128-gcm, des-cbc, 3des-cbc or des-ecb; AUTH is sha1, sha256 or none. BYTES is
// the length of each IP packet that comes in. Prints, on one line: the cycles from the first beat that
// goes in to the last one that comes out, and the cycles from the first packet's last beat out to the
// last packet's. Every packet that comes out is opened and compared with what went in; anything wrong
// ends the program with status 1.

#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <stdexcept>
#include <string>

#include "esp.h"

namespace {

constexpr size_t kMaxPacketBytes = 16384;
constexpr uint64_t kPatience = 200000;  // cycles without a packet

const std::map<std::string, Cipher> kCiphers = {
    {"aes128-cbc", Cipher::kAesCbc}, {"aes128-gcm", Cipher::kAesGcm}, {"des-cbc", Cipher::kDes},
    {"3des-cbc", Cipher::k3Des},     {"des-ecb", Cipher::kDesEcb}};
const std::map<std::string, Auth> kAuths = {
    {"none", Auth::kNone}, {"sha1", Auth::kSha1}, {"sha256", Auth::kSha256}};

Bytes pattern(size_t count, uint8_t seed) {
  Bytes bytes(count);
  for (size_t i = 0; i < count; i++) bytes[i] = static_cast<uint8_t>(seed + 29 * i);
  return bytes;
}

Sa make_sa(Cipher cipher, Auth auth) {
  Sa sa;
  sa.cipher = cipher;
  sa.auth = auth;
  sa.spi = 0x10001;
  sa.src = {192, 0, 2, 1};
  sa.dst = {192, 0, 2, 2};
  const bool des = cipher == Cipher::kDes || cipher == Cipher::kDesEcb;
  sa.key = pattern(cipher == Cipher::k3Des ? 24 : des ? 8 : 16, 3);
  sa.salt = 0x5a17b17e;
  sa.auth_key = pattern(auth == Auth::kSha256 ? 32 : 20, 7);
  return sa;
}

Selector make_selector(unsigned number) {
  Selector selector;
  selector.src = {10, 0, 0, static_cast<uint8_t>(1 + number % 200)};
  selector.dst = {10, 1, 0, static_cast<uint8_t>(1 + number % 100)};
  selector.proto = kProtoUdp;
  selector.sport = static_cast<uint16_t>(1024 + number);
  selector.dport = 4000;
  return selector;
}

// Two shapes, as in a database with policies for single flows and for networks; every packet is
// looked up in both.
void load(Tables &tables, const Sa &sa) {
  Shape flows;
  flows.src_bits = flows.dst_bits = 32;
  flows.proto = flows.sport = flows.dport = true;
  Shape networks;
  networks.src_bits = networks.dst_bits = 16;
  tables.add_shape(Direction::kOutbound, flows);
  tables.add_shape(Direction::kOutbound, networks);
  Policy policy;
  policy.action = Action::kProtect;
  policy.sa = tables.add_sa(Direction::kOutbound, sa);
  policy.shape = 1;
  policy.priority = 2;
  policy.selector = make_selector(0);
  tables.add_policy(Direction::kOutbound, policy);
}

int measure(const std::string &cipher, const std::string &auth, size_t bytes, size_t count) {
  cv_gateway *gateway = cv_gateway_new();
  Tables tables(gateway);
  const Sa sa = make_sa(kCiphers.at(cipher), kAuths.at(auth));
  load(tables, sa);

  std::multiset<Bytes> sent;
  for (size_t number = 0; number < count; number++) {
    const Selector selector = make_selector(static_cast<unsigned>(number));
    const Bytes packet = udp_packet(selector, bytes, 0, false, static_cast<uint16_t>(number),
                                    pattern(251, static_cast<uint8_t>(number)));
    cv_gateway_push(gateway, CV_PROTECTED, packet.data(), packet.size());
    sent.insert(packet);
  }

  uint64_t first_out = 0, last_progress = cv_gateway_cycles(gateway), out = 0;
  while (out < count) {
    cv_gateway_tick(gateway, 1);
    const cv_traffic traffic = cv_gateway_traffic(gateway, CV_UNPROTECTED);
    if (traffic.packets_out != out) {
      out = traffic.packets_out;
      last_progress = traffic.last_beat_out;
      if (first_out == 0) first_out = last_progress;
    }
    if (cv_gateway_cycles(gateway) - last_progress > kPatience) {
      std::fprintf(stderr, "%llu of %zu packets came out\n", static_cast<unsigned long long>(out),
                   count);
      const Counters counters = tables.counters(Direction::kOutbound);
      for (unsigned i = 0; i < kNumDrops; i++) {
        if (counters.drops[i] == 0) continue;
        std::fprintf(stderr, "  %s: %llu\n", kDropNames[i],
                     static_cast<unsigned long long>(counters.drops[i]));
      }
      return 1;
    }
  }

  std::set<uint64_t> numbers;
  for (size_t i = 0; i < count; i++) {
    Bytes wire(kMaxPacketBytes);
    wire.resize(cv_gateway_pull(gateway, CV_UNPROTECTED, wire.data(), wire.size()));
    const Opened opened = open_esp(wire, sa);
    const auto found = sent.find(opened.packet);
    if (found == sent.end()) throw EspError("a packet came out that did not go in");
    sent.erase(found);
    if (opened.number < 1 || opened.number > count || !numbers.insert(opened.number).second) {
      throw EspError("a sequence number is wrong");
    }
  }

  const uint64_t first_in = cv_gateway_traffic(gateway, CV_PROTECTED).first_beat_in;
  const uint64_t last_out = cv_gateway_traffic(gateway, CV_UNPROTECTED).last_beat_out;
  std::printf("%llu %llu\n", static_cast<unsigned long long>(last_out - first_in + 1),
              static_cast<unsigned long long>(last_out - first_out));
  cv_gateway_free(gateway);
  return 0;
}

}  // namespace

int main(int argc, char **argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: measure CIPHER AUTH BYTES PACKETS\n");
    return 2;
  }
  try {
    return measure(argv[1], argv[2], std::strtoul(argv[3], nullptr, 10),
                   std::strtoul(argv[4], nullptr, 10));
  } catch (const std::exception &error) {
    std::fprintf(stderr, "measure: %s\n", error.what());
    return 1;
  }
}
