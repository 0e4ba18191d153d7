//! A worker of the gateway with its queue of the memif port, the network's end of its tunnels, and the peers there.
//!
//! ```text
//!  core network        peer                      worker             application
//!  GTP-U ------------- seals ===== network ===== opens --- memif --- exchanges
//!  GTP-U ------------- opens ===== network ===== seals --- memif --- addresses
//! ```

use core::net::Ipv4Addr;
use core::slice;
use core::time::Duration;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Instant;

use crypto::Engine;
use dataplane::gtpu::{Application, Otherwise, Service, Services, Station};
use dataplane::{Command, Counters, EventReceiver, Topology, Worker};
use esp::{IvSource, Sa};
use forward::{RouteKind, table};
use io::{FramePool, HEADROOM, Packet, PortCounters};
use outcome::DropReason;
use wire::ethernet::{HEADER_LEN, emit_untagged};
use wire::gtpu::{self, GtpuFields, Teid};
use wire::ipv4::{self, Ipv4Fields};
use wire::udp::{self, UdpFields};
use wire::{Span, parse_ip, protocol};

use crate::error::BenchError;
use crate::gateway::{open, seal};
use crate::port::Wire;
use crate::shape::Shape;
use crate::traffic::remote_network;
use crate::world;

/// A tunnel's peer: its ends of both SAs.
pub(super) struct Peer {
    /// The peer's SA that seals, for the gateway to open.
    pub(super) seals: Sa,
    /// The peer's SA that opens what the gateway seals.
    pub(super) opens: Sa,
}

/// A worker, and what it works on.
pub(super) struct Lane {
    pub(super) worker: Worker,
    pub(super) counters: Arc<Counters>,
    /// The network's end, and what the port there has counted.
    pub(super) network: Wire,
    pub(super) sent: Arc<PortCounters>,
    /// The peers of the worker's tunnels.
    pub(super) peers: Vec<Peer>,
    /// A message of each flow, and the peer that sends it.
    pub(super) flows: Vec<(usize, Vec<u8>)>,
    /// The next flow.
    pub(super) next: usize,
    pub(super) engine: Box<dyn Engine>,
    pub(super) ivs: IvSource,
    /// All packets, while they are outside the gateway.
    pub(super) stock: Vec<Packet>,
    pub(super) frames: usize,
    /// True if the application has the worker's core.
    pub(super) is_on_one_core: bool,
    /// Packets that were given to the gateway so far.
    pub(super) given: u64,
    /// Time in which the worker had packets.
    pub(super) busy: Duration,
    /// Kept, because the worker's ends would be of no use without.
    pub(super) _keep: (EventReceiver, Sender<Command>, FramePool),
}

impl Lane {
    /// Has the peers seal every packet anew, and queues it where the gateway receives it.
    pub(super) fn load(&mut self) -> Result<(), BenchError> {
        let Lane { stock, flows, next, peers, ivs, engine, .. } = self;
        let wrong = || BenchError::Application("the peers sealed no packet".to_owned());
        let ether_type = Shape::default().ether_type();
        for packet in &mut *stock {
            let (peer, message) = flows.get(*next).ok_or_else(wrong)?;
            *next = if *next + 1 < flows.len() { *next + 1 } else { 0 };
            let sa = &peers.get(*peer).ok_or_else(wrong)?.seals;
            let start = HEADROOM + HEADER_LEN + sa.headroom();
            packet.span = Span { start, len: message.len() };
            packet.data_mut().copy_from_slice(message);
            seal(slice::from_mut(packet), |_| Some(sa), ivs, &mut **engine).ok_or_else(wrong)?;
            packet.span.start -= HEADER_LEN;
            packet.span.len += HEADER_LEN;
            let frame = packet.data_mut();
            emit_untagged(frame, world::MAC_WAN, world::MAC_ROUTER, ether_type)
                .map_err(|_| wrong())?;
        }
        self.network.give(&mut self.stock);
        self.given += self.frames as u64;
        Ok(())
    }

    /// The timed part: rounds until every packet has come back, or nothing moves any more.
    pub(super) fn run(&mut self) -> usize {
        let goal = self.sent.read().tx_packets + self.frames as u64;
        let mut now = Instant::now();
        let mut moved = now;
        loop {
            let count = self.worker.round();
            let then = core::mem::replace(&mut now, Instant::now());
            if count > 0 {
                self.busy += now - then;
                moved = now;
            } else if self.sent.read().tx_packets >= goal || now - moved > STANDSTILL {
                break;
            } else if self.is_on_one_core {
                std::thread::yield_now();
            }
        }
        // The port hands over what was sent when it is asked for more.
        self.worker.round();
        self.frames
    }

    /// Takes what the gateway has sent.
    ///
    /// # Errors
    /// [`BenchError::Lost`] unless it is every packet.
    pub(super) fn unload(&mut self) -> Result<(), BenchError> {
        self.network.take(&mut self.stock);
        if self.stock.len() == self.frames {
            return Ok(());
        }
        let reasons = DropReason::ALL.iter().copied();
        let most = reasons.max_by_key(|reason| self.counters.dropped(*reason));
        let reason = most.filter(|reason| self.counters.dropped(*reason) > 0);
        Err(BenchError::Lost { given: self.frames, sent: self.stock.len(), reason })
    }

    /// Looks at each packet that has come out: the peer opens it, and it is what was sent, with addresses exchanged.
    pub(super) fn check(&mut self) -> Result<(), BenchError> {
        let Lane { stock, flows, peers, engine, .. } = self;
        for packet in stock {
            let ip = Span {
                start: packet.span.start + HEADER_LEN,
                len: packet.span.len.saturating_sub(HEADER_LEN),
            };
            let outer = packet.frame.bytes().get(ip.range()).and_then(|bytes| parse_ip(bytes).ok());
            let is_right = outer.is_some_and(|outer| {
                let is_to = |peer: &&Peer| peer.opens.params().dst == outer.dst;
                let Some(peer) = peers.iter().find(is_to) else { return false };
                let inner = open(&peer.opens, engine, packet, ip, 0);
                let inner = inner.and_then(|span| packet.frame.bytes().get(span.range()));
                inner
                    .is_some_and(|inner| flows.iter().any(|(_, message)| is_answer(inner, message)))
            });
            if !is_right {
                return Err(BenchError::Application(
                    "a packet that came out is none that the application has forwarded".to_owned(),
                ));
            }
        }
        Ok(())
    }
}

/// True if a packet is a message with source and destination exchanged, and some hops further.
fn is_answer(packet: &[u8], message: &[u8]) -> bool {
    let headers_len = ipv4::MIN_HEADER_LEN + udp::HEADER_LEN;
    let (Ok(h), Ok(m)) = (parse_ip(packet), parse_ip(message)) else { return false };
    (h.src, h.dst, h.src_port, h.dst_port) == (m.dst, m.src, m.dst_port, m.src_port)
        && h.ttl <= m.ttl
        && packet.get(..8) == message.get(..8)
        && packet.get(headers_len..) == message.get(headers_len..)
}

/// A message of GTP-U from the core network behind a tunnel's peer to the cell: `size` bytes of IP.
pub(super) fn message(tunnel: usize, number: usize, flow: usize, size: usize) -> Vec<u8> {
    let payload_len = size - SHORTEST;
    let network = remote_network(tunnel as u32).to_bits();
    let src = Ipv4Addr::from_bits(network + 1 + (number % HOSTS) as u32);
    let ip = Ipv4Fields {
        traffic_class: 0,
        total_len: size as u16,
        ident: flow as u16,
        dont_fragment: false,
        ttl: 64,
        protocol: protocol::UDP,
        src,
        dst: CELL,
    };
    let udp = UdpFields {
        src_port: gtpu::PORT,
        dst_port: gtpu::PORT,
        len: (size - ipv4::MIN_HEADER_LEN) as u16,
        checksum: 0,
    };
    let tunnel = Teid(FIRST_TEID + flow as u32);
    let fields =
        GtpuFields { message: gtpu::message::G_PDU, payload_len: payload_len as u16, teid: tunnel };
    let mut header = [0; gtpu::HEADER_LEN];
    // It is as long as it says.
    let _ = fields.emit(&mut header);
    let body = (0..payload_len).map(|at| (at * 7) as u8);
    let mut message = [&ip.to_bytes()[..], &udp.to_bytes(), &header].concat();
    message.extend(body);
    message
}

/// The world, with an application that has all GTP-U of the cell.
pub(super) fn topology() -> Topology {
    let cell = world::route(table::LOCAL, CELL, 32, RouteKind::Local, Vec::new());
    let mut topology = world::topology(Shape::default(), [cell]);
    topology.local.insert(CELL.into());
    let application = Application {
        ifindex: world::LAN,
        queue: None,
        to: Station::Mac(world::MAC_HOST),
        teids: FIRST_TEID..=u32::MAX,
        takes_echo: false,
        takes_errors: false,
    };
    topology.gtpu = Services::new(vec![Service {
        address: CELL.into(),
        applications: vec![application],
        malformed: Otherwise::Drop,
        unknown: Otherwise::Drop,
    }]);
    topology
}

/// Bytes of the headers, and so of the shortest packet.
pub(super) const SHORTEST: usize = ipv4::MIN_HEADER_LEN + udp::HEADER_LEN + gtpu::HEADER_LEN;
/// The application's address, inside of all tunnels, in the local network.
const CELL: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 1);
const FIRST_TEID: u32 = 0x1000;
/// Hosts of the core network behind a tunnel.
const HOSTS: usize = 61;
/// How long a gateway in which nothing moves is waited for.
const STANDSTILL: Duration = Duration::from_secs(2);
