//! Path selection as packets meet it: which traffic takes which path.
//!
//! Routes decide whether a packet goes by a path at all, and rules which of the paths it takes: a rule is asked only
//! about packets that the routes lead to the interface of a path. So what is delivered on a network of this host, or
//! routed elsewhere, is never steered, however wide a rule is.

use core::net::IpAddr;
use std::collections::HashMap;
use std::sync::Arc;

use selection::Choice;

use crate::tables::traffic::{About, Rules, Traffic, TrafficMatch};

/// Where the packets of a path leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathExit {
    /// Name of the path.
    pub name: Arc<str>,
    /// The port, or the tunnel interface.
    pub ifindex: u32,
    /// The router on it. `None`: the destination itself is on the link, or in the tunnel.
    pub gateway: Option<IpAddr>,
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
}

/// Answer of the first rule about a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Steered<'s> {
    /// Name of the rule.
    pub(crate) rule: &'s Arc<str>,
    /// Where the packet leaves. `None`: the rule stops it.
    pub(crate) exit: Option<&'s PathExit>,
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
        Steering { rules: Rules::new(rules), exits, ifindices }
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

    /// The answer about a packet that the routes lead to a path. `None`: no rule is about it.
    pub(crate) fn steer(&self, packet: &Traffic<'_>) -> Option<Steered<'_>> {
        let rule = self.rules.find(packet)?;
        let path = rule.choice.path(packet.flow_hash());
        let exit = path.and_then(|path| self.exits.get(usize::from(path))?.as_ref());
        Some(Steered { rule: &rule.name, exit })
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
