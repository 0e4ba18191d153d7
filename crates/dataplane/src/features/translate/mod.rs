//! Packets of Linux's connections: translated as Linux would, then forwarded or protected.

mod translations;

pub(crate) use translations::Translations;

use conntrack::{Found, Rewrite};
use io::Packet;
use outcome::DropReason;
use wire::Fields;

use crate::features::hands::Hands;
use crate::features::rare::{Held, Next, Rare, Subject};
use crate::model::{Fate, Meta, TranslationSlot};
use crate::out::{AnyOut, Out};

impl Rare for TranslationSlot {
    type Kept = Translations;

    /// The connection is there, and Linux need not see the packet.
    #[inline(never)]
    fn holds<'k>(&'k self, translations: &'k Translations, asked: &Subject<'_>) -> Held<'k> {
        let kept = translations.get(*self).filter(|kept| {
            kept.found.binding.is_live() && conntrack::may_go(asked.packet.data(), asked.h)
        });
        kept.map_or(Held::No, |kept| Held::If(&kept.beneath))
    }

    fn apply(
        &self,
        translations: &mut Translations,
        hands: &mut Hands<'_>,
        packet: Packet,
        meta: &Meta,
    ) -> Option<Next> {
        let Some(kept) = translations.get(*self) else {
            hands.out.drop(packet, DropReason::OutUnsupported);
            return None;
        };
        let packet =
            translate(hands.out, (&kept.found, kept.rewrite), packet, meta.summary.fields)?;
        Some(Next { action: kept.beneath, packet, fields: None })
    }

    /// Of a plan, and never of a fresh decision.
    fn explains(&self, _cut: Option<usize>) -> Fate {
        Fate::Forwarded
    }
}

/// Counts a packet with its connection, and gives it the addresses and ports that Linux would; none if it ends here.
pub(crate) fn translate(
    out: &mut Out,
    (found, rewrite): (&Found, Option<Rewrite>),
    mut packet: Packet,
    h: Fields,
) -> Option<Packet> {
    found.binding.count(found.direction, u64::from(h.total_len()));
    if let Some(rewrite) = rewrite {
        // It has headers of that family: its tuple was found.
        if !rewrite.apply(packet.data_mut(), h) {
            out.drop(packet, DropReason::MalformedIp);
            return None;
        }
        out.counters.work.translated.add(1);
    }
    Some(packet)
}
