// ESP in plain C++ on OpenSSL (RFC 4303), to check what the simulated gateway sends.

#ifndef CULVERT_HDL_SIM_ESP_H_
#define CULVERT_HDL_SIM_ESP_H_

#include <stdexcept>

#include "packet.h"

// Why a packet is not what it should be.
struct EspError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Opened {
  uint64_t number;  // the sequence number, with the upper half that was assumed
  Bytes packet;     // as it was before it was protected
};

// Opens an ESP packet by its SA: checks the IP header in front of it, SPI, ICV, padding and next
// header, and gives back what is inside. `high` is the upper half of the number where the SA has
// extended ones. Throws EspError.
Opened open_esp(const Bytes &wire, const Sa &sa, uint32_t high = 0);

#endif  // CULVERT_HDL_SIM_ESP_H_
