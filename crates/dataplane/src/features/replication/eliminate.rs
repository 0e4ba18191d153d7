//! Copies of others: the first of each goes on without its headers, in its turn.

use esp::EcnDecap;
use io::Packet;
use outcome::DropReason;
use preof::{LEN, Numbered};

use super::Recoveries;
use crate::features::hands::Hands;
use crate::features::rare::{Held, Next, Rare, Subject};
use crate::model::{Eliminate, Fate, Meta};
use crate::out::{AnyOut, Out};
use crate::tables::replication::home_of;
use crate::view::View;

impl Rare for Eliminate {
    type Kept = Recoveries;

    fn holds<'k>(&'k self, _kept: &'k Recoveries, _asked: &Subject<'_>) -> Held<'k> {
        Held::Yes
    }

    #[inline(never)]
    fn apply(
        &self,
        kept: &mut Recoveries,
        hands: &mut Hands<'_>,
        mut packet: Packet,
        meta: &Meta,
    ) -> Option<Next> {
        let (view, out) = (hands.view, &mut *hands.out);
        match take((view, out), &mut packet, meta) {
            Ok(numbered) => {
                let mut ingress = meta.ingress;
                // Rules for marks are about what is inside.
                ingress.mark = 0;
                kept.push((view, out), numbered, packet, ingress);
            }
            Err(reason) => out.drop(packet, reason),
        }
        None
    }

    fn explains(&self, _cut: Option<usize>) -> Fate {
        Fate::Eliminated
    }
}

/// Takes the headers off a copy.
fn take(
    (view, out): (&View, &mut Out),
    packet: &mut Packet,
    meta: &Meta,
) -> Result<Numbered, DropReason> {
    if meta.outers().is_some() {
        // What comes out goes on by its one SA.
        return Err(DropReason::InNesting);
    }
    let h = meta.summary.fields;
    let at = usize::from(h.header_len());
    let payload = packet.data().get(at..h.total_len().into()).ok_or(DropReason::CopyMalformed)?;
    let numbered = Numbered::parse(payload).map_err(|_| DropReason::CopyMalformed)?;
    let inner = payload.get(LEN..).unwrap_or_default();
    let inner = wire::parse_ip(inner).map_err(|_| DropReason::CopyMalformed)?;
    if home_of(numbered.label, view.workers) != view.worker.get() {
        return Err(DropReason::CopyUnknown);
    }
    let ecn = EcnDecap::Rfc6040.combine(inner.traffic_class, h.traffic_class())?;
    let class = inner.traffic_class & !wire::ECN_MASK | ecn;
    packet.span.start += at + LEN;
    packet.span.len = inner.total_len.into();
    if class != inner.traffic_class {
        wire::set_traffic_class(packet.data_mut(), class);
    }
    out.counters.work.copies_taken.add(1);
    Ok(numbered)
}
