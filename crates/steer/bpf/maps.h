/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What steer.bpf.c shares with the daemon: its maps, their keys and values, and the numbers in them. Multi-byte keys are in
 * network byte order. The numbers of the verdicts and the layout of the maps are repeated in ../src/verdict.rs,
 * ../src/maps.rs and ../src/loader.rs.
 */

#ifndef MAPS_H
#define MAPS_H

#include <linux/bpf.h>
#include <linux/in6.h>
#include <bpf/bpf_helpers.h>

// Bits of `config`.
#define TAKE_UNKNOWN_ESP 1
#define TAKE_UDP_FRAGMENTS 2
#define WATCHDOG 4
#define OPEN 8
#define TAKE_SEGMENT_ERRORS 16
#define TAKE_GRE 32
#define TAKE_L2TP 64

// What is done with the packets of an SA.
#define TAKE 1
#define LET_ONE_PASS 2

// What a local UDP port is.
#define PORT_IKE 1
#define PORT_NATT 2
#define PORT_OVERLAY 3

enum verdict {
	PASS_NOT_IP,
	PASS_MALFORMED,
	PASS_MULTICAST,
	PASS_NEIGHBOUR,
	PASS_IKE,
	PASS_KEEPALIVE,
	PASS_UDP_FRAGMENT,
	PASS_UNKNOWN_ESP,
	PASS_LOCAL,
	PASS_TRANSIT,
	PASS_SAMPLE,
	PASS_NO_DAEMON,
	PASS_VLAN,
	TAKE_ESP,
	TAKE_UNKNOWN,
	TAKE_ESP_FRAGMENT,
	TAKE_UDP_FRAGMENT,
	TAKE_TOO_BIG,
	TAKE_LOCAL,
	TAKE_TRANSIT,
	TAKE_FLOW,
	NO_SOCKET,
	DROP_TOO_LONG,
	VERDICTS,

	// None yet: these have to be asked.
	ASK_ADDRESSES,
	ASK_SAD,
	ASK_POLICIES,
};

struct sa4 {
	__be32 dst;
	__be32 spi;
};

struct sa6 {
	struct in6_addr dst;
	__be32 spi;
};

// The lock is for the change from LET_ONE_PASS back to TAKE; a value that has another number from user
// space is a new one. Linux 5.10 has no compare-and-swap for programs, and later ones no lock for socket
// filters.
struct sa_value {
	__u32 what;
#ifdef PACKET
	__u32 unused;
#else
	struct bpf_spin_lock lock;
#endif
};

// Of an ICMP query the identifier, and type and code.
struct flow4 {
	__be32 src;
	__be32 dst;
	__be16 ports[2];
	__u32 protocol;
};

struct flow6 {
	struct in6_addr src;
	struct in6_addr dst;
	__be16 ports[2];
	__u32 protocol;
};

struct prefix4 {
	__u32 len;
	__be32 addr;
};

struct prefix6 {
	__u32 len;
	struct in6_addr addr;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} config SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, VERDICTS);
	__type(key, __u32);
	__type(value, __u64);
} stats SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 64);
	__type(key, __be16);
	__type(value, __u8);
} ports SEC(".maps");

// The key has 16 bits for a tag, the outer one in the lower half: bit 12 for 802.1ad, and the VLAN's identifier.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, __u8);
} vlans SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 4096);
	__type(key, __be32);
	__type(value, __u8);
} local4 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 4096);
	__type(key, struct in6_addr);
	__type(value, __u8);
} local6 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 131072);
	__type(key, struct prefix4);
	__type(value, __u8);
} protected4 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 131072);
	__type(key, struct prefix6);
	__type(value, __u8);
} protected6 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 131072);
	__type(key, struct sa4);
	__type(value, struct sa_value);
} sad4 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 131072);
	__type(key, struct sa6);
	__type(value, struct sa_value);
} sad6 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, struct flow4);
	__type(value, __u8);
} flows4 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, struct flow6);
	__type(value, __u8);
} flows6 SEC(".maps");

#endif
