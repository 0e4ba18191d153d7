//! Linux's network state in a round of the control thread.

use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use config::Config;
use mirror::{Change, Route};
use tracing::error;
use xfrm::shim_protocol::ROUTE_PROTOCOL;

use super::nat::{FlowStep, Nat};
use super::{Linux, topology};
use crate::clock::Now;
use crate::own;
use crate::wants::Wants;
use crate::workers::Crew;

/// How long a dump of Linux's tables waits that changes have overtaken.
const STALE_WAIT: Duration = Duration::from_millis(10);

impl Linux {
    /// Serves memif ports, and follows Linux's connections and tables.
    pub(crate) fn serve(&mut self, now: Now, config: &Config, crew: &mut Crew, wants: &mut Wants) {
        self.memifs.serve(now, &crew.workers);
        self.follow_nat(now, crew, wants);
        self.follow_tables(config, crew, wants);
    }

    /// Tries again what failed.
    pub(crate) fn retry(&mut self, wants: &mut Wants) {
        wants.private = true;
        self.memifs.retry();
    }

    /// How long the next round may be put off.
    pub(crate) fn due_in(&self, now: Now) -> Option<Duration> {
        let nat = self.nat.as_ref().and_then(|nat| nat.due_in(now));
        nat.into_iter().chain(self.observer.is_stale().then_some(STALE_WAIT)).min()
    }

    /// Adds the descriptors that become readable when there is something to serve.
    pub(crate) fn add_fds<'a>(&'a self, now: Now, fds: &mut Vec<BorrowedFd<'a>>) {
        self.observer.add_fds(fds);
        fds.extend(self.memifs.fds(now));
        fds.extend(self.nat.iter().flat_map(Nat::fds));
    }

    /// Learns what Linux's NAT has decided, and has ports take what it is about.
    fn follow_nat(&mut self, now: Now, crew: &mut Crew, wants: &mut Wants) {
        let Some(nat) = &mut self.nat else { return };
        let topology = crew.tables.topology.load();
        let steps = nat.serve(now, |addr| topology.is_local_addr(addr));
        let has_other_rules = nat.follow_rules(now);
        // To a port of this host where ESP in UDP comes, too: there are plans that open it.
        let may_be_esp = |step: &FlowStep| {
            step.tuple.protocol == wire::protocol::UDP && topology.is_natt_port(step.tuple.dst_port)
        };
        let is_anew = has_other_rules || steps.iter().any(may_be_esp);
        steps.into_iter().for_each(|step| crew.ports.steer_flow(step));
        // Plans of before are void with it.
        wants.topology |= is_anew;
    }

    /// Follows changes in Linux's tables.
    fn follow_tables(&mut self, config: &Config, crew: &mut Crew, wants: &mut Wants) {
        let changes = match self.observer.poll() {
            Ok(changes) => changes,
            Err(error) => {
                error!(%error, "the mirror of Linux's tables");
                // Changes that the snapshot has by now are not reported again.
                let own = own(config, self.private.ifindex());
                let segments = core::mem::take(self.reflection.segments());
                self.reflection =
                    topology::Reflection::new(self.observer.snapshot(), own, segments);
                self.take_in_overlays(wants);
                (wants.links, wants.neighbours) = (true, true);
                return;
            }
        };
        if changes.is_empty() {
            return;
        }
        self.reflection.follow(self.observer.snapshot(), &changes);
        wants.paths |= self.reflection.segments().have_prefixes_changed();
        if self.overlays.are_concerned(&changes, self.observer.snapshot()) {
            self.take_in_overlays(wants);
        }
        let tables = [config.tun.table, config.tun.marked_table];
        changes.iter().for_each(|change| self.follow_change(change, tables, crew, wants));
    }

    /// Takes all overlays in anew.
    pub(crate) fn take_in_overlays(&mut self, wants: &mut Wants) {
        wants.topology |= self.overlays.take_in(self.observer.snapshot(), &self.reflection.fib());
        wants.paths |= self.overlays.have_prefixes_changed();
    }

    /// Follows one change. `tables` are culvert's own routing tables.
    fn follow_change(
        &mut self,
        change: &Change,
        tables: [u32; 2],
        crew: &mut Crew,
        wants: &mut Wants,
    ) {
        match change {
            Change::Neighbour(_) | Change::NeighbourRemoved(_) => wants.neighbours = true,
            // Of overlays, which have heard of it.
            Change::Forwarding(_) | Change::ForwardingRemoved(_) => {}
            // Culvert's own tables: its look-ups leave those out.
            Change::Route(route) if tables.contains(&route.table) => {}
            Change::RouteRemoved(route) if tables.contains(&route.table) => {
                self.private.repair_route(route.table, route.dst, self.observer.snapshot());
            }
            Change::Route(route) | Change::RouteRemoved(route) => {
                wants.topology = true;
                wants.paths |= crew.paths.are_concerned(route, self.observer.snapshot());
                self.steer_route(route, crew);
                wants.routes.insert(route.dst);
            }
            // Culvert's own rules: they are for Linux's packets.
            Change::Rule(rule) if rule.protocol == ROUTE_PROTOCOL => {}
            Change::RuleRemoved(rule) if rule.protocol == ROUTE_PROTOCOL => wants.private = true,
            // The sources of local traffic depend on Linux's rules.
            Change::Rule(_) | Change::RuleRemoved(_) => {
                (wants.topology, wants.paths) = (true, true);
            }
            Change::LinkRemoved(link) if link.index == self.private.ifindex() => {
                self.private.is_gone = true;
            }
            Change::Link(link) | Change::LinkRemoved(link) => {
                (wants.links, wants.neighbours) = (true, true);
                wants.private |= link.index == self.private.ifindex();
            }
            Change::Address(_) | Change::AddressRemoved(_) => {
                (wants.topology, wants.paths) = (true, true);
            }
        }
    }

    /// Has ports take what a route leads to a tunnel interface.
    fn steer_route(&mut self, route: &Route, crew: &mut Crew) {
        let Some(leads) = self.tunnels.follow_route(self.observer.snapshot(), route) else {
            return;
        };
        let Some(prefix) = steer::Prefix::new(route.dst.addr, route.dst.len) else { return };
        match leads {
            true => crew.ports.take_prefix(prefix),
            false => crew.ports.leave_prefix(prefix),
        }
    }

    /// Has Linux look after a neighbour; true if it is known by that. Flows to one that was stale have plans again from
    /// here on, and not only when Linux begins to probe it.
    pub(crate) fn resolve(&mut self, ifindex: u32, ip: IpAddr) -> bool {
        let is_asked = self.private.resolve(ifindex, ip);
        let Some(change) = is_asked.then(|| self.observer.used(ifindex, ip)).flatten() else {
            return false;
        };
        self.reflection.follow(self.observer.snapshot(), &[change]);
        true
    }
}
