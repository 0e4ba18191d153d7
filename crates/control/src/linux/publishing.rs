//! News of Linux for workers and for the owner of SAs: topology, interfaces, marks, routes.

use std::collections::BTreeSet;

use config::Config;
use config::nearest;
use dataplane::Topology;

use super::Linux;
use super::topology::{self, Known};
use crate::clock::Now;
use crate::sources::Source;
use crate::wants::Wants;
use crate::workers::Crew;

impl Linux {
    /// Puts the topology together, of interfaces, ports and routes. True if there are other VLANs than before.
    pub(crate) fn topology(&mut self, config: &Config, crew: &Crew) -> (Topology, bool) {
        let snapshot = self.observer.snapshot();
        let slot_of = |i| crew.ports.slot(i).or_else(|| self.memifs.slot(i));
        let are_vlans_new = self.vlans.follow(snapshot, &config.vlans, slot_of);
        let way_back = &mut self.marks.way_back;
        way_back.follow(crew.ports.working().chain(self.memifs.working()));
        way_back.follow_vlans(self.vlans.taken());
        let uplink_tags = way_back.follow_uplinks(&crew.paths.marks());
        let uplink_tags = uplink_tags.into_iter().collect();
        let known = Known {
            ports: &crew.ports,
            memifs: &self.memifs,
            esp_sockets: &crew.esp_sockets,
            vlans: &self.vlans,
            tunnels: &self.tunnels,
            marks: &config.marks,
            gtpu: &config.gtpu,
            way_back: &self.marks.way_back,
        };
        let topology = topology::topology(snapshot, self.reflection.fib(), &known);
        let segments = self.reflection.segments_seen().functions();
        let overlays = self.overlays.overlays();
        (Topology { segments, overlays, uplink_tags, ..topology }, are_vlans_new)
    }

    /// Follows Linux's own XFRM interfaces, where it owns SAs and policies.
    pub(crate) fn follow_interfaces(
        &mut self,
        source: &mut Source,
        ports: BTreeSet<String>,
        wants: &mut Wants,
    ) {
        let snapshot = self.observer.snapshot();
        if let Some(kernel) = source.kernel_mut()
            && self.tunnels.follow_links(snapshot)
        {
            let judged = kernel.set_interfaces(self.tunnels.of_linux());
            self.marks.follow_interfaces(snapshot, &self.tunnels, &judged);
            wants.marks = true;
            self.tell_ports(source, ports);
            wants.paths = true;
        }
    }

    /// Tells the owner by which interfaces packets come and go that Linux does not see; `ports` are the
    /// configuration's.
    pub(crate) fn tell_ports(&self, source: &mut Source, mut ports: BTreeSet<String>) {
        let Some(kernel) = source.kernel_mut() else { return };
        let snapshot = self.observer.snapshot();
        let linux = self.tunnels.linux_indices();
        ports.extend(linux.filter_map(|i| Some(snapshot.link(i)?.name.clone())));
        ports.extend(self.vlans.taken().map(|vlan| vlan.name.to_owned()));
        kernel.set_ports(ports);
    }

    /// Takes over the marks that SAs set, for Linux to be told.
    pub(crate) fn follow_marks(&mut self, source: &mut Source, wants: &mut Wants) {
        let Some(wanted) = source.changes().take_set_marks() else { return };
        self.marks.set_of_sas(wanted);
        (wants.marks, wants.topology) = (true, true);
    }

    /// Follows interfaces that have come, gone or changed: with tunnel interfaces and memif ports.
    pub(crate) fn follow_links(
        &mut self,
        now: Now,
        config: &Config,
        source: &mut Source,
        crew: &Crew,
        wants: &mut Wants,
    ) {
        self.follow_interfaces(source, config.port_names(), wants);
        let snapshot = self.observer.snapshot();
        self.tunnels.follow_moves(snapshot);
        self.memifs.follow_links(now, snapshot, &crew.workers);
        // Policies may name new addresses.
        (wants.topology, wants.paths) = (true, true);
    }

    /// Makes the routes to the private interface follow Linux's own, and puts back what somebody took away.
    pub(crate) fn follow_routes(&mut self, wants: &mut Wants) {
        let routes = std::mem::take(&mut wants.routes);
        if !routes.is_empty() {
            let led = self.tunnels.led();
            self.private.follow_routes(routes, self.observer.snapshot(), led);
        }
        if Wants::take(&mut wants.private) {
            self.private.repair(self.observer.snapshot());
        }
    }

    /// The name of an interface.
    pub(crate) fn name_of(&self, ifindex: u32) -> String {
        let link = self.observer.snapshot().link(ifindex);
        link.map_or_else(|| format!("#{ifindex} (gone)"), |link| link.name.clone())
    }

    /// Error text for an argument that names no interface.
    pub(crate) fn no_such_interface(&self, argument: &str, name: &str) -> String {
        let links = self.observer.snapshot().links();
        let names: Vec<String> = links.map(|link| link.name.clone()).collect();
        let near = nearest(name, names.iter().map(String::as_str));
        let near = near.map_or_else(String::new, |near| format!("; did you mean {near}?"));
        format!("{argument} {name}: there is no such interface{near}")
    }
}
