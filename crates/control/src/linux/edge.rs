//! Where the control thread meets Linux's tables, the connections that Linux tracks, and interfaces that it makes: netlink
//! and devices in a daemon, memory in tests.

use std::net::IpAddr;
use std::os::fd::BorrowedFd;

use config::{MemifConfig, TunnelConfig};
use conntrack::message::GROUPS;
use io::tun::Tap;
use io::{Port, TunConfig, TunError};
use mirror::{Change, Control, Error, Observer, Route, Rule, Snapshot};
use netlink::{Listener, Protocol};

use crate::clock::Now;

/// Linux's tables as they are told here.
pub trait Tables {
    /// Adds the descriptors of which one is readable when something has changed.
    fn add_fds<'a>(&'a self, fds: &mut Vec<BorrowedFd<'a>>);

    /// True if something may be missing, which the next [`Tables::poll`] tries to read again.
    fn is_stale(&self) -> bool;

    /// State as of the last [`Tables::poll`].
    fn snapshot(&self) -> &Snapshot;

    /// Takes in what has changed.
    ///
    /// # Errors
    /// Changes found before are in the snapshot, and are not reported.
    fn poll(&mut self) -> Result<Vec<Change>, Error>;

    /// Notes that Linux was made to use a neighbour; its entry may have changed by that.
    fn used(&mut self, ifindex: u32, ip: IpAddr) -> Option<Change>;
}

impl Tables for Observer {
    fn add_fds<'a>(&'a self, fds: &mut Vec<BorrowedFd<'a>>) {
        fds.extend(self.fds());
    }

    fn is_stale(&self) -> bool {
        self.is_stale()
    }

    fn snapshot(&self) -> &Snapshot {
        self.snapshot()
    }

    fn poll(&mut self) -> Result<Vec<Change>, Error> {
        self.poll()
    }

    fn used(&mut self, ifindex: u32, ip: IpAddr) -> Option<Change> {
        self.used(ifindex, ip)
    }
}

/// Rules and routes that Linux is told to have.
pub trait Changes {
    /// Adds a rule.
    ///
    /// # Errors
    /// Linux refuses it, `EEXIST` if it has it.
    fn add_rule(&mut self, rule: &Rule) -> Result<(), Error>;

    /// Removes a rule.
    ///
    /// # Errors
    /// Linux refuses it, `ENOENT` if it has none.
    fn delete_rule(&mut self, rule: &Rule) -> Result<(), Error>;

    /// Adds a route, or replaces the one to its destination.
    ///
    /// # Errors
    /// Linux refuses it.
    fn replace_route(&mut self, route: &Route) -> Result<(), Error>;

    /// Removes a route.
    ///
    /// # Errors
    /// Linux refuses it, `ESRCH` if it has none.
    fn delete_route(&mut self, route: &Route) -> Result<(), Error>;

    /// Has Linux resolve or confirm a neighbour.
    ///
    /// # Errors
    /// Linux refuses it.
    fn resolve(&mut self, ifindex: u32, ip: IpAddr) -> Result<(), Error>;
}

impl Changes for Control {
    fn add_rule(&mut self, rule: &Rule) -> Result<(), Error> {
        self.add_rule(rule)
    }

    fn delete_rule(&mut self, rule: &Rule) -> Result<(), Error> {
        self.delete_rule(rule)
    }

    fn replace_route(&mut self, route: &Route) -> Result<(), Error> {
        self.replace_route(route)
    }

    fn delete_route(&mut self, route: &Route) -> Result<(), Error> {
        self.delete_route(route)
    }

    fn resolve(&mut self, ifindex: u32, ip: IpAddr) -> Result<(), Error> {
        self.resolve(ifindex, ip)
    }
}

/// Interfaces that culvert makes.
pub trait OwnInterfaces {
    /// Makes the interface of a tunnel, or takes the one that an earlier run has left; with its index.
    ///
    /// # Errors
    /// Linux refuses it.
    fn open_tunnel(&mut self, config: &TunnelConfig) -> Result<(u32, Box<dyn Port>), TunError>;

    /// Removes the interface of a tunnel that is closed.
    ///
    /// # Errors
    /// Linux refuses it.
    fn remove_tunnel(&mut self, name: &str) -> Result<(), TunError>;

    /// Makes the interface of a memif port, likewise.
    ///
    /// # Errors
    /// Linux refuses it.
    fn open_tap(&mut self, config: &MemifConfig) -> Result<Tap, TunError>;

    /// Removes the interface of a memif port that is closed.
    ///
    /// # Errors
    /// Linux refuses it.
    fn remove_tap(&mut self, name: &str) -> Result<(), TunError>;

    /// A queue of the private interface.
    ///
    /// # Errors
    /// Linux refuses it.
    fn add_private_queue(
        &mut self,
        config: &TunConfig,
        ifindex: u32,
    ) -> Result<Box<dyn Port>, TunError>;
}

/// Connections that Linux tracks.
pub trait Tracking {
    /// A socket that hears of those that come, change and go.
    ///
    /// # Errors
    /// Linux has no connection tracking, or does not let this process hear of it.
    fn events(&mut self) -> std::io::Result<Listener>;

    /// A socket for requests.
    ///
    /// # Errors
    /// Linux has no connection tracking, or opens no more sockets.
    fn requests(&mut self) -> std::io::Result<Listener>;
}

/// Connection tracking of Linux.
pub struct Ctnetlink;

impl Tracking for Ctnetlink {
    fn events(&mut self) -> std::io::Result<Listener> {
        // Without room a burst of new connections is lost.
        Listener::subscribe(Protocol::Netfilter, &GROUPS, Some(EVENTS_BUFFER_LEN))
    }

    fn requests(&mut self) -> std::io::Result<Listener> {
        Listener::open(Protocol::Netfilter)
    }
}

/// Linux's rules of NAT, as far as there are any.
pub trait Rules {
    /// Descriptor that is readable when they have changed, where there is one.
    fn fd(&self) -> Option<BorrowedFd<'_>>;

    /// True for each family, IPv4 and IPv6, that has rules.
    fn families(&self) -> [bool; 2];

    /// Takes over what has changed; true if anything has.
    fn poll(&mut self, now: Now) -> bool;
}

/// Room for events of connections, in bytes.
const EVENTS_BUFFER_LEN: usize = 8 << 20;
