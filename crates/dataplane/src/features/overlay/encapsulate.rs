//! Packets that get an overlay's headers, and go on at once where it is known what is done to all of the far end.

use io::Packet;
use outcome::DropReason;

use crate::features::forward;
use crate::features::hands::Hands;
use crate::features::rare::{Held, Next, Rare, Subject};
use crate::features::segments::headends::Headends;
use crate::model::{Encapsulate, FIRST_OVERLAYS, FIRST_OVERLAYS_SLOT, Fate, Ingress, Made, Meta};
use crate::out::AnyOut;
use crate::out::overlays::{entropy, put_overlay};

impl Rare for Encapsulate {
    type Kept = Headends;

    fn holds<'k>(&'k self, _far_ends: &'k Headends, asked: &Subject<'_>) -> Held<'k> {
        forward::holds(&self.0, asked.packet, asked.h).into()
    }

    /// Puts the headers on a packet. What it is then is forwarded or sealed here, if all that goes to the far end has a
    /// plan that holds for it; else it goes on behind the burst, and so do those after it: the packets of a flow keep
    /// their order.
    #[inline(never)]
    fn apply(
        &self,
        far_ends: &mut Headends,
        hands: &mut Hands<'_>,
        mut packet: Packet,
        meta: &Meta,
    ) -> Option<Next> {
        let (by, h) = (&self.0, meta.summary.fields);
        let out = &mut *hands.out;
        let mut inner = h;
        if by.is_hop {
            if !wire::decrement_ttl(packet.data_mut(), h) {
                out.drop(packet, DropReason::MalformedIp);
                return None;
            }
            inner = h.with_ttl(h.ttl() - 1);
        }
        out.counters.work.forwarded_clear.add(1);
        let number = usize::from(by.adjacency.slot).saturating_sub(FIRST_OVERLAYS_SLOT);
        let spread = entropy(&meta.summary.flow);
        if let Err(reason) = put_overlay(out, number, &mut packet, inner, spread) {
            out.drop(packet, reason);
            return None;
        }
        let made = Made { number, inner: wire::Family::V4 };
        if !out.between.has_wrapped()
            && let Ok(outer) = wire::parse_ip(packet.data())
        {
            packet = far_ends.go_on(hands, made, packet, (&outer).into())?;
        }
        let index = FIRST_OVERLAYS | number as u32;
        hands.out.keep_wrapped(packet, Ingress::of_port(index));
        None
    }

    fn explains(&self, _cut: Option<usize>) -> Fate {
        Fate::Forwarded
    }
}
