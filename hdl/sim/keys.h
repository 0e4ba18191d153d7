// What software computes once per SA, so that the gateway need not: HMAC's states after the key pads,
// and the powers of GCM's hash key.

#ifndef CULVERT_HDL_SIM_KEYS_H_
#define CULVERT_HDL_SIM_KEYS_H_

#include <array>
#include <cstdint>
#include <vector>

using Bytes = std::vector<uint8_t>;

// An SA's `auth_keys`, 64 bytes as they stand in the record, first byte highest.
using AuthKeys = std::array<uint8_t, 64>;

// HMAC-SHA1 or HMAC-SHA2-256: the state after the inner pad, then, from byte 32, after the outer one
// (RFC 2104). The key has at most 64 bytes.
AuthKeys hmac_sha1_states(const Bytes &key);
AuthKeys hmac_sha256_states(const Bytes &key);

// AES-GCM: H^4, H^3, H^2, H, where H is the encrypted zero block (SP 800-38D, section 6.4). The key
// has 16, 24 or 32 bytes.
AuthKeys gcm_powers(const Bytes &key);

#endif  // CULVERT_HDL_SIM_KEYS_H_
