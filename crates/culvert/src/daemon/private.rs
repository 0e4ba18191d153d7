//! The private interface: how Linux's own packets come to culvert, and culvert's to Linux.
//!
//! Linux sends to it what goes to a protected prefix: a rule of low preference looks into
//! culvert's own table. What culvert puts into it is Linux's to deliver or to forward, and never
//! comes back: the rule exempts packets that came in by it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use forward::SourceCheck;
use mirror::{
    Control, Error, Family, NextHop, Prefix, Route, Rule, RuleAction, Snapshot,
    set_interface_setting,
};
use policy::{Action, Direction, PolicyConfig};
use tracing::{info, warn};

use crate::config::TunConfig;

/// Rules and routes that lead to the private interface.
pub struct Private {
    config: TunConfig,
    ifindex: u32,
    control: Control,
    /// Protected destinations, with the source selectors of their policies.
    wanted: BTreeMap<Prefix, Vec<policy::Prefix>>,
    /// The routes that stand: destinations, with the source address that local programs shall use.
    routes: BTreeMap<Prefix, Option<IpAddr>>,
}

impl Private {
    /// Sets up the interface, which exists, and the rules.
    ///
    /// Linux must not encrypt what leaves by it, nor judge again what comes from it; its packets
    /// come from anywhere, this host's own addresses included (ICMP errors to local programs).
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn set_up(config: &TunConfig, ifindex: u32) -> Result<Private, Error> {
        let name = config.interface.as_str();
        for (setting, value) in
            [("disable_xfrm", 1), ("disable_policy", 1), ("rp_filter", 0), ("accept_local", 1)]
        {
            set_interface_setting(Family::V4, name, setting, value)?;
        }
        // A machine without IPv6 has none of these.
        for (setting, value) in [("disable_policy", 1), ("accept_ra", 0), ("addr_gen_mode", 1)] {
            if let Err(error) = set_interface_setting(Family::V6, name, setting, value) {
                warn!(%error, "IPv6 through the private interface may not work");
                break;
            }
        }
        let mut control = Control::new()?;
        control.set_link_up(ifindex, true)?;
        for family in [Family::V4, Family::V6] {
            let rule = rule(config, family);
            // One that a daemon left that was killed.
            match control.add_rule(&rule) {
                Err(error) if error.errno() != Some(EXISTS) => return Err(error),
                _ => {}
            }
        }
        Ok(Private {
            config: config.clone(),
            ifindex,
            control,
            wanted: BTreeMap::new(),
            routes: BTreeMap::new(),
        })
    }

    /// Makes the routes lead where the policies protect.
    pub fn follow<'a>(
        &mut self,
        policies: impl IntoIterator<Item = &'a PolicyConfig>,
        snapshot: &Snapshot,
    ) {
        self.wanted.clear();
        for (dst, src) in policies.into_iter().filter_map(protected) {
            self.wanted.entry(dst).or_default().push(src);
        }
        let either: BTreeSet<Prefix> =
            self.wanted.keys().chain(self.routes.keys()).copied().collect();
        for prefix in either {
            self.follow_route(prefix, snapshot);
        }
    }

    /// A policy came, went, or took another's place.
    pub fn change(
        &mut self,
        old: Option<&PolicyConfig>,
        new: Option<&PolicyConfig>,
        snapshot: &Snapshot,
    ) {
        let (old, new) = (old.and_then(protected), new.and_then(protected));
        if let Some((dst, src)) = new {
            self.wanted.entry(dst).or_default().push(src);
        }
        if let Some((dst, src)) = old
            && let Some(sources) = self.wanted.get_mut(&dst)
        {
            if let Some(at) = sources.iter().position(|s| *s == src) {
                sources.remove(at);
            }
            if sources.is_empty() {
                self.wanted.remove(&dst);
            }
        }
        for (dst, _) in new.into_iter().chain(old) {
            self.follow_route(dst, snapshot);
        }
    }

    /// Puts back what somebody took away, and tries again what failed.
    pub fn repair(&mut self, snapshot: &Snapshot) {
        for family in [Family::V4, Family::V6] {
            let rule = rule(&self.config, family);
            if !snapshot.rules(family).any(|r| *r == rule) {
                match self.control.add_rule(&rule) {
                    Ok(()) => warn!(?family, "the rule to the private interface was gone"),
                    Err(error) if error.errno() == Some(EXISTS) => {}
                    Err(error) => warn!(%error, ?family, "no rule to the private interface"),
                }
            }
        }
        let there: BTreeSet<Prefix> = snapshot
            .routes_of(self.config.table)
            .filter(|r| r.next_hops.iter().any(|hop| hop.ifindex == self.ifindex))
            .map(|r| r.dst)
            .collect();
        self.routes.retain(|prefix, _| there.contains(prefix));
        let missing: Vec<Prefix> =
            self.wanted.keys().filter(|p| !self.routes.contains_key(p)).copied().collect();
        for prefix in missing {
            self.follow_route(prefix, snapshot);
        }
    }

    /// The private interface.
    pub fn ifindex(&self) -> u32 {
        self.ifindex
    }

    fn follow_route(&mut self, prefix: Prefix, snapshot: &Snapshot) {
        let Some(sources) = self.wanted.get(&prefix) else {
            if self.routes.remove(&prefix).is_some() {
                let route = self.route(prefix, None);
                match self.control.delete_route(&route) {
                    Err(error) if error.errno() != Some(NO_SUCH) => {
                        warn!(%error, "route not removed");
                    }
                    _ => {}
                }
            }
            return;
        };
        let src = sources.iter().find_map(|source| own_address(*source, snapshot));
        if self.routes.get(&prefix) == Some(&src) {
            return;
        }
        let route = self.route(prefix, src);
        match self.control.replace_route(&route) {
            Ok(()) => {
                info!(prefix = %show(prefix), ?src, "local traffic to it goes to culvert");
                self.routes.insert(prefix, src);
            }
            Err(error) => warn!(%error, prefix = %show(prefix), "no route for local traffic"),
        }
    }

    /// Asks Linux to resolve or confirm a neighbour.
    pub fn resolve(&mut self, ifindex: u32, ip: IpAddr) {
        if let Err(error) = self.control.resolve(ifindex, ip) {
            tracing::debug!(%error, %ip, "neighbour not asked for");
        }
    }

    /// Takes the rules away; the routes go with the interface.
    pub fn tear_down(&mut self) {
        for family in [Family::V4, Family::V6] {
            match self.control.delete_rule(&rule(&self.config, family)) {
                Err(error) if error.errno() != Some(NO_ENTRY) => warn!(%error, "rule not removed"),
                _ => {}
            }
        }
    }

    fn route(&self, prefix: Prefix, src: Option<IpAddr>) -> Route {
        let mut route = Route::new(prefix, NextHop::new(self.ifindex, None));
        route.table = self.config.table;
        route.prefsrc = src;
        route
    }
}

/// How Linux would check the sources of what comes in by an interface: the stricter of the
/// interface's setting and everybody's, as Linux takes it. Read when something changes in Linux's
/// tables, and on SIGHUP.
pub fn source_check(interface: &str) -> SourceCheck {
    let setting = |name| mirror::interface_setting(Family::V4, name, "rp_filter").unwrap_or(0);
    match setting("all").max(setting(interface)) {
        0 => SourceCheck::Off,
        1 => SourceCheck::Strict,
        _ => SourceCheck::Loose,
    }
}

/// `EEXIST`, `ENOENT`, `ESRCH`.
const EXISTS: i32 = 17;
const NO_ENTRY: i32 = 2;
const NO_SUCH: i32 = 3;

/// `not iif culvert0 lookup 219`.
fn rule(config: &TunConfig, family: Family) -> Rule {
    Rule {
        family,
        priority: config.rule_preference,
        table: config.table,
        from: None,
        to: None,
        iif: Some(config.interface.clone()),
        oif: None,
        fwmark: 0,
        fwmask: 0,
        invert: true,
        action: RuleAction::Lookup,
        suppress_prefix_len: None,
        has_more: false,
    }
}

/// Where a policy protects local traffic to, and from which sources.
fn protected(policy: &PolicyConfig) -> Option<(Prefix, policy::Prefix)> {
    let protects = policy.direction == Direction::Out
        && policy.action == Action::Allow
        && !policy.templates.is_empty()
        // What asks for a mark is Linux's to tell: on its way here a packet would lose it.
        && policy.scope().is_any();
    protects.then(|| (masked(policy.selector.dst), policy.selector.src))
}

/// The lowest address of this host that a source selector holds.
fn own_address(source: policy::Prefix, snapshot: &Snapshot) -> Option<IpAddr> {
    let addresses = snapshot.addresses().map(|a| a.addr);
    addresses.filter(|addr| !addr.is_loopback() && source.contains(*addr)).min()
}

/// Without the host bits, which routes do not have.
fn masked(prefix: policy::Prefix) -> Prefix {
    let addr = match prefix.addr {
        IpAddr::V4(a) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(prefix.len.min(32))).unwrap_or(0);
            IpAddr::V4((a.to_bits() & mask).into())
        }
        IpAddr::V6(a) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(prefix.len.min(128))).unwrap_or(0);
            IpAddr::V6((a.to_bits() & mask).into())
        }
    };
    Prefix { addr, len: prefix.len }
}

fn show(prefix: Prefix) -> String {
    format!("{}/{}", prefix.addr, prefix.len)
}
