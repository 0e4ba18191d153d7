//! Path selection as packets meet it: which traffic takes which path.
//!
//! Routes decide whether a packet goes by a path at all, and rules which of the paths it takes: a rule is asked only
//! about packets that the routes lead to the interface of a path. So what is delivered on a network of this host, or
//! routed elsewhere, is never steered, however wide a rule is.
//!
//! A path is a tunnel interface, or an uplink whose packets leave in clear. `resolve::steer` has the rule by which
//! packets may go in clear at all.

use core::net::IpAddr;
use std::collections::HashMap;
use std::sync::Arc;

use selection::Choice;

use crate::tables::replication::Replication;
use crate::tables::traffic::{About, Rules, Traffic, TrafficMatch};

/// Where the packets of a path leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathExit {
    /// Name of the path.
    pub name: Arc<str>,
    /// The tunnel interface, or the port of an uplink.
    pub ifindex: u32,
    /// Of an uplink how packets leave in clear. `None`: by a tunnel interface, whose policies protect them.
    pub clear: Option<ClearExit>,
}

/// How packets leave in clear by an uplink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClearExit {
    /// Mark by which rules of Linux's lead packets out of the uplink, in Linux and here.
    pub mark: u32,
    /// Addresses of the uplink, the path's own first. What Linux has translated to one of them leaves by it, whatever rules say.
    pub addresses: Box<[IpAddr]>,
    /// True if Linux translates whatever leaves by it: a connection that has begun elsewhere cannot come here.
    pub is_translated: bool,
}

/// A rule, with the paths that are chosen at present.
#[derive(Clone, Debug)]
pub struct SteerRule {
    /// Name of the rule.
    pub name: Arc<str>,
    /// Conditions that packets must meet.
    pub matches: TrafficMatch,
    /// The paths that its flows take, as places among the exits. None stops them.
    pub choice: Choice,
    /// Number of the replication among [`Steering::with_replications`], if its flows travel in copies.
    pub copies: Option<u16>,
}

impl About for SteerRule {
    fn matches(&self) -> &TrafficMatch {
        &self.matches
    }
}

/// All rules, and all paths.
#[derive(Debug, Default)]
pub struct Steering {
    rules: Rules<SteerRule>,
    exits: Vec<Option<PathExit>>,
    /// Interfaces of the paths that can be used, each with the place of its first path.
    ifindices: HashMap<u32, usize, ahash::RandomState>,
    replications: Vec<Replication>,
}

/// Answer of the first rule about a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Steered<'s> {
    /// Name of the rule. `None`: the translation of its connection decides.
    pub(crate) rule: Option<&'s Arc<str>>,
    /// Where the packet leaves. `None`: the rule stops it.
    pub(crate) exit: Option<&'s PathExit>,
    /// Number of the replication, if the packet travels in copies.
    pub(crate) copies: Option<u16>,
}

impl Steering {
    /// Rules, of which the first that is about a packet decides. `exits` are the paths by their index; `None` for one
    /// whose interface is not there, which no choice takes.
    pub fn new(rules: Vec<SteerRule>, exits: Vec<Option<PathExit>>) -> Steering {
        let mut ifindices = HashMap::default();
        for (at, exit) in exits.iter().enumerate() {
            if let Some(exit) = exit {
                ifindices.entry(exit.ifindex).or_insert(at);
            }
        }
        Steering { rules: Rules::new(rules), exits, ifindices, replications: Vec::new() }
    }

    /// The same, with how the flows of some rules travel in copies.
    pub fn with_replications(self, replications: Vec<Replication>) -> Steering {
        Steering { replications, ..self }
    }

    /// True if any flow travels in copies.
    #[inline]
    pub(crate) fn has_replications(&self) -> bool {
        !self.replications.is_empty()
    }

    /// A replication by its number.
    pub(crate) fn replication(&self, number: u16) -> Option<&Replication> {
        self.replications.get(usize::from(number))
    }

    /// True if there are no paths to choose from.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.ifindices.is_empty()
    }

    /// True if the routes lead to a path, so that a rule may choose another.
    #[inline]
    pub(crate) fn is_path(&self, ifindex: u32) -> bool {
        !self.ifindices.is_empty() && self.ifindices.contains_key(&ifindex)
    }

    /// The uplink that a connection belongs to whose packets Linux translates to this source.
    pub(crate) fn uplink_of(&self, src: IpAddr) -> Option<&PathExit> {
        let uplinks = || {
            let exits = self.exits.iter().flatten();
            exits.filter_map(|exit| Some((exit, &exit.clear.as_ref()?.addresses)))
        };
        // Several uplinks may be one interface.
        let own = uplinks().find(|(_, addresses)| addresses.first() == Some(&src));
        let found = own.or_else(|| uplinks().find(|(_, addresses)| addresses.contains(&src)));
        found.map(|(exit, _)| exit)
    }

    /// The answer about a packet that the routes lead to a path. `None`: no rule is about it.
    pub(crate) fn steer(&self, packet: &Traffic<'_>) -> Option<Steered<'_>> {
        let rule = self.rules.find(packet)?;
        let path = rule.choice.path(packet.flow_hash());
        let exit = path.and_then(|path| self.exits.get(usize::from(path))?.as_ref());
        Some(Steered { rule: Some(&rule.name), exit, copies: rule.copies })
    }

    /// Path of a packet that the routes lead to an interface. `None`: no path leaves by it, or a rule stops the packet.
    pub(crate) fn path_of(&self, routed: u32, packet: &Traffic<'_>) -> Option<&Arc<str>> {
        let of_routes = self.first_on(routed)?;
        let exit = self.steer(packet).map_or(Some(of_routes), |steered| steered.exit);
        exit.map(|exit| &exit.name)
    }

    /// The first path that leaves by an interface.
    pub(crate) fn first_on(&self, ifindex: u32) -> Option<&PathExit> {
        self.exits.get(*self.ifindices.get(&ifindex)?)?.as_ref()
    }
}
