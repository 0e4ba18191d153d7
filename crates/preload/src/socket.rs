//! One socket: what has to be remembered so that a new connection can stand in for an old one.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::flight::Flight;
use crate::shim_protocol::{MAGIC, Record};

/// Other end of the socket's descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    /// A connection to the server.
    Up,
    /// One end of a socket pair; the library holds the other one, `waker`.
    Parked {
        /// The library's descriptor.
        waker: i32,
        /// A connection that the server has been greeted on and has not answered yet.
        fresh: Option<i32>,
        /// Time at which the server went away.
        since: Instant,
    },
}

/// An `epoll` registration of one of the socket's descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Registration {
    /// The epoll descriptor.
    pub(crate) epoll: i32,
    /// The socket's descriptor.
    pub(crate) fd: i32,
    /// Events that are watched (`epoll_event.events`).
    pub(crate) events: u32,
    /// The program's own word (`epoll_event.data`).
    pub(crate) data: u64,
}

/// A socket that the program takes for a NETLINK_XFRM socket.
pub(crate) struct Socket {
    /// SOCK_RAW or SOCK_DGRAM, as the program asked.
    pub(crate) kind: i32,
    /// The inode of what is behind the descriptors: tells whether they still are ours.
    pub(crate) inode: u64,
    pub(crate) link: Link,
    /// `nl_pid`; `None` until bound, by the program or on first use.
    pub(crate) port_id: Option<u32>,
    /// The multicast groups joined; bit 0 is group 1.
    pub(crate) groups: u32,
    /// The `SOL_NETLINK` options that are on, by number.
    pub(crate) options: u32,
    /// Requests without an answer.
    pub(crate) flight: Flight,
    /// Datagrams made up here, to be received before anything else.
    pub(crate) made_up: VecDeque<Vec<u8>>,
    /// The next receive call returns ENOBUFS.
    pub(crate) overrun: bool,
    /// The number of the last request for synchronisation that the server answered.
    pub(crate) synchronised: u32,
    pub(crate) registrations: Vec<Registration>,
    retry: Backoff,
}

/// The highest group number; XFRM has 8 of them.
pub(crate) const MAX_GROUP: u32 = 32;

/// `NETLINK_NO_ENOBUFS` of linux/netlink.h.
pub(crate) const NO_ENOBUFS: u32 = 5;

impl Socket {
    /// A new socket, connected.
    pub(crate) fn new(kind: i32, inode: u64) -> Socket {
        Socket {
            kind,
            inode,
            link: Link::Up,
            port_id: None,
            groups: 0,
            options: 0,
            flight: Flight::default(),
            made_up: VecDeque::new(),
            overrun: false,
            synchronised: 0,
            registrations: Vec::new(),
            retry: Backoff::default(),
        }
    }

    /// The control datagram that makes a new connection this socket: everything that is set, and
    /// a request for an answer, which wakes a program that polls. `None` if not bound yet.
    pub(crate) fn introduction(&self, sync: u32) -> Option<Vec<u8>> {
        let port_id = self.port_id?;
        let mut records = vec![Record::Hello { port_id }, Record::Groups { mask: self.groups }];
        let options = (0..u32::BITS).filter(|o| self.options & 1 << o != 0);
        records.extend(options.map(|option| Record::OptionOn { option }));
        records.push(Record::Sync { value: sync });
        Some(control(&records))
    }

    /// Switches an option.
    pub(crate) fn set_option(&mut self, option: u32, on: bool) {
        let bit = 1u32.checked_shl(option).unwrap_or(0);
        self.options = if on { self.options | bit } else { self.options & !bit };
    }

    /// True if an option is on.
    pub(crate) fn option(&self, option: u32) -> bool {
        self.options & 1u32.checked_shl(option).unwrap_or(0) != 0
    }

    /// Messages for this socket were lost.
    pub(crate) fn note_overrun(&mut self) {
        self.overrun = !self.option(NO_ENOBUFS);
    }

    /// True if it is time to try to connect. Notes the attempt.
    pub(crate) fn may_retry(&mut self, now: Instant) -> bool {
        self.retry.due(now)
    }

    /// The server spoke: the next lost connection is tried again at once.
    pub(crate) fn server_spoke(&mut self) {
        self.retry = Backoff::default();
    }
}

/// A control datagram of these records.
pub(crate) fn control(records: &[Record]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    records.iter().for_each(|r| bytes.extend(r.to_bytes()));
    bytes
}

/// Doubling pauses between attempts, also when each attempt succeeds and then breaks.
#[derive(Debug, Default)]
struct Backoff {
    last: Option<Instant>,
    pause: Duration,
}

impl Backoff {
    const FIRST: Duration = Duration::from_millis(5);
    const LONGEST: Duration = Duration::from_millis(320);

    fn due(&mut self, now: Instant) -> bool {
        if self.last.is_some_and(|last| now.saturating_duration_since(last) < self.pause) {
            return false;
        }
        self.last = Some(now);
        self.pause = (self.pause * 2).clamp(Self::FIRST, Self::LONGEST);
        true
    }
}

/// A port id for a new socket of process `pid`: its number if that is free, as the kernel does it,
/// else one that no process has for a number.
pub(crate) fn choose_port_id(pid: u32, taken: impl Fn(u32) -> bool) -> u32 {
    // Process numbers have 22 bits at most; the top bit keeps the rest apart from them.
    let others = (0..512).map(|n| 1 << 31 | n << 22 | (pid & 0x003f_ffff));
    std::iter::once(pid).chain(others).find(|id| !taken(*id)).unwrap_or(pid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shim_protocol::records;

    #[test]
    fn an_introduction_says_all_that_is_set() {
        let mut s = Socket::new(libc::SOCK_RAW, 1);
        assert_eq!(s.introduction(1), None);
        s.port_id = Some(4711);
        s.groups = 0b1011;
        s.set_option(11, true);
        s.set_option(10, true);
        s.set_option(10, false);
        s.set_option(99, true);
        let want = [
            Record::Hello { port_id: 4711 },
            Record::Groups { mask: 0b1011 },
            Record::OptionOn { option: 11 },
            Record::Sync { value: 3 },
        ];
        let bytes = s.introduction(3).unwrap();
        assert_eq!(records(&bytes).unwrap().collect::<Vec<_>>(), want);
        assert!(s.option(11) && !s.option(10) && !s.option(99));
    }

    #[test]
    fn port_ids_are_the_process_number_first_and_never_twice() {
        let mut taken = Vec::new();
        for _ in 0..400 {
            let id = choose_port_id(1234, |id| taken.contains(&id));
            assert!(!taken.contains(&id));
            taken.push(id);
        }
        assert_eq!(taken[0], 1234);
        assert!(taken[1..].iter().all(|id| *id > 1 << 31));
    }

    #[test]
    fn attempts_slow_down_until_the_server_speaks() {
        let mut s = Socket::new(libc::SOCK_RAW, 1);
        let start = Instant::now();
        let attempts = |s: &mut Socket| {
            (0..1000).filter(|ms| s.may_retry(start + Duration::from_millis(*ms))).count()
        };
        let slow = attempts(&mut s);
        assert!((5..12).contains(&slow), "{slow}");
        assert!(!s.may_retry(start + Duration::from_millis(1001)));
        s.server_spoke();
        assert!(s.may_retry(start + Duration::from_millis(1001)));
    }

    #[test]
    fn no_enobufs_is_honoured() {
        let mut s = Socket::new(libc::SOCK_RAW, 1);
        s.set_option(NO_ENOBUFS, true);
        s.note_overrun();
        assert!(!s.overrun);
        s.set_option(NO_ENOBUFS, false);
        s.note_overrun();
        assert!(s.overrun);
    }
}
