//! Tunnel interfaces (`[[tunnel]]`): route-based VPN, as Linux has it with `ip link add type xfrm` and
//! `ip tunnel add mode vti`.
//!
//! A tunnel interface has an `if_id`, or marks and ends. What Linux, or culvert itself, routes to it is
//! protected by the policies and SAs that belong to it, or not sent; what these SAs decrypt comes in by it.
//! Addresses, routes and firewall rules are Linux's, so routing daemons and applications see an interface like any other.
//!
//! The interface is a TUN device that outlives the daemon, so its routes stay when the daemon ends, and
//! what is routed to it then stops there instead of leaving in clear by another route. It goes when it
//! is taken out of the configuration, or by `ip link delete`.
//!
//! It may be moved to another network namespace (`ip link set NAME netns OTHER`), as an XFRM interface may: its
//! descriptor works on, so programs there have the tunnel, and SAs, policies and ports stay here.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use config::TunnelConfig;
use dataplane::{Binding, Tunnel};
use io::{PortCounters, Tun, TunConfig};
use mirror::{Family, Route, RouteKind, Snapshot, set_interface_setting};
use policy::PolicyConfig;
use steer::Prefix;
use tracing::{info, warn};

use crate::linux::edge::OwnInterfaces;
use crate::slots;
use crate::sources::Interfaces;
use crate::texts::binding_text;
use crate::workers::set::Workers;
use crate::xfrm_interfaces::XfrmInterfaces;

/// A tunnel interface.
struct Entry {
    config: TunnelConfig,
    ifindex: u32,
    counters: Arc<PortCounters>,
    place: Place,
}

/// Where an interface is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Linux has not told of it yet.
    New,
    /// In this network namespace.
    Here,
    /// In another one; or somebody deleted it, and the worker that has it open is about to say so.
    Elsewhere,
}

/// All of them; each in the slot of its place. And those that are Linux's own.
#[derive(Default)]
pub struct Tunnels {
    entries: Vec<Option<Entry>>,
    linux: XfrmInterfaces,
    /// Destinations, by routing table, that lead to one of them: ports have to take what goes there.
    routed: BTreeSet<(mirror::Prefix, u32)>,
    /// Interfaces of those that were closed, or could not be opened, while another configuration is followed.
    closed: BTreeSet<String>,
}

/// Makes one and sets it up.
pub fn open(config: &TunnelConfig) -> Result<Tun, io::TunError> {
    let name = config.interface.clone();
    let tun = Tun::open_lasting(&TunConfig { name, mtu: config.mtu })?;
    let name = config.interface.as_str();
    set_up(name);
    tun.bring_up()?;
    info!(interface = name, protects = binding_text(config), "tunnel interface");
    Ok(tun)
}

/// Sets what an interface that comes from another network namespace has lost.
fn set_up(name: &str) {
    // What is routed here culvert protects, and what comes from here it has judged.
    for (setting, value) in [("disable_xfrm", 1), ("disable_policy", 1)] {
        if let Err(error) = set_interface_setting(Family::V4, name, setting, value) {
            warn!(%error, interface = name, "a setting of a tunnel interface");
        }
    }
    // A machine without IPv6 has none of these.
    for (setting, value) in [("disable_policy", 1), ("accept_ra", 0)] {
        if set_interface_setting(Family::V6, name, setting, value).is_err() {
            break;
        }
    }
}

impl Tunnels {
    /// Opens one: it keeps the addresses and routes that its interface has. [`Tunnels::settle`] removes the interface, should
    /// it be closed by then.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn open(
        &mut self,
        config: &TunnelConfig,
        interfaces: &mut dyn OwnInterfaces,
        workers: &Workers,
    ) -> Result<(), io::TunError> {
        self.closed.insert(config.interface.clone());
        let (ifindex, port) = interfaces.open_tunnel(config)?;
        let free = self.entries.iter().position(Option::is_none);
        let place = free.unwrap_or_else(|| {
            self.entries.push(None);
            self.entries.len() - 1
        });
        let (config, counters) = (config.clone(), port.counters());
        workers.add_tunnel(slots::of_tunnel(place), ifindex, port);
        if let Some(entry) = self.entries.get_mut(place) {
            *entry = Some(Entry { config, ifindex, counters, place: Place::New });
        }
        Ok(())
    }

    /// Closes one. Its interface stays until [`Tunnels::settle`], for one with other settings, or if it is opened again.
    pub fn close(&mut self, config: &TunnelConfig, workers: &Workers) {
        for place in &mut self.entries {
            let Some(entry) = place.take_if(|entry| entry.config == *config) else { continue };
            workers.remove_ports(entry.ifindex);
            self.closed.insert(entry.config.interface);
        }
    }

    /// Removes the interfaces of those that were closed, and that the configuration does not have. One that could not be
    /// opened again stays: what is routed to it is not sent in clear by another route.
    pub fn settle(&mut self, wanted: &[TunnelConfig], interfaces: &mut dyn OwnInterfaces) {
        for name in std::mem::take(&mut self.closed) {
            if !wanted.iter().any(|tunnel| tunnel.interface == name)
                && let Err(error) = interfaces.remove_tunnel(&name)
            {
                warn!("{error}");
            }
        }
    }

    /// An interface is gone: somebody deleted it.
    pub fn lost(&mut self, ifindex: u32) {
        for place in &mut self.entries {
            if let Some(entry) = place.take_if(|e| e.ifindex == ifindex) {
                warn!(
                    interface = entry.config.interface,
                    "somebody deleted a tunnel interface; SIGHUP makes it again"
                );
            }
        }
    }

    /// Follows those that are moved to another network namespace, and back.
    pub fn follow_moves(&mut self, snapshot: &Snapshot) {
        for entry in self.entries.iter_mut().flatten() {
            let link = snapshot.link(entry.ifindex);
            match (link, entry.place) {
                (None, Place::Here) => {
                    info!(
                        interface = entry.config.interface,
                        "a tunnel interface has gone elsewhere"
                    );
                    entry.place = Place::Elsewhere;
                }
                (Some(link), Place::Elsewhere) => {
                    info!(interface = link.name, "a tunnel interface has come back");
                    set_up(&link.name);
                    entry.place = Place::Here;
                }
                (Some(_), _) => entry.place = Place::Here,
                (None, _) => {}
            }
        }
    }

    /// Tunnels in another network namespace: index, binding and MTU.
    pub fn elsewhere(&self) -> impl Iterator<Item = (u32, Binding, u32)> {
        let all = self.iter().filter(|entry| entry.place == Place::Elsewhere);
        all.map(|entry| (entry.ifindex, entry.config.binding(), entry.config.mtu))
    }

    fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().flatten()
    }

    /// Follows Linux's own ones; whether something is new.
    pub fn follow_links(&mut self, snapshot: &Snapshot) -> bool {
        self.linux.follow_links(snapshot)
    }

    /// Follows a policy that was added, removed or replaced; whether other routes lead here than before.
    pub fn follow_policy(
        &mut self,
        old: Option<&PolicyConfig>,
        new: Option<&PolicyConfig>,
    ) -> bool {
        self.linux.follow_policy(old, new)
    }

    /// Linux's own ones, as the source of SAs is told them.
    pub fn of_linux(&self) -> &Interfaces {
        self.linux.known()
    }

    /// The indices of those of Linux's own that are taken if their policies are.
    pub fn linux_indices(&self) -> impl Iterator<Item = u32> {
        self.linux.all().map(|(ifindex, _)| ifindex)
    }

    /// Indices of Linux's own interfaces by which it takes packets that were decrypted for this
    /// host, of some `if_id`s. `takes` tells by the name if an interface does.
    pub fn bringing(
        &self,
        snapshot: &Snapshot,
        judged: &BTreeSet<u32>,
        takes: impl Fn(&str) -> bool,
    ) -> BTreeMap<u32, u32> {
        let all = self.linux.all().filter(|(_, if_id)| judged.contains(if_id));
        let takes = |ifindex: u32| snapshot.link(ifindex).is_some_and(|link| takes(&link.name));
        all.filter(|(i, _)| takes(*i)).map(|(ifindex, if_id)| (if_id, ifindex)).collect()
    }

    /// Binding of an interface, if it is one of these.
    pub fn binding(&self, ifindex: u32) -> Option<Binding> {
        let own = self.iter().find(|e| e.ifindex == ifindex).map(|e| e.config.binding());
        own.or_else(|| self.linux.if_id(ifindex).map(Binding::IfId))
    }

    /// The index of the interface with an `if_id`.
    pub fn ifindex(&self, if_id: u32) -> Option<u32> {
        let own = self.iter().find(|e| e.config.if_id == if_id).map(|e| e.ifindex);
        own.or_else(|| self.linux.ifindex(if_id))
    }

    /// Follows all of Linux's routes; returns the destinations that lead to a tunnel interface, one for
    /// each table that says so.
    pub fn follow_all_routes(&mut self, snapshot: &Snapshot) -> Vec<Prefix> {
        self.routed.clear();
        if self.is_any() {
            let leading = snapshot.routes().filter(|r| self.is_led_to(r));
            self.routed = leading.map(|r| (r.dst, r.table)).collect();
        }
        self.routed.iter().filter_map(|(dst, _)| Prefix::new(dst.addr, dst.len)).collect()
    }

    /// Follows a change of the routes to a destination; true if it leads to a tunnel interface now and did
    /// not before, false if the other way round, `None` if nothing has changed.
    pub fn follow_route(&mut self, snapshot: &Snapshot, route: &Route) -> Option<bool> {
        if self.routed.is_empty() && !self.is_any() {
            return None;
        }
        let key = (route.dst, route.table);
        let leads = snapshot.routes_to(route.table, route.dst).any(|r| self.is_led_to(r));
        let has_changed = match leads {
            true => self.routed.insert(key),
            false => self.routed.remove(&key),
        };
        has_changed.then_some(leads)
    }

    /// True if packets may be led to one.
    fn is_any(&self) -> bool {
        self.iter().next().is_some() || self.linux.is_any_led()
    }

    /// Routes that lead to Linux's own interfaces, and to the fast path instead.
    pub fn led(&self) -> Led<'_> {
        Led { tunnels: self }
    }

    /// True if a route leads to tunnel interfaces alone, for packets that are forwarded.
    fn is_led_to(&self, route: &Route) -> bool {
        let is_forwarded = match route.dst.addr {
            IpAddr::V4(addr) => !addr.is_link_local() && !addr.is_multicast(),
            IpAddr::V6(addr) => !addr.is_unicast_link_local() && !addr.is_multicast(),
        };
        is_forwarded
            && route.kind == RouteKind::Unicast
            && !route.next_hops.is_empty()
            && route.next_hops.iter().all(|hop| self.takes(hop.ifindex, Family::of(route.dst.addr)))
    }

    /// True if ports take packets that are routed to an interface.
    fn takes(&self, ifindex: u32, family: Family) -> bool {
        self.iter().any(|e| e.ifindex == ifindex) || self.linux.leads(ifindex, family)
    }

    /// Tunnels that are up, as workers read them. Of one in another network namespace that is not
    /// known: packets that it does not take while it is down are counted.
    pub fn up(&self, is_up: impl Fn(u32) -> bool) -> impl Iterator<Item = (Binding, Tunnel)> {
        let own = self.entries.iter().enumerate().filter_map(move |(place, entry)| {
            let is_elsewhere = |e: &Entry| e.place == Place::Elsewhere;
            let entry = entry.as_ref().filter(|e| is_elsewhere(e) || is_up(e.ifindex))?;
            let slot = Some(slots::of_tunnel(place) as u16);
            let (ifindex, is_elsewhere) = (entry.ifindex, is_elsewhere(entry));
            Some((entry.config.binding(), Tunnel { ifindex, slot, is_elsewhere }))
        });
        let linux = self.linux.all().map(|(ifindex, if_id)| {
            (Binding::IfId(if_id), Tunnel { ifindex, slot: None, is_elsewhere: false })
        });
        own.chain(linux)
    }

    /// The interfaces with their counters, as the operator sees them.
    pub fn states(&self) -> impl Iterator<Item = (&TunnelConfig, u32, io::PortStats)> {
        self.iter().map(|e| (&e.config, e.ifindex, e.counters.read()))
    }
}

/// Linux's routes to XFRM interfaces of its own whose SAs are the fast path's.
#[derive(Clone, Copy)]
pub struct Led<'t> {
    tunnels: &'t Tunnels,
}

impl<'t> Led<'t> {
    /// The destinations of such routes inside a prefix. One may come several times.
    pub fn within(self, prefix: mirror::Prefix) -> impl Iterator<Item = mirror::Prefix> + 't {
        let from = self.tunnels.routed.range((prefix, 0)..);
        let inside = from.map(|(dst, _)| *dst).take_while(move |dst| prefix.contains(dst.addr));
        inside.filter(move |dst| dst.len >= prefix.len)
    }

    /// True if an interface is such a one.
    pub fn leads(self, ifindex: u32, family: Family) -> bool {
        self.tunnels.linux.leads(ifindex, family)
    }
}
