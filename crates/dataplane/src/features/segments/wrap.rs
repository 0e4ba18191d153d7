//! Packets that get segments, and go on at once where it is known what is done to all that their headend makes.

use io::Packet;
use outcome::DropReason;

use crate::features::forward;
use crate::features::hands::Hands;
use crate::features::rare::{Held, Next, Rare, Subject};
use crate::features::segments::headends::Headends;
use crate::model::{FIRST_SEGMENTS, FIRST_SEGMENTS_SLOT, Fate, Ingress, Made, Meta, Wrap};
use crate::out::AnyOut;

impl Rare for Wrap {
    type Kept = Headends;

    fn holds<'k>(&'k self, _headends: &'k Headends, asked: &Subject<'_>) -> Held<'k> {
        forward::holds(&self.0, asked.packet, asked.h).into()
    }

    /// Puts segments on a packet. What it is then is forwarded or sealed here, if its headend's packets have a plan
    /// that holds for it; else it goes on behind the burst, and so do those after it that the burst has for headends:
    /// the packets of a flow keep their order.
    #[inline(never)]
    fn apply(
        &self,
        headends: &mut Headends,
        hands: &mut Hands<'_>,
        mut packet: Packet,
        meta: &Meta,
    ) -> Option<Next> {
        let (by, h) = (&self.0, meta.summary.fields);
        let out = &mut *hands.out;
        if by.is_hop && !wire::decrement_ttl(packet.data_mut(), h) {
            out.drop(packet, DropReason::MalformedIp);
            return None;
        }
        out.counters.work.forwarded_clear.add(1);
        let number = usize::from(by.adjacency.slot).saturating_sub(FIRST_SEGMENTS_SLOT);
        let outer = match out.put_segments(number, &mut packet, h) {
            Ok(outer) => outer,
            Err(reason) => {
                out.drop(packet, reason);
                return None;
            }
        };
        let ingress = Ingress::of_port(FIRST_SEGMENTS | number as u32);
        let made = Made { number, inner: h.family() };
        if !out.between.has_wrapped()
            && let Some(h) = outer
        {
            packet = headends.go_on(hands, made, packet, h)?;
        }
        hands.out.between.push_wrapped(packet, ingress);
        None
    }

    fn explains(&self, _cut: Option<usize>) -> Fate {
        Fate::Forwarded
    }
}
