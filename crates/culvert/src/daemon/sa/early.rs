//! Acquires before the packet filter (`tun.early_acquire`).
//!
//! With ESP in the kernel a policy is looked for when a packet is routed, so its acquire goes out though a
//! firewall's chain `output` drops the packet a moment later: a trap policy whose firewall opens only once the tunnel
//! is up works. Culvert sees packets behind all chains. So a chain before all others has the kernel
//! tell this daemon of packets that go to the private interface (`nfnetlink_log`): of each destination and protocol
//! one a second. Where a policy wants protection for such a packet and there is no SA, its owner is asked. The packet
//! itself goes on its way: if no chain drops it, it comes to a worker, and waits for the SA as ever.
//!
//! What the table does is tell. A daemon that was killed leaves it behind, and nobody listens to it; the next start
//! with `tun.early_acquire` replaces it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use dataplane::{PolicySays, Step};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_NETFILTER};
use policy::Direction;
use tracing::{debug, warn};
use xfrm::codec::{Field as _, Header, MessageWriter, Messages, flag, kind};

use crate::config::Config;
use crate::daemon::nfnetlink::{number, split, walk};

/// The kernel's reports.
pub struct Early {
    table: String,
    socket: Socket,
}

/// A packet that Linux is about to send to the private interface.
#[derive(Debug, PartialEq, Eq)]
pub struct Reported {
    /// Its mark.
    pub mark: u32,
    /// From its IP header on.
    pub packet: Vec<u8>,
}

impl Early {
    /// Installs the chain, and listens.
    ///
    /// # Errors
    /// Why not, and what then: a text for the operator.
    pub fn set_up(config: &Config) -> Result<Early, String> {
        let table = format!("inet culvert-early-{}", config.name);
        let socket = listen().map_err(|error| trouble(&format!("nfnetlink_log: {error}")))?;
        guard::apply(&ruleset(&table, &config.tun.interface)).map_err(|e| trouble(&e))?;
        Ok(Early { table, socket })
    }

    /// Readable when there are reports.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Removes the chain.
    pub fn tear_down(self) {
        if let Err(error) = guard::apply(&format!("delete table {}\n", self.table)) {
            debug!(error, "the table of early acquires");
        }
    }

    /// What was reported, at most some of it at a time.
    pub fn reports(&mut self) -> Vec<Reported> {
        let mut reports = Vec::new();
        while reports.len() < AT_ONCE {
            match self.socket.recv_from_full() {
                Ok((told, _)) => reports.extend(Messages::new(&told).filter_map(reported)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Nothing more; or some were lost, as is told with `ENOBUFS`: they come again in a second.
                Err(_) => break,
            }
        }
        reports
    }
}

/// The policy that wants protection and has no SA, if a step of what would be done with a packet says so.
pub fn wanting(step: &Step) -> Option<u32> {
    match step {
        Step::Policy { direction: Direction::Out, index, says: PolicySays::NoSa, .. } => *index,
        _ => None,
    }
}

/// Reads a report, given its header and the whole message.
fn reported((header, message): (Header, &[u8])) -> Option<Reported> {
    if header.kind != ULOG << 8 | PACKET {
        return None;
    }
    let (_, attributes) = split(message.get(Header::LEN..)?)?;
    let (mut mark, mut packet) = (0, None);
    for (kind, value) in walk(attributes) {
        match kind {
            MARK => mark = number(value)?,
            PAYLOAD => packet = Some(value.to_vec()),
            _ => {}
        }
    }
    Some(Reported { mark, packet: packet? })
}

/// A socket that gets what is logged to the group, each packet at once and as a whole.
fn listen() -> io::Result<Socket> {
    let mut socket = Socket::new(NETLINK_NETFILTER)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    let [high, low] = GROUP.to_be_bytes();
    let mode = [&u32::MAX.to_be_bytes()[..], &[COPY_PACKET, 0]].concat();
    for (n, (attribute, value)) in
        (1..).zip([(CFG_CMD, vec![CMD_BIND]), (CFG_MODE, mode), (CFG_QTHRESH, vec![0, 0, 0, 1])])
    {
        let flags = flag::REQUEST | flag::ACK;
        let mut writer = MessageWriter::new(ULOG << 8 | CONFIG, flags, n, 0);
        // nfgenmsg: family, version, resource.
        writer.fixed(&u32::from_ne_bytes([0, 0, high, low])).attribute(attribute, &value);
        socket.send(&writer.finish(), 0)?;
        acknowledged(&socket, n)?;
    }
    socket.set_non_blocking(true)?;
    Ok(socket)
}

/// Waits for the answer to a request. Reports may come before it: their packets come again.
fn acknowledged(socket: &Socket, number: u32) -> io::Result<()> {
    loop {
        let (answer, _) = socket.recv_from_full()?;
        for (header, message) in Messages::new(&answer) {
            if header.kind == kind::ERROR && header.seq == number {
                let errno = message.get(Header::LEN..).and_then(|rest| rest.first_chunk());
                return match errno.map(|bytes| i32::from_ne_bytes(*bytes)) {
                    Some(0) => Ok(()),
                    Some(errno) => Err(io::Error::from_raw_os_error(-errno)),
                    None => Err(io::ErrorKind::InvalidData.into()),
                };
            }
        }
    }
}

/// The chain, in place of one that an earlier run has left. A destination that is in its set was told of.
fn ruleset(table: &str, private: &str) -> String {
    let set = |name: &str, family: &str| {
        format!(
            "  set {name} {{ typeof {family} daddr . meta l4proto; flags dynamic,timeout; \
             timeout {AGAIN_S}s; size {MOST_KNOWN}; }}\n"
        )
    };
    let rules = |name: &str, family: &str| {
        format!(
            "    {family} daddr . meta l4proto @{name} accept\n    \
             add @{name} {{ {family} daddr . meta l4proto }} log group {GROUP} accept\n"
        )
    };
    format!(
        "table {table} {{}}\ndelete table {table}\ntable {table} {{\n{}{}  chain local {{\n    \
         type filter hook output priority raw; policy accept;\n    oifname != \"{private}\" accept\n{}{}  }}\n}}\n",
        set("known4", "ip"),
        set("known6", "ip6"),
        rules("known4", "ip"),
        rules("known6", "ip6"),
    )
}

fn trouble(why: &str) -> String {
    let text = format!(
        "tun.early_acquire: {why}; packets that a firewall drops in OUTPUT raise no acquire"
    );
    warn!("{text}");
    text
}

/// The group that the chain logs to.
const GROUP: u16 = 219;
/// A destination is told of again after so many seconds.
const AGAIN_S: u32 = 1;
/// So many destinations are told of within that time.
const MOST_KNOWN: u32 = 4096;
/// Most reports that one round works on.
const AT_ONCE: usize = 16;

/// `NFNL_SUBSYS_ULOG`, its messages, their attributes and values.
const ULOG: u16 = 4;
const PACKET: u16 = 0;
const CONFIG: u16 = 1;
const MARK: u16 = 2;
const PAYLOAD: u16 = 9;
const CFG_CMD: u16 = 1;
const CFG_MODE: u16 = 2;
const CFG_QTHRESH: u16 = 5;
const CMD_BIND: u8 = 1;
const COPY_PACKET: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, attributes: &[(u16, &[u8])]) -> Vec<u8> {
        let mut writer = MessageWriter::new(kind, 0, 0, 0);
        writer.fixed(&u32::from_ne_bytes([2, 0, 0, 219]));
        for (kind, value) in attributes {
            writer.attribute(*kind, value);
        }
        writer.finish().to_vec()
    }

    fn read(bytes: &[u8]) -> Vec<Reported> {
        Messages::new(bytes).filter_map(reported).collect()
    }

    #[test]
    fn a_report_has_packet_and_mark() {
        let whole =
            message(ULOG << 8, &[(1, &[0; 4]), (MARK, &[0, 0, 0, 7]), (PAYLOAD, &[0x45; 21])]);
        assert_eq!(read(&whole), [Reported { mark: 7, packet: vec![0x45; 21] }]);
        let unmarked = message(ULOG << 8, &[(PAYLOAD, &[0x60])]);
        assert_eq!(read(&unmarked), [Reported { mark: 0, packet: vec![0x60] }]);
        // Without a packet, of another kind, and cut short anywhere.
        assert_eq!(read(&message(ULOG << 8, &[(MARK, &[0, 0, 0, 7])])), []);
        assert_eq!(read(&message(ULOG << 8 | CONFIG, &[(PAYLOAD, &[0x45])])), []);
        for len in 0..whole.len() {
            read(&whole[..len]);
        }
        assert_eq!(read(&message(ULOG << 8, &[(MARK, &[7]), (PAYLOAD, &[0x45])])), []);
    }

    #[test]
    fn only_what_asks_in_vain_is_asked_for() {
        let step = |direction, says| Step::Policy {
            direction,
            marks: policy::Marks::default(),
            index: Some(9),
            says,
        };
        assert_eq!(wanting(&step(Direction::Out, PolicySays::NoSa)), Some(9));
        assert_eq!(wanting(&step(Direction::Out, PolicySays::Protect)), None);
        assert_eq!(wanting(&step(Direction::In, PolicySays::NoSa)), None);
        assert_eq!(wanting(&Step::Exempt), None);
    }
}
