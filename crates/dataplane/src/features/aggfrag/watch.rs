//! Arrivals by an inbound SA whose pair reports congestion (RFC 9347, section 3).

use std::sync::Arc;

use esp::Sa;
use iptfs::Header;
use iptfs::congestion::Arrivals;
use policy::SaEntry;

use super::control::ppm;
use super::counts::count;
use crate::tables::links::Link;
use crate::view::View;

/// Watches the payloads of one inbound SA.
pub(super) struct Watch {
    arrivals: Arrivals,
    link: Arc<Link>,
    /// Number among the link's receivers.
    number: u64,
    /// True if congestion marks count.
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

    /// Notes a payload as it arrives: its number, and the outer header's traffic class. True if it has reports, and
    /// nobody answers with any.
    pub(super) fn note(
        &mut self,
        view: &View,
        sa: &SaEntry<Sa>,
        (number, class, payload): (u64, u8, &[u8]),
    ) -> bool {
        let is_marked = self.has_ecn && class & CE == CE;
        let header = Header::parse(payload).ok().and_then(|(header, _)| header.congestion);
        self.arrivals.arrived(number, is_marked, header.as_ref(), view.now.ns / 1_000);
        let report = self.arrivals.report();
        self.link.tell(self.number, report);
        count(sa, |counters| {
            counters.marked.add(is_marked.into());
            counters.now.lost_ppm.set(ppm(report.loss_event_rate));
        });
        header.is_some() && !self.link.has_sender()
    }
}

/// Congestion experienced (RFC 3168), the ECN field's bits in the traffic class.
const CE: u8 = 0b11;
