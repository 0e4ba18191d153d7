//! Joins consecutive TCP segments of one flow into one super-packet (GRO), strictly enough that
//! cutting it again gives the very same packets; and, where asked for, consecutive UDP datagrams.
//!
//! Two segments are joined when all of this holds:
//! * IPv4 without options and not a fragment, or IPv6 without extension headers; the lengths in
//!   the headers are the packet's; the checksums are right.
//! * The IP headers are the same but for lengths, checksum, and IPv4's identification, which counts
//!   up by one. (Linux also joins DF packets with a constant identification, which cutting could
//!   not restore.)
//! * The TCP headers are the same, options included, but for sequence number, PSH and checksum;
//!   the sequence numbers follow on; no flag but ACK and PSH.
//! * What stands in front of them is the same: what [`back`](super::back) has put there, or Ethernet.
//! * Each has payload, all as much as the first; only the last may have less, and only the last
//!   may have PSH.
//!
//! UDP datagrams are joined by the same rules, without those of TCP ([`Joined::TcpAndUdp`]). Two things are less
//! strict. Cutting counts IPv4's identification up: where DF is set, it may be any, as nobody reads it (RFC 6864
//! §4.1). And cutting computes checksums, but not those of ESP in UDP over IPv4 (RFC 3948 §2.1), which is told by its
//! port: over IPv6, or where Linux cuts, it gets one.
//!
//! TCP segments in VXLAN or GENEVE are joined by the same rules where Linux takes them whole (`around`).
//!
//! Packets of other flows may lie in between. Packets of one flow are never reordered.

use arrayvec::ArrayVec;

use crate::umem::BURST_LEN;

use super::around::{Around, Ends};
use super::checks::{computed, sum_without, udp_checksum_is_right};
use super::layout::{Layout, TCP, UDP, double_word, put, set_ipv4_checksum, word};
use super::segment::is_natt;
use super::vnet::{Gso, VnetHeader};

/// The headers of a super-packet: at most 40 bytes of IPv6 and 60 of TCP, or as many with a tunnel's in front.
pub type SuperHeader = ArrayVec<u8, SUPER_HEADER_LEN>;

/// Which packets are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joined {
    /// None: each packet is a run.
    None,
    /// TCP segments are joined.
    Tcp,
    /// UDP datagrams too.
    TcpAndUdp,
}

/// A packet's part in joining.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Of a protocol that is not joined: free to stay where it is.
    Other,
    /// Of a flow that can't be told: nothing is moved past it.
    Barrier,
    /// A TCP segment or UDP datagram.
    Flow(Segment),
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    /// The headers of the tunnel that it is in. All lengths below are from the IP header inside.
    around: Option<Around>,
    is_v4: bool,
    is_udp: bool,
    ip_len: usize,
    hdr_len: usize,
    payload_len: usize,
    seq: u32,
    psh: bool,
    /// Fulfils what a segment must fulfil by itself (except checksums).
    joinable: bool,
}

/// A burst's packets, looked at once; hands out the runs to be written.
#[derive(Debug)]
pub struct Plan<'a> {
    packets: ArrayVec<(&'a [u8], Kind), BURST_LEN>,
    /// Bytes in front of each packet.
    prefixes: ArrayVec<&'a [u8], BURST_LEN>,
    /// One bit a packet: it is in a run already.
    planned: u64,
}

/// Packets to be written as one.
#[derive(Clone, Debug)]
pub struct Run {
    /// Their places in the burst, in order; never empty.
    pub members: ArrayVec<usize, BURST_LEN>,
    /// Payload of the first member, in bytes, when there are several.
    size: usize,
    /// Payload of all.
    payload_len: usize,
}

impl<'a> Plan<'a> {
    /// Looks at the packets, each with what stands in front of it; those past a burst's length are not taken in.
    pub fn new(packets: impl Iterator<Item = (&'a [u8], &'a [u8])>, joined: Joined) -> Self {
        Self::with_tunnels(packets, joined, None)
    }

    /// As [`Self::new`], but joins TCP segments in tunnels too that go to one of the ends.
    pub fn with_tunnels(
        packets: impl Iterator<Item = (&'a [u8], &'a [u8])>,
        joined: Joined,
        ends: Option<&Ends>,
    ) -> Self {
        let mut plan = Self { packets: ArrayVec::new(), prefixes: ArrayVec::new(), planned: 0 };
        for (prefix, packet) in packets.take(BURST_LEN) {
            // What goes back to an interface is taken up there by a program, which knows nothing of tunnels.
            let ends = ends.filter(|_| prefix.is_empty());
            plan.packets.push((packet, inspect(packet, joined, ends)));
            plan.prefixes.push(prefix);
        }
        plan
    }

    /// The IP packet at a place of the burst; empty if there is none.
    pub fn packet(&self, place: usize) -> &'a [u8] {
        self.packets.get(place).map_or(&[], |&(packet, _)| packet)
    }

    /// Bytes in front of the packet at a place.
    pub fn prefix(&self, place: usize) -> &'a [u8] {
        self.prefixes.get(place).copied().unwrap_or(&[])
    }

    /// The next run: begins with the first packet that is in none yet.
    pub fn next_run(&mut self) -> Option<Run> {
        let first = (!self.planned).trailing_zeros() as usize;
        let &(packet, kind) = self.packets.get(first)?;
        self.planned |= 1 << first;
        let mut run = Run { members: ArrayVec::new(), size: 0, payload_len: 0 };
        run.members.push(first);
        let Kind::Flow(segment) = kind else { return Some(run) };
        run.size = segment.payload_len;
        run.payload_len = segment.payload_len;
        if !segment.joinable || segment.psh {
            return Some(run);
        }
        let mut first_checked = false;
        for (place, &(candidate, kind)) in self.packets.iter().enumerate().skip(first + 1) {
            if self.planned & (1 << place) != 0 {
                continue;
            }
            let next = match kind {
                Kind::Other => continue,
                Kind::Barrier => break,
                Kind::Flow(next) if !same_flow(packet, &segment, candidate, &next) => continue,
                Kind::Flow(next) => next,
            };
            let len = self.prefix(first).len()
                + segment.payload_at()
                + run.payload_len
                + next.payload_len;
            if len > MAX_SUPER_LEN
                || self.prefix(place) != self.prefix(first)
                || !follows(packet, &segment, &run, candidate, &next)
            {
                break;
            }
            if !first_checked && !checksums_right(packet, &segment) {
                break;
            }
            first_checked = true;
            if !checksums_right(candidate, &next) {
                break;
            }
            self.planned |= 1 << place;
            run.members.push(place);
            run.payload_len += next.payload_len;
            if next.psh || next.payload_len < run.size {
                break;
            }
        }
        Some(run)
    }

    /// The vnet header and the packet headers of a run of several, and where its members' payloads
    /// begin, in bytes from their IP headers. `None` for a run of one, which is written as it is.
    pub fn super_header(&self, run: &Run) -> Option<(VnetHeader, SuperHeader, usize)> {
        let [first, .., last] = run.members.as_slice() else { return None };
        let &(packet, Kind::Flow(segment)) = self.packets.get(*first)? else { return None };
        let &(_, Kind::Flow(last)) = self.packets.get(*last)? else { return None };
        let mut header = SuperHeader::new();
        header.try_extend_from_slice(packet.get(..segment.payload_at())?).ok()?;
        let (outer, inside) = header.split_at_mut_checked(segment.at())?;
        let len = segment.hdr_len + run.payload_len;
        let layout = Layout {
            is_v4: segment.is_v4,
            protocol: segment.protocol(),
            ip_len: segment.ip_len,
            is_fragment: false,
        };
        if segment.is_v4 {
            put(inside, 2, len as u16);
            set_ipv4_checksum(inside.get_mut(..segment.ip_len)?);
        } else {
            put(inside, 4, (len - segment.ip_len) as u16);
        }
        if segment.is_udp {
            put(inside, segment.ip_len + 4, (len - segment.ip_len) as u16);
        }
        if last.psh
            && let Some(flags) = inside.get_mut(segment.ip_len + 13)
        {
            *flags |= PSH;
        }
        // The kernel adds the rest: a partial checksum is the pseudo header's sum.
        let partial = layout.pseudo_header(inside, len - segment.ip_len).folded();
        put(inside, segment.ip_len + segment.csum_offset(), partial);
        if let Some(around) = segment.around {
            around.complete(outer, segment.at() + len);
        }
        let vnet = VnetHeader {
            needs_csum: true,
            gso: match (segment.is_udp, segment.is_v4) {
                (true, _) => Gso::Udp,
                (false, true) => Gso::TcpV4,
                (false, false) => Gso::TcpV6,
            },
            hdr_len: segment.payload_at() as u16,
            gso_size: run.size as u16,
            csum_start: (segment.at() + segment.ip_len) as u16,
            csum_offset: segment.csum_offset() as u16,
            tunnel: segment.around.map(|around| around.tunnel(&header)),
        };
        Some((vnet, header, segment.payload_at()))
    }
}

impl Run {
    /// True if its members are in a tunnel, and several.
    pub fn is_in_tunnel(&self, plan: &Plan<'_>) -> bool {
        let [first, _, ..] = self.members.as_slice() else { return false };
        matches!(plan.packets.get(*first), Some((_, Kind::Flow(segment))) if segment.around.is_some())
    }
}

impl Segment {
    /// Where its IP header begins, in bytes from the packet's.
    fn at(&self) -> usize {
        self.around.map_or(0, |around| around.at())
    }

    /// Where its payload begins, in bytes from the packet's IP header.
    fn payload_at(&self) -> usize {
        self.at() + self.hdr_len
    }

    /// The packet without a tunnel's headers.
    fn inside<'a>(&self, packet: &'a [u8]) -> &'a [u8] {
        packet.get(self.at()..).unwrap_or(&[])
    }

    const fn protocol(&self) -> u8 {
        if self.is_udp { UDP } else { TCP }
    }

    /// Where the checksum lies in the transport header.
    const fn csum_offset(&self) -> usize {
        if self.is_udp { 6 } else { 16 }
    }
}

fn inspect(packet: &[u8], joined: Joined, ends: Option<&Ends>) -> Kind {
    let Some(layout) = Layout::of(packet) else { return Kind::Other };
    if let Some(around) = ends.and_then(|ends| Around::of(packet, &layout, ends)) {
        let inside = packet.get(around.at()..).unwrap_or(&[]);
        // What is inside of a tunnel again is of no flow that could be told here, and stays as it is.
        return match inspect(inside, Joined::Tcp, None) {
            Kind::Flow(segment) => {
                let has_room = around.at() + segment.hdr_len <= SUPER_HEADER_LEN;
                let joinable = segment.joinable && has_room;
                Kind::Flow(Segment { around: Some(around), joinable, ..segment })
            }
            other => other,
        };
    }
    let ip_len = layout.ip_len;
    match layout.protocol {
        TCP if joined != Joined::None => {}
        UDP if joined == Joined::TcpAndUdp => return inspect_udp(packet, &layout),
        _ => return Kind::Other,
    }
    let Some(tcp) = packet.get(ip_len..).and_then(|rest| rest.first_chunk::<20>()) else {
        return Kind::Barrier;
    };
    let tcp_len = usize::from(tcp[12] >> 4) * 4;
    let hdr_len = ip_len + tcp_len;
    if layout.is_fragment || tcp_len < 20 || packet.len() < hdr_len {
        return Kind::Barrier;
    }
    let payload_len = packet.len() - hdr_len;
    let flags_allow = tcp[12] & 0xf == 0 && tcp[13] & !PSH == ACK;
    Kind::Flow(Segment {
        around: None,
        is_v4: layout.is_v4,
        is_udp: false,
        ip_len,
        hdr_len,
        payload_len,
        seq: double_word(packet, ip_len + 4),
        psh: tcp[13] & PSH != 0,
        joinable: is_plain(packet, &layout) && flags_allow && payload_len > 0,
    })
}

fn inspect_udp(packet: &[u8], layout: &Layout) -> Kind {
    let ip_len = layout.ip_len;
    let hdr_len = ip_len + 8;
    if layout.is_fragment || packet.len() < hdr_len {
        return Kind::Barrier;
    }
    let payload_len = packet.len() - hdr_len;
    let is_plain =
        is_plain(packet, layout) && usize::from(word(packet, ip_len + 4)) == payload_len + 8;
    Kind::Flow(Segment {
        around: None,
        is_v4: layout.is_v4,
        is_udp: true,
        ip_len,
        hdr_len,
        payload_len,
        seq: 0,
        psh: false,
        joinable: is_plain && payload_len > 0,
    })
}

/// No options or extension headers, and as long as its header says.
fn is_plain(packet: &[u8], layout: &Layout) -> bool {
    if layout.is_v4 {
        layout.ip_len == 20 && usize::from(word(packet, 2)) == packet.len()
    } else {
        layout.ip_len == 40 && usize::from(word(packet, 4)) + 40 == packet.len()
    }
}

/// Addresses and ports are the same.
fn same_flow(a: &[u8], a_is: &Segment, b: &[u8], b_is: &Segment) -> bool {
    if a_is.is_v4 != b_is.is_v4 || a_is.is_udp != b_is.is_udp {
        return false;
    }
    let ends_same = match (a_is.around, b_is.around) {
        (Some(around), Some(_)) => around.has_same_ends(a, b),
        (a, b) => a.is_none() && b.is_none(),
    };
    if !ends_same {
        return false;
    }
    let (a, b) = (a_is.inside(a), b_is.inside(b));
    let addresses = if a_is.is_v4 { 12..20 } else { 8..40 };
    a.get(addresses.clone()) == b.get(addresses)
        && a.get(a_is.ip_len..a_is.ip_len + 4) == b.get(b_is.ip_len..b_is.ip_len + 4)
}

/// `next` carries on where the run ends, and differs from the run's first packet only where it may.
fn follows(first: &[u8], first_is: &Segment, run: &Run, next: &[u8], next_is: &Segment) -> bool {
    if let (Some(around), Some(next_around)) = (first_is.around, next_is.around)
        && !around.follows(first, next, &next_around, run.members.len() as u16)
    {
        return false;
    }
    let (first, next) = (first_is.inside(first), next_is.inside(next));
    let same = |range: core::ops::Range<usize>| first.get(range.clone()) == next.get(range);
    let ip_len = first_is.ip_len;
    let joinable = next_is.joinable
        && next_is.hdr_len == first_is.hdr_len
        && next_is.ip_len == ip_len
        && next_is.payload_len <= run.size;
    let ip_same = if first_is.is_v4 {
        let id = word(first, 4).wrapping_add(run.members.len() as u16);
        let is_any_id = first_is.is_udp && word(first, 6) & DF != 0;
        // Version, DS field; flags and TTL.
        (is_any_id || word(next, 4) == id) && same(0..2) && same(6..10)
    } else {
        // Version, traffic class and flow label; next header and hop limit.
        same(0..4) && same(6..8)
    };
    if first_is.is_udp {
        return joinable && ip_same;
    }
    // Acknowledgement number and offset; window; urgent pointer and options.
    let tcp_same = next_is.seq == first_is.seq.wrapping_add(run.payload_len as u32)
        && same(ip_len + 8..ip_len + 13)
        && same(ip_len + 14..ip_len + 16)
        && same(ip_len + 18..first_is.hdr_len);
    joinable && ip_same && tcp_same
}

/// The checksums are what segmentation would compute. A wrong one must stay wrong.
fn checksums_right(packet: &[u8], is: &Segment) -> bool {
    if is.around.is_some_and(|around| !around.checksums_right(packet)) {
        return false;
    }
    let packet = is.inside(packet);
    let (Some(ip), Some(transport)) = (packet.get(..is.ip_len), packet.get(is.ip_len..)) else {
        return false;
    };
    let ip_right =
        !is.is_v4 || sum_without(ip, 10).is_some_and(|sum| sum.checksum() == word(packet, 10));
    let layout =
        Layout { is_v4: is.is_v4, protocol: is.protocol(), ip_len: is.ip_len, is_fragment: false };
    if is.is_udp {
        let is_none = word(transport, 6) == 0;
        return ip_right
            && if is_none {
                is_natt(transport, 0)
            } else {
                udp_checksum_is_right(packet, &layout)
            };
    }
    ip_right
        && computed(packet, &layout, is.csum_offset()) == Some(word(transport, is.csum_offset()))
}

/// Plans and joins what arbitrary bytes describe; a fuzz target's entry. Each packet is preceded
/// by its length in two bytes.
///
/// # Panics
///
/// When a packet is planned twice or never, or a run does not add up.
pub fn fuzz(data: &[u8]) {
    let mut packets: Vec<&[u8]> = Vec::new();
    let mut rest = data;
    while let Some((len, tail)) = rest.split_first_chunk::<2>() {
        let len = usize::from(u16::from_be_bytes(*len)).min(tail.len());
        let (packet, tail) = tail.split_at(len);
        packets.push(packet);
        rest = tail;
    }
    packets.truncate(BURST_LEN);
    let mut ends = Ends::default();
    // The first packet came from Linux.
    if let Some(packet) = packets.first() {
        ends.learn(packet, usize::MAX);
    }
    let mut plan = Plan::with_tunnels(
        packets.iter().map(|p| super::back::split(p)),
        Joined::TcpAndUdp,
        Some(&ends),
    );
    let mut seen = vec![false; packets.len()];
    while let Some(run) = plan.next_run() {
        for &member in &run.members {
            assert!(!core::mem::replace(&mut seen[member], true), "planned twice");
        }
        if let Some((vnet, header, payload_at)) = plan.super_header(&run) {
            assert_eq!(header.len(), payload_at);
            assert!(vnet.gso_size > 0);
            let payload: usize =
                run.members.iter().map(|&at| plan.packet(at).len() - payload_at).sum();
            assert_eq!(payload, run.payload_len);
        }
    }
    assert!(seen.iter().all(|&seen| seen), "never planned");
}

const SUPER_HEADER_LEN: usize = 160;
const ACK: u8 = 0x10;
const PSH: u8 = 0x08;
/// In the word of IPv4's flags.
const DF: u16 = 0x4000;
/// The longest packet that IPv4's length field can name; with all that stands in front of it a network card takes
/// no more either.
const MAX_SUPER_LEN: usize = 65535;

#[cfg(test)]
#[path = "coalesce_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "coalesce_udp_tests.rs"]
mod udp_tests;

#[cfg(test)]
#[path = "around_tests.rs"]
mod around_tests;
