#include "packet.h"

#include <algorithm>
#include <stdexcept>

uint16_t read16(const Bytes &bytes, size_t offset) {
  return static_cast<uint16_t>(bytes.at(offset) << 8 | bytes.at(offset + 1));
}

uint32_t read32(const Bytes &bytes, size_t offset) {
  return uint32_t{read16(bytes, offset)} << 16 | read16(bytes, offset + 2);
}

void write16(Bytes &bytes, size_t offset, uint16_t value) {
  bytes.at(offset) = static_cast<uint8_t>(value >> 8);
  bytes.at(offset + 1) = static_cast<uint8_t>(value);
}

void write32(Bytes &bytes, size_t offset, uint32_t value) {
  write16(bytes, offset, static_cast<uint16_t>(value >> 16));
  write16(bytes, offset + 2, static_cast<uint16_t>(value));
}

uint16_t internet_checksum(const Bytes &bytes, size_t offset, size_t count) {
  uint32_t sum = 0;
  for (size_t i = 0; i + 1 < count; i += 2) sum += read16(bytes, offset + i);
  if (count % 2 != 0) sum += bytes.at(offset + count - 1) << 8;
  while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(~sum);
}

Bytes udp_packet(const Selector &selector, size_t bytes, uint8_t tos, bool df, uint16_t id,
                 const Bytes &payload) {
  const size_t header = selector.v6 ? kIpv6Bytes : kIpv4Bytes;
  if (bytes < header + kUdpBytes) throw std::invalid_argument("too short for a UDP packet");
  Bytes packet(bytes);
  if (selector.v6) {
    write32(packet, 0, 6u << 28 | uint32_t{tos} << 20 | id);  // the id serves as flow label
    write16(packet, 4, static_cast<uint16_t>(bytes - header));
    packet[6] = kProtoUdp;
    packet[7] = 64;
    std::copy_n(selector.src.begin(), 16, packet.begin() + 8);
    std::copy_n(selector.dst.begin(), 16, packet.begin() + 24);
  } else {
    packet[0] = 0x45;
    packet[1] = tos;
    write16(packet, 2, static_cast<uint16_t>(bytes));
    write16(packet, 4, id);
    write16(packet, 6, df ? 0x4000 : 0);
    packet[8] = 64;
    packet[9] = kProtoUdp;
    std::copy_n(selector.src.begin(), 4, packet.begin() + 12);
    std::copy_n(selector.dst.begin(), 4, packet.begin() + 16);
    write16(packet, 10, internet_checksum(packet, 0, kIpv4Bytes));
  }
  write16(packet, header, selector.sport);
  write16(packet, header + 2, selector.dport);
  write16(packet, header + 4, static_cast<uint16_t>(bytes - header));
  for (size_t i = header + kUdpBytes; i < bytes && !payload.empty(); i++) {
    packet[i] = payload[(i - header - kUdpBytes) % payload.size()];
  }
  return packet;
}

bool is_ipv6(const Bytes &packet) { return packet.at(0) >> 4 == 6; }

size_t ip_header_bytes(const Bytes &packet) {
  return is_ipv6(packet) ? kIpv6Bytes : 4 * (packet.at(0) & 15);
}

Address source(const Bytes &packet) {
  Address address = {};
  if (is_ipv6(packet)) std::copy_n(packet.begin() + 8, 16, address.begin());
  else std::copy_n(packet.begin() + 12, 4, address.begin());
  return address;
}

Address destination(const Bytes &packet) {
  Address address = {};
  if (is_ipv6(packet)) std::copy_n(packet.begin() + 24, 16, address.begin());
  else std::copy_n(packet.begin() + 16, 4, address.begin());
  return address;
}
