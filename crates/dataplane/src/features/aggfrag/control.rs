//! A constant rate that heeds losses (RFC 9347, section 2.4.2): it follows them, or a circuit breaker stops it.
//!
//! ```text
//!   watch ── Link ──> Control ── payloads a second ──> Pace
//!                        └────── header of each payload
//! ```
//!
//! | `losses` | the rate |
//! | --- | --- |
//! | `Followed` | what RFC 5348 allows, between the least and the configured one |
//! | `Broken` | the configured one, or a payload a second while the breaker is open |

use std::sync::Arc;

use esp::Sa;
use iptfs::Congestion;
use iptfs::congestion::{Bounds, Breaker, Cause, Change, Report, Sender as Allowed, breaker};
use outcome::DropReason;
use policy::{IptfsLosses, IptfsRate, SaEntry};

use super::count;
use super::pace::Pace;
use super::sender::Sender;
use crate::apply::Executor;
use crate::event::Event;
use crate::links::Link;
use crate::view::View;

/// What the rate of one outbound SA follows from.
pub(super) struct Control {
    link: Arc<Link>,
    /// Of what the receiver has told.
    version: u64,
    report: Report,
    allowed: Allowed,
    breaker: Option<Breaker>,
    rate: IptfsRate,
    /// Bits of an outer packet.
    packet_bits: f64,
    /// The rate that the pace has, in payloads a second.
    per_s: f64,
    /// Packets that ports had refused when that was looked at last.
    refused: u64,
}

/// Payloads a second while the breaker is open.
const BROKEN_PER_S: f64 = 1.0;

impl Control {
    fn new(view: &View, sa: &SaEntry<Sa>, rate: IptfsRate, packet_len: usize) -> Control {
        let (now_us, packet_bits) = (view.now.ns / 1_000, bits(packet_len));
        let link = view.links().of_outbound(&sa.config);
        let breaker = match rate.losses {
            IptfsLosses::Broken(rules) => {
                let rules = breaker::Rules {
                    most_lost_ppm: rules.loss_percent.saturating_mul(10_000),
                    after_us: u64::from(rules.after_s) * 1_000_000,
                    restart_us: u64::from(rules.restart_s) * 1_000_000,
                };
                Some(Breaker::new(rules, now_us))
            }
            IptfsLosses::Ignored | IptfsLosses::Followed { .. } => None,
        };
        let bounds = bounds(rate, packet_bits, false);
        let mut allowed = link.add_sender().unwrap_or_else(|| Allowed::new(bounds, now_us));
        allowed.set_bounds(bounds);
        let (report, per_s) = (Report::default(), 0.0);
        Control {
            link,
            version: 0,
            report,
            allowed,
            breaker,
            rate,
            packet_bits,
            per_s,
            refused: u64::MAX,
        }
    }

    /// What the next payload says. An end that does not follow has no use for round trips, and says that it knows none:
    /// so each loss is an event for the other end, and the rate of events is that of losses.
    pub(super) fn header(&mut self, now_ns: u64) -> Congestion {
        let header = self.allowed.header(&self.report, now_ns / 1_000);
        match self.breaker {
            Some(_) => Congestion { rtt_us: 0, ..header },
            None => header,
        }
    }

    pub(super) fn is_broken(&self) -> bool {
        self.breaker.is_some_and(|breaker| breaker.is_open())
    }

    /// Takes what is new; `refused` packets the worker's ports have refused so far.
    fn tend(&mut self, now_us: u64, refused: u64) -> Option<Change> {
        if self.link.has_news(self.version)
            && let Some((report, version)) = self.link.report()
        {
            (self.report, self.version) = (report, version);
            if self.allowed.hear(&report) {
                self.link.note(&self.allowed);
                self.breaker.iter_mut().for_each(|breaker| breaker.hear(&report));
            }
        }
        let breaker = self.breaker.as_mut()?;
        if refused > self.refused {
            breaker.device_is_full(now_us);
        }
        self.refused = refused;
        let change = breaker.look(now_us)?;
        self.allowed.set_bounds(bounds(self.rate, self.packet_bits, breaker.is_open()));
        Some(change)
    }

    /// Has payloads leave at the rate that is allowed now.
    fn set_pace(&mut self, pace: &mut Pace, now_ns: u64) {
        let per_s = self.allowed.rate_per_s(now_ns / 1_000);
        // It is the same one unless something has changed it.
        if per_s.to_bits() != self.per_s.to_bits() {
            self.per_s = per_s;
            pace.set_per_s(per_s, now_ns);
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.link.remove_sender();
    }
}

/// Bits of a packet, as a number of which others are parts.
fn bits(packet_len: usize) -> f64 {
    packet_len.max(1) as f64 * 8.0 // far below 2^52
}

fn bounds(rate: IptfsRate, packet_bits: f64, is_broken: bool) -> Bounds {
    let most_per_s = rate.bits_per_s as f64 / packet_bits; // 52 bits of it are enough
    match rate.losses {
        IptfsLosses::Followed { least_bits_per_s, .. } => {
            Bounds { least_per_s: least_bits_per_s as f64 / packet_bits, most_per_s }
        }
        _ if is_broken => {
            let per_s = BROKEN_PER_S.min(most_per_s);
            Bounds { least_per_s: per_s, most_per_s: per_s }
        }
        _ => Bounds { least_per_s: most_per_s, most_per_s },
    }
}

impl Sender {
    /// Sets the pace for packets of this length.
    pub(super) fn set_pace(
        &mut self,
        view: &View,
        sa: &SaEntry<Sa>,
        rate: IptfsRate,
        packet_len: usize,
    ) {
        let now_ns = view.now.ns;
        let pace = self.pace.get_or_insert_with(|| Pace::new(rate.bits_per_s, packet_len, now_ns));
        pace.set_packet_len(rate.bits_per_s, packet_len);
        if !rate.has_reports() {
            return count(sa, |counters| counters.now.bits_per_s.set(rate.bits_per_s));
        }
        let control =
            self.control.get_or_insert_with(|| Box::new(Control::new(view, sa, rate, packet_len)));
        control.packet_bits = bits(packet_len);
        control.allowed.set_bounds(bounds(rate, control.packet_bits, control.is_broken()));
        // The pace has been set to what is configured.
        control.per_s = 0.0;
        control.set_pace(pace, now_ns);
        control.show(sa);
    }
}

impl Control {
    /// Shows how things are.
    fn show(&self, sa: &SaEntry<Sa>) {
        let lost = self.report.heard.map_or(0, |heard| heard.loss_event_rate);
        count(sa, |counters| {
            let now = &counters.now;
            now.bits_per_s.set((self.per_s * self.packet_bits).round() as u64); // not negative
            now.rtt_us.set(self.allowed.rtt_us().into());
            now.lost_ppm.set(ppm(lost));
            now.is_broken.set(self.is_broken().into());
        });
    }
}

/// The loss event rate in millionths, of its inverse as it is told: 0 for no loss.
pub(super) fn ppm(inverse_rate: u32) -> u64 {
    1_000_000_u64.checked_div(inverse_rate.into()).unwrap_or(0)
}

impl Executor {
    /// Lets the rate of an SA follow what is reported. Once a round, for those that do.
    #[inline(never)]
    pub(super) fn tend_rate(&mut self, view: &View, sender: &mut Sender, sa: &SaEntry<Sa>) {
        let Sender { control: Some(control), pace: Some(pace), .. } = sender else { return };
        let refused = self.out.counters.dropped(DropReason::TransmitFull);
        let (version, per_s) = (control.version, control.per_s);
        let change = control.tend(view.now.ns / 1_000, refused);
        control.set_pace(pace, view.now.ns);
        if version != control.version || per_s.to_bits() != control.per_s.to_bits() {
            control.show(sa);
        }
        let cause = match change {
            None => return,
            Some(Change::Closed) => None,
            Some(Change::Opened(cause)) => Some(cause),
        };
        self.break_rate(sender, sa, cause);
    }

    /// The breaker has opened, or closed.
    #[cold]
    fn break_rate(&mut self, sender: &mut Sender, sa: &SaEntry<Sa>, cause: Option<Cause>) {
        self.out.reports.send(Event::RateBroken { sa: sa.config.id(), cause });
        count(sa, |counters| counters.now.is_broken.set(cause.is_some().into()));
        let configured = sa.config.iptfs.as_deref().map_or(0, |rules| rules.max_queue_bytes);
        if cause.is_none() {
            sender.rules.max_queue_bytes = configured;
            return;
        }
        count(sa, |counters| counters.breaks.add(1));
        // Nothing has room from now on, and what waits is not sent later.
        sender.rules.max_queue_bytes = 0;
        self.aggfrag.ready -= sender.ready.len();
        for building in sender.take_all() {
            self.out.released(1);
            self.drop_payload(Some(sa), building, DropReason::OutIptfsBroken);
        }
    }
}
