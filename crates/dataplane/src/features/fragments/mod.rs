//! Fragments that wait for the others of their packet.
//!
//! | fragments | until | then |
//! | --- | --- | --- |
//! | of ESP for this host, bare or in UDP | all are there | one packet, classified and opened as any other (RFC 4303 §3.4.1) |
//! | of other UDP for this host | the first is there | back to Linux, as they came and in their order |
//! | of what a transport mode SA protects | all are there | one packet, which is sealed (RFC 4303 §3.3.4) |
//! | of GTP-U that is decrypted, for applications | all are there | one packet, whose TEID says for which |
//! | of what a selector with ports may concern | the first is there | each is judged by the first one's ports (RFC 4301 §7.3) |
//!
//! All fragments between two addresses wait at one worker, by a hash of the addresses, whichever
//! received them. What is done with moves on behind the burst ([`crate::slow`]), so no stage calls
//! itself. A packet that no ordinary frame holds gets one from a pool of large ones.

mod join;

use core::net::IpAddr;
use std::sync::Arc;

use forward::reassembly::{Done, Treatment, Unjoined};
use forward::{FragmentKey, Reassembler, ReassemblyLimits};
use io::{ChunkSize, FramePool, Packet, Umem, UmemConfig};
use outcome::{DropReason, Outcome};
use wire::natt::{self, NattPayload};
use wire::{FragmentFields, gtpu, protocol};

use crate::host_limits::HostLimits;
use crate::model::{Arrived, FirstPorts, Gather, Handed, Meta};
use crate::out::{AnyOut, Out};
use crate::view::View;

/// The fragments of one worker.
pub(crate) struct Fragments {
    waiting: Reassembler<Handed, FirstPorts>,
    /// Frames for long packets, where there was memory for them.
    large: Option<FramePool>,
    shared: Arc<HostLimits>,
    workers: usize,
}

impl Fragments {
    /// The fragments of one of `workers` workers that share packet buffers, as `pool` knows them.
    pub(crate) fn new(shared: Arc<HostLimits>, workers: usize, pool: &FramePool) -> Fragments {
        let config = UmemConfig {
            chunks: LARGE_FRAMES,
            chunk_size: ChunkSize::Bytes131072,
            populate: false,
        };
        Fragments {
            waiting: Reassembler::new(limits(workers, pool.chunks())),
            large: Umem::new(config).ok().map(|(_, pool)| pool),
            shared,
            workers,
        }
    }

    /// Frames for packets that no ordinary one holds, where there was memory for them.
    pub(crate) fn large(&mut self) -> Option<&mut FramePool> {
        self.large.as_mut()
    }

    /// The next that is done with.
    pub(crate) fn next_done(&mut self) -> Option<Done<FirstPorts>> {
        self.waiting.next_done()
    }

    /// The packet's next fragment, in the order of arrival.
    pub(crate) fn pop_piece(&mut self, done: &mut Done<FirstPorts>) -> Option<Handed> {
        self.waiting.pop_piece(done).map(|(_, handed)| handed)
    }

    /// The worker at which all fragments between two addresses wait.
    fn home(&self, src: IpAddr, dst: IpAddr) -> usize {
        match self.workers {
            0 | 1 => 0,
            workers => self.shared.scatter.hash_one((src, dst)) as usize % workers,
        }
    }

    /// True if a packet is done with waiting.
    #[inline]
    pub(crate) fn has_done(&self) -> bool {
        self.waiting.has_done()
    }

    /// Gives up what has waited in vain.
    pub(crate) fn expire(&mut self, out: &mut Out, now_ns: u64) {
        if !self.waiting.is_idle() {
            self.waiting.expire(now_ns);
            self.drop_gone(out);
        }
    }

    /// Gives up all that waits: the worker goes, or another one is the fragments' home from now on.
    pub(crate) fn drop_all(&mut self, out: &mut Out) {
        self.waiting.clear();
        self.drop_gone(out);
    }

    fn drop_gone(&mut self, out: &mut Out) {
        while let Some((handed, reason)) = self.waiting.pop_gone() {
            out.released(1);
            out.drop(handed.into_packet(), drop_reason(reason));
        }
    }
}

/// Keeps a fragment of what may be ESP for this host.
#[cold]
#[inline(never)]
pub(crate) fn gather_outer(
    fragments: Option<&mut Fragments>,
    (view, out): (&View, &mut Out),
    packet: Packet,
    meta: &Meta,
) {
    let (flow, fields) = (&meta.summary.flow, meta.summary.fields);
    let ends = (flow.src(), flow.dst(), fields.protocol());
    let (ingress, has_flow, outers) = (meta.ingress, meta.has_flow, meta.outers().cloned());
    let arrived = Arrived { packet, ingress, has_flow, outers, held: None, ports: None };
    gather(fragments, (view, out), Handed::Arrived(arrived), ends, Gather::Outer);
}

/// Keeps a fragment until it can go on; `ends` are its addresses and protocol.
pub(crate) fn gather(
    fragments: Option<&mut Fragments>,
    (view, out): (&View, &mut Out),
    handed: Handed,
    (src, dst, number): (IpAddr, IpAddr, u8),
    why: Gather,
) {
    let Some(fragments) = fragments else {
        return out.drop(handed.into_packet(), DropReason::FragmentLimit);
    };
    let home = fragments.home(src, dst);
    if home != view.worker.get() && fragments.workers > 1 {
        return out.hand(home, handed);
    }
    let Some(fields) = FragmentFields::of(handed.packet().data()) else {
        return out.drop(handed.into_packet(), DropReason::MalformedIp);
    };
    let protocol = if src.is_ipv4() { number } else { 0 };
    let key = FragmentKey { src, dst, protocol, ident: fields.ident, scope: scope(&handed, why) };
    let judge = |first: &Handed| judge(first.packet(), number, why);
    match fragments.waiting.push(key, fields.into(), handed, view.now.ns, judge) {
        Ok(()) => out.counters.count(Outcome::Held, 1),
        Err((handed, reason)) => out.drop(handed.into_packet(), drop_reason(reason)),
    }
    fragments.drop_gone(out);
}

/// Treatment of a packet with this first fragment.
fn judge(first: &Packet, number: u8, why: Gather) -> Treatment<FirstPorts> {
    let h = wire::parse_ip(first.data());
    let ports = h.map_or((0, 0), |h| (h.src_port, h.dst_port));
    match why {
        Gather::Whole => Treatment::Join,
        Gather::Outer if number != protocol::UDP => Treatment::Join,
        Gather::Outer => {
            let at = h.map_or(0, |h| usize::from(h.header_len) + wire::udp::HEADER_LEN);
            let kind = first.data().get(at..).map(natt::classify);
            match ports.1 == natt::PORT && kind == Some(NattPayload::Esp) {
                true => Treatment::Join,
                false => Treatment::Pass(ports),
            }
        }
        Gather::Gtpu if ports.1 == gtpu::PORT => Treatment::Join,
        Gather::Gtpu | Gather::Ports => Treatment::Pass(ports),
    }
}

/// Context that fragments must share beside their headers: the reason that they wait, and their
/// ingress. Fragments that came by different SAs are not of one packet.
fn scope(handed: &Handed, why: Gather) -> u64 {
    let way = match handed {
        Handed::Arrived(Arrived { ingress, .. }) => (ingress.ifindex == 0, ingress.via()),
        _ => (true, None),
    };
    let is_again = !matches!(handed, Handed::Arrived(_));
    // No secret: an attacker who forges fragments forges them for one ingress.
    const SEEDS: ahash::RandomState = ahash::RandomState::with_seeds(1, 2, 3, 4);
    SEEDS.hash_one((why, way, is_again))
}

fn drop_reason(reason: Unjoined) -> DropReason {
    match reason {
        Unjoined::Malformed => DropReason::FragmentMalformed,
        Unjoined::Duplicate => DropReason::FragmentDuplicate,
        Unjoined::Overlap => DropReason::FragmentOverlap,
        Unjoined::Limit => DropReason::FragmentLimit,
        Unjoined::Timeout => DropReason::FragmentTimeout,
    }
}

/// The limits of one worker: those of all together do not depend on how many they are.
fn limits(workers: usize, frames: usize) -> ReassemblyLimits {
    let fragments = IN_ALL.min(frames / 8).div_ceil(workers.max(1)).max(LEAST);
    let per_source = fragments / 4;
    ReassemblyLimits {
        fragments,
        packets: fragments,
        per_source,
        per_packet: PER_PACKET.min(per_source),
        timeout_ns: WAIT_NS,
    }
}

/// Fragments that wait in all, at workers together, or an eighth of the packet buffers.
const IN_ALL: usize = 2048;

/// Fragments that wait at one worker, at least: a few packets'.
const LEAST: usize = 64;

/// Fragments of one packet: 65535 bytes over links of 552 bytes.
const PER_PACKET: usize = 128;

/// How long a packet is waited for, as RFC 791 §3.2 begins with. An identification of IPv4 comes again
/// soon at high rates (RFC 4963), so not for longer.
const WAIT_NS: u64 = 15_000_000_000;

/// Frames for long packets of one worker. Their memory is taken from Linux when they are first used.
const LARGE_FRAMES: u32 = 64;
