//! Packets of Linux's connections: translated as Linux would, then forwarded or sealed.

mod translations;

pub(crate) use translations::Translations;

use conntrack::{Found, Rewrite};
use io::Packet;
use outcome::DropReason;
use wire::Fields;

use crate::apply::Executor;
use crate::model::{Action, NextHop, TranslationSlot};
use crate::view::View;

impl Executor {
    /// Carries out a plan.
    pub(crate) fn translate_by_plan(
        &mut self,
        view: &View,
        slot: TranslationSlot,
        packet: Packet,
        h: Fields,
    ) {
        let Some(kept) = self.details.translations.get(slot) else {
            return self.out.drop(packet, DropReason::OutUnsupported);
        };
        let (beneath, rewrite) = (kept.beneath, kept.rewrite);
        kept.found.binding.count(kept.found.direction, u64::from(h.total_len()));
        self.translated(view, &beneath, rewrite, None, packet, h);
    }

    /// Carries out a decision.
    pub(crate) fn translate(
        &mut self,
        view: &View,
        (beneath, to): (&Action, Option<&NextHop>),
        (found, rewrite): (&Found, Option<Rewrite>),
        packet: Packet,
        h: Fields,
    ) {
        found.binding.count(found.direction, u64::from(h.total_len()));
        self.translated(view, beneath, rewrite, to, packet, h);
    }

    fn translated(
        &mut self,
        view: &View,
        beneath: &Action,
        rewrite: Option<Rewrite>,
        to: Option<&NextHop>,
        mut packet: Packet,
        h: Fields,
    ) {
        if let Some(rewrite) = rewrite {
            // It has headers of that family: its tuple was found.
            if !rewrite.apply(packet.data_mut(), h) {
                return self.out.drop(packet, DropReason::MalformedIp);
            }
            self.out.counters.work.translated.add(1);
        }
        match beneath {
            Action::Forward(forward) => self.forward(view, forward, to, packet, h),
            Action::Wrap(forward) => self.wrap(view, forward, packet, h),
            Action::Seal(seal) => match view.reader.sa(seal.sa) {
                Some(sa) => self.seal(view, seal, (sa, to), packet, h),
                None => self.out.drop(packet, DropReason::OutStateExpired),
            },
            Action::Aggregate(by) => self.aggregate(view, by, packet, h),
            // Nothing else is translated.
            _ => self.out.drop(packet, DropReason::OutUnsupported),
        }
    }
}
