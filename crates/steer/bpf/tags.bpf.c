// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The rule of steer.bpf.c for drivers that take VLAN tags out of frames, and tell them to XDP programs
// (bpf_xdp_metadata_rx_vlan_tag, Linux 6.8). AF_XDP sockets are told nothing, so what culvert takes gets its tag back:
//
//   dst  src  type  ...          driver: the tag beside the frame
//   dst  src  TPID  TCI  type    to the socket
//
// What goes to the kernel stays as it came: the kernel has the tag from the driver, and would see it twice.
//
// Only programs that are bound to the device may ask, and such cannot be attached in generic mode.

#define BESIDE
#define CALLS_KERNEL

#include "steer.bpf.c"

// No helper: the loader makes a call of the kernel's function of each call of this number (../src/tags/kfunc.rs).
static int (*const rx_vlan_tag)(const struct xdp_md *ctx, __be16 *tpid, __u16 *tci) = (void *)0x6b660001;

#define TAG_LEN 4

struct tag {
	__be16 tpid;
	__u16 tci;
};

// The frame as its sender made it. False, and nothing is changed, where there is no room before it.
static __always_inline int put_back(struct xdp_md *ctx, const struct tag *tag)
{
	__be32 *to;
	__be16 *behind;

	if (bpf_xdp_adjust_head(ctx, -TAG_LEN))
		return 0;
	to = (void *)(long)ctx->data;
	// The verifier is to see it: there was an Ethernet header.
	if ((void *)(to + 4) > (void *)(long)ctx->data_end)
		return 0;
	to[0] = to[1];
	to[1] = to[2];
	to[2] = to[3];
	behind = (__be16 *)(to + 3);
	behind[0] = tag->tpid;
	behind[1] = bpf_htons(tag->tci);
	return 1;
}

static __always_inline int look_and_act(struct xdp_md *ctx, int may_be_scattered)
{
	struct tag tag = {};
	int is_beside = rx_vlan_tag(ctx, &tag.tpid, &tag.tci) == 0;
	__u32 vlan = 0;
	enum verdict verdict;
	long action = XDP_PASS;

	// Of VLAN 0 it is no VLAN's.
	if (is_beside && (tag.tci & 0xfff))
		vlan = (tag.tci & 0xfff) | SERVICE(tag.tpid);
	verdict = look((void *)(long)ctx->data, (void *)(long)ctx->data_end, 0, vlan);
	if (verdict >= TAKE_ESP && may_be_scattered && is_scattered(ctx)) {
		count(DROP_TOO_LONG);
		return XDP_DROP;
	}
	if (verdict >= TAKE_ESP) {
		action = bpf_redirect_map(&xsks, ctx->rx_queue_index, XDP_PASS);
		if (action == XDP_REDIRECT && is_beside && !put_back(ctx, &tag)) {
			// Without its tag it would be taken for the port's own.
			verdict = PASS_VLAN;
			action = XDP_PASS;
		} else if (action != XDP_REDIRECT) {
			count(NO_SOCKET);
		}
	}
	count(verdict);
	return action;
}

SEC("xdp")
int tags(struct xdp_md *ctx)
{
	return look_and_act(ctx, 0);
}

SEC("xdp.frags")
int tags_frags(struct xdp_md *ctx)
{
	return look_and_act(ctx, 1);
}
