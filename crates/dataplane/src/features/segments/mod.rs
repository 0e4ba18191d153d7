//! Packets that get segments, and go on at once where it is known what is done to all that their headend makes.

pub(crate) mod headends;

use io::Packet;
use outcome::DropReason;
use wire::Fields;

use crate::apply::Executor;
use crate::flows::plan::Holds;
use crate::model::{Action, FIRST_SEGMENTS, FIRST_SEGMENTS_SLOT, Forward, Ingress, Made};
use crate::view::View;

impl Executor {
    /// Puts segments on a packet. What it is then is forwarded or sealed here, if its headend's packets have a plan
    /// that holds for it; else it goes on behind the burst, and so do those after it that the burst has for headends:
    /// the packets of a flow keep their order.
    #[inline(never)]
    pub(crate) fn wrap(&mut self, view: &View, forward: &Forward, mut packet: Packet, h: Fields) {
        if forward.is_hop && !wire::decrement_ttl(packet.data_mut(), h) {
            return self.out.drop(packet, DropReason::MalformedIp);
        }
        let Executor { out, details, .. } = self;
        out.counters.work.forwarded_clear.add(1);
        let number = usize::from(forward.adjacency.slot).saturating_sub(FIRST_SEGMENTS_SLOT);
        let outer = match out.put_segments(number, &mut packet, h) {
            Ok(outer) => outer,
            Err(reason) => return out.drop(packet, reason),
        };
        let ingress = Ingress::of_port(FIRST_SEGMENTS | number as u32);
        if let Some(batch) = &mut out.batch {
            // With the helpers: the worker moves it on.
            return batch.step(packet, ingress);
        }
        let made = Made { number, inner: h.family() };
        if !out.between.has_wrapped()
            && let Some(h) = outer
            && details.headends.has(made, |stamp| view.reader.holds(stamp))
            && let Some(plan) = details.headends.plan(made)
        {
            match (&plan.action, plan.judge(&view.reader, details, &packet, h)) {
                (Action::Forward(forward), Holds::Yes) => {
                    out.counters.work.flow_hits.add(1);
                    plan.count(view.worker, h, view.now.wall_s);
                    let forward = *forward;
                    return self.forward(view, &forward, None, packet, h);
                }
                (Action::Seal(seal), Holds::By(sa)) => {
                    out.counters.work.flow_hits.add(1);
                    plan.count(view.worker, h, view.now.wall_s);
                    let seal = *seal;
                    return self.seal(view, &seal, (sa, None), packet, h);
                }
                _ => {}
            }
        }
        out.between.push_wrapped(packet, ingress);
    }
}
