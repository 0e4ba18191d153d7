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
use iptfs::congestion::{Bounds, Breaker, Change, Report, Sender as Allowed, breaker};
use policy::{IptfsLosses, IptfsRate, SaEntry};

use super::counts::count;
use super::pace::Pace;
use crate::tables::links::Link;
use crate::view::View;

/// Inputs of one outbound SA's rate.
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
    pub(super) fn new(
        view: &View,
        sa: &SaEntry<Sa>,
        rate: IptfsRate,
        packet_len: usize,
    ) -> Control {
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

    /// Header of the next payload. An end that does not follow has no use for round trips, and
    /// reports none: so each loss is an event for the other end, and the rate of events is that of
    /// losses.
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
    pub(super) fn tend(&mut self, now_us: u64, refused: u64) -> Option<Change> {
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
    pub(super) fn set_pace(&mut self, pace: &mut Pace, now_ns: u64) {
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

impl Control {
    /// Follows packets of another length, by a pace that has been set to what is configured.
    pub(super) fn set_packet_len(&mut self, pace: &mut Pace, packet_len: usize, now_ns: u64) {
        self.packet_bits = bits(packet_len);
        self.allowed.set_bounds(bounds(self.rate, self.packet_bits, self.is_broken()));
        self.per_s = 0.0;
        self.set_pace(pace, now_ns);
    }

    /// The values that are told, to see if they change.
    pub(super) fn told(&self) -> (u64, u64) {
        (self.version, self.per_s.to_bits())
    }

    /// Shows how things are.
    pub(super) fn show(&self, sa: &SaEntry<Sa>) {
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
