/* The simulated gateway as a device: packets in, packets out, registers, and a clock that the caller
 * turns. A small C interface around the verilated cv_gateway, for C++, Rust and Python alike.
 *
 * A gateway belongs to one thread at a time. Nothing here blocks: registers take a few clock cycles,
 * which these functions run themselves; packets move only while the clock does. Every failure of an
 * assertion in the design ends the process, with the assertion's name on stderr.
 */

#ifndef CULVERT_HDL_SIM_GATEWAY_H_
#define CULVERT_HDL_SIM_GATEWAY_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cv_gateway cv_gateway;

/* The two sides (RFC 4301, section 3.1). A packet pushed into the protected side comes out at the
 * unprotected one, as ESP, in clear, or not at all; and the other way round. */
enum cv_side {
  CV_PROTECTED = 0,
  CV_UNPROTECTED = 1,
};

/* What has moved on one side since the gateway was made. Cycles are those of cv_gateway_cycles; the
 * first and last ones are 0 until there is one. */
typedef struct cv_traffic {
  uint64_t packets_in;
  uint64_t packets_out;
  uint64_t first_beat_in;  /* cycle in which the first beat of all was taken */
  uint64_t last_beat_out;  /* cycle in which the last packet's last beat came out */
} cv_traffic;

/* A gateway after reset, ready to take packets and register accesses. */
cv_gateway *cv_gateway_new(void);
void cv_gateway_free(cv_gateway *gateway);
/* Resets a gateway that has been at work, as its reset lines do: what its memories held is still in them
 * until the gateway empties them. Packets inside and in the queues are gone; cycles and traffic begin
 * anew. */
void cv_gateway_reset(cv_gateway *gateway);

/* Runs the clock. */
void cv_gateway_tick(cv_gateway *gateway, uint64_t cycles);
/* Clock cycles since reset. */
uint64_t cv_gateway_cycles(const cv_gateway *gateway);

/* Queues a copy of an IP packet (1 byte at least, without a link header) for a side's input. The
 * queue has no limit. */
void cv_gateway_push(cv_gateway *gateway, enum cv_side side, const uint8_t *packet, size_t bytes);
/* Packets that are queued for a side's input and have not gone in whole. */
size_t cv_gateway_queued(const cv_gateway *gateway, enum cv_side side);
/* Takes the oldest packet that came out at a side. Returns its length, or 0 if there is none. One
 * that is longer than `capacity` is not taken: its length is returned and nothing is written. */
size_t cv_gateway_pull(cv_gateway *gateway, enum cv_side side, uint8_t *packet, size_t capacity);

/* Reads or writes a register (hdl/doc/registers.md). */
uint32_t cv_gateway_read(cv_gateway *gateway, uint16_t address);
void cv_gateway_write(cv_gateway *gateway, uint16_t address, uint32_t value);
/* 1 while the interrupt line is high. */
int cv_gateway_irq(const cv_gateway *gateway);

/* From now on each input pauses, and each output stalls, in so many per cent of the cycles, by random
 * numbers from `seed`. Both are 0 at first; less than 100. */
void cv_gateway_disturb(cv_gateway *gateway, unsigned idle_percent, unsigned stall_percent,
                        uint64_t seed);
/* Sets the SAD's clock period in per mille of the main clock's; 1000 at first, at least 100. */
void cv_gateway_sad_period(cv_gateway *gateway, unsigned per_mille);

cv_traffic cv_gateway_traffic(const cv_gateway *gateway, enum cv_side side);

#ifdef __cplusplus
}
#endif

#endif /* CULVERT_HDL_SIM_GATEWAY_H_ */
