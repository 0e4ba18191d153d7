//! ICMP errors to the sender of a packet that cannot go on.
//!
//! An error is a packet of this host: it waits until the burst is done, and then goes through policy
//! like any other. Where the offending packet came under protection, the error goes back under
//! protection or not at all.

use forward::{IcmpCause, Reporter, icmp_error};
use io::Packet;
use wire::Headers;

use crate::burst::Path;
use crate::model::Origin;
use crate::out::AnyOut;
use crate::resolve::{Route, route};
use crate::slow::Slow;
use crate::slow::errors::Errors;

impl Slow {
    /// Makes an error about a packet, if the rules and the rate limit allow it.
    pub(super) fn error(
        &mut self,
        path: &mut Path,
        packet: &Packet,
        h: &Headers,
        origin: Origin,
        cause: IcmpCause,
    ) {
        let protected =
            matches!(origin, Origin::Decrypted { .. } | Origin::Stepped { protected: true, .. });
        let error = self.errors.build(path, packet, h, origin, cause);
        let work = &path.exec.out.counters.work;
        match error {
            Some(error) => {
                work.icmp_errors.add(1);
                path.exec.out.counters.generated.add(1);
                // There is room: it was looked at before the error was made.
                let _ = self.errors.waiting.try_push((error, Origin::Worker { protected }));
            }
            None => work.icmp_suppressed.add(1),
        }
    }

    /// True if errors wait to be sent.
    pub(crate) fn has_errors(&self) -> bool {
        !self.errors.waiting.is_empty()
    }

    /// Sends the errors that were made.
    pub(super) fn send_errors(&mut self, path: &mut Path) {
        if self.errors.waiting.is_empty() {
            return;
        }
        for (error, origin) in core::mem::take(&mut self.errors.waiting) {
            match wire::parse_ip(error.data()) {
                // A program of this machine hears it through the private interface.
                Ok(h) if path.view.topology.is_local_addr(h.dst) => {
                    path.exec.out.give_to_linux(error)
                }
                Ok(h) => self.resolve_again(path, error, &h, origin, None),
                Err(reason) => path.exec.out.drop(error, reason.into()),
            }
        }
    }
}

impl Errors {
    fn build(
        &mut self,
        path: &mut Path,
        packet: &Packet,
        h: &Headers,
        origin: Origin,
        cause: IcmpCause,
    ) -> Option<Packet> {
        let is_answer_to_ourselves = matches!(origin, Origin::Worker { .. });
        if is_answer_to_ourselves
            || self.waiting.is_full()
            || !self.shared.errors.allow(path.view.now.ns)
        {
            return None;
        }
        // The address of the side that the packet came from, except for packets from a tunnel:
        // there the inner side's, which the peer's policy knows. Any other address of ours is
        // better than silence: without "too big" a path is a black hole.
        let ifindex = match origin {
            Origin::Port { ifindex, .. } => ifindex,
            _ => match route(&path.view, h.dst, h.src, origin.iif()) {
                Route::Port(to) => to.ifindex,
                _ => 0,
            },
        };
        let src = path.view.topology.reporter(ifindex, h.family())?;
        let pool = &mut path.exec.out.pool;
        let span = wire::Span { start: io::HEADROOM, len: 0 };
        let mut error = Packet { frame: pool.take()?, span };
        let reporter = Reporter { src, ident: self.shared.next_ident() };
        let room = error.frame.bytes_mut().get_mut(io::HEADROOM..).unwrap_or_default();
        match icmp_error::build(cause, packet.data(), h, false, reporter, room) {
            Ok(len) => {
                error.span.len = len;
                Some(error)
            }
            Err(_) => {
                pool.put_packet(error);
                None
            }
        }
    }
}
