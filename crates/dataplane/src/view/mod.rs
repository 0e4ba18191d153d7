//! The view by which a burst is judged: routes, neighbours, interfaces, the policy databases, the time.
//!
//! Nothing here changes while a burst is worked on; [`View::load_tables`] is called between bursts.

mod far_ends;
mod headends;

use core::net::IpAddr;
use std::sync::Arc;

use apps::AppId;
use conntrack::Bindings;
use esp::Sa;
use forward::{Neighbours, PathMtus, RouteResult};
use offload::PacketSa;
use policy::{Flow, Marks, Reader, SaHandle, WorkerIndex};
use wire::{FlowKey, Headers};

use crate::model::{DEVICES_HOME, LOOPBACK, Now, Origin, Reach};
use crate::tables::links::Links;
use crate::tables::steering::{SteerChange, Steering};
use crate::tables::tunnel::Binding;
use crate::tables::{Tables, Topology};

/// Tables, databases and time as one worker sees them.
pub(crate) struct View {
    tables: Arc<Tables>,
    pub(crate) topology: Arc<Topology>,
    pub(crate) neighbours: Arc<Neighbours>,
    pub(crate) path_mtus: Arc<PathMtus>,
    pub(crate) steering: Arc<Steering>,
    /// Connections that Linux tracks, where its NAT is learnt.
    pub(crate) nat: Option<Arc<Bindings>>,
    pub(crate) reader: Reader<Sa>,
    pub(crate) now: Now,
    /// Index of the lane of the policies' counters that is written.
    pub(crate) worker: WorkerIndex,
    /// The packet offload devices that the worker has a queue of.
    pub(crate) reach: Reach,
    /// How many workers there are.
    pub(crate) workers: usize,
    /// State of the databases: one more whenever they have changed.
    pub(crate) generation: u32,
}

/// Difference between the tables taken over and those before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TablesChange {
    None,
    /// Answers of rules of path selection: plans have to prove that they still hold.
    Steered,
    /// Neighbours, routes, path MTUs, or which rules and paths there are: no plan holds.
    Any,
}

impl View {
    pub(crate) fn new(
        tables: Arc<Tables>,
        reader: Reader<Sa>,
        worker: WorkerIndex,
        now: Now,
    ) -> View {
        let topology = tables.topology.load_full();
        let neighbours = tables.neighbours.load_full();
        let path_mtus = tables.path_mtus.load_full();
        let steering = tables.steering.load_full();
        let nat = tables.nat.clone();
        let reach = Reach::default();
        View {
            tables,
            topology,
            neighbours,
            path_mtus,
            steering,
            nat,
            reader,
            now,
            worker,
            reach,
            workers: 1,
            generation: 0,
        }
    }

    /// One of the same tables with another reader of the databases.
    pub(crate) fn sibling(&self, reader: Reader<Sa>) -> View {
        let view = View::new(Arc::clone(&self.tables), reader, self.worker, self.now);
        View { reach: self.reach, workers: self.workers, ..view }
    }

    /// Takes over what the control thread has published.
    pub(crate) fn load_tables(&mut self) -> TablesChange {
        let topology = self.tables.topology.load();
        let neighbours = self.tables.neighbours.load();
        let path_mtus = self.tables.path_mtus.load();
        let steering = self.tables.steering.load();
        let changed = !Arc::ptr_eq(&topology, &self.topology)
            || !Arc::ptr_eq(&neighbours, &self.neighbours)
            || !Arc::ptr_eq(&path_mtus, &self.path_mtus);
        let steered = match Arc::ptr_eq(&steering, &self.steering) {
            true => SteerChange::Same,
            false => steering.change_since(&self.steering),
        };
        if changed {
            self.topology = Arc::clone(&topology);
            self.neighbours = Arc::clone(&neighbours);
            self.path_mtus = Arc::clone(&path_mtus);
        }
        if steered != SteerChange::Same {
            self.steering = Arc::clone(&steering);
        }
        match (changed, steered) {
            (true, _) | (_, SteerChange::Rules) => TablesChange::Any,
            (false, SteerChange::Answers) => TablesChange::Steered,
            (false, SteerChange::Same) => TablesChange::None,
        }
    }

    /// True if there are other routes and interfaces than those taken over.
    pub(crate) fn is_behind_tables(&self) -> bool {
        !Arc::ptr_eq(&self.tables.topology.load(), &self.topology)
    }

    /// Reports between the SAs of each pair.
    pub(crate) fn links(&self) -> &Links {
        &self.tables.links
    }

    /// Application that a packet's flow has, or most likely will have. `None` where applications are not told apart.
    pub(crate) fn application(&self, h: &Headers) -> Option<AppId> {
        let applications = self.topology.applications.as_ref()?;
        Some(applications.expected(h, self.now.ns))
    }

    /// True if a packet is for this host.
    pub(crate) fn is_local(&self, h: &Headers, ifindex: u32) -> bool {
        let route = self.topology.fib.lookup(h.dst, h.src, 0, ifindex);
        matches!(route, RouteResult::Local)
    }

    /// True if a packet to one host may have this source (RFC 1812 §5.3.7, RFC 4291 §2.5).
    ///
    /// Linux asks the same of what it receives, but the private interface has to take packets with
    /// addresses of this host.
    pub(crate) fn is_possible_source(&self, src: IpAddr, is_local: bool) -> bool {
        let is_martian = match src {
            IpAddr::V4(src) => {
                let [first, ..] = src.octets();
                first == 0 || first == 127 || src.is_multicast() || src.is_broadcast()
            }
            IpAddr::V6(src) => {
                src.is_unspecified()
                    || src.is_loopback()
                    || src.is_multicast()
                    || !is_local && src.is_unicast_link_local()
            }
        };
        !is_martian && !self.topology.is_local_addr(src)
    }

    /// The interface that the tables lead a packet to, for policies that name one; 0 where that
    /// is not known, or no policy names one.
    ///
    /// By the packet's own headers, before any protection, and without culvert's own table: the
    /// interface that Linux's look-up would have found. A plan that follows from it is void with
    /// the tables that it was found in.
    pub(crate) fn leads_to(&self, h: &Headers, iif: u32) -> u32 {
        if !self.reader.names_interfaces() {
            return 0;
        }
        match self.topology.fib.lookup(h.dst, h.src, 0, iif) {
            RouteResult::Unicast { ifindex, .. } => ifindex,
            RouteResult::Local => LOOPBACK,
            _ => 0,
        }
    }

    /// A packet as the policy database sees it; `iif` is the interface that routing rules see it come in by, and `owner`
    /// the worker that may have SAs of its own for it ([`View::owner`]).
    pub(crate) fn flow<'h>(
        &self,
        h: &'h Headers,
        iif: u32,
        marks: Marks,
        owner: Option<WorkerIndex>,
    ) -> Flow<'h> {
        Flow::marked(h, self.leads_to(h, iif), marks).of(owner)
    }

    /// The worker that may have SAs of its own for a packet (RFC 9611): this one; none for another worker's packet, which was
    /// handed over to the home of its SA.
    pub(crate) fn owner(&self, is_of_other: bool) -> Option<WorkerIndex> {
        (!is_of_other).then_some(self.worker)
    }

    /// Of a packet from Linux, through the private interface, whose index is 0 here, or a tunnel interface;
    /// none for another one.
    pub(crate) fn origin_of_linux(&self, ifindex: u32, mark: u32) -> Option<Origin> {
        if ifindex == 0 {
            return Some(Origin::Linux { mark });
        }
        let marks = self.binding(ifindex)?.outbound(Marks::of_mark(mark));
        Some(Origin::Tunnel { ifindex, marks })
    }

    /// True if the worker gives its packets to the device of an SA by itself.
    pub(crate) fn has_queue_of(&self, of: &PacketSa) -> bool {
        self.worker.get() == DEVICES_HOME || self.reach.has(of.device())
    }

    /// The number of the device that an SA is in.
    pub(crate) fn device_of(&self, sa: SaHandle) -> Option<u8> {
        let sa = self.reader.sa(sa)?;
        PacketSa::of(sa.esp.session()).map(PacketSa::device)
    }

    /// Binding of a tunnel interface. `None` for any other interface.
    pub(crate) fn binding(&self, ifindex: u32) -> Option<Binding> {
        self.topology.interfaces.get(&ifindex)?.binding
    }

    /// The SA that an arriving packet names: one for packets without a mark, or one with the mark of a
    /// tunnel interface between the packet's ends.
    pub(crate) fn inbound_sa(&self, flow: &FlowKey, spi: u32, protocol: u8) -> Option<SaHandle> {
        let find = |mark| self.reader.inbound_sa(flow.dst(), spi, protocol, mark);
        find(0).or_else(|| self.topology.tunnels.ikeys(flow.src(), flow.dst()).find_map(find))
    }

    /// The tag by which an interface gets packets back from culvert.
    pub(crate) fn back(&self, ifindex: u32) -> Option<u16> {
        self.topology.interfaces.get(&ifindex).and_then(|interface| interface.back)
    }
}
