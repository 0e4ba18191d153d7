//! Test if Linux has rules of NAT that packets between two interfaces meet.

use std::fs;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use super::nftables;
use crate::clock::Now;
use crate::linux::edge::Rules;

/// How often legacy iptables, which tell no changes, are looked at; and a reading that failed is tried again.
const INTERVAL: Duration = Duration::from_secs(2);

/// Follows the rules.
pub struct NatWatch {
    events: Option<nftables::Events>,
    is_stale: bool,
    /// Of IPv4 and IPv6.
    found: [bool; 2],
    looked_at: Option<Instant>,
}

impl NatWatch {
    /// Reads what there is.
    pub fn new() -> NatWatch {
        // First: what changes meanwhile is told.
        let events = nftables::Events::open().unwrap_or_default();
        NatWatch { events, is_stale: false, found: look(), looked_at: None }
    }
}

impl Rules for NatWatch {
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.events.as_ref().map(nftables::Events::fd)
    }

    /// Both where that cannot be read.
    fn families(&self) -> [bool; 2] {
        self.found
    }

    fn poll(&mut self, now: Now) -> bool {
        if let Some(events) = &mut self.events {
            self.is_stale |= events.has_changed();
        }
        let is_due = self.looked_at.is_none_or(|at| now.since(at) >= INTERVAL);
        if !self.is_stale && !is_due {
            return false;
        }
        let before = std::mem::replace(&mut self.found, look());
        (self.is_stale, self.looked_at) = (false, Some(now.at));
        before != self.found
    }
}

/// The present answer, for IPv4 and for IPv6.
pub fn look() -> [bool; 2] {
    let nftables = nftables::translates().unwrap_or([true; 2]);
    let legacy = ["ip_tables_names", "ip6_tables_names"].map(|names| {
        let names = fs::read_to_string(format!("/proc/thread-self/net/{names}"));
        names.is_ok_and(|names| names.lines().any(|name| name == "nat"))
    });
    [nftables[0] || legacy[0], nftables[1] || legacy[1]]
}
