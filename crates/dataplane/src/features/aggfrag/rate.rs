//! The rate of an SA that heeds losses, once a round.

use esp::Sa;
use iptfs::congestion::{Cause, Change};
use outcome::DropReason;
use policy::SaEntry;

use super::counts::count;
use super::sender::{Sender, drop_payload};
use super::state::Aggfrag;
use crate::event::Event;
use crate::features::hands::Hands;
use crate::out::Out;

impl Aggfrag {
    /// Lets the rate of an SA follow what is reported. Once a round, for those that do.
    #[inline(never)]
    pub(super) fn tend_rate(
        &mut self,
        hands: &mut Hands<'_>,
        sender: &mut Sender,
        sa: &SaEntry<Sa>,
    ) {
        let Sender { control: Some(control), pace: Some(pace), .. } = sender else { return };
        let now_ns = hands.view.now.ns;
        let refused = hands.out.counters.dropped(DropReason::TransmitFull);
        let told = control.told();
        let change = control.tend(now_ns / 1_000, refused);
        control.set_pace(pace, now_ns);
        if told != control.told() {
            control.show(sa);
        }
        let cause = match change {
            None => return,
            Some(Change::Closed) => None,
            Some(Change::Opened(cause)) => Some(cause),
        };
        self.break_rate(hands.out, sender, sa, cause);
    }

    /// The breaker has opened, or closed.
    #[cold]
    fn break_rate(
        &mut self,
        out: &mut Out,
        sender: &mut Sender,
        sa: &SaEntry<Sa>,
        cause: Option<Cause>,
    ) {
        out.reports.send(Event::RateBroken { sa: sa.config.id(), cause });
        count(sa, |counters| counters.now.is_broken.set(cause.is_some().into()));
        let configured = sa.config.iptfs.as_deref().map_or(0, |rules| rules.max_queue_bytes);
        if cause.is_none() {
            sender.rules.max_queue_bytes = configured;
            return;
        }
        count(sa, |counters| counters.breaks.add(1));
        // Nothing has room from now on, and what waits is not sent later.
        sender.rules.max_queue_bytes = 0;
        self.ready -= sender.ready.len();
        for building in sender.take_all() {
            out.released(1);
            drop_payload(out, Some(sa), building, DropReason::OutIptfsBroken);
        }
    }
}
