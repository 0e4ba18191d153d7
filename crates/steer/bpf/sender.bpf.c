// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Says which CPU sends a packet. The private interface chooses the queue of what Linux sends by it
// (TUNSETSTEERINGEBPF), modulo the number of queues, so the worker is that of the sender's CPU.
//
// A TUN device runs it as a socket filter, where the packet is still on the sender's CPU.

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("socket")
int sender_cpu(struct __sk_buff *skb)
{
	(void)skb;
	return bpf_get_smp_processor_id();
}

// No helper that is used here asks for the GPL.
char LICENSE[] SEC("license") = "Apache-2.0 OR MIT";
