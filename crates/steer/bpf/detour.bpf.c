// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Leads packets past a daemon that hangs. Runs at the tc egress hook of the private interface, which sends
// what culvert reads, and is for Linux that has the SAs and policies too and can carry on.
//
// While the daemon is alive it leaves packets alone. Then they are received by the private interface, as
// they are but for a mark: one of culvert's rules leads what has it by Linux's own routes, and so does
// it with the ESP that Linux makes of the packet, whose mark is the packet's. Linux forwards the packet,
// and applies its policies for what leaves.
//
// Nothing comes here twice: what came in by the private interface once, or has the mark, stays. A firewall
// that clears the mark has such packets lost, but not sent in a circle.
//
// The map of the mark is repeated in ../src/detour.rs.

#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

#include "alive.h"

// The bits that are set; 0: packets are left alone.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} detour_mark SEC(".maps");

SEC("classifier")
int detour(struct __sk_buff *skb)
{
	__u32 zero = 0;
	__u32 *mark;

	if (is_daemon_alive())
		return TC_ACT_UNSPEC;
	mark = bpf_map_lookup_elem(&detour_mark, &zero);
	if (!mark || !*mark || (skb->mark & *mark) == *mark ||
	    skb->ingress_ifindex == skb->ifindex)
		return TC_ACT_UNSPEC;
	// The other bits may decide which policy is for the packet.
	skb->mark |= *mark;
	return bpf_redirect(skb->ifindex, BPF_F_INGRESS);
}

// No helper that is used here asks for the GPL.
char LICENSE[] SEC("license") = "Apache-2.0 OR MIT";
