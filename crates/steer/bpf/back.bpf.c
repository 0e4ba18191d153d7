// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Returns packets to the interface that they came in by. Runs at the tc ingress hook of the private
// interface, which receives what culvert writes to it.
//
// A packet with a tag is a frame that a port's program took and that policy leaves to Linux. The tag
// names the port; the stack has parsed it as a VLAN tag and taken it out. The frame behind it is
// redirected to the ingress of the port's interface, behind that interface's XDP program. It is
// marked, so that routing does not send it to the private interface again; but for one with the TPID of a service
// VLAN: that is to come by the private interface, once Linux's NAT has seen it. A packet socket's port knows what was
// given back by its mark alone, so there such a one has a mark that the port's program takes off (packet.bpf.c).
//
// A frame of a VLAN of the port has lost its tags, and gets them again: the tag names the VLAN, and has the
// priority of the frame, and whether it is drop eligible, in its upper bits. So Linux sees it come by the port and then by the VLAN, as ever.
//
// A decrypted packet whose SA gives it a mark comes the same way, behind an Ethernet header that says
// nothing: its tag names the private interface, or a tunnel interface, and that mark.
//
// Everything else passes, priority tags too (../../io/src/tun/mod.rs): it is received by the private interface itself. What has no tag and no mark gets
// that of tag 0, if there is one: so Linux can tell what culvert has judged.
//
// The layout of the frame is ../../io/src/tun/back.rs's, that of the map is repeated in
// ../src/back.rs.

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define TAG_MASK 0xfff
#define PRIORITY_MASK 0xf000

// A tag of a VLAN; a TPID of 0 is none.
struct vlan {
	__be16 tpid;
	__u16 id;
};

struct port {
	__u32 ifindex; // 0: none has this tag
	__u32 mark;
	__u32 unmarked; // the mark of what is to have none; not 0 where a program takes it off
	struct vlan outer;
	struct vlan inner;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 4095);
	__type(key, __u32);
	__type(value, struct port);
} back_ports SEC(".maps");

SEC("classifier")
int give_back(struct __sk_buff *skb)
{
	struct ethhdr eth;
	struct port *port;
	__u32 tag, priority, unmarked;

	// Super-packets in tunnels have priority tags in front, which have no number.
	if (!skb->vlan_present || !(skb->vlan_tci & TAG_MASK)) {
		tag = 0;
		port = bpf_map_lookup_elem(&back_ports, &tag);
		if (port && port->mark && !skb->mark)
			skb->mark = port->mark;
		return TC_ACT_UNSPEC;
	}
	priority = skb->vlan_tci & PRIORITY_MASK;
	unmarked = skb->vlan_proto == bpf_htons(ETH_P_8021AD);
	tag = skb->vlan_tci & TAG_MASK;
	port = bpf_map_lookup_elem(&back_ports, &tag);
	if (!port || !port->ifindex)
		return TC_ACT_SHOT;
	// The port's Ethernet header lies where the stack expects the network header. A copy is put in
	// front and the original removed: then both headers are where they belong.
	if (bpf_skb_load_bytes(skb, 0, &eth, sizeof(eth)) ||
	    bpf_skb_vlan_pop(skb) ||
	    bpf_skb_change_head(skb, sizeof(eth), 0) ||
	    bpf_skb_store_bytes(skb, 0, &eth, sizeof(eth), 0) ||
	    bpf_skb_adjust_room(skb, -(int)sizeof(eth), BPF_ADJ_ROOM_MAC,
				BPF_F_ADJ_ROOM_FIXED_GSO | BPF_F_ADJ_ROOM_NO_CSUM_RESET))
		return TC_ACT_SHOT;
	if (port->inner.tpid && bpf_skb_vlan_push(skb, port->inner.tpid, port->inner.id | priority))
		return TC_ACT_SHOT;
	if (port->outer.tpid && bpf_skb_vlan_push(skb, port->outer.tpid, port->outer.id | priority))
		return TC_ACT_SHOT;
	skb->mark = unmarked ? port->unmarked : port->mark;
	return bpf_redirect(port->ifindex, BPF_F_INGRESS);
}

// No helper that is used here asks for the GPL.
char LICENSE[] SEC("license") = "Apache-2.0 OR MIT";
