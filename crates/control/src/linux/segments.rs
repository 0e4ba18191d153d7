//! SRv6: Linux's routes with segments, and those of the configuration, as workers have them.
//!
//! Each function of a route has an index, as the index of an interface has ([`dataplane::FIRST_SEGMENTS`]). It
//! keeps that as long as a route has it. What is not understood has none: such routes are Linux's alone.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use dataplane::{FIRST_SEGMENTS, Function, MAX_SEGMENT_ROUTES, SegmentRoute, Segments};
use forward::{Hop, RouteEntry, RouteKind, Subnet, table};
use mirror::{Encap, NextHop, Seg6Local, Seg6Mode, SidAction, Snapshot};
use srv6::{Behaviour, Csid, Flavours, Headend, Mode, Next, Sid};
use tracing::warn;

use config::{SidConfig, Srv6Config};
use report::SegmentRow;

/// The functions of routes, and their indices.
#[derive(Default)]
pub struct SegmentRoutes {
    config: Srv6Config,
    sids: Vec<SidConfig>,
    /// Source address of outer headers in Linux (`ip sr tunsrc`).
    tunnel_source: Option<Ipv6Addr>,
    indices: HashMap<Key, u32>,
    functions: Vec<Option<SegmentRoute>>,
    /// Destinations, whose packets ports have to take.
    prefixes: BTreeSet<(IpAddr, u8)>,
    /// The tables that segments look into.
    tables: Vec<u32>,
    /// Interfaces inside the domain.
    domain: Vec<u32>,
    /// Settings that keep packets from segments, for people.
    warnings: Vec<String>,
    /// All of it as people read it.
    rows: Vec<SegmentRow>,
    /// The prefixes that were told last.
    told: BTreeSet<(IpAddr, u8)>,
}

/// Route behind an index.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Key {
    /// An encapsulation by an interface.
    Linux(Arc<Encap>, u32),
    /// An entry of the configuration.
    Config(usize),
}

impl SegmentRoutes {
    /// Segment routes by the configuration.
    pub fn of_config(config: &Srv6Config, sids: &[SidConfig]) -> SegmentRoutes {
        let (config, sids) = (config.clone(), sids.to_vec());
        SegmentRoutes { config, sids, ..SegmentRoutes::default() }
    }

    /// True if there are any, so that a change of addresses matters.
    pub fn is_any(&self) -> bool {
        !self.indices.is_empty() || !self.sids.is_empty()
    }

    /// Takes all routes in anew. Those that stay keep their indices.
    pub fn take_in(&mut self, snapshot: &Snapshot) {
        // Linux tells of no change of it: it is asked with every change of routes.
        self.tunnel_source = match self.config.source {
            None if self.wants_source(snapshot) => mirror::tunnel_source().ok().flatten(),
            _ => None,
        };
        let mut wanted: BTreeMap<usize, (Key, SegmentRoute)> = BTreeMap::new();
        let mut new: Vec<(Key, SegmentRoute)> = Vec::new();
        let mut place =
            |key: Key, route: SegmentRoute, indices: &HashMap<Key, u32>| match indices.get(&key) {
                Some(index) => drop(wanted.insert((index - FIRST_SEGMENTS) as usize, (key, route))),
                None if new.iter().any(|(other, _)| *other == key) => {}
                None => new.push((key, route)),
            };
        let domain = self.config.domain.iter();
        self.domain = domain.filter_map(|name| Some(snapshot.link_by_name(name)?.index)).collect();
        self.prefixes.clear();
        self.rows.clear();
        for route in snapshot.routes().filter(|route| route.has_encap) {
            for hop in &route.next_hops {
                let Some(encap) = &hop.encap else { continue };
                let source = self.source(snapshot, route.prefsrc, hop.ifindex);
                let Some(function) = function(encap, source) else { continue };
                let key = Key::Linux(Arc::clone(encap), hop.ifindex);
                self.rows.push(SegmentRow {
                    dst: format!("{}/{}", route.dst.addr, route.dst.len),
                    table: Some(route.table),
                    does: text(&function),
                });
                place(key, SegmentRoute { function, ifindex: hop.ifindex }, &self.indices);
                self.prefixes.insert((route.dst.addr, route.dst.len));
            }
        }
        for (at, sid) in self.sids.iter().enumerate() {
            let ifindex_of = |name: &String| snapshot.link_by_name(name).map(|link| link.index);
            let oif = sid.action.oif.as_ref().map(ifindex_of);
            // An interface that is not there yet: nothing leads there.
            if oif == Some(None) {
                continue;
            }
            let ifindex = sid.dev.as_ref().and_then(ifindex_of).unwrap_or(LOOPBACK);
            let local = Seg6Local { oif: oif.flatten(), ..sid.action.local.clone() };
            let source = self.source(snapshot, None, ifindex);
            let mode = if sid.action.is_reduced { Mode::EncapRed } else { Mode::Encap };
            let Some(mut own) = own_segment(&local, mode, source) else { continue };
            if let Some((block, function)) = sid.action.replace_csid {
                own.csid = Csid::replace(block, function).unwrap_or_default();
            }
            let route = SegmentRoute { function: Function::Sid(own), ifindex };
            let (policy::Prefix { addr, len }, does) = (sid.prefix.0, text(&route.function));
            self.rows.push(SegmentRow { dst: format!("{addr}/{len}"), table: None, does });
            place(Key::Config(at), route, &self.indices);
            self.prefixes.insert((sid.prefix.0.addr, sid.prefix.0.len));
        }
        self.number(wanted, new);
        self.warn(snapshot);
    }

    /// Finds out what keeps packets from segments, and logs what is new of it.
    fn warn(&mut self, snapshot: &Snapshot) {
        let is_there = |name: &str| snapshot.link_by_name(name).is_some();
        let warnings: Vec<String> = match self.rows.is_empty() {
            true => Vec::new(),
            false => self.config.closed(is_there).collect(),
        };
        for new in warnings.iter().filter(|warning| !self.warnings.contains(warning)) {
            warn!("{new}");
        }
        self.warnings = warnings;
    }

    /// Settings that keep packets from segments, for people.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// True if there are functions that may make headers.
    fn wants_source(&self, snapshot: &Snapshot) -> bool {
        !self.sids.is_empty() || snapshot.routes().any(|route| route.has_encap)
    }

    /// Gives indices that are free to what is new.
    fn number(
        &mut self,
        kept: BTreeMap<usize, (Key, SegmentRoute)>,
        new: Vec<(Key, SegmentRoute)>,
    ) {
        self.indices.clear();
        self.functions.clear();
        let most = kept.keys().next_back().map_or(0, |at| at + 1);
        self.functions.resize(most, None);
        let mut put = |functions: &mut Vec<Option<SegmentRoute>>, at: usize, (key, route)| {
            if let Some(place) = functions.get_mut(at) {
                *place = Some(route);
                self.indices.insert(key, FIRST_SEGMENTS | at as u32);
            }
        };
        for (at, one) in kept {
            put(&mut self.functions, at, one);
        }
        for one in new {
            let free = self.functions.iter().position(Option::is_none);
            let at = free.unwrap_or_else(|| {
                self.functions.push(None);
                self.functions.len() - 1
            });
            if at >= MAX_SEGMENT_ROUTES {
                // The rest are Linux's alone.
                self.functions.truncate(MAX_SEGMENT_ROUTES);
                break;
            }
            put(&mut self.functions, at, one);
        }
        let sids = self.functions.iter().flatten().filter_map(|route| match &route.function {
            Function::Sid(sid) => Some(sid.next()),
            Function::Headend(_) => None,
        });
        let tables = sids.filter_map(|next| match next {
            Next::Table(table) => Some(table),
            _ => None,
        });
        self.tables = tables.collect::<BTreeSet<_>>().into_iter().collect();
    }

    /// The source of outer headers.
    fn source(&self, snapshot: &Snapshot, route: Option<IpAddr>, ifindex: u32) -> Ipv6Addr {
        let of_route = match route {
            Some(IpAddr::V6(addr)) => Some(addr),
            _ => None,
        };
        let is_global = |addr: &Ipv6Addr| !addr.is_unicast_link_local() && !addr.is_loopback();
        let on = |ifindex: Option<u32>| {
            let all = snapshot.addresses().filter(|a| !a.tentative);
            let there = all.filter(|a| ifindex.is_none_or(|ifindex| a.ifindex == ifindex));
            let v6 = there.filter_map(|a| match a.addr {
                IpAddr::V6(addr) => Some(addr),
                IpAddr::V4(_) => None,
            });
            v6.filter(is_global).min()
        };
        let set = self.config.source.or(self.tunnel_source);
        let own = set.or(of_route).or_else(|| on(Some(ifindex)));
        own.or_else(|| on(Some(LOOPBACK))).or_else(|| on(None)).unwrap_or(Ipv6Addr::UNSPECIFIED)
    }

    /// The index that a next hop leads to, if it has a function.
    pub fn index(&self, hop: &NextHop) -> Option<u32> {
        let key = Key::Linux(Arc::clone(hop.encap.as_ref()?), hop.ifindex);
        self.indices.get(&key).copied()
    }

    /// The configuration's segments as routes, before all others.
    pub fn configured(&self) -> impl Iterator<Item = RouteEntry> {
        self.sids.iter().enumerate().filter_map(|(at, sid)| {
            let ifindex = *self.indices.get(&Key::Config(at))?;
            let policy::Prefix { addr, len } = sid.prefix.0;
            Some(RouteEntry {
                table: table::LOCAL,
                dst: Subnet { addr, len },
                kind: RouteKind::Unicast,
                priority: 0,
                hops: vec![Hop { ifindex, gateway: None, weight: 1 }],
                mtu: None,
                src: None,
            })
        })
    }

    /// Where these stand, whether or not they have an index now.
    pub fn configured_at(&self) -> impl Iterator<Item = (u32, mirror::Prefix)> {
        self.sids.iter().map(|sid| {
            let policy::Prefix { addr, len } = sid.prefix.0;
            (table::LOCAL, mirror::Prefix { addr, len })
        })
    }

    /// The segment routes, as workers read them.
    pub fn functions(&self) -> Segments {
        let functions = self.functions.iter().cloned().collect::<Segments>();
        functions.with_domain(self.domain.iter().copied()).with_sas(self.config.trust_sas)
    }

    /// All of it as people read it.
    pub fn rows(&self) -> &[SegmentRow] {
        &self.rows
    }

    /// The tables that segments look into.
    pub fn tables(&self) -> &[u32] {
        &self.tables
    }

    /// The destinations whose packets ports take.
    pub fn prefixes(&self) -> impl Iterator<Item = steer::Prefix> {
        self.prefixes.iter().filter_map(|(addr, len)| steer::Prefix::new(*addr, *len))
    }

    /// True if the prefixes have changed since the last call.
    pub fn have_prefixes_changed(&mut self) -> bool {
        let has_changed = self.told != self.prefixes;
        if has_changed {
            self.told.clone_from(&self.prefixes);
        }
        has_changed
    }
}

/// The loopback's index.
const LOOPBACK: u32 = 1;

/// Function of a next hop. `None` if Linux alone carries it out.
fn function(encap: &Encap, source: Ipv6Addr) -> Option<Function> {
    match encap {
        Encap::Seg6(seg6) => {
            let mode = match seg6.mode {
                Seg6Mode::Encap => Mode::Encap,
                Seg6Mode::EncapRed => Mode::EncapRed,
                Seg6Mode::Inline => Mode::Inline,
                Seg6Mode::L2Encap => Mode::L2Encap,
                Seg6Mode::L2EncapRed => Mode::L2EncapRed,
            };
            Headend::new(mode, &seg6.segments, source).ok().map(Function::Headend)
        }
        Encap::Seg6Local(local) => own_segment(local, Mode::Encap, source).map(Function::Sid),
        Encap::Other => None,
    }
}

/// Effect of a function, nearly as iproute2 writes it.
fn text(function: &Function) -> String {
    let list = |headend: &Headend| {
        let segments: Vec<_> = headend.segments().iter().map(Ipv6Addr::to_string).collect();
        format!("{} segs {} src {}", headend.mode().name(), segments.join(","), headend.source())
    };
    let sid = match function {
        Function::Headend(headend) => return list(headend),
        Function::Sid(sid) => sid,
    };
    let how = match (&sid.behaviour, sid.next()) {
        (Behaviour::EndB6Encaps(headend), _) => format!(" {}", list(headend)),
        (_, Next::Table(table)) => format!(" table {table}"),
        (_, Next::Via(via)) => format!(" nh {via}"),
        (_, Next::Interface(ifindex)) => format!(" oif {ifindex}"),
        (_, Next::Lookup) => String::new(),
    };
    let Flavours { psp, usp, usd } = sid.flavours;
    let (csid, lengths) = match sid.csid {
        Csid::None => ("", String::new()),
        Csid::Next { block_len, function_len } => {
            ("next-csid", format!(" lblen {block_len} nflen {function_len}"))
        }
        Csid::Replace { block_len, function_len } => {
            ("replace-csid", format!(" lblen {block_len} nflen {function_len}"))
        }
    };
    let all = [("psp", psp), ("usp", usp), ("usd", usd), (csid, !csid.is_empty())];
    let flavours: Vec<&str> = all.iter().filter(|(_, has)| *has).map(|(name, _)| *name).collect();
    let flavours = match flavours.is_empty() {
        true => String::new(),
        false => format!(" flavors {}{lengths}", flavours.join(",")),
    };
    format!("{}{how}{flavours}", sid.name())
}

/// A segment of this host; `mode` is that of a binding segment's policy.
fn own_segment(local: &Seg6Local, mode: Mode, source: Ipv6Addr) -> Option<Sid> {
    let behaviour = match local.action {
        _ if local.has_more => return None,
        SidAction::End => Behaviour::End,
        SidAction::EndX => Behaviour::EndX(local.nh6?),
        SidAction::EndT => Behaviour::EndT(local.table?),
        SidAction::EndDx2 => Behaviour::EndDx2(local.oif?),
        // Unspecified: where the packet says.
        SidAction::EndDx4 => Behaviour::EndDx4(local.nh4.filter(|nh| !nh.is_unspecified())?),
        SidAction::EndDx6 => Behaviour::EndDx6(local.nh6.filter(|nh| !nh.is_unspecified())?),
        SidAction::EndDt4 => Behaviour::EndDt4(local.table?),
        SidAction::EndDt6 => Behaviour::EndDt6(local.table?),
        SidAction::EndDt46 => Behaviour::EndDt46(local.table?),
        SidAction::EndB6Encaps => {
            Behaviour::EndB6Encaps(Headend::new(mode, &local.segments, source).ok()?)
        }
        SidAction::Other(_) => return None,
    };
    let [psp, usp, usd] = local.flavours;
    let csid = match local.next_csid {
        Some((block, function)) => Csid::next(block, function)?,
        None => Csid::None,
    };
    Some(Sid { behaviour, flavours: Flavours { psp, usp, usd }, csid })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sids(texts: &[&str]) -> Vec<SidConfig> {
        let sid = |(n, text): (usize, &&str)| {
            let text = format!("prefix = \"fc00::{n}/128\"\naction = \"{text}\"");
            toml::from_str(&text).expect("good")
        };
        texts.iter().enumerate().map(sid).collect()
    }

    #[test]
    fn what_is_configured_has_a_route_before_all_others() {
        let sids = sids(&["End.DT46 table 100", "End", "End.DX2 oif nowhere"]);
        let mut routes = SegmentRoutes::of_config(&Srv6Config::default(), &sids);
        routes.take_in(&Snapshot::default());
        let all: Vec<_> = routes.configured().collect();
        assert_eq!(all.len(), 2, "the third one's interface is not there");
        assert!(all.iter().all(|route| route.table == table::LOCAL));
        assert_eq!(routes.tables(), [100]);
        assert_eq!(routes.prefixes().count(), 2);
        assert!(routes.have_prefixes_changed() && !routes.have_prefixes_changed());
        // Nothing may come to them yet.
        assert!(routes.warnings()[0].starts_with("srv6: no interface is inside"));
        // What stays keeps its index.
        let before: Vec<_> = routes.configured().map(|route| route.hops).collect();
        routes.take_in(&Snapshot::default());
        assert_eq!(before, routes.configured().map(|route| route.hops).collect::<Vec<_>>());
    }

    #[test]
    fn what_is_not_understood_is_linuxs() {
        let of = |local: Seg6Local| own_segment(&local, Mode::Encap, Ipv6Addr::LOCALHOST);
        assert!(of(Seg6Local::new(SidAction::End)).is_some());
        assert!(of(Seg6Local::new(SidAction::EndX)).is_none());
        assert!(of(Seg6Local::new(SidAction::Other(15))).is_none());
        assert!(of(Seg6Local { has_more: true, ..Seg6Local::new(SidAction::End) }).is_none());
        assert!(function(&Encap::Other, Ipv6Addr::LOCALHOST).is_none());
    }
}
