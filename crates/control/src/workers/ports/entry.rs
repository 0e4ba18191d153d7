//! One port: how it is opened, attached and closed.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use config::{PortConfig, XdpMode};
use io::PortStats;
use mirror::{Link, Snapshot};
use steer::{Attached, Mode, SteerError, StrippedTags};
use tracing::{info, warn};
use wire::VlanTags;

use super::opening::{Asked, Opener, OpeningKit};
use super::working::Working;
use crate::slots;
use crate::steering::Steering;
use crate::workers::Workers;

/// The state of a port that was never tried.
const NOT_OPENED: &str = "not opened yet";

/// The state of a port whose interface is down.
pub(super) const DOWN: &str = "down: taken when the interface is set up";

/// How long the first opening waits for another program to go.
const RELEASE_WAIT: Duration = Duration::from_millis(500);

/// One configured port.
pub(super) struct Entry {
    pub(super) config: PortConfig,
    /// Its number among all ports, from 0.
    pub(super) place: usize,
    pub(super) working: Option<Working>,
    /// Why it does not work.
    pub(super) trouble: String,
    /// The last attempt to open it failed.
    pub(super) has_failed: bool,
    /// Counts until it was closed last, by queue, and packets that its programs had left to Linux
    /// until then.
    before: (Vec<PortStats>, u64),
    /// True if its program's tables are out of date: an update failed.
    pub(super) is_stale: bool,
    /// Lost VLAN tags were warned of.
    pub(super) is_vlan_told: bool,
    /// The tags of its VLANs that are taken.
    pub(super) vlans: BTreeSet<VlanTags>,
}

impl Entry {
    /// The configured port number `place`, which is not open yet.
    pub(super) fn new(config: &PortConfig, place: usize) -> Entry {
        Entry {
            config: config.clone(),
            place,
            working: None,
            trouble: NOT_OPENED.into(),
            has_failed: false,
            before: (Vec::new(), 0),
            is_stale: false,
            is_vlan_told: false,
            vlans: BTreeSet::new(),
        }
    }

    /// The same port, closed, with other settings and in another place: its counters go on.
    pub(super) fn again(self, config: &PortConfig, place: usize) -> Entry {
        let Entry { before, is_vlan_told, .. } = self;
        Entry { before, is_vlan_told, ..Entry::new(config, place) }
    }

    /// Its slot at the workers.
    pub(super) fn slot(&self) -> usize {
        slots::of_port(self.place)
    }

    /// Counters of each queue, and frames that were left to Linux, of all its openings.
    pub(super) fn counted(&self) -> (Vec<PortStats>, u64) {
        let (mut queues, mut passed) = self.before.clone();
        if let Some(working) = &self.working {
            add(&mut queues, working.counters.iter().map(|counters| counters.read()));
            passed += working.steer.passed();
        }
        (queues, passed)
    }

    /// Updates the program's tables.
    pub(super) fn steer(&mut self, steering: &Steering) {
        let Some(working) = &mut self.working else { return };
        let vlans = working.steer.set_vlans(&mut self.vlans.iter().copied());
        let result = steering.apply(&mut *working.steer);
        match result.and(vlans.map_err(|error| error.to_string())) {
            Ok(()) => (self.is_stale, self.trouble) = (false, String::new()),
            Err(error) => self.stale(&error),
        }
    }

    /// Logs once that the tables are out of date; the port's state shows it until they are not.
    pub(super) fn stale(&mut self, error: &str) {
        let trouble = format!("up, but it does not take all that it should: {error}");
        if self.trouble != trouble {
            warn!(port = self.config.interface, "{trouble}");
            self.trouble = trouble;
        }
        self.is_stale = true;
    }

    /// Follows the interface of an open port, which goes down and up. True if that is news.
    pub(super) fn follow_link(&mut self, is_up: bool) -> bool {
        let Some(working) = &mut self.working else { return false };
        if working.is_down != is_up {
            return false;
        }
        working.is_down = !is_up;
        match is_up {
            true => {
                info!(port = self.config.interface, "the interface is up again");
                if !self.is_stale {
                    self.trouble.clear();
                }
            }
            false => info!(port = self.config.interface, "{DOWN}"),
        }
        true
    }

    /// Logs once that the interface is not there or not up.
    pub(super) fn wait(&mut self, why: &str) {
        self.has_failed = false;
        if self.trouble != why {
            warn!(port = self.config.interface, "{why}");
            self.trouble = why.into();
        }
    }

    /// Warns once that VLAN tags are lost, where there is a VLAN.
    pub(super) fn look_for_vlans(&mut self, snapshot: &Snapshot) {
        let Some(working) = &self.working else { return };
        let Some(trouble) = &working.vlan_trouble else { return };
        let StrippedTags::Lost(why) = working.steer.stripped_tags() else { return };
        let is_below = |link: &Link| link.vlan.is_some() && link.lower == Some(working.ifindex);
        if !self.is_vlan_told && snapshot.links().any(is_below) {
            warn!(port = self.config.interface, why, "{trouble}");
            self.is_vlan_told = true;
        }
    }

    /// Opens a port. A failure is logged once; the next attempt is due when the interface changes.
    pub(super) fn open(
        &mut self,
        ifindex: u32,
        opener: &mut dyn Opener,
        kit: &OpeningKit<'_>,
    ) -> bool {
        let asked = Asked { config: &self.config, slot: self.slot(), ifindex };
        match opener.open(&asked, kit) {
            Ok(working) => {
                self.is_stale = false;
                self.working = Some(working);
                self.has_failed = false;
                true
            }
            Err(trouble) => {
                self.fail(trouble);
                false
            }
        }
    }

    /// The last step of opening a port; one that fails closes it again.
    pub(super) fn attach(&mut self, workers: &Workers) {
        let Some(working) = self.working.as_mut().filter(|w| w.attached.is_none()) else {
            return;
        };
        let mode = match self.config.mode {
            XdpMode::Auto => Mode::Auto,
            XdpMode::Native => Mode::Native,
            XdpMode::Generic => Mode::Generic,
        };
        // At the start, the program of a daemon that is just ending may still be attached.
        let patience = if self.trouble == NOT_OPENED { RELEASE_WAIT } else { Duration::ZERO };
        let deadline = Instant::now() + patience;
        let puts_tags_back = *working.steer.stripped_tags() == StrippedTags::PutBack;
        let result = loop {
            match working.steer.attach(mode) {
                Err(SteerError::Foreign { .. }) if Instant::now() < deadline => {
                    thread::sleep(Duration::from_millis(5));
                }
                result => break result,
            }
        };
        let attached = match result {
            Ok(attached) => attached,
            Err(error) => {
                let ifindex = working.ifindex;
                self.working = None;
                workers.remove_ports(ifindex);
                self.fail(error.to_string());
                return;
            }
        };
        working.attached = Some(attached);
        if let (true, StrippedTags::Lost(why)) = (puts_tags_back, working.steer.stripped_tags()) {
            warn!(port = self.config.interface, why, "VLAN tags that lie beside frames are lost");
        }
        info!(
            port = self.config.interface,
            kind = working.transfer.kind(),
            mode = %attached,
            transfer = working.transfer.name(),
            queues = working.queues,
            why = working.chosen,
            "port open"
        );
        if attached == Attached::Generic && self.config.mode == XdpMode::Auto {
            warn!(
                port = self.config.interface,
                "the driver has no native XDP: generic mode works, but slowly"
            );
        }
        if !self.is_stale {
            self.trouble.clear();
        }
    }

    /// Logs a failure once; the port's state shows it until it works.
    fn fail(&mut self, trouble: String) {
        self.has_failed = true;
        if self.trouble != trouble {
            warn!(port = self.config.interface, "{trouble}");
            self.trouble = trouble;
        }
    }

    pub(super) fn close(&mut self, workers: &Workers, why: &str) {
        if let Some(working) = self.working.take() {
            self.before.1 += working.steer.passed();
            // The program first: from then on frames pass to Linux, and meet the guard.
            drop(working.steer);
            // So that the same queues can be opened again.
            workers.remove_ports(working.ifindex);
            add(&mut self.before.0, working.counters.iter().map(|counters| counters.read()));
            info!(port = self.config.interface, why, "port closed");
            self.trouble = why.into();
        }
    }
}

/// Adds the counters of queues, each to that of its number.
fn add(sums: &mut Vec<PortStats>, queues: impl Iterator<Item = PortStats>) {
    for (place, queue) in queues.enumerate() {
        match sums.get_mut(place) {
            Some(sum) => *sum += queue,
            None => sums.push(queue),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_go_on_where_they_were() {
        let stats = |rx_packets| PortStats { rx_packets, ..PortStats::default() };
        let packets = |sums: &[PortStats]| sums.iter().map(|s| s.rx_packets).collect::<Vec<_>>();
        let mut sums = Vec::new();
        add(&mut sums, [stats(3), stats(4)].into_iter());
        // Opened again with fewer queues, and with more.
        add(&mut sums, [stats(10)].into_iter());
        add(&mut sums, [stats(0), stats(1), stats(7)].into_iter());
        assert_eq!(packets(&sums), [13, 5, 7]);
    }
}
