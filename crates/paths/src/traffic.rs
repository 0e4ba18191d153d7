//! Loss of a path's own packets in one direction, by what both ends have counted (RFC 8972 §4.5).
//!
//! A sample has two counts, both of packets of one SA and one class: those that one end had sent before it made the probe, or the
//! reflection, and those that the other had received when it took it. `missing` is their difference since the first sample:
//! what is lost, and two kinds of noise.
//!
//! - Too low: packets behind the probe were counted before it was looked at (of the same burst, or as another worker
//!   decrypts them). So the highest `missing` so far counts; an end that has counted too much does so by less, or more, with
//!   each sample, and the next loss is carried over.
//! - Too high: packets are still on their way that the probe has overtaken. So a packet is lost once three samples in a row
//!   miss it; and of those lost in the window as many are taken for late as were sent in twice the time by which round trips
//!   differ from one sample to the next.
//!
//! Loss is certain with [`LEAST_LOST`] lost packets in a window of a second. Of a path that loses one in a thousand by chance, and
//! may lose one in a hundred, the worst case are 800 packets a second: eight of them are lost in two of a million windows.
//! Fewer than that say nothing, and probes alone are judged by: with 500 packets a second 1.6 %, with 100 a second 8 %.
//!
//! Counts of another SA begin a new account, and so do counts that cannot be, or go backwards as those of a probe that was
//! overtaken.

/// Lost packets of a window that are no chance.
const LEAST_LOST: u32 = 8;

/// Time that loss is judged over.
const WINDOW_NS: u64 = 1_000_000_000;

/// Least time from one point of a window to the next: a little less than the shortest interval that needs no points left out.
const APART_NS: u64 = 40_000_000;

/// Points that are remembered: those of a window, and one before it.
const POINTS: usize = (WINDOW_NS / APART_NS) as usize + 2;

/// Samples of a new account until it counts: by then one has had little noise.
const FIRST_SAMPLES: u32 = 8;

/// Packets behind a probe that may have been counted with it, beside as many as were sent since the last sample. Some bursts
/// of several workers.
const MOST_AHEAD: i64 = 4096;

/// Packets that one SA has carried in one class, as this host has counted them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// Which counter it is: another one for each SA.
    pub by: u64,
    /// The count, which goes round.
    pub packets: u32,
}

/// Loss of packets in the last second, in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrafficLoss {
    /// Packets that were sent, probes among them.
    pub sent: u32,
    /// Those among them that are lost.
    pub lost: u32,
    /// Those of the lost ones that may be late.
    pub late: u32,
}

impl TrafficLoss {
    /// Loss in parts of a million; 0 without packets.
    pub const fn ppm(&self) -> u32 {
        ppm(self.lost, self.sent)
    }

    /// Loss by which a path is judged, in parts of a million; 0 if it may be chance.
    pub const fn judged_ppm(&self) -> u32 {
        let certain = self.lost.saturating_sub(self.late);
        if certain >= LEAST_LOST { ppm(certain, self.sent) } else { 0 }
    }
}

const fn ppm(part: u32, whole: u32) -> u32 {
    match whole {
        0 => 0,
        // A packet that was sent in an earlier window may be lost in this one.
        whole if part >= whole => 1_000_000,
        whole => (part as u64 * 1_000_000 / whole as u64) as u32,
    }
}

/// Counts of both ends at one probe or reflection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    /// Counter of this host, see [`Counted::by`].
    pub(crate) by: u64,
    pub(crate) sent: u32,
    pub(crate) received: u32,
}

/// Counts that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// A counter went backwards.
    Backwards,
    /// More was received than was sent.
    Surplus,
}

/// Account of one direction.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    last: Option<Sample>,
    /// Samples since the account began.
    samples: u32,
    sent: u64,
    /// Packets sent and not received, by the last three samples, the latest first.
    missing: [i64; 3],
    /// Lost packets, as far as they are certain.
    lost: i64,
    last_trip_ns: u64,
    /// Sum of the differences of round trips from one sample to the next.
    apart_ns: u64,
    points: [Point; POINTS],
    /// Points that were noted; the latest are kept.
    noted: usize,
    loss: TrafficLoss,
}

/// An account as it stood at some time.
#[derive(Clone, Copy, Debug, Default)]
struct Point {
    at_ns: u64,
    samples: u32,
    sent: u64,
    lost: i64,
    apart_ns: u64,
}

impl Default for Account {
    fn default() -> Account {
        Account {
            last: None,
            samples: 0,
            sent: 0,
            missing: [0; 3],
            lost: 0,
            last_trip_ns: 0,
            apart_ns: 0,
            points: [Point::default(); POINTS],
            noted: 0,
            loss: TrafficLoss::default(),
        }
    }
}

impl Account {
    /// Loss in the last second.
    pub(crate) const fn loss(&self) -> TrafficLoss {
        self.loss
    }

    /// True if there are counts of both ends.
    pub(crate) const fn is_open(&self) -> bool {
        self.last.is_some()
    }

    /// Ends the account: nothing is known any more.
    pub(crate) fn stop(&mut self) {
        if self.last.is_some() {
            *self = Account::default();
        }
    }

    /// Adds the counts at a probe, in the order of probes, with the probe's round trip.
    ///
    /// # Errors
    /// They cannot be; a new account begins with them.
    pub(crate) fn add(&mut self, at_ns: u64, sample: Sample, trip_ns: u64) -> Result<(), Wrong> {
        let begun = Account { last: Some(sample), last_trip_ns: trip_ns, ..Account::default() };
        let Some(last) = self.last.filter(|last| last.by == sample.by) else {
            *self = begun;
            return Ok(());
        };
        let sent = sample.sent.wrapping_sub(last.sent);
        let received = sample.received.wrapping_sub(last.received);
        if sent.max(received) >= 1 << 31 {
            *self = begun;
            // A little is no lie: a probe has overtaken the one before.
            let back = |by: u32| if by >= 1 << 31 { i64::from(by.wrapping_neg()) } else { 0 };
            let is_far = back(sent).max(back(received)) > MOST_AHEAD;
            return if is_far { Err(Wrong::Backwards) } else { Ok(()) };
        }
        let [missing, before, _] = self.missing;
        let missing_now = missing + i64::from(sent) - i64::from(received);
        if self.lost - missing_now > MOST_AHEAD + i64::from(sent) {
            *self = begun;
            return Err(Wrong::Surplus);
        }
        self.last = Some(sample);
        self.samples = self.samples.saturating_add(1);
        self.sent += u64::from(sent);
        self.missing = [missing_now, missing, before];
        self.lost = self.lost.max(missing_now.min(missing).min(before));
        self.apart_ns = self.apart_ns.saturating_add(self.last_trip_ns.abs_diff(trip_ns));
        self.last_trip_ns = trip_ns;
        if self.samples >= FIRST_SAMPLES {
            self.judge(at_ns);
        }
        Ok(())
    }

    /// Compares the account with itself a second ago.
    fn judge(&mut self, at_ns: u64) {
        let Account { samples, sent, lost, apart_ns, noted, .. } = *self;
        let now = Point { at_ns, samples, sent, lost, apart_ns };
        let age = |point: &Point| at_ns.saturating_sub(point.at_ns);
        let newest = self.points.get(noted.wrapping_sub(1) % POINTS).filter(|_| noted > 0);
        if newest.is_none_or(|newest| age(newest) >= APART_NS) {
            if let Some(place) = self.points.get_mut(noted % POINTS) {
                *place = now;
            }
            self.noted = noted + 1;
        }
        // The newest of those that are a second old, or the oldest one: in a short time a little noise is a great part.
        let kept = self.points.get(..self.noted.min(POINTS)).unwrap_or_default();
        let old =
            kept.iter().filter(|point| age(point) >= WINDOW_NS).min_by_key(|point| age(point));
        let oldest = kept.iter().max_by_key(|point| age(point));
        let from = old.or(oldest.filter(|oldest| age(oldest) >= WINDOW_NS / 2));
        let Some(from) = from else { return };
        let sent = now.sent - from.sent;
        let differences = u64::from(now.samples - from.samples).max(1);
        let apart_ns = now.apart_ns.saturating_sub(from.apart_ns) / differences;
        // Late by one probe, and counted ahead of its time by another.
        let late = 2 * u128::from(sent) * u128::from(apart_ns) / u128::from(age(from).max(1));
        self.loss = TrafficLoss {
            sent: u32::try_from(sent).unwrap_or(u32::MAX),
            lost: u32::try_from(now.lost - from.lost).unwrap_or(u32::MAX),
            late: u32::try_from(late).unwrap_or(u32::MAX),
        };
    }
}

#[cfg(test)]
#[path = "traffic_tests.rs"]
mod tests;
