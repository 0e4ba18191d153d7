//! Follows a network namespace: a dump, then notifications, and dumps again where those fall short.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};
use rustix::net::sockopt::set_socket_recv_buffer_size_force;

use crate::connection::{BUFFER_LEN, Connection, receive_datagram};
use crate::decode::decode;
use crate::error::Error;
use crate::snapshot::{Change, Part, Snapshot, Stale};
use crate::uapi::*;

/// Mirrors the network namespace of the thread that makes it.
///
/// One thread uses it: it waits for [`fd`](Observer::fd) to become readable and calls
/// [`poll`](Observer::poll). Calling `poll` every few seconds besides makes up for a dump that
/// kept being overtaken by changes.
pub struct Observer {
    events: Socket,
    requests: Connection,
    buffer: Vec<u8>,
    snapshot: Snapshot,
    stale: Stale,
}

impl Observer {
    /// Joins the notifications and reads the present state.
    ///
    /// # Errors
    /// [`Error::Socket`] or [`Error::Refused`]; reading needs no privilege.
    pub fn new() -> Result<Observer, Error> {
        Self::with_receive_buffer(RECEIVE_BUFFER_BYTES)
    }

    /// As [`new`](Observer::new), with room for so many bytes of notifications (without
    /// `CAP_NET_ADMIN` Linux takes at most `net.core.rmem_max`). If it does not suffice, a dump
    /// makes good what was lost.
    ///
    /// # Errors
    /// As [`new`](Observer::new).
    pub fn with_receive_buffer(bytes: usize) -> Result<Observer, Error> {
        let mut events = Socket::new(NETLINK_ROUTE)?;
        if set_socket_recv_buffer_size_force(&events, bytes).is_err() {
            events.set_rx_buf_sz(i32::try_from(bytes).unwrap_or(i32::MAX))?;
        }
        events.bind(&SocketAddr::new(0, 0))?;
        for group in GROUPS {
            events.add_membership(group)?;
        }
        let mut observer = Observer {
            events,
            requests: Connection::new()?,
            buffer: Vec::with_capacity(BUFFER_LEN),
            snapshot: Snapshot::default(),
            stale: Stale::all(),
        };
        observer.poll()?;
        Ok(observer)
    }

    /// Readable when there is something to [`poll`](Observer::poll) for.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }

    /// Whether a dump was overtaken by changes each time it was tried, so that something may be
    /// missing: [`poll`](Observer::poll) tries again, and should be called soon.
    pub fn is_stale(&self) -> bool {
        Part::ALL.into_iter().any(|part| self.stale.contains(part))
    }

    /// What is known, as of the last [`poll`](Observer::poll).
    pub const fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Notes that [`Control::resolve`](crate::Control::resolve) had Linux use a neighbour, and reports the change if its entry
    /// was stale: Linux makes that `DELAY` and tells nobody until it begins to probe, 5 s later.
    pub fn used(&mut self, ifindex: u32, ip: IpAddr) -> Option<Change> {
        self.snapshot.used(ifindex, ip)
    }

    /// Takes in what has happened, without waiting for anything, and reports the changes in order.
    ///
    /// After very many notifications it returns before the last; the descriptor is then still
    /// readable.
    ///
    /// # Errors
    /// [`Error::Socket`] or [`Error::Refused`]. Changes found before are in the snapshot but are
    /// not reported: compare with it. The next call tries again.
    pub fn poll(&mut self) -> Result<Vec<Change>, Error> {
        let mut changes = Vec::new();
        self.drain(&mut changes)?;
        for part in Part::ALL {
            if self.stale.contains(part) {
                self.read(part, &mut changes)?;
            }
        }
        Ok(changes)
    }

    /// Applies the notifications that are there.
    fn drain(&mut self, changes: &mut Vec<Change>) -> Result<(), Error> {
        for _ in 0..DATAGRAMS_A_POLL {
            match receive_datagram(&self.events, &mut self.buffer, libc::MSG_DONTWAIT) {
                Ok(()) => {
                    for incoming in decode(&self.buffer) {
                        self.snapshot.apply(incoming.message, changes, &mut self.stale);
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => {
                    tracing::info!("netlink notifications were lost; reading the state again");
                    self.stale = Stale::all();
                }
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }

    /// Dumps a part and takes over the differences.
    ///
    /// Notifications that arrive meanwhile are applied by the next call: a dump may be ahead of
    /// them, but the last word about each thing is the same.
    fn read(&mut self, part: Part, changes: &mut Vec<Change>) -> Result<(), Error> {
        let (what, kind, header): (_, _, &[u8]) = match part {
            Part::Links => ("list links", RTM_GETLINK, &[0; IFINFOMSG_LEN]),
            Part::Addresses => ("list addresses", RTM_GETADDR, &[0; IFADDRMSG_LEN]),
            Part::Rules => ("list rules", RTM_GETRULE, &[0; FIB_RULE_HDR_LEN]),
            Part::Routes4 => {
                ("list IPv4 routes", RTM_GETROUTE, &[AF_INET, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
            }
            Part::Routes6 => {
                ("list IPv6 routes", RTM_GETROUTE, &[AF_INET6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
            }
            Part::Neighbours => ("list neighbours", RTM_GETNEIGH, &[0; NDMSG_LEN]),
        };
        let mut dump = Vec::new();
        for _ in 0..DUMP_ATTEMPTS {
            let interrupted;
            (dump, interrupted) = self.requests.dump(what, kind, header)?;
            if !interrupted {
                self.stale.clear(part);
                break;
            }
        }
        // Where every attempt was overtaken, the last is as good as any, and the part stays stale.
        self.snapshot.replace(part, dump, changes);
        Ok(())
    }
}

const GROUPS: [u32; 8] = [
    RTNLGRP_LINK,
    RTNLGRP_NEIGH,
    RTNLGRP_IPV4_IFADDR,
    RTNLGRP_IPV4_ROUTE,
    RTNLGRP_IPV4_RULE,
    RTNLGRP_IPV6_IFADDR,
    RTNLGRP_IPV6_ROUTE,
    RTNLGRP_IPV6_RULE,
];

const RECEIVE_BUFFER_BYTES: usize = 4 << 20;

const DATAGRAMS_A_POLL: usize = 4096;

const DUMP_ATTEMPTS: usize = 8;
