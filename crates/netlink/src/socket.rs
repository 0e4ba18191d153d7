//! The socket below both [`Connection`](crate::Connection) and [`Listener`](crate::Listener).

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use netlink_sys::{Socket, SocketAddr, protocols};
use rustix::net::sockopt::set_socket_recv_buffer_size_force;
use zeroize::Zeroize as _;

use crate::fault::Fault;
#[cfg(any(test, feature = "memory"))]
use crate::memory::Line;
use crate::message::Message;

/// A family of messages, with a socket of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Links, addresses, routes, rules, neighbours.
    Route,
    /// SAs and policies.
    Xfrm,
    /// nf_tables, connection tracking, logs.
    Netfilter,
    /// Families that are numbered at run time.
    Generic,
}

/// A socket that receives the kernel's messages and nobody else's.
pub(crate) struct KernelSocket {
    socket: Way,
    /// Receive buffer. It may hold keys, and is all zeros between datagrams.
    buffer: Message,
}

/// Way to the kernel.
enum Way {
    /// Socket of Linux's.
    Linux(Socket),
    /// One in memory.
    #[cfg(any(test, feature = "memory"))]
    Memory(Line),
}

impl Way {
    fn send(&self, messages: &[u8]) -> io::Result<()> {
        match self {
            Way::Linux(socket) => socket.send(messages, 0).map(drop),
            #[cfg(any(test, feature = "memory"))]
            Way::Memory(line) => line.send(messages),
        }
    }

    fn join(&self, group: u32) -> io::Result<()> {
        match self {
            Way::Linux(socket) => socket.add_membership(group),
            // Who stands for the kernel sends what is to be heard.
            #[cfg(any(test, feature = "memory"))]
            Way::Memory(_) => Ok(()),
        }
    }

    /// Receives a datagram: its length, longer than the buffer where it was cut, and its sender's number.
    fn receive(&self, buffer: &mut [u8]) -> io::Result<(usize, u32)> {
        match self {
            Way::Linux(socket) => {
                let (len, from) = socket.recv_from(&mut &mut *buffer, libc::MSG_TRUNC)?;
                Ok((len, from.port_number()))
            }
            #[cfg(any(test, feature = "memory"))]
            Way::Memory(line) => match line.inbox.take() {
                Some(Some(datagram)) => {
                    let len = datagram.len().min(buffer.len());
                    buffer[..len].copy_from_slice(&datagram[..len]);
                    Ok((datagram.len(), 0))
                }
                Some(None) => Err(io::Error::from_raw_os_error(libc::ENOBUFS)),
                None => Err(io::ErrorKind::WouldBlock.into()),
            },
        }
    }
}

impl KernelSocket {
    /// A socket for requests.
    pub(crate) fn open(protocol: Protocol) -> io::Result<KernelSocket> {
        let mut socket = Socket::new(protocol.number())?;
        socket.bind_auto()?;
        // Connected to the kernel: nobody else's messages are received.
        socket.connect(&SocketAddr::new(0, 0))?;
        // Errors with an explanation, and without the request repeated.
        socket.set_ext_ack(true)?;
        socket.set_cap_ack(true)?;
        Ok(Self::of(socket))
    }

    /// A socket that hears groups, with room for so many bytes that wait.
    pub(crate) fn subscribe(
        protocol: Protocol,
        groups: &[u32],
        room: Option<usize>,
    ) -> io::Result<KernelSocket> {
        let mut socket = Socket::new(protocol.number())?;
        if let Some(room) = room
            && set_socket_recv_buffer_size_force(&socket, room).is_err()
        {
            // Without CAP_NET_ADMIN Linux gives at most net.core.rmem_max. With less, more is lost.
            let _ = socket.set_rx_buf_sz(i32::try_from(room).unwrap_or(i32::MAX));
        }
        let groups = groups.iter().fold(0, |mask, group| mask | 1 << (group - 1));
        socket.bind(&SocketAddr::new(0, groups))?;
        socket.set_non_blocking(true)?;
        Ok(Self::of(socket))
    }

    fn of(socket: Socket) -> KernelSocket {
        KernelSocket { socket: Way::Linux(socket), buffer: Message::new(vec![0; BUFFER_LEN]) }
    }

    /// A socket whose far end is in memory. It never waits.
    #[cfg(any(test, feature = "memory"))]
    pub(crate) fn in_memory(line: Line) -> KernelSocket {
        KernelSocket { socket: Way::Memory(line), buffer: Message::new(vec![0; BUFFER_LEN]) }
    }

    pub(crate) fn set_non_blocking(&self) -> io::Result<()> {
        match &self.socket {
            Way::Linux(socket) => socket.set_non_blocking(true),
            #[cfg(any(test, feature = "memory"))]
            Way::Memory(_) => Ok(()),
        }
    }

    /// Hears a group more, of any number.
    pub(crate) fn join(&self, group: u32) -> io::Result<()> {
        self.socket.join(group)
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Way::Linux(socket) => socket.as_fd(),
            #[cfg(any(test, feature = "memory"))]
            Way::Memory(line) => line.fd(),
        }
    }

    pub(crate) fn send(&self, messages: &[u8]) -> io::Result<()> {
        self.socket.send(messages)
    }

    /// Receives one datagram from the kernel and hands it to `read`; what others send is dropped.
    ///
    /// # Errors
    /// [`Fault::Lost`] after an overrun, and for a datagram that does not fit, since it is lost as
    /// well; [`Fault::Socket`] else, with `WouldBlock` where a socket that does not wait has none.
    pub(crate) fn receive<T>(&mut self, mut read: impl FnMut(&[u8]) -> T) -> Result<T, Fault> {
        loop {
            let (len, from) = match self.socket.receive(&mut self.buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                    return Err(Fault::Lost);
                }
                result => result?,
            };
            let received = &mut self.buffer[..len.min(BUFFER_LEN)];
            let result = match (from, received.len() == len) {
                (0, true) => Some(Ok(read(received))),
                (0, false) => Some(Err(Fault::Lost)),
                _ => None,
            };
            received.zeroize();
            if let Some(result) = result {
                return result;
            }
        }
    }

    /// Receives one datagram from anybody and keeps nothing of it.
    ///
    /// # Errors
    /// As [`receive`](KernelSocket::receive), without the loss of what does not fit.
    pub(crate) fn discard(&mut self) -> Result<(), Fault> {
        loop {
            match self.socket.receive(&mut [0u8; 1]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                    return Err(Fault::Lost);
                }
                result => return result.map(drop).map_err(Fault::Socket),
            }
        }
    }
}

impl Protocol {
    const fn number(self) -> isize {
        match self {
            Protocol::Route => protocols::NETLINK_ROUTE,
            Protocol::Xfrm => protocols::NETLINK_XFRM,
            Protocol::Netfilter => protocols::NETLINK_NETFILTER,
            Protocol::Generic => protocols::NETLINK_GENERIC,
        }
    }
}

/// Linux fills datagrams of a dump to at most 32 KiB. A logged packet may have 64 KiB, and attributes
/// beside.
const BUFFER_LEN: usize = 128 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    /// Sockets of `NETLINK_USERSOCK` send to one another, without privilege.
    #[test]
    fn strangers_are_not_heard() {
        let mut socket = Socket::new(protocols::NETLINK_USERSOCK).unwrap();
        let address = socket.bind_auto().unwrap();
        socket.set_non_blocking(true).unwrap();
        let mut heard = KernelSocket::of(socket);
        let mut stranger = Socket::new(protocols::NETLINK_USERSOCK).unwrap();
        stranger.bind_auto().unwrap();
        let send = || stranger.send_to(&[7; 20], &address, 0).unwrap();
        send();
        let fault = heard.receive(|datagram| panic!("{datagram:?}")).unwrap_err();
        assert!(
            matches!(&fault, Fault::Socket(e) if e.kind() == io::ErrorKind::WouldBlock),
            "{fault:?}"
        );
        assert!(heard.buffer.iter().all(|byte| *byte == 0));
        // They are there, though: what is not looked at is anybody's.
        send();
        heard.discard().unwrap();
        assert!(heard.discard().is_err());
    }
}
