//! UDP sockets that ESP in UDP comes by: for a host, or a container, without an interface to take over.
//!
//! An IKE daemon's socket of port 4500 has a second one beside it, which the kernel gives all that is not IKE
//! (`culvert_preload`). Datagrams become frames, with the headers that the kernel tells of, so that a worker takes
//! them as it takes what an interface receives; of frames that leave, the kernel is given the payload, and writes
//! the headers. It finds route, neighbour and source interface by itself.
//!
//! ```text
//!   socket ──recvmmsg, UDP_GRO──────> inbox ──cut──> frames of the pool ──> worker
//!   socket <──sendmmsg, UDP_SEGMENT── payloads of the frames <──runs── worker
//! ```
//!
//! Datagrams of one length that follow on each other go as one (`UDP_SEGMENT`), and come as one (`UDP_GRO`): what TCP
//! sends by one super-packet passes the stack once.
//!
//! # What the kernel decides
//!
//! TTL, and whether a datagram is fragmented: DF is never set, as nobody here would hear of a router that wants less.
//! The DS field and ECN are kept (RFC 6040).

mod headers;
mod inbox;
mod rx;
mod socket;
mod tx;

use core::net::SocketAddr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use crate::counters::PortCounters;
use crate::port::{Port, PortError};
use crate::umem::{Burst, FramePool};
use rx::{Received, Receiver};
use tx::{Refusal, Sent};

/// Why a descriptor is no socket that ESP in UDP comes by.
#[derive(Debug, thiserror::Error)]
pub enum Unfit {
    /// The descriptor is no UDP socket.
    #[error("it is no UDP socket")]
    NotUdp,
    /// Bound to a port that is not asked for, or to none.
    #[error("it is bound to port {0}")]
    Port(u16),
    /// A system call failed.
    #[error("{0}: {1}")]
    System(&'static str, io::Error),
}

/// A UDP socket.
pub struct EspSocket {
    local: SocketAddr,
    socket: OwnedFd,
    receiver: Receiver,
    /// True while datagrams are joined as they are sent.
    joins: bool,
    counters: Arc<PortCounters>,
}

impl EspSocket {
    /// Makes a port of a socket that is bound to `port`.
    ///
    /// # Errors
    ///
    /// [`Unfit`] says what is wrong with it.
    pub fn new(socket: OwnedFd, port: u16) -> Result<Self, Unfit> {
        let fd = socket.as_fd();
        if !socket::is_udp(fd) {
            return Err(Unfit::NotUdp);
        }
        let failed = |call| move |error| Unfit::System(call, error);
        let local = socket::local(fd).map_err(failed("getsockname"))?;
        if local.port() != port {
            return Err(Unfit::Port(local.port()));
        }
        socket::prepare(fd, local.is_ipv4()).map_err(|(call, error)| Unfit::System(call, error))?;
        let receiver = Receiver::new(local);
        Ok(Self { local, socket, receiver, joins: true, counters: PortCounters::new() })
    }

    /// Where it is bound.
    pub const fn local(&self) -> SocketAddr {
        self.local
    }

    /// True while datagrams are joined as they are sent. The kernel may refuse that; then false for
    /// good.
    pub const fn joins(&self) -> bool {
        self.joins
    }

    fn error(&self, call: &'static str) -> impl FnOnce(io::Error) -> PortError {
        let port = format!("UDP {}", self.local);
        move |source| PortError::new(&port, call, source)
    }
}

impl Port for EspSocket {
    fn rx(&mut self, pool: &mut FramePool, out: &mut Burst) -> Result<usize, PortError> {
        let before = out.len();
        let mut received = Received::default();
        let result = self.receiver.receive(self.socket.as_fd(), pool, out, &mut received);
        let came = out.len() - before;
        self.counters.received(came as u64, received.bytes);
        self.counters.refused_rx(received.refused);
        result.map(|()| came).map_err(self.error("recvmmsg"))
    }

    fn tx(&mut self, burst: &mut Burst, pool: &mut FramePool) -> Result<usize, PortError> {
        let mut sent = Sent::default();
        let joins = self.joins;
        let mut result = tx::send(self.socket.as_fd(), burst, joins, &mut sent);
        match sent.takes_no_run {
            None => {}
            // Longer than this way's MTU: others may be wider. The rest goes one by one.
            Some(Refusal::Here) => {
                result = tx::send(self.socket.as_fd(), burst, false, &mut sent);
            }
            Some(Refusal::Always) => {
                tracing::warn!(
                    port = %self.local,
                    "the kernel takes no super-packets here: each datagram is sent by itself"
                );
                self.joins = false;
                result = tx::send(self.socket.as_fd(), burst, false, &mut sent);
            }
        }
        self.counters.sent(sent.packets, sent.bytes);
        self.counters.refused_tx(sent.refused);
        let gone = pool.put_gone(burst, sent.gone);
        result.map(|()| gone).map_err(self.error("sendmmsg"))
    }

    fn reclaim(&mut self, _pool: &mut FramePool) -> Result<(), PortError> {
        Ok(())
    }

    fn check(&mut self) -> Result<(), PortError> {
        socket::pending_error(self.socket.as_fd()).map_err(self.error("getsockopt(SO_ERROR)"))
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

impl core::fmt::Debug for EspSocket {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "EspSocket({})", self.local)
    }
}

// A socket may go to any worker's thread.
const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<EspSocket>();
};

#[cfg(test)]
mod tests;
