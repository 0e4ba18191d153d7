//! Acquires before the packet filter (`tun.early_acquire`).
//!
//! With ESP in the kernel a policy is looked for when a packet is routed, so its acquire goes out though a
//! firewall's chain `output` drops the packet a moment later: a trap policy whose firewall opens only once the tunnel
//! is up works. Culvert sees packets behind all chains. So a chain before all others has the kernel
//! tell this daemon of packets that go to the private interface (`nfnetlink_log`): of each destination and protocol
//! one a second. Where a policy wants protection for such a packet and there is no SA, its owner is asked. The packet
//! itself goes on its way: if no chain drops it, it comes to a worker, and waits for the SA as ever.
//!
//! The table only tells. A daemon that was killed leaves it behind, and nobody listens to it; the next start
//! with `tun.early_acquire` replaces it.

use std::io;
use std::os::fd::BorrowedFd;

use dataplane::{PolicySays, Step};
use netlink::attribute::as_be32;
use netlink::netfilter::{self, Nfgenmsg};
use netlink::{Be16, Connection, Heard, Listener, MessageWriter, Protocol};
use policy::Direction;
use tracing::{debug, warn};

use config::Config;

/// The kernel's reports.
pub struct Early {
    table: String,
    socket: Listener,
}

/// A packet that Linux is about to send to the private interface.
#[derive(Debug, PartialEq, Eq)]
pub struct Reported {
    /// Mark of the packet.
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
        self.socket.fd()
    }

    /// Removes the chain.
    pub fn tear_down(self) {
        if let Err(error) = guard::apply(&format!("delete table {}\n", self.table)) {
            debug!(error, "the table of early acquires");
        }
    }

    /// Packets that were reported, at most some of them at a time.
    pub fn reports(&mut self) -> Vec<Reported> {
        let mut reports = Vec::new();
        // Where some were lost, they come again in a second.
        let _ = self.socket.hear(AT_ONCE, |heard| {
            if let Heard::Message(header, body) = heard {
                reports.extend(reported(header.kind, body));
            }
        });
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

/// Reads a report, given its type and what follows its header.
fn reported(kind: u16, body: &[u8]) -> Option<Reported> {
    if kind != netfilter::kind(ULOG, PACKET) {
        return None;
    }
    let (mut mark, mut packet) = (0, None);
    for (kind, value) in netfilter::split(body)?.1 {
        match kind {
            MARK => mark = as_be32(value)?,
            PAYLOAD => packet = Some(value.to_vec()),
            _ => {}
        }
    }
    Some(Reported { mark, packet: packet? })
}

/// A socket that gets what is logged to the group, each packet at once and as a whole.
fn listen() -> io::Result<Listener> {
    let mut netfilter = Connection::open(Protocol::Netfilter)?;
    let mode = [&u32::MAX.to_be_bytes()[..], &[COPY_PACKET, 0]].concat();
    for (attribute, value) in
        [(CFG_CMD, vec![CMD_BIND]), (CFG_MODE, mode), (CFG_QTHRESH, vec![0, 0, 0, 1])]
    {
        let mut request = MessageWriter::request(netfilter::kind(ULOG, CONFIG), 0);
        request.fixed(&Nfgenmsg { resource: Be16(GROUP), ..Nfgenmsg::default() });
        request.attribute(attribute, &value);
        // Reports that come before the answer are lost: their packets come again.
        netfilter.command(request)?;
    }
    netfilter.into_listener()
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
    use netlink::{Field as _, Header, Messages};

    use super::*;

    fn message(kind: u16, attributes: &[(u16, &[u8])]) -> Vec<u8> {
        let mut writer = MessageWriter::new(kind, 0, 0, 0);
        writer.fixed(&Nfgenmsg { family: 2, version: 0, resource: Be16(GROUP) });
        for (kind, value) in attributes {
            writer.attribute(*kind, value);
        }
        writer.finish().to_vec()
    }

    fn read(bytes: &[u8]) -> Vec<Reported> {
        let messages = Messages::new(bytes);
        messages
            .filter_map(|(header, whole)| reported(header.kind, &whole[Header::LEN..]))
            .collect()
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
