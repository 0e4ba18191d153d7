#include "esp.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <memory>

namespace {

constexpr size_t kEspBytes = 8;
constexpr size_t kGcmIcvBytes = 16;

void check(bool condition, const char *what) {
  if (!condition) throw EspError(what);
}

size_t iv_bytes(const Sa &sa) { return sa.cipher == Cipher::kAesCbc ? 16 : 8; }

size_t align_bytes(const Sa &sa) {
  switch (sa.cipher) {
    case Cipher::kAesCbc: return 16;
    case Cipher::kAesGcm: return 4;
    default: return 8;
  }
}

size_t icv_bytes(const Sa &sa) {
  if (sa.cipher == Cipher::kAesGcm) return kGcmIcvBytes;
  return sa.auth == Auth::kSha256 ? 16 : 12;
}

const EVP_CIPHER *evp_cipher(const Sa &sa) {
  switch (sa.cipher) {
    case Cipher::kAesCbc:
      return sa.key.size() == 16   ? EVP_aes_128_cbc()
             : sa.key.size() == 24 ? EVP_aes_192_cbc()
                                   : EVP_aes_256_cbc();
    case Cipher::kAesGcm:
      return sa.key.size() == 16   ? EVP_aes_128_gcm()
             : sa.key.size() == 24 ? EVP_aes_192_gcm()
                                   : EVP_aes_256_gcm();
    case Cipher::kDesEcb: return EVP_des_ede3_ecb();
    default: return EVP_des_ede3_cbc();
  }
}

// OpenSSL's DES is 3DES with the same key three times.
Bytes evp_key(const Sa &sa) {
  Bytes key = sa.key;
  if (sa.cipher == Cipher::kDes || sa.cipher == Cipher::kDesEcb) {
    for (int i = 0; i < 2; i++) key.insert(key.end(), sa.key.begin(), sa.key.end());
  }
  return key;
}

Bytes slice(const Bytes &bytes, size_t begin, size_t end) {
  check(begin <= end && end <= bytes.size(), "too short");
  return Bytes(bytes.begin() + begin, bytes.begin() + end);
}

void append(Bytes &to, const Bytes &from) { to.insert(to.end(), from.begin(), from.end()); }

void append32(Bytes &to, uint32_t value) {
  to.resize(to.size() + 4);
  write32(to, to.size() - 4, value);
}

// Decrypts; `aad` and `icv` are AES-GCM's.
Bytes decrypt(const Sa &sa, const Bytes &iv, const Bytes &text, const Bytes &aad, Bytes icv) {
  const std::unique_ptr<EVP_CIPHER_CTX, decltype(&EVP_CIPHER_CTX_free)> context(
      EVP_CIPHER_CTX_new(), EVP_CIPHER_CTX_free);
  const bool gcm = sa.cipher == Cipher::kAesGcm;
  Bytes out(text.size() + 16);
  int count = 0, rest = 0;
  const Bytes key = evp_key(sa);
  bool good = EVP_DecryptInit_ex(context.get(), evp_cipher(sa), nullptr, key.data(), iv.data()) == 1;
  EVP_CIPHER_CTX_set_padding(context.get(), 0);
  if (gcm) {
    good &= EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_SET_TAG, static_cast<int>(icv.size()),
                                icv.data()) == 1;
    good &= EVP_DecryptUpdate(context.get(), nullptr, &count, aad.data(),
                              static_cast<int>(aad.size())) == 1;
  }
  good &= EVP_DecryptUpdate(context.get(), out.data(), &count, text.data(),
                            static_cast<int>(text.size())) == 1;
  good &= EVP_DecryptFinal_ex(context.get(), out.data() + count, &rest) == 1;
  check(good, gcm ? "ICV (AES-GCM)" : "cipher");
  out.resize(count + rest);
  return out;
}

void check_hmac(const Sa &sa, Bytes message, const Bytes &icv, uint32_t high) {
  if (sa.esn) append32(message, high);
  uint8_t mac[EVP_MAX_MD_SIZE];
  unsigned bytes = sizeof mac;
  HMAC(sa.auth == Auth::kSha1 ? EVP_sha1() : EVP_sha256(), sa.auth_key.data(),
       static_cast<int>(sa.auth_key.size()), message.data(), message.size(), mac, &bytes);
  check(std::equal(icv.begin(), icv.end(), mac), "ICV (HMAC)");
}

// The IP header in front of ESP.
void check_outer(const Bytes &wire, const Sa &sa) {
  check(is_ipv6(wire) == sa.v6, "version of the outer header");
  if (sa.v6) {
    check(read16(wire, 4) == wire.size() - kIpv6Bytes, "length in the outer header");
    check(wire.at(6) == kProtoEsp, "next header of the outer header");
  } else {
    check(wire.at(0) == 0x45 && read16(wire, 2) == wire.size(), "length in the outer header");
    check(internet_checksum(wire, 0, kIpv4Bytes) == 0, "checksum of the outer header");
    check(wire.at(9) == kProtoEsp, "protocol of the outer header");
  }
  if (!sa.tunnel) return;
  check(source(wire) == sa.src && destination(wire) == sa.dst, "addresses of the outer header");
  check(wire.at(sa.v6 ? 7 : 8) == sa.hop_limit, "hop limit of the outer header");
}

uint8_t traffic_class(const Bytes &packet) {
  return is_ipv6(packet) ? static_cast<uint8_t>(read16(packet, 0) >> 4) : packet.at(1);
}

}  // namespace

Opened open_esp(const Bytes &wire, const Sa &sa, uint32_t high) {
  check_outer(wire, sa);
  const size_t esp = ip_header_bytes(wire);
  const size_t text_at = esp + kEspBytes + iv_bytes(sa);
  check(wire.size() >= text_at + icv_bytes(sa), "too short");
  const size_t icv_at = wire.size() - icv_bytes(sa);
  check(read32(wire, esp) == sa.spi, "SPI");
  const uint32_t seq = read32(wire, esp + 4);

  const Bytes icv = slice(wire, icv_at, wire.size());
  Bytes iv, aad;
  if (sa.cipher == Cipher::kAesGcm) {
    append32(iv, sa.salt);
    append32(aad, sa.spi);
    if (sa.esn) append32(aad, high);
    append32(aad, seq);
  } else {
    check_hmac(sa, slice(wire, esp, icv_at), icv, high);
  }
  append(iv, slice(wire, esp + kEspBytes, text_at));
  const Bytes text = slice(wire, text_at, icv_at);
  check(!text.empty() && text.size() % align_bytes(sa) == 0, "alignment");
  const Bytes plain = decrypt(sa, iv, text, aad, icv);

  const size_t pad = plain.at(plain.size() - 2);
  check(pad + 2 <= plain.size(), "pad length");
  check(pad < align_bytes(sa), "more padding than needed");
  const size_t payload_bytes = plain.size() - 2 - pad;
  for (size_t i = 0; i < pad; i++) check(plain[payload_bytes + i] == i + 1, "padding");
  const uint8_t next_header = plain.back();
  const Bytes payload = slice(plain, 0, payload_bytes);

  Opened opened;
  opened.number = uint64_t{sa.esn ? high : 0} << 32 | seq;
  if (sa.tunnel) {
    check(!payload.empty(), "empty");
    check(next_header == (is_ipv6(payload) ? kProtoIpv6 : kProtoIpip), "next header");
    check(traffic_class(wire) == traffic_class(payload), "traffic class of the outer header");
    if (!sa.v6) {
      const bool inner_df = !is_ipv6(payload) && (payload.at(6) & 0x40);
      const bool want = !sa.copy_df || is_ipv6(payload) || inner_df;
      check(((wire.at(6) & 0x40) != 0) == want, "DF of the outer header");
    }
    opened.packet = payload;
  } else {
    opened.packet = slice(wire, 0, esp);
    append(opened.packet, payload);
    if (sa.v6) {
      write16(opened.packet, 4, static_cast<uint16_t>(payload.size()));
      opened.packet[6] = next_header;
    } else {
      write16(opened.packet, 2, static_cast<uint16_t>(opened.packet.size()));
      opened.packet[9] = next_header;
      write16(opened.packet, 10, 0);
      write16(opened.packet, 10, internet_checksum(opened.packet, 0, esp));
    }
  }
  return opened;
}
