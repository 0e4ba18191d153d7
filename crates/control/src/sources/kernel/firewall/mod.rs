//! Firewalls of Linux's that packets of the fast path would pass by.
//!
//! | Module     | What it knows                                         |
//! |------------|-------------------------------------------------------|
//! | this one   | what there is for each family, and when that changes  |
//! | `chains`   | how they are told                                     |
//! | `nftables` | base chains and their rules, by netlink               |
//! | `iptables` | the tables of legacy iptables, by their save programs |
//! | `nat`      | whether there are rules of NAT                        |
//!
//! A chain counts that packets meet between two interfaces, and that could stop or change one of
//! them, or have it seen: its policy is not accept, or it has a rule that does more than match, count and
//! accept. So rules that an IKE daemon adds to let its tunnels' packets pass do not count, and
//! neither do culvert's own tables.

mod chains;
mod iptables;
mod nat;
mod nftables;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use self::chains::Chains;
pub use self::nat::{NatWatch, look as nat_rules};
use crate::clock::Now;

/// Readings of the chains are this far apart at least: who loads rules one by one is not read after
/// each.
const LEAST_APART: Duration = Duration::from_millis(100);

/// How soon a reading that failed is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// Why policies of a family stay with the kernel, if they do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Firewalls {
    /// Of IPv4 and of IPv6.
    reasons: [Option<Cow<'static, str>>; 2],
}

impl Firewalls {
    /// From what was found of each kind; a text where it could not be read.
    fn new(found: &[Result<Chains, String>]) -> Firewalls {
        let of = |pick: fn(&Chains) -> &Option<String>| {
            let mut reasons = found.iter().filter_map(|found| match found {
                Ok(chains) => pick(chains).as_ref().map(|chain| {
                    format!("{chain}, which the fast path would pass by; {LETS} lets it")
                }),
                Err(error) => {
                    Some(format!("whether Linux has a firewall is not known ({error}); {LETS} lets the fast path pass one by"))
                }
            });
            reasons.next().map(Cow::from)
        };
        Firewalls { reasons: [of(|chains| &chains.v4), of(|chains| &chains.v6)] }
    }

    #[cfg(test)]
    pub fn of_ipv4(chain: &str) -> Firewalls {
        Firewalls::new(&[Ok(Chains { v4: Some(chain.into()), v6: None })])
    }

    /// Why policies with these addresses stay with the kernel.
    pub fn of(&self, addr: IpAddr) -> Option<&Cow<'static, str>> {
        self.reasons[usize::from(addr.is_ipv6())].as_ref()
    }

    /// Warnings for the operator.
    pub fn warnings(&self) -> impl Iterator<Item = String> {
        let families = self.by_family();
        families.map(|(family, reason)| format!("{family} policies stay with the kernel: {reason}"))
    }

    fn by_family(&self) -> impl Iterator<Item = (&str, &str)> {
        let families = ["IPv4", "IPv6"].into_iter().zip(&self.reasons);
        families.filter_map(|(family, reason)| Some((family, reason.as_deref()?)))
    }
}

/// Rules that packets between ports would pass by, a line for each family. For a caller that
/// follows no changes.
pub fn look(ports: BTreeSet<String>) -> Vec<String> {
    let nftables = nftables::read(&ports).map_err(|e| format!("nftables: {e}"));
    let firewalls = Firewalls::new(&[nftables, iptables::read()]);
    firewalls.by_family().map(|(family, reason)| format!("{family}: {reason}")).collect()
}

/// Setting of an operator who wants no firewall to be asked.
const LETS: &str = "firewall = \"bypass\" in [kernel]";

/// Follows the firewalls.
pub struct Watch {
    /// Interfaces that are culvert's ports.
    ports: BTreeSet<String>,
    /// nftables; none in a kernel without it.
    events: Option<nftables::Events>,
    legacy: iptables::Watch,
    nftables: Result<Chains, String>,
    iptables: Result<Chains, String>,
    /// Something has changed since the last reading.
    is_stale: bool,
    /// When nftables was read last, by a round.
    read_at: Option<Instant>,
}

impl Watch {
    /// Reads what there is, and follows it. `ports` are the interfaces whose packets are taken.
    pub fn new(ports: BTreeSet<String>) -> Watch {
        // First: what changes meanwhile is told.
        let events = nftables::Events::open();
        let (legacy, iptables) = iptables::Watch::new();
        let (events, nftables) = match events {
            Ok(events) => (events, nftables::read(&ports)),
            Err(error) => (None, Err(error)),
        };
        let nftables = nftables.map_err(|e| format!("nftables: {e}"));
        let is_stale = nftables.is_err();
        Watch { ports, events, legacy, nftables, iptables, is_stale, read_at: None }
    }

    /// The firewalls as they are now.
    pub fn firewalls(&self) -> Firewalls {
        Firewalls::new(&[self.nftables.clone(), self.iptables.clone()])
    }

    /// The descriptors that become readable when something has changed.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.events.iter().map(nftables::Events::fd).chain(self.legacy.fd())
    }

    /// How long [`Watch::poll`] may be put off while no descriptor is readable; `None` for ever.
    pub fn due_in(&self, now: Now) -> Option<Duration> {
        let pause = if self.nftables.is_err() { RETRY } else { LEAST_APART };
        let left = |at| pause.saturating_sub(now.since(at));
        self.is_stale.then(|| self.read_at.map_or(Duration::ZERO, left))
    }

    /// The ports are these.
    pub fn set_ports(&mut self, ports: BTreeSet<String>) {
        self.is_stale |= self.ports != ports;
        self.ports = ports;
    }

    /// Takes over what has changed; returns whether anything may have.
    pub fn poll(&mut self, now: Now) -> bool {
        if let Some(events) = &mut self.events {
            self.is_stale |= events.has_changed();
        }
        let mut has_changed = false;
        if let Some(iptables) = self.legacy.poll() {
            (self.iptables, has_changed) = (iptables, true);
        }
        if self.due_in(now) == Some(Duration::ZERO) {
            self.nftables = nftables::read(&self.ports).map_err(|e| format!("nftables: {e}"));
            (self.is_stale, self.read_at) = (self.nftables.is_err(), Some(now.at));
            has_changed = true;
        }
        has_changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_family_has_its_own_reason() {
        let v4 = IpAddr::from([10, 0, 0, 1]);
        let v6 = IpAddr::from([0u16; 8]);
        let mut chains = Chains::default();
        assert_eq!(Firewalls::new(&[Ok(chains.clone())]), Firewalls::default());
        chains.note(true, false, || "nftables has chain ip filter forward".into());
        chains.note(true, false, || "another".into());
        assert!(!chains.is_full());
        let firewalls = Firewalls::new(&[Ok(Chains::default()), Ok(chains.clone())]);
        assert_eq!(
            firewalls.of(v4).map(AsRef::as_ref),
            Some(
                "nftables has chain ip filter forward, which the fast path would pass by; \
                 firewall = \"bypass\" in [kernel] lets it"
            )
        );
        assert_eq!(firewalls.of(v6), None);
        assert_eq!(firewalls.warnings().count(), 1);
        chains.note(true, true, || "third".into());
        assert!(chains.is_full());
        let unknown = Firewalls::new(&[Err("nftables: no".into())]);
        assert!(unknown.of(v4).is_some_and(|text| text.contains("not known (nftables: no)")));
        assert!(unknown.of(v6).is_some());
    }
}
