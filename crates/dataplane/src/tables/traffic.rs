//! Which packets rules are about, and the first rule about a packet.

use core::net::IpAddr;
use std::collections::HashMap;
use std::sync::OnceLock;

use apps::AppId;
use esp::Sa;
use policy::{Prefix, SaEntry};
use wire::{Fragment, Headers};

/// Which way packets go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TrafficDirection {
    /// To peers, and whatever leaves in clear without having been decrypted here.
    #[default]
    Out,
    /// From peers: decrypted here.
    In,
    /// Both directions, inbound and outbound.
    Both,
}

/// Conditions of a rule. A packet must meet all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrafficMatch {
    /// Which way they go.
    pub direction: TrafficDirection,
    /// The interfaces that they, or their ESP packets, came in by; any if there are none. Linux's own have index 0.
    pub interfaces: Vec<u32>,
    /// Where they come from, before any translation.
    pub src: Option<Prefix>,
    /// Where they go, before any translation.
    pub dst: Option<Prefix>,
    /// DSCP of the packet.
    pub dscp: Option<u8>,
    /// Mark of the packet.
    pub mark: Option<u32>,
    /// The `if_id` of the SA that protects them, or has.
    pub if_id: Option<u32>,
    /// Reqid of its SA.
    pub reqid: Option<u32>,
    /// The other end of that SA.
    pub peer: Option<Prefix>,
    /// Application of the flow, as far as it is known.
    pub application: Option<AppId>,
}

/// A packet that rules are about.
pub(crate) struct Traffic<'a> {
    pub(crate) h: &'a Headers,
    pub(crate) ifindex: u32,
    pub(crate) mark: u32,
    /// True if the packet was decrypted here.
    pub(crate) is_in: bool,
    /// The outermost SA that protects it, or has.
    pub(crate) sa: Option<&'a SaEntry<Sa>>,
    /// Application of its flow; `None` where applications are not told apart.
    pub(crate) application: Option<AppId>,
}

impl Traffic<'_> {
    /// A number of the packet's flow, evenly spread, the same for all workers and as long as the process lives. Nobody
    /// outside can choose flows that share it. All fragments of a packet have one, so it is without ports there.
    pub(crate) fn flow_hash(&self) -> u64 {
        let h = self.h;
        let ports = if h.fragment == Fragment::Whole { (h.src_port, h.dst_port) } else { (0, 0) };
        hasher().hash_one((h.src, h.dst, h.protocol, ports))
    }
}

/// The hash of keys that packets give.
pub(crate) fn hasher() -> &'static ahash::RandomState {
    static HASHER: OnceLock<ahash::RandomState> = OnceLock::new();
    HASHER.get_or_init(ahash::RandomState::default)
}

impl TrafficMatch {
    fn is_about(&self, packet: &Traffic<'_>) -> bool {
        let Traffic { h, ifindex, mark, is_in, sa, application } = packet;
        let goes = match self.direction {
            TrafficDirection::Out => !is_in,
            TrafficDirection::In => *is_in,
            TrafficDirection::Both => true,
        };
        let config = sa.map(|sa| &sa.config);
        let other_end = config.map(|c| if *is_in { c.params.src } else { c.params.dst });
        goes && (self.interfaces.is_empty() || self.interfaces.contains(ifindex))
            && self.src.is_none_or(|prefix| prefix.contains(h.src))
            && self.dst.is_none_or(|prefix| prefix.contains(h.dst))
            && (self.application.is_none() || self.application == *application)
            && self.dscp.is_none_or(|dscp| h.traffic_class >> 2 == dscp)
            && self.mark.is_none_or(|wanted| *mark == wanted)
            && self.if_id.is_none_or(|wanted| config.is_some_and(|c| c.if_id == wanted))
            && self.reqid.is_none_or(|wanted| config.is_some_and(|c| c.reqid == wanted))
            && self.peer.is_none_or(|peer| other_end.is_some_and(|end| peer.contains(end)))
    }
}

/// Key by which a rule is found: the first of these that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Found {
    IfId(u32),
    Mark(u32),
    To(u8, IpAddr),
    From(u8, IpAddr),
    Any,
}

impl Found {
    fn of(matches: &TrafficMatch) -> Found {
        let TrafficMatch { if_id, mark, dst, src, .. } = matches;
        match (if_id, mark, dst, src) {
            (Some(if_id), ..) => Found::IfId(*if_id),
            (_, Some(mark), ..) => Found::Mark(*mark),
            (_, _, Some(Prefix { addr, len }), _) => Found::To(*len, masked(*addr, *len)),
            (_, _, _, Some(Prefix { addr, len })) => Found::From(*len, masked(*addr, *len)),
            _ => Found::Any,
        }
    }
}

/// A rule about some traffic.
pub(crate) trait About {
    /// Conditions that packets must meet.
    fn matches(&self) -> &TrafficMatch;
}

/// Rules, in their order, found without a look at each.
#[derive(Debug)]
pub(crate) struct Rules<T> {
    rules: Vec<T>,
    /// Places of rules, ascending.
    found: HashMap<Found, Vec<u32>, ahash::RandomState>,
    /// The lengths of prefixes that rules are found by: destinations', and sources'.
    lens: [Vec<u8>; 2],
}

impl<T> Default for Rules<T> {
    fn default() -> Rules<T> {
        Rules { rules: Vec::new(), found: HashMap::default(), lens: [Vec::new(), Vec::new()] }
    }
}

impl<T: About> Rules<T> {
    /// Rules, of which the first that is about a packet decides.
    pub(crate) fn new(rules: Vec<T>) -> Rules<T> {
        let mut found: HashMap<_, Vec<u32>, _> = HashMap::default();
        let mut lens = [Vec::new(), Vec::new()];
        for (at, rule) in (0..).zip(&rules) {
            let by = Found::of(rule.matches());
            found.entry(by).or_default().push(at);
            let [to, from] = &mut lens;
            match by {
                Found::To(len, _) if !to.contains(&len) => to.push(len),
                Found::From(len, _) if !from.contains(&len) => from.push(len),
                _ => {}
            }
        }
        Rules { rules, found, lens }
    }

    /// The rules in order.
    pub(crate) fn all(&self) -> &[T] {
        &self.rules
    }

    /// The rules in order, to change what does not bear on which packets they are about.
    pub(crate) fn all_mut(&mut self) -> &mut [T] {
        &mut self.rules
    }

    /// The first rule about a packet.
    pub(crate) fn find(&self, packet: &Traffic<'_>) -> Option<&T> {
        self.find_place(packet).map(|(_, rule)| rule)
    }

    /// The first rule about a packet, and its place.
    pub(crate) fn find_place(&self, packet: &Traffic<'_>) -> Option<(u32, &T)> {
        let Traffic { h, mark, sa, .. } = packet;
        let [to, from] = &self.lens;
        let of_sa = sa.map(|sa| Found::IfId(sa.config.if_id));
        let to = to.iter().map(|len| Found::To(*len, masked(h.dst, *len)));
        let from = from.iter().map(|len| Found::From(*len, masked(h.src, *len)));
        let all = [Found::Any, Found::Mark(*mark)].into_iter().chain(of_sa).chain(to).chain(from);
        let rule = |at: &u32| self.rules.get(*at as usize);
        let firsts = all.filter_map(|by| {
            let mut places = self.found.get(&by)?.iter();
            places.find(|at| rule(at).is_some_and(|rule| rule.matches().is_about(packet)))
        });
        let at = firsts.min()?;
        Some((*at, rule(at)?))
    }
}

/// An address without the bits behind a prefix.
fn masked(addr: IpAddr, len: u8) -> IpAddr {
    match addr {
        IpAddr::V4(addr) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(len.min(32))).unwrap_or(0);
            IpAddr::V4((addr.to_bits() & mask).into())
        }
        IpAddr::V6(addr) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(len.min(128))).unwrap_or(0);
            IpAddr::V6((addr.to_bits() & mask).into())
        }
    }
}
