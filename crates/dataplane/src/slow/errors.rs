//! ICMP errors to the sender of a packet that cannot go on.
//!
//! An error is a packet of this host: it waits until the burst is done, and then goes through policy
//! like any other. Where the offending packet came under protection, the error goes back under
//! protection or not at all.

use std::sync::Arc;

use arrayvec::ArrayVec;
use forward::{IcmpCause, Reporter, icmp_error};
use io::Packet;
use wire::Headers;

use crate::host_limits::{ERRORS_AT_ONCE, HostLimits};
use crate::model::Origin;
use crate::out::Out;
use crate::resolve::{Route, route};
use crate::view::View;

/// The errors of one worker.
pub(super) struct Errors {
    shared: Arc<HostLimits>,
    /// Made, and not yet sent; each with its own origin.
    waiting: MadeErrors,
}

/// Errors that wait to be sent: as many as one burst may cause.
type MadeErrors = ArrayVec<(Packet, Origin), { ERRORS_AT_ONCE as usize }>;

impl Errors {
    pub(super) fn new(shared: Arc<HostLimits>) -> Errors {
        Errors { shared, waiting: ArrayVec::new() }
    }

    /// True if no error waits to be sent.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Takes the errors that were made.
    pub(super) fn take(&mut self) -> MadeErrors {
        core::mem::take(&mut self.waiting)
    }

    /// Makes an error about a packet, if the rules and the rate limit allow it.
    pub(super) fn make(
        &mut self,
        (view, out): (&View, &mut Out),
        packet: &Packet,
        h: &Headers,
        (origin, cause): (Origin, IcmpCause),
    ) {
        let protected =
            matches!(origin, Origin::Decrypted { .. } | Origin::Stepped { protected: true, .. });
        match self.build((view, out), packet, h, origin, cause) {
            Some(error) => {
                out.counters.work.icmp_errors.add(1);
                out.counters.generated.add(1);
                // There is room: it was looked at before the error was made.
                let _ = self.waiting.try_push((error, Origin::Worker { protected }));
            }
            None => out.counters.work.icmp_suppressed.add(1),
        }
    }

    fn build(
        &mut self,
        (view, out): (&View, &mut Out),
        packet: &Packet,
        h: &Headers,
        origin: Origin,
        cause: IcmpCause,
    ) -> Option<Packet> {
        let is_answer_to_ourselves =
            matches!(origin, Origin::Worker { .. } | Origin::OnLink { .. });
        if is_answer_to_ourselves
            || self.waiting.is_full()
            || !self.shared.errors.allow(view.now.ns)
        {
            return None;
        }
        // The address of the side that the packet came from, except for packets from a tunnel:
        // there the inner side's, which the peer's policy knows. Any other address of ours is
        // better than silence: without "too big" a path is a black hole.
        let ifindex = match origin {
            Origin::Port { ifindex, .. } => ifindex,
            _ => match route(view, h.dst, h.src, origin.iif()) {
                Route::Port(to) => to.ifindex,
                _ => 0,
            },
        };
        let src = view.topology.reporter(ifindex, h.family())?;
        let span = wire::Span { start: io::HEADROOM, len: 0 };
        let mut error = Packet { frame: out.pool.take()?, span };
        let reporter = Reporter { src, ident: self.shared.next_ident() };
        let room = error.frame.bytes_mut().get_mut(io::HEADROOM..).unwrap_or_default();
        match icmp_error::build(cause, packet.data(), h, false, reporter, room) {
            Ok(len) => {
                error.span.len = len;
                Some(error)
            }
            Err(_) => {
                out.pool.put_packet(error);
                None
            }
        }
    }
}
