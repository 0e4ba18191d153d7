//! Copies of others: the first of each goes on without its headers, in its turn. So does what parity recovers.

use esp::EcnDecap;
use io::Packet;
use outcome::DropReason;
use preof::{Content, LEN, Numbered, Parity};

use super::Recoveries;
use crate::features::hands::Hands;
use crate::features::rare::{Held, Next, Rare, Subject};
use crate::model::{Eliminate, Fate, Meta};
use crate::out::AnyOut;
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
        let mut ingress = meta.ingress;
        // Rules for marks are about what is inside.
        ingress.mark = 0;
        match take(view, &mut packet, meta) {
            Ok(Copied::Packet(numbered, class)) => {
                out.counters.work.copies_taken.add(1);
                kept.remember(numbered, packet.data(), ingress, view.now.ns);
                if let Some(class) = class {
                    wire::set_traffic_class(packet.data_mut(), class);
                }
                kept.push((view, out), numbered, packet, ingress);
            }
            Ok(Copied::Parity(parity, at)) => {
                kept.recover((view, out), parity, (packet, at), ingress);
            }
            Err(reason) => out.drop(packet, reason),
        }
        None
    }

    fn explains(&self, _cut: Option<usize>) -> Fate {
        Fate::Eliminated
    }
}

/// Content of a datagram of a stream.
enum Copied {
    /// A packet out of a copy, and its class if congestion outside changes it.
    Packet(Numbered, Option<u8>),
    /// Parity, and the length of the IP header in front of it.
    Parity(Parity, usize),
}

/// Takes the headers off a copy. Parity keeps its own.
fn take(view: &View, packet: &mut Packet, meta: &Meta) -> Result<Copied, DropReason> {
    if meta.outers().is_some() {
        // What comes out goes on by its one SA.
        return Err(DropReason::InNesting);
    }
    let h = meta.summary.fields;
    let at = usize::from(h.header_len());
    let payload = packet.data().get(at..h.total_len().into()).ok_or(DropReason::CopyMalformed)?;
    let content = Content::parse(payload).map_err(|_| DropReason::CopyMalformed)?;
    if home_of(content.label(), view.workers) != view.worker.get() {
        return Err(DropReason::CopyUnknown);
    }
    let numbered = match content {
        Content::Packet(numbered) => numbered,
        Content::Parity(parity) => {
            packet.span.len = h.total_len().into();
            return Ok(Copied::Parity(parity, at));
        }
    };
    let inner = payload.get(LEN..).unwrap_or_default();
    let inner = wire::parse_ip(inner).map_err(|_| DropReason::CopyMalformed)?;
    let ecn = EcnDecap::Rfc6040.combine(inner.traffic_class, h.traffic_class())?;
    let class = inner.traffic_class & !wire::ECN_MASK | ecn;
    packet.span.start += at + LEN;
    packet.span.len = inner.total_len.into();
    Ok(Copied::Packet(numbered, (class != inner.traffic_class).then_some(class)))
}
