// The gateway's tables as software sees them: records (gateway_pkg.sv), registers
// (gateway_regs_pkg.sv, doc/registers.md), Pearson's hash (pearson_pkg.sv), and the hash chains.

#ifndef CULVERT_HDL_SIM_RECORDS_H_
#define CULVERT_HDL_SIM_RECORDS_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "gateway.h"
#include "keys.h"

enum class Direction : unsigned { kOutbound = 0, kInbound = 1 };

// An IP address; IPv4 in the first four bytes, the others 0.
using Address = std::array<uint8_t, 16>;

struct Selector {
  bool v6 = false;
  Address src = {}, dst = {};
  uint8_t proto = 0;
  uint16_t sport = 0, dport = 0;
};

// Which bits of a selector count: prefix lengths, and whether protocol and ports do.
struct Shape {
  bool v6 = false;
  uint8_t src_bits = 0, dst_bits = 0;
  bool proto = false, sport = false, dport = false;
};

enum class Action : unsigned { kDiscard = 0, kBypass = 1, kProtect = 2 };

struct Policy {
  unsigned shape = 0;  // index of its shape
  Selector selector;   // of which the shape's bits count
  Action action = Action::kDiscard;
  bool low = false;
  uint16_t priority = 0;
  unsigned sa = 0;  // protect: outbound an SA's index, inbound a reqid
};

enum class Cipher : unsigned { kAesCbc = 0, kAesGcm = 1, kDes = 2, k3Des = 3, kDesEcb = 4 };
enum class Auth : unsigned { kNone = 0, kSha1 = 1, kSha256 = 2 };

struct Sa {
  bool tunnel = true;
  bool v6 = false;
  bool esn = false;
  Cipher cipher = Cipher::kAesCbc;
  Auth auth = Auth::kSha1;
  uint32_t spi = 0;
  Address src = {}, dst = {};
  uint8_t hop_limit = 64;
  bool copy_df = false;
  Bytes key;       // AES: 16, 24 or 32 bytes; DES: 8; 3DES: 24
  uint32_t salt = 0;
  Bytes auth_key;  // HMAC
  unsigned reqid = 0;  // inbound: what policies know it by
  uint64_t soft_bytes = 0, hard_bytes = 0, soft_packets = 0, hard_packets = 0;  // 0: none
};

// Why a packet was dropped, in the order of the counters.
enum class Drop : unsigned {
  kNone, kHeader, kTooLong, kNoPolicy, kPolicy, kMismatch, kNoSa, kHardLimit, kNumbers, kReplayLate,
  kReplay, kIntegrity, kPadding, kInner, kFragment, kShort, kUnsupported,
};
constexpr unsigned kNumDrops = 17;
extern const std::array<const char *, kNumDrops> kDropNames;

struct Counters {
  uint64_t packets_in, packets_out, bytes_in, bytes_out;
  std::array<uint64_t, kNumDrops> drops;
  uint64_t dropped() const;  // all reasons together
};

// Modules of a direction.
struct Modules {
  unsigned aes, des, gcm, sha1, sha256;
};

// Pearson's hash, cut to `bits`.
uint32_t pearson(const Bytes &text, unsigned bits);

// Programs a gateway. Records are added in index order, each at the next free index; chains of
// records with one hash are linked here.
class Tables {
 public:
  // Throws std::runtime_error if the gateway's registers say that it was built with other sizes.
  explicit Tables(cv_gateway *gateway);

  unsigned add_shape(Direction direction, const Shape &shape);
  unsigned add_policy(Direction direction, const Policy &policy);
  // The SA gets a new state, with number `top` as the last one used or accepted.
  unsigned add_sa(Direction direction, const Sa &sa, uint64_t top = 0);

  Modules modules();
  Counters counters(Direction direction);

 private:
  struct Link {
    bool more = false;
    unsigned next = 0;
  };
  class Record;
  // First and last index of a bucket's chain.
  struct Chain {
    unsigned first = 0, last = 0;
    bool any = false;
  };
  struct Side {
    std::vector<Shape> shapes;
    std::vector<Policy> policies;
    std::vector<Sa> sas;
    std::vector<Chain> policy_chains, sa_chains;
  };

  static Record policy_record(const Policy &policy, Link link);
  static Record sa_record(const Sa &sa, Link link);
  void write(unsigned table, unsigned index, const Record &record);
  uint64_t counter(Direction direction, unsigned number);

  cv_gateway *gateway_;
  Side sides_[2];
};

#endif  // CULVERT_HDL_SIM_RECORDS_H_
