/* A stand-in for libndpi, which does what the payload of a datagram says. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef API
#define API 8668
#endif
#ifndef SIZE
#define SIZE 688
#endif
#ifndef COUNT
#define COUNT 282
#endif

struct protocol {
    uint16_t master, application;
    uint32_t category;
};

static const char *const names[] = {
#include "names.h"
};

uint16_t ndpi_get_api_version(void) { return API; }
const char *ndpi_revision(void) { return "4.2.0"; }
uint32_t ndpi_detection_get_sizeof_ndpi_flow_struct(void) { return SIZE; }
void *ndpi_init_detection_module(uint32_t preferences) { return preferences ? 0 : malloc(16); }
void ndpi_set_protocol_detection_bitmask2(void *module, const uint32_t *mask) { (void)module, (void)mask; }
void ndpi_finalize_initialization(void *module) { (void)module; }
uint32_t ndpi_get_num_supported_protocols(void *module) { return module ? COUNT : 0; }
void *ndpi_calloc(unsigned long count, size_t size) { return calloc(count, size); }
void ndpi_free_flow(void *flow) { free(flow); }

const char *ndpi_get_proto_name(void *module, uint16_t number) {
    (void)module;
#ifdef FIRST
    if (number == 1) return FIRST;
#endif
    return number < 282 ? names[number] : "more";
}

/* True if each of these fails. */
static int is_confined(void) {
    int is_refused = open("/etc/hostname", O_RDONLY) < 0 && socket(AF_UNIX, SOCK_STREAM, 0) < 0;
    is_refused &= fork() < 0 && execl("/bin/true", "true", (char *)0) < 0 && kill(getppid(), 0) < 0;
    is_refused &= write(1, "x", 1) < 0 && write(2, "x", 1) < 0 && dup(0) < 0;
    is_refused &= mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED;
    char memory[64];
    is_refused &= mprotect(memory, 1, PROT_READ | PROT_WRITE | PROT_EXEC) < 0 && errno == ENOSYS;
    return is_refused;
}

struct protocol ndpi_detection_process_packet(void *module, void *flow, const unsigned char *packet, uint16_t len, uint64_t time) {
    struct protocol found = {0, 0, 0};
    const char *text = (const char *)packet + 28;
    (void)module, (void)flow, (void)time;
    if (len < 28) return found;
    len -= 28;
    if (len == 3 && !memcmp(text, "ssh", 3)) found.application = 92;
    if (len == 3 && !memcmp(text, "lie", 3)) found.application = 999;
    if (len == 6 && !memcmp(text, "escape", 6)) found.application = is_confined() ? 5 : 7;
    if (len == 5 && !memcmp(text, "crash", 5)) *(volatile int *)8 = 1;
    if (len == 5 && !memcmp(text, "abort", 5)) abort();
    if (len == 4 && !memcmp(text, "exit", 4)) _exit(0);
    if (len == 4 && !memcmp(text, "hang", 4)) for (volatile int on = 1; on;) ;
    if (len == 6 && !memcmp(text, "memory", 6)) for (;;) *(volatile char *)malloc(16 << 20) = 1;
    return found;
}

#ifndef LACKS_GIVE_UP
struct protocol ndpi_detection_giveup(void *module, void *flow, uint8_t guess, uint8_t *guessed) {
    struct protocol none = {0, 0, 0};
    (void)module, (void)flow, (void)guess, (void)guessed;
    return none;
}
#endif
