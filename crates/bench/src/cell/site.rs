//! The gateway of the bench: workers that share databases and tables, each with tunnels of its own and a queue of the
//! application's port.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::channel;

use crypto::{Provider, Suite};
use dataplane::{Counters, DEFAULT_FLOWS, PortKind, Tables, Team, Waker, Worker, WorkerParts};
use esp::{IvSource, LiveNumbers, Sa};
use io::{ChunkSize, POOL_LEN, PortCounters, Umem, UmemConfig};
use memif::{Faults, MemifPort, Parts, Queue};
use policy::Databases;

use super::application::{Connection, RING_LEN};
use super::lane::{Lane, Peer, message, topology};
use super::network::Network;
use crate::error::BenchError;
use crate::gateway::{SPARE_FRAMES, stock};
use crate::options::Direction;
use crate::port::Wire;
use crate::shape::Shape;
use crate::world::{self, LAN, LAN_PORT, MTU, WAN, WAN_PORT};

/// Parameters that a site is built by.
pub(super) struct Plan<'p> {
    pub(super) provider: &'p dyn Provider,
    pub(super) suite: Suite,
    /// Length of the inner IP packet in bytes.
    pub(super) size: usize,
    /// A multiple of the workers.
    pub(super) tunnels: usize,
    /// A multiple of the tunnels.
    pub(super) flows: usize,
    pub(super) workers: usize,
    /// Packets of each worker.
    pub(super) frames: u32,
    /// True if application and worker have one core.
    pub(super) is_on_one_core: bool,
}

/// The gateway, and what it works on.
pub(super) struct Site {
    pub(super) lanes: Vec<Lane>,
    databases: Databases<Sa>,
    faults: Arc<Faults>,
    _connection: Connection,
}

impl Site {
    /// Builds it; returns it with the application's queues, one for each worker.
    pub(super) fn new(plan: &Plan<'_>) -> Result<(Site, Vec<Queue>), BenchError> {
        let Plan { provider, suite, size, workers, frames, .. } = *plan;
        let mut databases = Databases::new();
        let mut peers: Vec<Vec<Peer>> = (0..workers).map(|_| Vec::new()).collect();
        for tunnel in 0..plan.tunnels {
            let peer = install(&mut databases, plan, tunnel as u32)?;
            let max = peer.opens.max_inner_len(MTU as usize);
            if size > max {
                return Err(BenchError::TooLong { size, suite, max });
            }
            if let Some(peers) = peers.get_mut(tunnel % workers) {
                peers.push(peer);
            }
        }
        for sa in databases.sas() {
            // Of tunnel n it is 1 + n.
            sa.home().claim((sa.config.reqid as usize - 1) % workers);
        }

        let chunks = (frames + SPARE_FRAMES + POOL_LEN as u32) * workers as u32;
        let config = UmemConfig { chunks, chunk_size: ChunkSize::Bytes2048, populate: true };
        let (umem, mut pool) = Umem::new(config)?;
        let tables = Arc::new(Tables::default());
        tables.topology.store(Arc::new(topology()));
        tables.neighbours.store(Arc::new(world::neighbours(Shape::default())));
        let new_waker = |_| Waker::new().map_err(BenchError::system("make an eventfd"));
        let wakers = (0..workers).map(new_waker).collect::<Result<Vec<_>, _>>()?;
        let teams = match &wakers[..] {
            [_] => vec![Team::alone()],
            wakers => Team::of(wakers),
        };
        let mut connection = Connection::new(workers)?;
        let queues = core::mem::take(&mut connection.gateway);
        let application = core::mem::take(&mut connection.application);

        let mut lanes = Vec::with_capacity(workers);
        let parts = peers.into_iter().zip(teams).zip(wakers).zip(queues).enumerate();
        for (number, (((peers, team), waker), queue)) in parts {
            let stock = stock(&mut pool, frames);
            let counters = Arc::new(Counters::default());
            let (events, keep_events) =
                dataplane::channel().map_err(BenchError::system("make an eventfd"))?;
            let (keep_commands, commands) = channel();
            let seed = 2 * number as u8;
            let mut worker = Worker::new(WorkerParts {
                team,
                tables: Arc::clone(&tables),
                reader: databases.reader(),
                engine: provider.engine()?,
                ivs: IvSource::from_seed([seed + 1; 32]),
                pool: umem.pool(),
                counters: Arc::clone(&counters),
                events,
                commands,
                waker,
                flows: DEFAULT_FLOWS,
            });
            worker.admit_all_flows();
            let network = Wire::default();
            let sent = {
                let port = Network::new(network.port(frames as usize), MOST_AWAY);
                let sent = io::Port::counters(&port);
                worker.add_port(WAN_PORT, WAN, Box::new(port), PortKind::Ethernet);
                sent
            };
            let port = memif_port(queue).map_err(BenchError::system("make a memif port"))?;
            worker.add_port(LAN_PORT, LAN, Box::new(port), PortKind::Ethernet);
            let per_tunnel = plan.flows / plan.tunnels;
            // In turns of all tunnels.
            let flows = (0..per_tunnel * peers.len()).map(|at| {
                let (peer, of_tunnel) = (at % peers.len(), at / peers.len());
                let tunnel = number + peer * workers;
                (peer, message(tunnel, of_tunnel, tunnel + of_tunnel * plan.tunnels, size))
            });
            lanes.push(Lane {
                flows: flows.collect(),
                worker,
                counters,
                network,
                sent,
                peers,
                next: 0,
                engine: provider.engine()?,
                ivs: IvSource::from_seed([seed + 2; 32]),
                frames: stock.len(),
                stock,
                is_on_one_core: plan.is_on_one_core,
                given: 0,
                busy: core::time::Duration::ZERO,
                _keep: (keep_events, keep_commands, umem.pool()),
            });
        }
        let faults = Arc::clone(&connection.faults);
        Ok((Site { lanes, databases, faults, _connection: connection }, application))
    }

    /// Fails unless every packet that was given was opened, has gone through the application, and was sealed.
    pub(super) fn check(&self, forwarded: u64) -> Result<(), BenchError> {
        let given = self.lanes.iter().map(|lane| lane.given).sum();
        let (mut opened, mut sealed) = (0, 0);
        for sa in self.databases.sas() {
            let packets = sa.esp.live().packets().load(Relaxed);
            let is_inbound = sa.config.params.dst == core::net::IpAddr::V4(world::GATEWAY);
            *if is_inbound { &mut opened } else { &mut sealed } += packets;
        }
        if let Some((fault, count)) = self.faults.read().find(|(_, count)| *count > 0) {
            return Err(BenchError::Application(format!("{} {}", fault.name(), count)));
        }
        match (opened, forwarded, sealed) == (given, given, given) {
            true => Ok(()),
            false => Err(BenchError::NotThrough { given, opened, forwarded, sealed }),
        }
    }
}

/// Installs a tunnel: SAs and policies of both directions. Returns the peer's ends of the SAs, with their keys.
fn install(
    databases: &mut Databases<Sa>,
    plan: &Plan<'_>,
    tunnel: u32,
) -> Result<Peer, BenchError> {
    let suite = plan.suite;
    let wrong = || BenchError::Wrong { suite };
    let mut both = |direction| {
        let config = world::sa_config(suite, direction, tunnel, 0);
        let session = plan.provider.session(suite, &world::keys(suite, direction, tunnel))?;
        let new = |session| {
            let live = LiveNumbers::on_heap(config.params.replay_window);
            Sa::new(config.params.clone(), session, live).map_err(|_| wrong())
        };
        let (ours, theirs) = (new(session.clone())?, new(session)?);
        databases.add_sa(config, ours).map_err(|_| wrong())?;
        Ok::<Sa, BenchError>(theirs)
    };
    let (opens, seals) = (both(Direction::Outbound)?, both(Direction::Inbound)?);
    for policy in world::policies(tunnel) {
        databases.put_policy(policy);
    }
    Ok(Peer { seals, opens })
}

/// The gateway's end of a queue. Nothing stands for it in Linux.
fn memif_port(queue: Queue) -> std::io::Result<MemifPort> {
    MemifPort::new(Parts {
        name: "app0".to_owned(),
        queue,
        tap: None,
        max_frame_len: MTU as usize + 18,
        counters: PortCounters::new(),
        linux: Arc::default(),
    })
}

/// Packets of a worker that are under way at a time: one burst more fits the rings.
const MOST_AWAY: usize = RING_LEN - io::BURST_LEN;
