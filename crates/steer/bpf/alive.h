/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Whether the daemon is alive: until the time that it told last, and a moment more. Each object that includes this has a map of
 * its own.
 */

#ifndef ALIVE_H
#define ALIVE_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

// In ns of CLOCK_MONOTONIC, which is the clock of bpf_ktime_get_ns().
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} alive_until SEC(".maps");

// The jiffy in which the clock was last looked at and the daemon was alive. The clock takes 40 ns, a third
// of what all else takes for a frame of ESP; so it is asked once a jiffy, 1 to 10 ms.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} alive_jiffy SEC(".maps");

// When a packet first found the daemon's time over. On a machine that stood still (a guest that was paused, or
// one too many on its host) the time is over for a daemon that is well, and packets come before it has had its
// turn. So it gets a moment more from there.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} alive_doubt SEC(".maps");

#define DOUBT_NS 200000000ULL

static __always_inline int is_in_doubt(__u64 until, __u64 now)
{
	__u32 zero = 0;
	__u64 *since = bpf_map_lookup_elem(&alive_doubt, &zero);

	// Nobody has said yet that he is alive.
	if (!since || !until)
		return 0;
	// That of an earlier time.
	if (*since < until)
		*since = now;
	return now - *since < DOUBT_NS;
}

static __always_inline int is_daemon_alive(void)
{
	__u32 zero = 0;
	__u64 *until = bpf_map_lookup_elem(&alive_until, &zero);
	__u64 *jiffy = bpf_map_lookup_elem(&alive_jiffy, &zero);
	__u64 now = bpf_jiffies64();

	if (!until || !jiffy)
		return 0;
	if (*jiffy == now)
		return 1;
	__u64 now_ns = bpf_ktime_get_ns();
	__u64 until_ns = *until;

	if (now_ns >= until_ns)
		return is_in_doubt(until_ns, now_ns);
	*jiffy = now;
	return 1;
}

#endif
