// IP packets for the simulated gateway: made, and read.

#ifndef CULVERT_HDL_SIM_PACKET_H_
#define CULVERT_HDL_SIM_PACKET_H_

#include "records.h"

constexpr size_t kIpv4Bytes = 20, kIpv6Bytes = 40, kUdpBytes = 8;
constexpr uint8_t kProtoIpip = 4, kProtoUdp = 17, kProtoIpv6 = 41, kProtoEsp = 50;

// Big-endian access.
uint16_t read16(const Bytes &bytes, size_t offset);
uint32_t read32(const Bytes &bytes, size_t offset);
void write16(Bytes &bytes, size_t offset, uint16_t value);
void write32(Bytes &bytes, size_t offset, uint32_t value);

// The Internet checksum (RFC 1071) over some bytes; 0 over a header that holds its own.
uint16_t internet_checksum(const Bytes &bytes, size_t offset, size_t count);

// A UDP packet of `bytes` bytes in all whose payload comes from `payload`, cut or repeated to fit.
// `selector` gives version, addresses and ports.
Bytes udp_packet(const Selector &selector, size_t bytes, uint8_t tos, bool df, uint16_t id,
                 const Bytes &payload);

bool is_ipv6(const Bytes &packet);
// Where the IP header ends (IPv6: without extension headers).
size_t ip_header_bytes(const Bytes &packet);
Address source(const Bytes &packet);
Address destination(const Bytes &packet);

#endif  // CULVERT_HDL_SIM_PACKET_H_
