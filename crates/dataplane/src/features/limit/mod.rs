//! Packets under a rate limit: they pass, with another DSCP perhaps, wait, or are dropped.

pub(crate) mod grant;
pub(crate) mod queues;
pub(crate) mod rates;
mod wait;

pub(crate) use grant::Grant;
pub(crate) use rates::Rates;
pub(crate) use wait::{drop_waiting, wait_for};

use io::Packet;
use limit::Passed;
use outcome::DropReason;
use wire::Fields;

use crate::features::hands::Hands;
use crate::features::limit::rates::Stop;
use crate::features::limit::wait::wait_by_plan;
use crate::features::rare::{Held, Next, Rare, Subject};
use crate::model::{Arrived, Fate, Handed, Judging, Meta, RateSlot};
use crate::out::AnyOut;

impl Rare for RateSlot {
    type Kept = Rates;

    /// The limit was found for the packet's DSCP, where there are others.
    #[inline(never)]
    fn holds<'k>(&'k self, rates: &'k Rates, asked: &Subject<'_>) -> Held<'k> {
        rates.beneath(*self, asked.h).map_or(Held::No, Held::If)
    }

    fn apply(
        &self,
        rates: &mut Rates,
        hands: &mut Hands<'_>,
        packet: Packet,
        meta: &Meta,
    ) -> Option<Next> {
        pass_by_plan(rates, hands, (*self, None), packet, meta)
    }

    /// Of a plan, and never of a fresh decision.
    fn explains(&self, _cut: Option<usize>) -> Fate {
        Fate::Forwarded
    }
}

/// Has a packet pass the limit of its flow, with the tokens that it has already, if it has waited for them. Returns what
/// is done to it next; `None` if it does not pass here and now.
#[inline(always)]
pub(crate) fn pass_by_plan(
    rates: &mut Rates,
    hands: &mut Hands<'_>,
    (slot, grant): (RateSlot, Option<Grant>),
    mut packet: Packet,
    meta: &Meta,
) -> Option<Next> {
    let Hands { view, out, .. } = hands;
    let h = meta.summary.fields;
    match rates.pass_by_plan(slot, h, view.now.ns, grant) {
        Ok((action, passed)) => {
            let fields = passed.dscp.is_some().then(|| marked(&mut packet, passed, h));
            return Some(Next { action, packet, fields });
        }
        Err(Stop::Refused) => out.drop(packet, DropReason::RateLimit),
        Err(Stop::Until(ns)) => wait_by_plan(rates, hands, (slot, ns), packet, meta),
        Err(Stop::Elsewhere(home, visit)) => {
            let handed = Handed::Arrived(Arrived::new(&view.reader, packet, meta));
            out.ask(home, handed, Judging::of(visit, view.worker, h));
        }
    }
    None
}

/// Gives a packet the DSCP of its colour; ECN stays. Returns its headers.
pub(crate) fn marked(packet: &mut Packet, passed: Passed, h: Fields) -> Fields {
    let Some(dscp) = passed.dscp else { return h };
    let class = dscp << 2 | h.traffic_class() & wire::ECN_MASK;
    wire::set_traffic_class(packet.data_mut(), class);
    h.with_traffic_class(class)
}
