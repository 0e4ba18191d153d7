//! UDP sockets that IKE daemons hand over, where there are no ports (`culvert run --unprivileged`).
//!
//! The preload library makes a second socket beside an IKE daemon's of port 4500, and hands it over by a connection
//! of its own; as long as that lasts, the socket is a port of the first worker ([`io::udp`]). It stands for every
//! interface that Linux has: protected packets whose way leads by one of them leave by the socket, and Linux finds
//! the way again. All else is Linux's.
//!
//! For each family and address there is one at a time. Another one, of a second IKE daemon, is refused.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use dataplane::{Interface, SocketWay};
use forward::SourceCheck;
use io::udp::Unfit;
use io::{EspSocket, Port as _, PortCounters, PortStats};
use mirror::Snapshot;
use report::{Warning, WarningKind};
use tracing::{info, warn};
use wire::MacAddr;
use xfrm::Handed;

use crate::slots;
use crate::sources::builtin::Builtin;
use crate::workers::Workers;

/// The index of the first socket in place of an interface's; no interface has so high a one.
pub const FIRST_INDEX: u32 = 0x7fff_ff00;

/// The most sockets.
pub const MOST: usize = 4;

/// One of them.
struct Entry {
    /// The connection that it came by.
    client: u64,
    /// Its number among all ports.
    place: usize,
    local: SocketAddr,
    counters: Arc<PortCounters>,
}

/// All of them.
#[derive(Default)]
pub struct EspSockets {
    is_on: bool,
    entries: Vec<Entry>,
    refused: u64,
}

impl EspSockets {
    /// None yet; `is_on` where they are wanted.
    pub fn new(is_on: bool) -> EspSockets {
        EspSockets { is_on, ..EspSockets::default() }
    }

    /// Takes sockets that were handed over, and lets go of those whose program is gone. Says whether any came or went.
    pub fn serve(&mut self, source: &mut Builtin, workers: &Workers) -> bool {
        if !self.is_on {
            return false;
        }
        let before = self.entries.len();
        self.entries.retain(|entry| {
            let stays = source.is_connected(entry.client);
            if !stays {
                workers.remove_ports(entry.index());
                warn!(socket = %entry.local, "the IKE daemon's socket is gone: nothing leaves by it");
            }
            stays
        });
        let mut has_changed = self.entries.len() != before;
        for Handed { client, socket } in source.take_sockets() {
            let taken = self.take(client, socket, workers);
            if let Err((errno, why)) = &taken {
                self.refused += 1;
                warn!(errno, "a socket that a program handed over is refused: {why}");
            }
            has_changed |= taken.is_ok();
            source.answer_socket(client, taken.map_or_else(|(errno, _)| errno, |()| 0));
        }
        has_changed
    }

    fn take(
        &mut self,
        client: u64,
        socket: std::os::fd::OwnedFd,
        workers: &Workers,
    ) -> Result<(), (i32, String)> {
        let port = EspSocket::new(socket, wire::natt::PORT)
            .map_err(|unfit| (errno_of(&unfit), unfit.to_string()))?;
        let local = port.local();
        if self.entries.iter().any(|entry| entry.local == local) {
            let why = format!("another program has {local}; one IKE daemon at a time");
            return Err((ADDRESS_IN_USE, why));
        }
        let is_free = |place: &usize| self.entries.iter().all(|entry| entry.place != *place);
        let Some(place) = (0..MOST).find(is_free) else {
            return Err((TOO_MANY, format!("there are {MOST} already")));
        };
        let entry = Entry { client, place, local, counters: port.counters() };
        workers.add_port(slots::of_port(place), 0, entry.index(), Box::new(port));
        info!(socket = %local, "ESP in UDP comes and goes by an IKE daemon's socket");
        self.entries.push(entry);
        Ok(())
    }

    /// A worker has lost a port.
    pub fn lost(&mut self, index: u32) {
        self.entries.retain(|entry| entry.index() != index);
    }

    /// True if such sockets are wanted.
    pub fn are_wanted(&self) -> bool {
        self.is_on
    }

    /// Sockets by which packets leave, with their addresses.
    pub fn ways(&self) -> impl Iterator<Item = SocketWay> {
        self.entries
            .iter()
            .map(|entry| SocketWay { ifindex: entry.index(), local: entry.local.ip() })
    }

    /// The sockets as workers see them: as interfaces.
    pub fn interfaces(&self, snapshot: &Snapshot) -> impl Iterator<Item = (u32, Interface)> {
        // ICMP errors come from some address of this host.
        let addrs = || snapshot.addresses().map(|a| a.addr).filter(|addr| !addr.is_loopback());
        let addr4 = addrs().find_map(|addr| match addr {
            IpAddr::V4(addr) => Some(addr),
            IpAddr::V6(_) => None,
        });
        let addr6 = addrs().find_map(|addr| match addr {
            IpAddr::V6(addr) if !addr.is_unicast_link_local() => Some(addr),
            _ => None,
        });
        self.entries.iter().map(move |entry| {
            let interface = Interface {
                port: Some(slots::of_port(entry.place)),
                back: None,
                binding: None,
                source_check: SourceCheck::Off,
                mac: MacAddr::default(),
                mtu: u16::MAX.into(),
                up: true,
                addr4,
                addr6,
            };
            (entry.index(), interface)
        })
    }

    /// Each as the operator sees it: its name, and its counters.
    pub fn states(&self) -> impl Iterator<Item = (String, PortStats)> {
        self.entries.iter().map(|entry| (format!("udp {}", entry.local), entry.counters.read()))
    }

    /// Warnings for the operator.
    pub fn warnings(&self) -> Vec<Warning> {
        let mut warnings = Vec::new();
        if self.is_on && self.entries.is_empty() {
            warnings.push(Warning::new(
                WarningKind::NoIkeSocket,
                "no IKE daemon has handed over its UDP socket of port 4500: nothing that a policy \
                 protects leaves; start it by `culvert exec`, with the library of this version",
            ));
        }
        if self.refused > 0 {
            let text = format!("{} sockets that programs handed over were refused", self.refused);
            warnings.push(Warning::new(WarningKind::RefusedSockets, text));
        }
        warnings
    }
}

impl Entry {
    fn index(&self) -> u32 {
        FIRST_INDEX + self.place as u32
    }
}

fn errno_of(unfit: &Unfit) -> i32 {
    match unfit {
        Unfit::NotUdp => NOT_OF_TYPE,
        Unfit::Port(_) => NO_SUCH_ADDRESS,
        Unfit::System(_, error) => error.raw_os_error().unwrap_or(NOT_OF_TYPE),
    }
}

/// `EPROTOTYPE`, `EADDRNOTAVAIL`, `EADDRINUSE`, `EMFILE`.
const NOT_OF_TYPE: i32 = 91;
const NO_SUCH_ADDRESS: i32 = 99;
const ADDRESS_IN_USE: i32 = 98;
const TOO_MANY: i32 = 24;
