// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Tells culvert the marks of packets; stands where the private interface sends, which is what culvert
// reads from it.
//
// A TUN device has no word for a packet's mark. So the mark is put in front of each packet that has one,
// behind a byte that no IP packet begins with.
//
// The layout is ../../io/src/tun/mark.rs's.

#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define MAGIC 0xf0

struct prefix {
	__u8 magic;
	__u8 reserved[3];
	__be32 mark;
	__u8 padding[8];
};

SEC("classifier")
int send_marks(struct __sk_buff *skb)
{
	struct prefix prefix = { .magic = MAGIC };

	if (!skb->mark)
		return TC_ACT_UNSPEC;
	prefix.mark = bpf_htonl(skb->mark);
	// Without its mark a packet would meet another policy.
	if (bpf_skb_change_head(skb, sizeof(prefix), 0) ||
	    bpf_skb_store_bytes(skb, 0, &prefix, sizeof(prefix), 0))
		return TC_ACT_SHOT;
	return TC_ACT_UNSPEC;
}

// No helper that is used here asks for the GPL.
char LICENSE[] SEC("license") = "Apache-2.0 OR MIT";
