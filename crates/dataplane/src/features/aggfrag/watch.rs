//! What arrives by an inbound SA whose pair reports congestion (RFC 9347, section 3).

use std::sync::Arc;

use esp::Sa;
use iptfs::Header;
use iptfs::congestion::Arrivals;
use policy::SaEntry;

use super::control::ppm;
use super::count;
use crate::apply::Executor;
use crate::links::Link;
use crate::view::View;

/// Watches the payloads of one inbound SA.
pub(super) struct Watch {
    arrivals: Arrivals,
    link: Arc<Link>,
    /// Its number among the link's receivers.
    number: u64,
    /// Whether marks of congestion count.
    has_ecn: bool,
}

impl Watch {
    /// For an SA with a rate that heeds losses.
    pub(super) fn new(view: &View, sa: &SaEntry<Sa>) -> Option<Box<Watch>> {
        let rate = sa.config.iptfs.as_ref()?.rate.filter(|rate| rate.has_reports())?;
        let link = view.links().of_inbound(&sa.config);
        let (number, inherited) = link.add_receiver();
        let arrivals = Arrivals::after(inherited);
        Some(Box::new(Watch { arrivals, link, number, has_ecn: rate.has_ecn() }))
    }
}

impl Executor {
    /// Notes a payload as it arrives, before its turn has come: its number, and the outer header's traffic class.
    #[inline(never)]
    pub(super) fn watch(
        &mut self,
        view: &View,
        watch: &mut Watch,
        sa: &SaEntry<Sa>,
        (number, class, payload): (u64, u8, &[u8]),
    ) {
        let is_marked = watch.has_ecn && class & CE == CE;
        let header = Header::parse(payload).ok().and_then(|(header, _)| header.congestion);
        watch.arrivals.arrived(number, is_marked, header.as_ref(), view.now.ns / 1_000);
        let report = watch.arrivals.report();
        watch.link.tell(watch.number, report);
        count(sa, |counters| {
            counters.marked.add(is_marked.into());
            counters.now.lost_ppm.set(ppm(report.loss_event_rate));
        });
        if header.is_some() && !watch.link.has_sender() {
            self.begin_answer(view, sa);
        }
    }

    /// Has the outbound SA of a pair send, which nobody has used yet: the other end waits for its reports.
    #[cold]
    fn begin_answer(&mut self, view: &View, inbound: &SaEntry<Sa>) {
        let Some(handle) = view.reader.answering(inbound) else { return };
        let Some(sa) = view.reader.sa(handle) else { return };
        let me = view.worker.get();
        // Another worker that is its home has sent by it, and so has a sender.
        if sa.home().claim(me) != me {
            return;
        }
        let most_payload = self.most_payload();
        let senders = self.aggfrag.senders.get_or_insert_default();
        let place = senders.place(handle, sa);
        let sender = senders.all.get_mut(place);
        // Without a way it is tried again with the next payload.
        if sender.is_some_and(|sender| sender.way(view, sa, most_payload).is_ok()) {
            senders.wake(place);
        }
    }
}

/// Congestion experienced (RFC 3168), the ECN field's bits in the traffic class.
const CE: u8 = 0b11;
