//! Reports of a worker to the control thread, and how often they are made.

use core::net::IpAddr;
use std::sync::Arc;

use arrayvec::ArrayVec;
use forward::MtuPath;
use policy::{SaId, Volume, WorkerIndex};
use wire::Headers;

use crate::event::{Event, EventSender};
use crate::host_limits::HostLimits;

/// Reports that must arrive and wait for the control thread to make room.
const UNSENT: usize = 64;

/// Policies for which it is known when they were asked; more of them are asked more often.
const OWN_ASKED: usize = 32;

/// How long each is left in peace, in nanoseconds: every new flow asks until the SAs are there.
const OWN_INTERVAL_NS: u64 = 1_000_000_000;

/// The worker's reports.
pub(crate) struct Reports {
    events: EventSender,
    shared: Arc<HostLimits>,
    unsent: ArrayVec<Event, UNSENT>,
    /// Policies whose owners were asked for SAs of the worker's own, and when, in nanoseconds.
    own_asked: ArrayVec<(u32, u64), OWN_ASKED>,
}

impl Reports {
    pub(crate) fn new(events: EventSender, shared: Arc<HostLimits>) -> Reports {
        Reports { events, shared, unsent: ArrayVec::new(), own_asked: ArrayVec::new() }
    }

    /// The monotonic clock of all workers, read now.
    pub(crate) fn clock_ns(&self) -> u64 {
        self.shared.now().ns
    }

    /// Reports of another thread to the same control thread.
    pub(crate) fn sibling(&self) -> Reports {
        Reports::new(self.events.clone(), Arc::clone(&self.shared))
    }

    /// Reports what may be lost: its cause comes again. False if there was no room.
    pub(crate) fn offer(&self, event: Event) -> bool {
        self.events.send(event)
    }

    /// Reports what happens only once: kept if there is no room now.
    pub(crate) fn send(&mut self, event: Event) {
        if !self.events.send(event) && self.unsent.try_push(event).is_err() {
            tracing::error!(?event, "the control thread does not listen");
        }
    }

    /// Sends what was kept.
    pub(crate) fn send_again(&mut self) {
        while let Some(event) = self.unsent.first().copied() {
            if !self.events.send(event) {
                return;
            }
            self.unsent.remove(0);
        }
    }

    /// Reports a limit by volume that an SA has reached.
    pub(crate) fn volume(&mut self, sa: SaId, volume: Volume) {
        match volume {
            Volume::Within | Volume::Unusable => {}
            Volume::SoftReached => self.send(Event::VolumeReached { sa, hard: false }),
            Volume::HardReached => self.send(Event::VolumeReached { sa, hard: true }),
        }
    }

    /// Reports that the peer's address or port behind a NAT has changed (RFC 3948 §3.3); the owner
    /// of the SA decides what follows.
    #[cold]
    pub(crate) fn mapping(&mut self, sa: SaId, src: IpAddr, src_port: u16, now_ns: u64) {
        // Every packet reports it until the owner has acted: a few are enough.
        if self.shared.mappings.allow(now_ns) {
            self.offer(Event::MappingChanged { sa, src, src_port });
        }
    }

    /// Reports the MTU of an SA's path, as a router says it.
    #[cold]
    pub(crate) fn too_big(&mut self, sa: SaId, dst: IpAddr, mtu: u32, now_ns: u64) {
        // Each packet that is too long draws another one.
        if self.shared.too_big.allow(now_ns) {
            self.offer(Event::TooBig { sa, dst, mtu });
        }
    }

    /// Takes note of an error about the path to a peer that quotes what was not sent.
    #[cold]
    pub(crate) fn guessed(&self, peer: IpAddr, now_ns: u64) {
        self.shared.guesses.note(peer, now_ns);
    }

    /// True if errors about the path to a peer count: not while too many are wrong.
    #[cold]
    pub(crate) fn may_be_told(&self, peer: IpAddr, now_ns: u64) -> bool {
        self.shared.guesses.is_any_left(peer, now_ns)
    }

    /// True if another ICMPv6 error about packets with segments may be looked into.
    #[cold]
    pub(crate) fn may_hear_of_segments(&self, now_ns: u64) -> bool {
        self.shared.segment_errors.allow(now_ns)
    }

    /// Reports the MTU of a path through segments, as a router says it.
    #[cold]
    pub(crate) fn segments_too_big(&mut self, path: MtuPath, mtu: u32, now_ns: u64) {
        if self.shared.too_big.allow(now_ns) {
            self.offer(Event::SegmentsTooBig { path, mtu });
        }
    }

    /// Asks the owner of a policy for SAs of this worker's own, not too often; returns whether it did.
    #[cold]
    pub(crate) fn own_sas(
        &mut self,
        policy: u32,
        worker: WorkerIndex,
        h: &Headers,
        now_ns: u64,
    ) -> bool {
        let is_recent = |(_, at): &(u32, u64)| now_ns < at.saturating_add(OWN_INTERVAL_NS);
        self.own_asked.retain(|asked| is_recent(asked));
        if self.own_asked.iter().any(|(asked, _)| *asked == policy) {
            return false;
        }
        let cpu = u32::try_from(worker.get()).ok();
        if !self.events.send(Event::Acquire { policy, cpu, flow: *h }) {
            return false;
        }
        let _ = self.own_asked.try_push((policy, now_ns));
        true
    }

    /// Asks Linux to look after a neighbour, not too often.
    pub(crate) fn confirm_neighbour(&mut self, ifindex: u32, ip: IpAddr, now_ns: u64) {
        if self.shared.confirmations.allow(now_ns) {
            self.offer(Event::Resolve { ifindex, ip });
        }
    }
}
