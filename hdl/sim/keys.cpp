// The states inside a hash are not part of OpenSSL's newer interface, so the older one is used here.
#define OPENSSL_SUPPRESS_DEPRECATED

#include "keys.h"

#include <openssl/aes.h>
#include <openssl/sha.h>

#include <cstring>
#include <stdexcept>

namespace {

constexpr size_t kBlockBytes = 64;
constexpr uint8_t kInnerPad = 0x36, kOuterPad = 0x5c;

std::array<uint8_t, kBlockBytes> padded(const Bytes &key, uint8_t pad) {
  if (key.size() > kBlockBytes) throw std::invalid_argument("HMAC key of more than 64 bytes");
  std::array<uint8_t, kBlockBytes> block;
  block.fill(pad);
  for (size_t i = 0; i < key.size(); i++) block[i] ^= key[i];
  return block;
}

void put_word(uint8_t *place, uint32_t word) {
  for (int i = 0; i < 4; i++) place[i] = static_cast<uint8_t>(word >> (24 - 8 * i));
}

// An element of GF(2^128): the coefficient of x^0 is the highest bit of the first byte.
using Element = std::array<uint8_t, 16>;

Element product(const Element &a, const Element &b) {
  Element sum = {}, power = b;
  for (int bit = 0; bit < 128; bit++) {
    if (a[bit / 8] >> (7 - bit % 8) & 1) {
      for (int i = 0; i < 16; i++) sum[i] ^= power[i];
    }
    const bool carry = power[15] & 1;
    for (int i = 15; i > 0; i--) power[i] = static_cast<uint8_t>(power[i] >> 1 | power[i - 1] << 7);
    power[0] = static_cast<uint8_t>(power[0] >> 1 ^ (carry ? 0xe1 : 0));
  }
  return sum;
}

}  // namespace

AuthKeys hmac_sha1_states(const Bytes &key) {
  AuthKeys keys = {};
  for (int outer = 0; outer < 2; outer++) {
    SHA_CTX state;
    SHA1_Init(&state);
    SHA1_Update(&state, padded(key, outer ? kOuterPad : kInnerPad).data(), kBlockBytes);
    const uint32_t words[] = {state.h0, state.h1, state.h2, state.h3, state.h4};
    for (int i = 0; i < 5; i++) put_word(&keys[32 * outer + 4 * i], words[i]);
  }
  return keys;
}

AuthKeys hmac_sha256_states(const Bytes &key) {
  AuthKeys keys = {};
  for (int outer = 0; outer < 2; outer++) {
    SHA256_CTX state;
    SHA256_Init(&state);
    SHA256_Update(&state, padded(key, outer ? kOuterPad : kInnerPad).data(), kBlockBytes);
    for (int i = 0; i < 8; i++) put_word(&keys[32 * outer + 4 * i], state.h[i]);
  }
  return keys;
}

AuthKeys gcm_powers(const Bytes &key) {
  AES_KEY schedule;
  if (AES_set_encrypt_key(key.data(), static_cast<int>(8 * key.size()), &schedule) != 0) {
    throw std::invalid_argument("AES key length");
  }
  Element h = {};
  AES_encrypt(h.data(), h.data(), &schedule);
  AuthKeys keys;
  Element power = h;
  for (int place = 3; place >= 0; place--) {
    std::memcpy(&keys[16 * place], power.data(), 16);
    power = product(power, h);
  }
  return keys;
}
