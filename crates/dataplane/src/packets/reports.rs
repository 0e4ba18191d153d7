//! What a worker reports to the control thread, and how often.

use core::net::IpAddr;

use arrayvec::ArrayVec;
use forward::RateLimiter;
use policy::{SaId, Volume};

use crate::event::{Event, EventSender};

/// Requests a second to look after neighbours whose address Linux should confirm.
const CONFIRMATIONS_PER_SECOND: u32 = 20;

/// Reports of peers with a new address or port, a second.
const MAPPINGS_PER_SECOND: u32 = 100;

/// Reports that must arrive and wait for the control thread to make room.
const UNSENT: usize = 64;

/// The worker's reports.
pub(crate) struct Reports {
    events: EventSender,
    confirmations: RateLimiter,
    mappings: RateLimiter,
    unsent: ArrayVec<Event, UNSENT>,
}

impl Reports {
    pub(crate) fn new(events: EventSender) -> Reports {
        Reports {
            events,
            confirmations: RateLimiter::new(CONFIRMATIONS_PER_SECOND, CONFIRMATIONS_PER_SECOND),
            mappings: RateLimiter::new(MAPPINGS_PER_SECOND, MAPPINGS_PER_SECOND),
            unsent: ArrayVec::new(),
        }
    }

    /// Reports of another thread to the same control thread.
    pub(crate) fn sibling(&self) -> Reports {
        Reports::new(self.events.clone())
    }

    /// Reports what may be lost: its cause comes again.
    pub(crate) fn offer(&self, event: Event) {
        self.events.send(event);
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
        if self.mappings.allow(now_ns) {
            self.offer(Event::MappingChanged { sa, src, src_port });
        }
    }

    /// Asks Linux to look after a neighbour, not too often.
    pub(crate) fn confirm_neighbour(&mut self, ifindex: u32, ip: IpAddr, now_ns: u64) {
        if self.confirmations.allow(now_ns) {
            self.offer(Event::Resolve { ifindex, ip });
        }
    }
}
