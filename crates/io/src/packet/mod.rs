//! Packet sockets: an interface as Linux's own stack sees it, super-packets included.
//!
//! AF_XDP has frames of one MTU, and where the driver has no zero copy each of them is copied, allocated and
//! announced by itself. XDP on a veth even switches its peer's segmentation off. A packet socket with
//! `PACKET_VNET_HDR` gets what the stack gets: up to 64 KiB of TCP or UDP behind one set of headers, with a partial
//! checksum. It is cut into frames as it is received, and consecutive frames of one flow are joined as they are
//! sent, by the code of [`tun`](crate::tun). Raw ESP has no kind of segmentation, and goes frame by frame.
//!
//! ```text
//!   socket ──recvmmsg──> inbox ──cut──> frames of the pool ──> worker
//!   socket <──sendmmsg── headers and parts of the frames <──join── worker
//! ```
//!
//! # What is received
//!
//! The socket receives what its filter lets through, by the rule of `steer`'s packet program. The filter is there
//! before the socket is bound. VLAN tags that the kernel has taken out are put back.
//!
//! # What is sent
//!
//! It goes by the interface's queueing discipline. Past it (`PACKET_QDISC_BYPASS`) the kernel drops a super-packet
//! that the driver does not take; on this way it cuts it. Where sending a super-packet fails because nobody can
//! compute its checksum, frames are sent as they are from then on.
//!
//! # Several workers
//!
//! The sockets of one [`Fanout`] share what the interface receives, by the flow's hash: each is a port of its own.

mod inbox;
mod link;
mod rx;
pub(crate) mod socket;
mod tx;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use crate::counters::PortCounters;
use crate::port::{Port, PortError};
use crate::tun::coalesce::Joined;
use crate::umem::{Burst, FramePool};
use rx::{Received, Receiver};
use tx::Sent;

/// Interface and settings of a packet socket.
#[derive(Clone, Copy, Debug)]
pub struct PacketConfig<'a> {
    /// The interface's name, for messages.
    pub interface: &'a str,
    /// Index of the interface.
    pub ifindex: u32,
    /// The socket filter that says what is received, a BPF program.
    pub filter: BorrowedFd<'a>,
}

/// Sockets that share what one interface receives; made by the first of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fanout(u16);

/// Why a socket could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("{interface}: {call} failed: {source}; {hint}")]
pub struct PacketError {
    /// Name of the interface.
    pub interface: String,
    /// The system call, with its option.
    pub call: &'static str,
    /// The kernel's answer.
    pub source: io::Error,
    /// A remedy, for the operator.
    pub hint: &'static str,
}

/// A packet socket on one interface.
pub struct PacketSocket {
    name: String,
    socket: OwnedFd,
    receiver: Receiver,
    /// True while frames are joined as they are sent.
    joins: bool,
    joined: u64,
    counters: Arc<PortCounters>,
}

impl PacketSocket {
    /// Opens a socket. It receives from now on.
    ///
    /// # Errors
    ///
    /// [`PacketError`] names the system call and what to do.
    pub fn open(config: &PacketConfig<'_>) -> Result<Self, PacketError> {
        let PacketConfig { interface, ifindex, filter } = *config;
        let fail = |call: &'static str| failing(interface, call);
        let socket = socket::open().map_err(fail("socket(AF_PACKET)"))?;
        let fd = socket.as_fd();
        for (level, option, value, call) in [
            (libc::SOL_PACKET, libc::PACKET_VNET_HDR, 1, "setsockopt(PACKET_VNET_HDR)"),
            (libc::SOL_PACKET, libc::PACKET_AUXDATA, 1, "setsockopt(PACKET_AUXDATA)"),
            (
                libc::SOL_PACKET,
                libc::PACKET_IGNORE_OUTGOING,
                1,
                "setsockopt(PACKET_IGNORE_OUTGOING)",
            ),
            (libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, BUFFER_BYTES, "setsockopt(SO_RCVBUFFORCE)"),
            (libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, BUFFER_BYTES, "setsockopt(SO_SNDBUFFORCE)"),
            (libc::SOL_SOCKET, libc::SO_ATTACH_BPF, raw(filter), "setsockopt(SO_ATTACH_BPF)"),
        ] {
            socket::set(fd, level, option, value).map_err(fail(call))?;
        }
        socket::bind(fd, ifindex).map_err(fail("bind"))?;
        Ok(Self {
            name: interface.to_owned(),
            socket,
            receiver: Receiver::new(),
            joins: true,
            joined: 0,
            counters: PortCounters::new(),
        })
    }

    /// Opens `count` sockets that share what the interface receives.
    ///
    /// # Errors
    ///
    /// [`PacketError`] names the system call and what to do.
    pub fn open_several(config: &PacketConfig<'_>, count: usize) -> Result<Vec<Self>, PacketError> {
        let first = Self::open(config)?;
        if count <= 1 {
            return Ok(vec![first]);
        }
        let fanout = first.found_fanout()?;
        let mut all = vec![first];
        for _ in 1..count {
            let socket = Self::open(config)?;
            socket.join(fanout)?;
            all.push(socket);
        }
        Ok(all)
    }

    /// Has others share what this one receives.
    fn found_fanout(&self) -> Result<Fanout, PacketError> {
        let fail = failing(&self.name, "setsockopt(PACKET_FANOUT)");
        let kind = libc::PACKET_FANOUT_HASH | libc::PACKET_FANOUT_FLAG_UNIQUEID;
        let fd = self.socket.as_fd();
        let id = socket::set(fd, libc::SOL_PACKET, libc::PACKET_FANOUT, (kind << 16) as i32)
            .and_then(|()| socket::get(fd, libc::SOL_PACKET, libc::PACKET_FANOUT))
            .map_err(fail)?;
        Ok(Fanout(id as u16))
    }

    fn join(&self, Fanout(id): Fanout) -> Result<(), PacketError> {
        let value = (libc::PACKET_FANOUT_HASH << 16) | u32::from(id);
        socket::set(self.socket.as_fd(), libc::SOL_PACKET, libc::PACKET_FANOUT, value as i32)
            .map_err(failing(&self.name, "setsockopt(PACKET_FANOUT)"))
    }

    /// Packets that left as part of a super-packet so far.
    pub const fn joined(&self) -> u64 {
        self.joined
    }

    /// True while frames are joined as they are sent. The interface may refuse that; then false for
    /// good.
    pub const fn joins(&self) -> bool {
        self.joins
    }
}

impl Port for PacketSocket {
    fn rx(&mut self, pool: &mut FramePool, out: &mut Burst) -> Result<usize, PortError> {
        let before = out.len();
        let mut received = Received::default();
        let result = self.receiver.receive(self.socket.as_fd(), pool, out, &mut received);
        let came = out.len() - before;
        self.counters.received(came as u64, received.bytes);
        self.counters.refused_rx(received.refused);
        match result {
            // A super-packet of a kind that has no word in the vnet header: the kernel has dropped it.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => self.counters.refused_rx(1),
            Err(error) => return Err(PortError::new(&self.name, "recvmmsg", error)),
            Ok(()) => {}
        }
        Ok(came)
    }

    fn tx(&mut self, burst: &mut Burst, pool: &mut FramePool) -> Result<usize, PortError> {
        let mut sent = Sent::default();
        let joined = if self.joins { Joined::TcpAndUdp } else { Joined::None };
        let mut result = tx::send(self.socket.as_fd(), burst, joined, &mut sent);
        if sent.takes_no_super {
            tracing::warn!(
                port = self.name,
                "the interface takes no super-packets: each frame is sent by itself"
            );
            self.joins = false;
            // The rest is taken up by the next call.
            result = Ok(());
        }
        self.counters.sent(sent.packets, sent.bytes);
        self.counters.refused_tx(sent.refused);
        self.joined += sent.joined;
        let gone = pool.put_gone(burst, sent.gone);
        result.map(|()| gone).map_err(|source| PortError::new(&self.name, "sendmmsg", source))
    }

    fn reclaim(&mut self, _pool: &mut FramePool) -> Result<(), PortError> {
        Ok(())
    }

    fn check(&mut self) -> Result<(), PortError> {
        // Packets that the worker was too slow for: the program at tc ingress has ended them all the same.
        if let Ok(lost) = socket::lost(self.socket.as_fd()) {
            self.counters.refused_rx(lost.into());
        }
        socket::pending_error(self.socket.as_fd())
            .map_err(|source| PortError::new(&self.name, "getsockopt(SO_ERROR)", source))
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn frames_held(&self) -> usize {
        0
    }

    fn counters(&self) -> Arc<PortCounters> {
        Arc::clone(&self.counters)
    }
}

impl core::fmt::Debug for PacketSocket {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "PacketSocket({})", self.name)
    }
}

fn raw(fd: BorrowedFd<'_>) -> i32 {
    std::os::fd::AsRawFd::as_raw_fd(&fd)
}

fn failing(interface: &str, call: &'static str) -> impl Fn(io::Error) -> PacketError + use<> {
    let interface = interface.to_owned();
    move |source| PacketError {
        interface: interface.clone(),
        call,
        hint: hint(call, &source),
        source,
    }
}

fn hint(call: &str, source: &io::Error) -> &'static str {
    match (call, source.raw_os_error()) {
        (_, Some(libc::EPERM | libc::EACCES)) => {
            "run as root or with CAP_NET_RAW and CAP_NET_ADMIN"
        }
        (_, Some(libc::EAFNOSUPPORT)) => "the kernel needs CONFIG_PACKET",
        (_, Some(libc::ENOPROTOOPT)) => "the kernel is too old: 6.6 or later is needed",
        ("bind", Some(libc::ENODEV)) => "no such interface: see ip link",
        ("bind", Some(libc::ENETDOWN)) => "bring the interface up first",
        _ => "see the kernel's log",
    }
}

// A socket may go to any worker's thread.
const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<PacketSocket>();
};

/// Size of each socket buffer, receive and send, in bytes.
const BUFFER_BYTES: i32 = 16 << 20;

#[cfg(test)]
mod tests;
