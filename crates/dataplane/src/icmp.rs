//! ICMP errors to the sender of a packet that cannot go on.

use forward::{IcmpCause, RateLimiter, Reporter, icmp_error};
use io::Packet;
use outcome::DropReason;
use wire::{Headers, Span};

use crate::outbound::Way;
use crate::plan::Lesson;
use crate::worker::{Origin, Worker};

impl Worker {
    /// Drops a packet and tells its sender why, if the rules and the rate limit allow it.
    ///
    /// The error is a packet of this host: it goes through policy like any other, and where the
    /// offending packet came under protection, it goes back under protection or not at all.
    pub(crate) fn icmp_error(
        &mut self,
        packet: Packet,
        h: &Headers,
        origin: Origin,
        cause: IcmpCause,
        reason: DropReason,
    ) {
        match self.build_error(&packet, h, origin, cause) {
            Some(error) => {
                self.counters.work.icmp_errors.add(1);
                self.counters.generated.add(1);
                self.send_error(error, origin);
            }
            None => self.counters.work.icmp_suppressed.add(1),
        }
        self.drop_packet(packet, reason);
    }

    fn build_error(
        &mut self,
        packet: &Packet,
        h: &Headers,
        origin: Origin,
        cause: IcmpCause,
    ) -> Option<Packet> {
        let is_answer_to_ourselves = matches!(origin, Origin::Worker { .. });
        if is_answer_to_ourselves || !self.icmp_limit.allow(self.now.ns) {
            return None;
        }
        // The address of the side that the packet came from, except for packets from a tunnel:
        // there the inner side's, which the peer's policy knows. Any other address of ours is
        // better than silence: without "too big" a path is a black hole.
        let ifindex = match origin {
            Origin::Port { ifindex, .. } => ifindex,
            _ => match self.way(h.dst, h.src, origin.iif()) {
                Way::Port(to) => to.ifindex,
                _ => 0,
            },
        };
        let src = self.topology.reporter(ifindex, h.family())?;
        let frame = self.pool.take()?;
        let mut error = Packet { frame, span: Span { start: io::HEADROOM, len: 0 } };
        let room = error.frame.bytes_mut().get_mut(io::HEADROOM..)?;
        let reporter = Reporter { src, ident: self.icmp_limit.next_ident() };
        match icmp_error::build(cause, packet.data(), h, false, reporter, room) {
            Ok(len) => {
                error.span.len = len;
                Some(error)
            }
            Err(_) => {
                self.pool.put_packet(error);
                None
            }
        }
    }

    fn send_error(&mut self, error: Packet, origin: Origin) {
        let Some((error, h)) = self.parsed(error) else { return };
        // A program of this machine hears it through the private interface.
        if self.topology.is_local_addr(h.dst) {
            return self.give_to_linux(error);
        }
        let protected = matches!(origin, Origin::Decrypted { .. });
        self.outbound(error, &h, Origin::Worker { protected }, &mut Lesson::default());
    }
}

/// ICMP errors a second (RFC 1812 §4.3.2.8, RFC 4443 §2.4 f), and how many may come at once.
const ERRORS_PER_SECOND: u32 = 1000;
const ERRORS_AT_ONCE: u32 = 50;

/// The rate limit of ICMP errors, and their running number.
pub(crate) struct ErrorLimit {
    limiter: RateLimiter,
    ident: u16,
}

impl ErrorLimit {
    pub(crate) fn new() -> ErrorLimit {
        ErrorLimit { limiter: RateLimiter::new(ERRORS_PER_SECOND, ERRORS_AT_ONCE), ident: 0 }
    }

    fn allow(&mut self, now_ns: u64) -> bool {
        self.limiter.allow(now_ns)
    }

    fn next_ident(&mut self) -> u16 {
        self.ident = self.ident.wrapping_add(1);
        self.ident
    }
}
