//! Follows a network namespace: a dump, then notifications, and dumps again where those fall short.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;

use netlink::{Connection, Dump, Heard, Listener, MessageWriter, Protocol};

use crate::decode::read;
use crate::error::Error;
use crate::sessions::Sessions;
use crate::snapshot::{Change, Part, Snapshot, Stale};
use crate::uapi::*;

/// Mirrors the network namespace of the thread that makes it.
///
/// One thread uses it: it waits for one of [`fds`](Observer::fds) to become readable and calls
/// [`poll`](Observer::poll). Calling `poll` every few seconds besides makes up for a dump that
/// kept being overtaken by changes.
pub struct Observer {
    events: Listener,
    requests: Connection,
    /// None where Linux has no generic netlink.
    sessions: Option<Sessions>,
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
        let mut observer = Observer {
            events: Listener::subscribe(Protocol::Route, &GROUPS, Some(bytes))?,
            requests: Connection::open(Protocol::Route)?,
            sessions: Sessions::open().ok(),
            snapshot: Snapshot::default(),
            stale: Stale::all(),
        };
        observer.poll()?;
        Ok(observer)
    }

    /// One of them is readable when there is something to [`poll`](Observer::poll) for.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.sessions.iter().map(Sessions::fd).chain([self.events.fd()])
    }

    /// True if changes overtook a dump each time it was tried, so that something may be missing.
    /// [`poll`](Observer::poll) tries again, and should be called soon.
    pub fn is_stale(&self) -> bool {
        Part::ALL.into_iter().any(|part| self.stale.contains(part))
    }

    /// State of Linux, as of the last [`poll`](Observer::poll).
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
                self.read_again(part, &mut changes)?;
            }
        }
        Ok(changes)
    }

    /// Applies the notifications that are there.
    fn drain(&mut self, changes: &mut Vec<Change>) -> Result<(), Error> {
        self.events.hear(DATAGRAMS_A_POLL, |heard| match heard {
            Heard::Message(header, body) => {
                self.snapshot.apply(read(&header, body), changes, &mut self.stale);
            }
            Heard::Lost => {
                tracing::info!("netlink notifications were lost; reading the state again");
                self.stale = Stale::all();
            }
        })?;
        if self.sessions.as_mut().is_some_and(Sessions::have_changed) {
            self.stale.mark(Part::Sessions);
        }
        Ok(())
    }

    /// Dumps a part and takes over the differences.
    ///
    /// Notifications that arrive meanwhile are applied by the next call: a dump may be ahead of
    /// them, but the last word about each thing is the same.
    fn read_again(&mut self, part: Part, changes: &mut Vec<Change>) -> Result<(), Error> {
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
            Part::Forwarding => (
                "list forwarding entries",
                RTM_GETNEIGH,
                &[AF_BRIDGE, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            ),
            Part::Sessions => {
                self.read_sessions(changes);
                return Ok(());
            }
        };
        let mut dump = Vec::new();
        for _ in 0..DUMP_ATTEMPTS {
            dump.clear();
            let mut request = MessageWriter::request(kind, 0);
            request.raw(header);
            let result = self.requests.dump(request, |header, body| dump.push(read(header, body)));
            if result.map_err(|fault| Error::of(what, fault))? == Dump::Whole {
                self.stale.clear(part);
                break;
            }
        }
        // Where every attempt was overtaken, the last is as good as any, and the part stays stale.
        self.snapshot.replace(part, dump, changes);
        Ok(())
    }

    /// Reads all sessions of L2TP. Those that there were stay where they cannot be read, and the part stays stale.
    fn read_sessions(&mut self, changes: &mut Vec<Change>) {
        let read = self.sessions.as_mut().map(Sessions::read).transpose();
        match read {
            Ok(read) => {
                let (sessions, dump) = read.unwrap_or((BTreeMap::new(), Dump::Whole));
                self.snapshot.replace_sessions(sessions, changes);
                if dump == Dump::Whole {
                    self.stale.clear(Part::Sessions);
                }
            }
            Err(fault) => tracing::warn!(%fault, "L2TP sessions cannot be read; asking again"),
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overlay::{Overlay, OverlayKind};

    #[test]
    fn sessions_that_cannot_be_read_stay_and_are_asked_for_again() {
        let mut observer = Observer::new().expect("a mirror");
        let known = [("l2tpeth0".to_owned(), Overlay::new(OverlayKind::L2tp))];
        observer.snapshot.replace_sessions(known.into(), &mut Vec::new());
        let before = observer.snapshot.clone();
        observer.sessions.as_mut().expect("generic netlink").have_refused();
        observer.stale.mark(Part::Sessions);
        observer.read_again(Part::Sessions, &mut Vec::new()).expect("nothing else is wrong");
        assert!(observer.is_stale(), "nobody tells again");
        assert!(observer.snapshot == before, "there may be sessions");
        observer.read_again(Part::Sessions, &mut Vec::new()).expect("nothing else is wrong");
        assert!(!observer.is_stale());
        assert!(observer.snapshot != before, "this network namespace has none");
    }
}
