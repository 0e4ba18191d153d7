// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The rule of steer.bpf.c for a port that is a packet socket. A packet socket sees a frame before tc ingress
// does, and takes a copy of it. So the rule is asked twice:
//
//   `sift`, the socket's filter: the socket gets what culvert takes, and nothing else is copied
//   `shut`, at tc ingress: what the socket got ends here, the rest goes on to Linux
//
// Both read the same tables. Where these change between the two questions, one packet is lost, or comes to
// both; so may one that comes at the same moment as a sample (LET_ONE_PASS) on another CPU.
//
// A socket filter has no pointers into the packet, and a super-packet's headers may lie anywhere: so its
// first bytes are copied, and looked at there. What lies beyond them is as if it were cut off.
//
// Nothing is taken before the loader says so (OPEN), at once by both: else what comes while the one is attached
// and the other is not would be lost or come twice.
//
// A VLAN's outer tag lies beside the frame: Linux has taken it out before either is asked.
//
// What culvert gives back to a port (back.bpf.c) comes in by it once more, and is told by the bits of its mark; an
// uplink's mark may have others beside. What is to have none comes with the mark's complement, which `shut` takes off.

#define PACKET
#define BESIDE

// The bytes that are looked at. IPv4 never needs more than 154: Ethernet with two tags, all options, and
// those of the packet that an ICMP error quotes.
#define HEAD_LEN 256
// More than is ever in use; and then room for whichever header begins at the last place.
#define HEAD_MASK 511
#define HEAD_ROOM 128

#include "steer.bpf.c"

#include <linux/pkt_cls.h>

struct head {
	__u8 bytes[HEAD_MASK + 1 + HEAD_ROOM];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct head);
} heads SEC(".maps");

// The mark of what is given back; 0: it is to have none.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} given_back SEC(".maps");

static __always_inline int is_given_back(const struct __sk_buff *skb)
{
	__u32 zero = 0;
	__u32 *mark = bpf_map_lookup_elem(&given_back, &zero);

	return mark && *mark && (skb->mark & *mark) == *mark;
}

static __always_inline int is_given_back_unmarked(const struct __sk_buff *skb)
{
	__u32 zero = 0;
	__u32 *mark = bpf_map_lookup_elem(&given_back, &zero);

	return mark && skb->mark == ~*mark;
}

static __always_inline int is_left(const struct __sk_buff *skb)
{
	return !is_set(OPEN) || is_given_back(skb) || is_given_back_unmarked(skb);
}

static __always_inline enum verdict look_at(struct __sk_buff *skb, __u32 is_trial)
{
	__u32 zero = 0;
	struct head *head = bpf_map_lookup_elem(&heads, &zero);
	__u32 len = skb->len, vlan = 0;

	if (!head || len < sizeof(struct ethhdr))
		return PASS_MALFORMED;
	if (len > HEAD_LEN)
		len = HEAD_LEN;
	// The verifier is to know the bounds of the very register that is passed.
	OPAQUE(len);
	if (len < sizeof(struct ethhdr) || len > HEAD_LEN ||
	    bpf_skb_load_bytes(skb, 0, head->bytes, len))
		return PASS_MALFORMED;
	// Of VLAN 0 it is no VLAN's.
	if (skb->vlan_present && (skb->vlan_tci & 0xfff))
		vlan = (skb->vlan_tci & 0xfff) | SERVICE((__be16)skb->vlan_proto);
	return look(head->bytes, head->bytes + len, is_trial, vlan);
}

SEC("socket")
int sift(struct __sk_buff *skb)
{
	if (is_left(skb) || look_at(skb, 1) < TAKE_ESP)
		return 0;
	return -1;
}

SEC("classifier")
int shut(struct __sk_buff *skb)
{
	enum verdict verdict;

	if (is_given_back_unmarked(skb)) {
		skb->mark = 0;
		return TC_ACT_UNSPEC;
	}
	if (is_left(skb))
		return TC_ACT_UNSPEC;
	verdict = look_at(skb, 0);
	count(verdict);
	return verdict < TAKE_ESP ? TC_ACT_UNSPEC : TC_ACT_SHOT;
}
