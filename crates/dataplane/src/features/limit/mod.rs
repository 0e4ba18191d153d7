//! Packets under a rate limit: they pass, with another DSCP perhaps, wait, or are dropped.

pub(crate) mod queues;
pub(crate) mod rates;
mod wait;

pub(crate) use rates::Rates;

use io::Packet;
use limit::Passed;
use outcome::DropReason;
use wire::Fields;

use crate::apply::Executor;
use crate::features::limit::rates::Stop;
use crate::model::{Action, Arrived, Handed, Judging, Meta, RateSlot};
use crate::view::View;

impl Executor {
    /// Carries out a plan.
    pub(crate) fn limit_by_plan(
        &mut self,
        view: &View,
        slot: RateSlot,
        mut packet: Packet,
        meta: &Meta,
    ) {
        let h = meta.summary.fields;
        let (beneath, passed) = match self.details.rates.pass_by_plan(slot, h, view.now.ns) {
            Ok(passed) => passed,
            Err(Stop::Refused) => return self.out.drop(packet, DropReason::RateLimit),
            Err(Stop::Until(ns)) => return self.wait_by_plan(view, (slot, ns), packet, meta),
            Err(Stop::Elsewhere(home, visit)) => {
                let handed = Handed::Arrived(Arrived::new(&view.reader, packet, meta));
                return self.out.ask(home, handed, Judging::of(visit, view.worker, h));
            }
        };
        let sa = match &beneath {
            Action::Seal(seal) => view.reader.sa(seal.sa),
            _ => None,
        };
        if passed.dscp.is_none() {
            return self.apply(view, &beneath, (sa, None), packet, meta);
        }
        let mut meta = meta.clone();
        meta.summary.fields = marked(&mut packet, passed, h);
        self.apply(view, &beneath, (sa, None), packet, &meta);
    }
}

/// Gives a packet the DSCP of its colour; ECN stays. Returns its headers.
pub(crate) fn marked(packet: &mut Packet, passed: Passed, h: Fields) -> Fields {
    let Some(dscp) = passed.dscp else { return h };
    let class = dscp << 2 | h.traffic_class() & wire::ECN_MASK;
    wire::set_traffic_class(packet.data_mut(), class);
    h.with_traffic_class(class)
}
