// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Which frames culvert takes from the kernel, decided by one look at each frame.
//
// A frame that it takes is redirected to the AF_XDP socket of its queue; if the queue has no socket,
// the frame passes to the kernel. Frames of unknown kinds pass too.
//
//   frame                                             goes to
//   ARP, anything that is not IP, malformed           kernel
//   of a VLAN that is not in `vlans`                  kernel
//   multicast, broadcast, neighbour discovery         kernel
//   to a local or another address:
//     a known flow, see below                         culvert
//   to a local address:
//     ESP or AH, known (destination, SPI)             culvert; the kernel once, if its SA is LET_ONE_PASS
//     ESP or AH, unknown SPI, or fragment             culvert if TAKE_UNKNOWN_ESP, else kernel
//     fragments of UDP                                culvert if TAKE_UDP_FRAGMENTS, see below
//     UDP to an IKE port                              kernel
//     UDP to a NAT-T port: keepalive, IKE             kernel
//     UDP to a NAT-T port: ESP                        as ESP
//     UDP to a port of overlays, not a fragment       culvert, which gives back what it does not carry out
//     GRE, not a fragment                             the same, if TAKE_GRE
//     L2TPv3 over IP, not a fragment                  the same, if TAKE_L2TP
//     later fragments of UDP                          kernel, unless they were taken above
//     "too big" about ESP, or UDP from a NAT-T port   culvert, which hands it to the kernel too
//     ICMPv6 errors about what may have segments      the same, if TAKE_SEGMENT_ERRORS
//     anything else, address protected                culvert: policy judges it
//     anything else                                   kernel
//   to another address:
//     address protected                               culvert
//     anything else                                   kernel
//
// A VLAN's frames are judged as those of the interface itself. Two tags at most are looked past; those of VLAN 0
// are no VLAN's. The tags of VLANs whose devices are culvert's to carry on are in `vlans`.
//
// Only the first fragment of UDP has the ports, and it may come last: where some may be of ESP, all of
// them are taken, and those that are not go back to the kernel as they came.
//
// Where culvert translates addresses (takes_flows), flows are known by addresses and ports: TCP but for what opens or
// ends a connection, UDP, and ICMP queries, whole and without options or extension headers. They come before
// everything else: ESP in UDP of others may come to a port of this host that is a NAT-T port too.
//
// packet.bpf.c has the same rule for ports that are packet sockets (PACKET), and tags.bpf.c for drivers that take
// VLAN tags out of frames (BESIDE).
//
// With WATCHDOG, all that goes to culvert goes to the kernel instead while the daemon is not alive: while
// the time in `alive_until` is over, and packets have come for a moment (alive.h).
//
// What the daemon puts into the maps, and reads in them, is in maps.h.

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "alive.h"
#include "maps.h"

#define MAX_VLAN_TAGS 2
// Of one TPID or the other: 0x88a8 has this bit set, 0x8100 has not.
#define SERVICE(type) ((bpf_ntohs(type) & 0x800) << 1)
#define MAX_EXTENSIONS 6
#define NO_PROTOCOL 255
// The extension headers that can be followed, a bit for each.
#define EXTENSIONS (1ULL << IPPROTO_HOPOPTS | 1ULL << IPPROTO_ROUTING | \
		    1ULL << IPPROTO_FRAGMENT | 1ULL << IPPROTO_DSTOPTS)

// A value that the compiler is not to know: it would have what follows twice, for this and for that.
#define OPAQUE(x) asm volatile("" : "+r"(x))

// <linux/icmp.h> does not compile for this target.
#define ICMP_DEST_UNREACH 3
#define ICMP_FRAG_NEEDED 4
#define ICMPV6_PKT_TOOBIG 2
#define ICMPV6_DEST_UNREACH 1
#define ICMPV6_PARAMPROB 4

// RFC 8986 section 9.1.
#define PROTO_ETHERNET 143
#define PROTO_L2TP 115

struct vlan_tag {
	__be16 tci;
	__be16 next;
};

// The first 8 octets of any, which none is shorter than. Of a fragment header `len` is reserved, and
// the offset follows it.
struct extension {
	__u8 next;
	__u8 len;
	__be16 offset;
	__be32 id;
};

// Set before the program is loaded: where it is 0 the verifier leaves out what it leads to.
const volatile __u32 takes_flows = 0;

// What the headers say, in one form for both families.
struct packet {
	void *ip;    // the IP header
	void *next;  // the upper-layer header
	void *end;   // of the frame's linear part
	struct in6_addr dst; // IPv4 in the first word
	__u32 is_v6;
	__u32 protocol;
	__u32 hop_limit;
	__u32 is_fragment;
	__u32 is_later; // a fragment without the upper-layer header
	__be32 spi; // of what has one: ASK_SAD
	__u32 is_trial; // nothing is changed by it
#ifdef PACKET
	void *head; // the copy that all the above lies in
#endif
#ifdef BESIDE
	__u32 vlan; // the tag that is beside the frame, as in the map's key
#endif
};

// A pointer that the verifier knows the bounds of, from one that is not past the end.
#ifdef PACKET
#define BOUNDED(p, at) ((p)->head + (((at) - (p)->head) & HEAD_MASK))
#else
#define BOUNDED(p, at) (at)
#endif

static __always_inline int is_local(const struct packet *p)
{
	if (p->is_v6)
		return bpf_map_lookup_elem(&local6, &p->dst) != NULL;
	return bpf_map_lookup_elem(&local4, &p->dst.s6_addr32[0]) != NULL;
}

static __always_inline int is_protected(const struct packet *p)
{
	if (p->is_v6) {
		struct prefix6 key = { .len = 128, .addr = p->dst };
		return bpf_map_lookup_elem(&protected6, &key) != NULL;
	}
	struct prefix4 key = { .len = 32, .addr = p->dst.s6_addr32[0] };
	return bpf_map_lookup_elem(&protected4, &key) != NULL;
}

static __always_inline int is_set(__u32 what)
{
	__u32 zero = 0;
	__u32 *flags = bpf_map_lookup_elem(&config, &zero);

	return flags && (*flags & what) == what;
}

static __always_inline int takes_unknown_esp(void)
{
	return is_set(TAKE_UNKNOWN_ESP);
}

// Of the frames that come at once on several CPUs exactly one is the sample.
static __always_inline enum verdict sample(struct sa_value *sa)
{
#ifdef PACKET
	__u32 was = __sync_val_compare_and_swap(&sa->what, LET_ONE_PASS, TAKE);

	return was == LET_ONE_PASS ? PASS_SAMPLE : TAKE_ESP;
#else
	enum verdict verdict = TAKE_ESP;

	bpf_spin_lock(&sa->lock);
	if (sa->what == LET_ONE_PASS) {
		sa->what = TAKE;
		verdict = PASS_SAMPLE;
	}
	bpf_spin_unlock(&sa->lock);
	return verdict;
#endif
}

static __always_inline enum verdict judge_spi(const struct packet *p)
{
	struct sa_value *sa;

	if (p->is_v6) {
		struct sa6 key = { .dst = p->dst, .spi = p->spi };
		sa = bpf_map_lookup_elem(&sad6, &key);
	} else {
		struct sa4 key = { .dst = p->dst.s6_addr32[0], .spi = p->spi };
		sa = bpf_map_lookup_elem(&sad4, &key);
	}
	if (sa && sa->what == TAKE)
		return TAKE_ESP;
	if (sa)
		return p->is_trial ? PASS_SAMPLE : sample(sa);
	return takes_unknown_esp() ? TAKE_UNKNOWN : PASS_UNKNOWN_ESP;
}

// ESP or AH to a local address, with the SPI in its first or second word. A frame too short for an SPI
// is judged as SPI 0, which no SA has. A later fragment has no SPI: where unknown ESP is the kernel's,
// fragments are, which can put them together.
static __always_inline enum verdict judge_ipsec(struct packet *p, int word)
{
	__be32 *spi = (__be32 *)p->next + word;

	if (p->is_fragment)
		return takes_unknown_esp() ? TAKE_ESP_FRAGMENT : PASS_UNKNOWN_ESP;
	p->spi = (void *)(spi + 1) > p->end ? 0 : *spi;
	return ASK_SAD;
}

// UDP to a local address (RFC 3948). ASK_POLICIES: a port of no kind.
static __always_inline enum verdict judge_udp(struct packet *p)
{
	struct udphdr *udp = p->next;
	__u8 *payload;
	__be32 *marker;
	__u16 len;

	if (p->is_fragment && is_set(TAKE_UNKNOWN_ESP | TAKE_UDP_FRAGMENTS))
		return TAKE_UDP_FRAGMENT;
	if (p->is_later)
		return PASS_UDP_FRAGMENT;
	if ((void *)(udp + 1) > p->end)
		return ASK_POLICIES;
	__u8 *port = bpf_map_lookup_elem(&ports, &udp->dest);
	if (!port)
		return ASK_POLICIES;
	if (*port == PORT_OVERLAY)
		return p->is_fragment ? ASK_POLICIES : TAKE_LOCAL;
	if (*port == PORT_IKE)
		return PASS_IKE;
	len = bpf_ntohs(udp->len);
	payload = (__u8 *)(udp + 1);
	if (len == sizeof(*udp) + 1) {
		if (payload + 1 <= (__u8 *)p->end && *payload == 0xff)
			return PASS_KEEPALIVE;
		return PASS_IKE;
	}
	marker = (__be32 *)payload;
	if (len < sizeof(*udp) + 4 || (void *)(marker + 1) > p->end)
		return PASS_IKE;
	if (*marker == 0)
		return PASS_IKE;
	p->spi = *marker;
	return ASK_SAD;
}

static __always_inline int is_natt_port(__be16 *port, void *end)
{
	__u8 *kind;

	if ((void *)(port + 1) > end)
		return 0;
	kind = bpf_map_lookup_elem(&ports, port);
	return kind && *kind == PORT_NATT;
}

// Whether a packet with this behind its IPv6 header may have got segments here (SRv6): their header, or what was
// wrapped.
static __always_inline int may_have_segments(__u8 next)
{
	return next == IPPROTO_ROUTING || next == IPPROTO_IPIP || next == IPPROTO_IPV6 ||
	       next == PROTO_ETHERNET;
}

// An ICMP error to a local address that says that ESP was too big (RFC 1191, RFC 8201), bare or in
// UDP; or any about a packet with segments. Whether an SA or a route of ours has sent that is culvert's to find out.
static __always_inline int is_too_big(const struct packet *p)
{
	__u8 *icmp = p->next;
	void *quoted = icmp + 8;

	if (p->is_fragment || quoted > p->end)
		return 0;
	if (p->is_v6) {
		struct ipv6hdr *ip = quoted;

		if (p->protocol != IPPROTO_ICMPV6 || icmp[0] < ICMPV6_DEST_UNREACH ||
		    icmp[0] > ICMPV6_PARAMPROB || (void *)(ip + 1) > p->end)
			return 0;
		if (may_have_segments(ip->nexthdr))
			return is_set(TAKE_SEGMENT_ERRORS);
		if (icmp[0] != ICMPV6_PKT_TOOBIG)
			return 0;
		return ip->nexthdr == IPPROTO_ESP ||
		       (ip->nexthdr == IPPROTO_UDP && is_natt_port((void *)(ip + 1), p->end));
	}
	struct iphdr *ip = quoted;

	if (p->protocol != IPPROTO_ICMP || icmp[0] != ICMP_DEST_UNREACH ||
	    icmp[1] != ICMP_FRAG_NEEDED || (void *)(ip + 1) > p->end)
		return 0;
	return ip->protocol == IPPROTO_ESP ||
	       (ip->protocol == IPPROTO_UDP && is_natt_port(quoted + ip->ihl * 4, p->end));
}

static __always_inline enum verdict judge_local(struct packet *p)
{
	if (p->protocol == IPPROTO_ESP)
		return judge_ipsec(p, 0);
	if (p->protocol == IPPROTO_AH)
		return judge_ipsec(p, 1);
	if (p->protocol == IPPROTO_UDP)
		return judge_udp(p);
	if (p->protocol == IPPROTO_GRE && !p->is_fragment && is_set(TAKE_GRE))
		return TAKE_LOCAL;
	if (p->protocol == PROTO_L2TP && !p->is_fragment && is_set(TAKE_L2TP))
		return TAKE_LOCAL;
	return is_too_big(p) ? TAKE_TOO_BIG : ASK_POLICIES;
}

// TCP: FIN, SYN, RST.
#define TCP_FLAGS 13
#define TCP_BEGINS_OR_ENDS 0x07
#define ICMP_ECHOREPLY 0
#define ICMP_ECHO 8
#define ICMPV6_ECHO_REQUEST 128
#define ICMPV6_ECHO_REPLY 129

static __always_inline int is_known_flow(const struct packet *p)
{
	__u8 *upper = p->next;
	__be16 ports[2];

	if (p->is_fragment || (void *)(upper + 8) > p->end)
		return 0;
	if (p->protocol == IPPROTO_TCP) {
		if ((void *)(upper + TCP_FLAGS + 1) > p->end || upper[TCP_FLAGS] & TCP_BEGINS_OR_ENDS)
			return 0;
	} else if (p->protocol == IPPROTO_ICMP || p->protocol == IPPROTO_ICMPV6) {
		if (p->is_v6 ? upper[0] != ICMPV6_ECHO_REQUEST && upper[0] != ICMPV6_ECHO_REPLY
			     : upper[0] != ICMP_ECHO && upper[0] != ICMP_ECHOREPLY)
			return 0;
	} else if (p->protocol != IPPROTO_UDP) {
		return 0;
	}
	if (p->protocol == IPPROTO_TCP || p->protocol == IPPROTO_UDP) {
		ports[0] = ((__be16 *)upper)[0];
		ports[1] = ((__be16 *)upper)[1];
	} else {
		ports[0] = ((__be16 *)upper)[2];
		ports[1] = ((__be16 *)upper)[0];
	}
	if (p->is_v6) {
		struct ipv6hdr *ip = p->ip;

		if ((void *)(ip + 1) > p->end || (void *)(ip + 1) != p->next)
			return 0;
		struct flow6 key = {
			.src = ip->saddr,
			.dst = p->dst,
			.ports = { ports[0], ports[1] },
			.protocol = p->protocol,
		};
		return bpf_map_lookup_elem(&flows6, &key) != NULL;
	}
	struct iphdr *ip = p->ip;

	if ((void *)(ip + 1) > p->end || ip->ihl != 5)
		return 0;
	struct flow4 key = {
		.src = ip->saddr,
		.dst = ip->daddr,
		.ports = { ports[0], ports[1] },
		.protocol = p->protocol,
	};
	return bpf_map_lookup_elem(&flows4, &key) != NULL;
}

static __always_inline enum verdict parse_v4(struct packet *p, void *data)
{
	struct iphdr *ip = data;
	__u16 offset;

	if ((void *)(ip + 1) > p->end || ip->version != 4 || ip->ihl < 5)
		return PASS_MALFORMED;
	if ((ip->daddr & bpf_htonl(0xf0000000)) == bpf_htonl(0xe0000000) ||
	    ip->daddr == bpf_htonl(0xffffffff) || ip->daddr == 0)
		return PASS_MULTICAST;
	offset = bpf_ntohs(ip->frag_off);
	p->is_fragment = offset & 0x3fff;
	p->is_later = offset & 0x1fff;
	p->dst.s6_addr32[0] = ip->daddr;
	p->protocol = ip->protocol;
	p->ip = data;
	p->next = data + ip->ihl * 4;
	return ASK_ADDRESSES;
}

static __always_inline enum verdict parse_v6(struct packet *p, void *data)
{
	struct ipv6hdr *ip = data;

	if ((void *)(ip + 1) > p->end || ip->version != 6)
		return PASS_MALFORMED;
	if (ip->daddr.s6_addr[0] == 0xff)
		return PASS_MULTICAST;
	p->is_v6 = 1;
	p->dst = ip->daddr;
	p->hop_limit = ip->hop_limit;
	p->protocol = ip->nexthdr;
	p->ip = ip;
	p->next = ip + 1;
	return ASK_ADDRESSES;
}

static __always_inline int is_link_local(const struct packet *p)
{
	return p->is_v6 && (p->dst.s6_addr32[0] & bpf_htonl(0xffc00000)) == bpf_htonl(0xfe800000);
}

// Goes over extension headers. Where they cannot be followed, only the addresses are known: they still
// decide whether policy must see it. There is no branch for fragment headers, as the verifier would follow
// each of their combinations.
static __always_inline void skip_extensions(struct packet *p)
{
	__u32 offset = 0;
	int i;

	for (i = 0; i < MAX_EXTENSIONS; i++) {
		struct extension *extension = p->next;
		__u32 fragment;

		if (p->protocol > 63 || !(EXTENSIONS >> p->protocol & 1))
			break;
		if ((void *)(extension + 1) > p->end) {
			p->protocol = NO_PROTOCOL;
			break;
		}
		extension = BOUNDED(p, (void *)extension);
		fragment = ((p->protocol ^ IPPROTO_FRAGMENT) - 1U) >> 31;
		OPAQUE(fragment);
		offset |= bpf_ntohs(extension->offset) * fragment;
		p->protocol = extension->next;
		// A mask: the verifier of Linux 6.1 knows no bounds of a product.
		p->next += ((extension->len & (fragment - 1)) + 1) * 8;
		if (offset & 0xfff8)
			break;
	}
	p->is_fragment = offset & 0xfff9;
	p->is_later = offset & 0xfff8;
#ifdef PACKET
	if (p->next > p->end)
		p->next = p->end;
	p->next = BOUNDED(p, p->next);
#endif
}

// RFC 4861: hop limit 255, so no router has forwarded it; not fragmented (RFC 6980).
static __always_inline int is_neighbour_discovery(const struct packet *p)
{
	__u8 *type = p->next;

	if (p->protocol != IPPROTO_ICMPV6 || p->hop_limit != 255 || p->is_fragment)
		return 0;
	return (void *)(type + 1) <= p->end && *type >= 133 && *type <= 137;
}

// The headers, as far as any frame's are looked at.
static __always_inline enum verdict parse(void *frame, struct packet *p)
{
	struct ethhdr *eth = frame;
	void *data = eth + 1;
	__u32 vlan = 0, shift = 0;
	__be16 type;
	int i;

	if (data > p->end)
		return PASS_MALFORMED;
	type = eth->h_proto;
	for (i = 0; i < MAX_VLAN_TAGS; i++) {
		struct vlan_tag *tag = data;
		__u32 id, is_vlan;

		if (type != bpf_htons(ETH_P_8021Q) && type != bpf_htons(ETH_P_8021AD))
			break;
		if ((void *)(tag + 1) > p->end)
			return PASS_MALFORMED;
		// Without a branch, as the verifier would follow each combination.
		id = bpf_ntohs(tag->tci) & 0xfff;
		is_vlan = (0 - id) >> 31;
		OPAQUE(is_vlan);
		vlan |= (id | SERVICE(type)) * is_vlan << shift;
		shift += 16 * is_vlan;
		type = tag->next;
		data = tag + 1;
	}
	if (type != bpf_htons(ETH_P_IP) && type != bpf_htons(ETH_P_IPV6))
		return PASS_NOT_IP;
	OPAQUE(vlan);
#ifdef BESIDE
	// That beside the frame is the outer one; with two in it they are too many.
	if (p->vlan && shift > 16)
		return PASS_VLAN;
	if (p->vlan)
		vlan = vlan << 16 | p->vlan;
#endif
	if (vlan && !bpf_map_lookup_elem(&vlans, &vlan))
		return PASS_VLAN;
	if (eth->h_dest[0] & 1)
		return PASS_MULTICAST;
	// The verifier does not know a difference of pointers: so it sees what follows once, and not for
	// each number of tags.
	OPAQUE(data);
	data = (void *)(eth + 1) + ((data - (void *)(eth + 1)) & 12);
	if (type == bpf_htons(ETH_P_IP))
		return parse_v4(p, data);
	return parse_v6(p, data);
}

static __always_inline enum verdict find(void *frame, void *end, __u32 is_trial, __u32 vlan)
{
	struct packet packet = { .end = end, .is_trial = is_trial };
	struct packet *p = &packet;
	enum verdict verdict;
	int local;

#ifdef PACKET
	p->head = frame;
#endif
#ifdef BESIDE
	p->vlan = vlan;
#else
	(void)vlan;
#endif
	verdict = parse(frame, p);

	if (verdict != ASK_ADDRESSES)
		return verdict;
	OPAQUE(p->is_v6);
	local = is_local(p);
	if (p->is_v6 && (local || is_link_local(p))) {
		skip_extensions(p);
		// To this host, or to an address that is never routed: not a way around the policies.
		if (is_neighbour_discovery(p))
			return PASS_NEIGHBOUR;
	}
	if (takes_flows && is_known_flow(p))
		return TAKE_FLOW;
	verdict = local ? judge_local(p) : ASK_POLICIES;
	if (verdict == ASK_SAD)
		return judge_spi(p);
	if (verdict != ASK_POLICIES)
		return verdict;
	if (is_protected(p))
		return local ? TAKE_LOCAL : TAKE_TRANSIT;
	return local ? PASS_LOCAL : PASS_TRANSIT;
}

static __always_inline enum verdict look(void *frame, void *end, __u32 is_trial, __u32 vlan)
{
	enum verdict verdict = find(frame, end, is_trial, vlan);

	if (verdict >= TAKE_ESP && is_set(WATCHDOG) && !is_daemon_alive())
		return PASS_NO_DAEMON;
	return verdict;
}

static __always_inline void count(__u32 verdict)
{
	__u64 *counter = bpf_map_lookup_elem(&stats, &verdict);

	if (counter)
		*counter += 1;
}

#ifndef PACKET

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, __u32);
} xsks SEC(".maps");

// Whether the frame lies in several buffers.
static __always_inline int is_scattered(struct xdp_md *ctx)
{
	return bpf_xdp_get_buff_len(ctx) > (__u64)(ctx->data_end - ctx->data);
}

#ifndef BESIDE

static __always_inline enum verdict look_at(struct xdp_md *ctx)
{
	return look((void *)(long)ctx->data, (void *)(long)ctx->data_end, 0, 0);
}

static __always_inline int act(struct xdp_md *ctx, enum verdict verdict)
{
	long action;

	count(verdict);
	if (verdict < TAKE_ESP)
		return XDP_PASS;
	action = bpf_redirect_map(&xsks, ctx->rx_queue_index, XDP_PASS);
	if (action != XDP_REDIRECT)
		count(NO_SOCKET);
	return action;
}

SEC("xdp")
int steer(struct xdp_md *ctx)
{
	return act(ctx, look_at(ctx));
}

// For interfaces whose MTU needs several buffers per frame. A frame that culvert has to take but
// that does not lie in one buffer does not fit a UMEM chunk; passing it to the kernel would bypass
// the policies.
SEC("xdp.frags")
int steer_frags(struct xdp_md *ctx)
{
	enum verdict verdict = look_at(ctx);

	if (verdict >= TAKE_ESP && is_scattered(ctx)) {
		count(DROP_TOO_LONG);
		return XDP_DROP;
	}
	return act(ctx, verdict);
}

#endif
#endif

// No helper that is used here asks for the GPL. Functions of the kernel do: MIT's terms let what is under them be
// under the GPL too.
#ifdef CALLS_KERNEL
char LICENSE[] SEC("license") = "Dual MIT/GPL";
#else
char LICENSE[] SEC("license") = "Apache-2.0 OR MIT";
#endif
