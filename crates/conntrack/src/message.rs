//! ctnetlink: what `NETLINK_NETFILTER` says of connections, and what it is told (`nfnetlink_conntrack.h`).
//!
//! ```text
//!   nlmsghdr | nfgenmsg: family, version, resource | attributes
//! ```
//!
//! Values are in network byte order, headers in the machine's ([`netlink`]).

use core::net::IpAddr;

use netlink::attribute::{as_be16 as be16, as_be32 as be32, as_ip as addr};
use netlink::netfilter::{self, Nfgenmsg};
use netlink::{Attributes, Field as _, Header, Message, MessageWriter, Messages, flag};
use wire::protocol;

use crate::entry::{Entry, Status, TcpState};
use crate::tuple::{Direction, Tuple};

/// Event of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A connection is there, and is like this.
    Is(Entry),
    /// A connection is gone.
    Gone {
        /// Tuple of its first direction.
        original: Tuple,
        /// Which of those that had these tuples.
        id: u32,
    },
}

/// The events of a datagram, in order; what is of another kind or unsound is left out.
pub fn events(bytes: &[u8]) -> impl Iterator<Item = Event> {
    let messages = Messages::new(bytes);
    messages.filter_map(|(header, whole)| event(header.kind, whole.get(Header::LEN..)?))
}

/// The event of a message, by its type and the bytes behind its header; `None` if it is of another kind or
/// unsound.
pub fn event(kind: u16, message: &[u8]) -> Option<Event> {
    if kind == netfilter::kind(CTNETLINK, NEW) {
        return Some(Event::Is(entry(message)?));
    }
    if kind == netfilter::kind(CTNETLINK, DELETE) {
        let Entry { original, id, zone: 0, .. } = entry(message)? else { return None };
        return Some(Event::Gone { original, id });
    }
    None
}

/// A connection, from `nfgenmsg` on.
fn entry(message: &[u8]) -> Option<Entry> {
    let (mut original, mut reply, mut status, mut tcp) = (None, None, Status::default(), None);
    let (mut id, mut zone) = (0, 0);
    for (kind, value) in netfilter::split(message)?.1 {
        match kind {
            TUPLE_ORIGINAL => original = Some(tuple(value, &mut zone)?),
            TUPLE_REPLY => reply = Some(tuple(value, &mut zone)?),
            STATUS => status = Status(be32(value)?),
            PROTOINFO => tcp = tcp_state(value),
            ID => id = be32(value)?,
            ZONE => zone = be16(value)?,
            _ => {}
        }
    }
    let (original, reply) = (original?, reply?);
    let is_one =
        original.protocol == reply.protocol && original.src.is_ipv4() == reply.src.is_ipv4();
    is_one.then_some(Entry { original, reply, status, tcp, id, zone })
}

/// A tuple; a zone of one direction counts as that of both.
fn tuple(bytes: &[u8], zone: &mut u16) -> Option<Tuple> {
    let (mut src, mut dst) = (None, None);
    let (mut number, mut ports, mut icmp) = (0, (0, 0), (0, 0, 0));
    for (kind, value) in Attributes::new(bytes) {
        match kind {
            TUPLE_IP => {
                for (kind, value) in Attributes::new(value) {
                    match kind {
                        IP_V4_SRC | IP_V6_SRC => src = addr(value),
                        IP_V4_DST | IP_V6_DST => dst = addr(value),
                        _ => {}
                    }
                }
            }
            TUPLE_PROTO => {
                for (kind, value) in Attributes::new(value) {
                    match kind {
                        PROTO_NUM => number = *value.first()?,
                        PROTO_SRC_PORT => ports.0 = be16(value)?,
                        PROTO_DST_PORT => ports.1 = be16(value)?,
                        PROTO_ICMP_ID | PROTO_ICMPV6_ID => icmp.0 = be16(value)?,
                        PROTO_ICMP_TYPE | PROTO_ICMPV6_TYPE => icmp.1 = *value.first()?,
                        PROTO_ICMP_CODE | PROTO_ICMPV6_CODE => icmp.2 = *value.first()?,
                        _ => {}
                    }
                }
            }
            TUPLE_ZONE => *zone = be16(value)?,
            _ => {}
        }
    }
    let (src, dst): (IpAddr, IpAddr) = (src?, dst?);
    let (src_port, dst_port) = match protocol::is_icmp(number) {
        true => (icmp.0, u16::from_be_bytes([icmp.1, icmp.2])),
        false => ports,
    };
    let tuple = Tuple { src, dst, protocol: number, src_port, dst_port };
    (src.is_ipv4() == dst.is_ipv4()).then_some(tuple)
}

fn tcp_state(bytes: &[u8]) -> Option<TcpState> {
    let state = Attributes::new(bytes).within(PROTOINFO_TCP).find(TCP_STATE)?;
    Some(TcpState(*state.first()?))
}

/// The multicast groups of connections that come, change and go (`NFNLGRP_CONNTRACK_*`).
pub const GROUPS: [u32; 3] = [1, 2, 3];

/// Asks for all connections of both families.
pub fn dump() -> Message {
    ask(GET, flag::DUMP).finish()
}

/// A question about connections of all families.
pub(crate) fn ask(what: u16, flags: u16) -> MessageWriter {
    let mut request = MessageWriter::request(netfilter::kind(CTNETLINK, what), flags);
    request.fixed(&Nfgenmsg::default());
    request
}

/// Appends an update: the connection is kept for `timeout_s` more seconds, and has these bits set as well.
pub fn refresh(entry: &Entry, timeout_s: u32, set: Status, to: &mut Vec<u8>) {
    let mut writer = update(entry, to);
    writer.attribute(TIMEOUT, &timeout_s.to_be_bytes());
    if !entry.status.has(set) {
        writer.attribute(STATUS, &entry.status.with(set).0.to_be_bytes());
    }
    writer.end();
}

/// Appends an update: TCP's windows are not compared any more. Linux does not see the packets that move them, and
/// would take what ends the connection for a stranger's.
pub fn be_liberal(entry: &Entry, to: &mut Vec<u8>) {
    let mut writer = update(entry, to);
    writer.nested(PROTOINFO, |info| {
        info.nested(PROTOINFO_TCP, |tcp| {
            // struct nf_ct_tcp_flags: flags, mask.
            for side in [TCP_FLAGS_ORIGINAL, TCP_FLAGS_REPLY] {
                tcp.attribute(side, &[TCP_BE_LIBERAL, TCP_BE_LIBERAL]);
            }
        });
    });
    writer.end();
}

/// An update of a connection, which is not made if it is not there.
fn update<'b>(entry: &Entry, to: &'b mut Vec<u8>) -> Writer<'b> {
    let Entry { original, .. } = entry;
    let family = if original.src.is_ipv4() { AF_INET } else { AF_INET6 };
    let mut writer = MessageWriter::append(to, netfilter::kind(CTNETLINK, NEW), 0);
    writer.fixed(&Nfgenmsg::of(family));
    put_tuple(&mut writer, TUPLE_ORIGINAL, original);
    writer
}

fn put_tuple(writer: &mut Writer<'_>, direction: u16, tuple: &Tuple) {
    writer.nested(direction, |writer| {
        writer.nested(TUPLE_IP, |ip| match (tuple.src, tuple.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                ip.attribute(IP_V4_SRC, &src.octets()).attribute(IP_V4_DST, &dst.octets());
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                ip.attribute(IP_V6_SRC, &src.octets()).attribute(IP_V6_DST, &dst.octets());
            }
            // No tuple is of two families.
            _ => {}
        });
        writer.nested(TUPLE_PROTO, |protocol| {
            protocol.attribute(PROTO_NUM, &[tuple.protocol]);
            let [kind, code] = tuple.dst_port.to_be_bytes();
            let id = tuple.src_port.to_be_bytes();
            match tuple.protocol {
                protocol::ICMP => protocol
                    .attribute(PROTO_ICMP_ID, &id)
                    .attribute(PROTO_ICMP_TYPE, &[kind])
                    .attribute(PROTO_ICMP_CODE, &[code]),
                protocol::ICMPV6 => protocol
                    .attribute(PROTO_ICMPV6_ID, &id)
                    .attribute(PROTO_ICMPV6_TYPE, &[kind])
                    .attribute(PROTO_ICMPV6_CODE, &[code]),
                _ => protocol
                    .attribute(PROTO_SRC_PORT, &id)
                    .attribute(PROTO_DST_PORT, &tuple.dst_port.to_be_bytes()),
            };
        });
    });
}

/// Updates are written one behind the other, many to a datagram.
type Writer<'b> = MessageWriter<&'b mut Vec<u8>>;

impl Entry {
    /// Which direction packets of a tuple go in.
    pub fn direction(&self, tuple: &Tuple) -> Option<Direction> {
        match tuple {
            _ if *tuple == self.original => Some(Direction::Original),
            _ if *tuple == self.reply => Some(Direction::Reply),
            _ => None,
        }
    }
}

const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;

/// `NFNL_SUBSYS_CTNETLINK` and `IPCTNL_MSG_CT_*`.
const CTNETLINK: u16 = 1;
const NEW: u16 = 0;
const GET: u16 = 1;
const DELETE: u16 = 2;

/// Attributes of an entry (`CTA_*`).
const TUPLE_ORIGINAL: u16 = 1;
const TUPLE_REPLY: u16 = 2;
const STATUS: u16 = 3;
const PROTOINFO: u16 = 4;
const TIMEOUT: u16 = 7;
const ID: u16 = 12;
const ZONE: u16 = 18;
const TUPLE_IP: u16 = 1;
const TUPLE_PROTO: u16 = 2;
const TUPLE_ZONE: u16 = 3;
const IP_V4_SRC: u16 = 1;
const IP_V4_DST: u16 = 2;
const IP_V6_SRC: u16 = 3;
const IP_V6_DST: u16 = 4;
const PROTO_NUM: u16 = 1;
const PROTO_SRC_PORT: u16 = 2;
const PROTO_DST_PORT: u16 = 3;
const PROTO_ICMP_ID: u16 = 4;
const PROTO_ICMP_TYPE: u16 = 5;
const PROTO_ICMP_CODE: u16 = 6;
const PROTO_ICMPV6_ID: u16 = 7;
const PROTO_ICMPV6_TYPE: u16 = 8;
const PROTO_ICMPV6_CODE: u16 = 9;
const PROTOINFO_TCP: u16 = 1;
const TCP_STATE: u16 = 1;
const TCP_FLAGS_ORIGINAL: u16 = 4;
const TCP_FLAGS_REPLY: u16 = 5;
/// Linux does not check the window (`IP_CT_TCP_FLAG_BE_LIBERAL`).
const TCP_BE_LIBERAL: u8 = 8;

/// A request to the kernel.
#[cfg(any(test, feature = "memory"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// All connections ([`dump`]).
    Dump,
    /// An update of a connection ([`refresh`], [`be_liberal`]).
    Update {
        /// Tuple of its first direction.
        original: Tuple,
        /// How long it is kept from now on, in seconds.
        timeout_s: Option<u32>,
    },
}

/// A request as the kernel reads it, by its type and the bytes behind its header.
#[cfg(any(test, feature = "memory"))]
pub fn asked(kind: u16, message: &[u8]) -> Option<Asked> {
    if kind == netfilter::kind(CTNETLINK, GET) {
        return Some(Asked::Dump);
    }
    let attributes = netfilter::split(message)?.1;
    let (mut original, mut timeout_s) = (None, None);
    for (kind, value) in attributes {
        match kind {
            TUPLE_ORIGINAL => original = Some(tuple(value, &mut 0)?),
            TIMEOUT => timeout_s = Some(be32(value)?),
            _ => {}
        }
    }
    let is_update = kind == netfilter::kind(CTNETLINK, NEW);
    original.filter(|_| is_update).map(|original| Asked::Update { original, timeout_s })
}

/// A connection as the kernel tells of it: that it is there, or that it has gone.
#[cfg(any(test, feature = "memory"))]
pub fn told(entry: &Entry, is_gone: bool) -> Vec<u8> {
    let (what, mut bytes) = (if is_gone { DELETE } else { NEW }, Vec::new());
    let mut writer = MessageWriter::append(&mut bytes, netfilter::kind(CTNETLINK, what), 0);
    writer.fixed(&Nfgenmsg::of(AF_INET));
    put_tuple(&mut writer, TUPLE_ORIGINAL, &entry.original);
    put_tuple(&mut writer, TUPLE_REPLY, &entry.reply);
    writer.attribute(STATUS, &entry.status.0.to_be_bytes());
    if let Some(TcpState(state)) = entry.tcp {
        writer.nested(PROTOINFO, |info| {
            info.nested(PROTOINFO_TCP, |tcp| {
                tcp.attribute(TCP_STATE, &[state]);
            });
        });
    }
    writer.attribute(ID, &entry.id.to_be_bytes());
    if entry.zone != 0 {
        writer.attribute(ZONE, &entry.zone.to_be_bytes());
    }
    writer.end();
    bytes
}

#[cfg(test)]
mod tests {
    use netlink::kind;
    use proptest::prelude::*;

    use super::*;

    fn sample(protocol: u8, v6: bool) -> Entry {
        let addr = |n: u8| match v6 {
            false => IpAddr::from([10, 0, 0, n]),
            true => IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, u16::from(n)]),
        };
        let tuple = |src, dst, src_port, dst_port| Tuple { src, dst, protocol, src_port, dst_port };
        let (original, reply) = match protocol::is_icmp(protocol) {
            true => (tuple(addr(1), addr(2), 7, 0x0800), tuple(addr(2), addr(3), 9, 0)),
            false => (tuple(addr(1), addr(2), 1000, 53), tuple(addr(2), addr(3), 53, 2000)),
        };
        Entry {
            original,
            reply,
            status: Status(0x188),
            tcp: (protocol == 6).then_some(TcpState(3)),
            id: 0xdead_beef,
            zone: 0,
        }
    }

    #[test]
    fn what_is_told_is_read() {
        for (protocol, v6) in
            [(17, false), (6, false), (1, false), (17, true), (6, true), (58, true)]
        {
            let entry = sample(protocol, v6);
            let bytes = [told(&entry, false), told(&entry, true)].concat();
            let all: Vec<Event> = events(&bytes).collect();
            let gone = Event::Gone { original: entry.original, id: entry.id };
            assert_eq!(all, [Event::Is(entry), gone]);
            // Cut short anywhere it is borne.
            for len in 0..bytes.len() {
                events(&bytes[..len]).for_each(drop);
            }
        }
        let zoned = Entry { zone: 5, ..sample(17, false) };
        assert_eq!(events(&told(&zoned, false)).next(), Some(Event::Is(zoned)));
        assert_eq!(events(&told(&zoned, true)).next(), None);
    }

    /// A kernel told this, of connections over the loopback: UDP that is translated, TCP that is redirected, pings.
    #[test]
    fn what_a_kernel_told_is_read() {
        let dump = include_bytes!("../../../fuzz/corpus/fuzz_conntrack/dump");
        assert!(Messages::new(dump).last().is_some_and(|(end, _)| end.kind == kind::DONE));
        let dump: Vec<_> = events(dump).collect();
        let entry = |found: &dyn Fn(&Entry) -> bool| {
            dump.iter().find_map(|event| match event {
                Event::Is(entry) if found(entry) => Some(*entry),
                _ => None,
            })
        };
        let udp = entry(&|e| e.original.protocol == protocol::UDP).expect("UDP");
        assert_eq!((udp.original.dst_port, udp.reply.src_port), (9, 9));
        assert_eq!(udp.original.src, IpAddr::from([127, 0, 0, 1]));
        assert_eq!(udp.reply.dst, IpAddr::from([127, 0, 0, 2]));
        assert!(udp.status.has(Status::CONFIRMED) && udp.id != 0);
        let ping = entry(&|e| e.original.protocol == protocol::ICMP).expect("a ping");
        assert_eq!((ping.original.dst_port, ping.reply.dst_port), (0x0800, 0));
        assert_eq!(ping.original.src_port, ping.reply.src_port);
        let ping = entry(&|e| e.original.protocol == protocol::ICMPV6).expect("a ping");
        assert_eq!((ping.original.dst_port, ping.reply.dst_port), (128 << 8, 129 << 8));
        let told = include_bytes!("../../../fuzz/corpus/fuzz_conntrack/events");
        let told: Vec<_> = events(told).collect();
        let is_open = |event: &Event| match event {
            Event::Is(entry) => {
                entry.tcp == Some(TcpState::ESTABLISHED)
                    && entry.carried() == (true, true)
                    && (entry.original.dst_port, entry.reply.src_port) == (81, 80)
            }
            _ => false,
        };
        assert!(told.iter().any(is_open), "{told:?}");
        assert!(told.iter().any(|event| matches!(event, Event::Gone { .. })));
    }

    #[test]
    fn updates_name_the_connection() {
        let entry = sample(6, false);
        let mut bytes = Vec::new();
        refresh(&entry, 120, Status::ASSURED, &mut bytes);
        be_liberal(&entry, &mut bytes);
        let first_len = u32::from_ne_bytes(bytes[..4].try_into().unwrap()) as usize;
        let values: Vec<_> = Attributes::new(&bytes[20..first_len]).collect();
        assert_eq!(values[0].0, TUPLE_ORIGINAL);
        assert_eq!(tuple(values[0].1, &mut 0), Some(entry.original));
        assert_eq!(values[1], (TIMEOUT, &120u32.to_be_bytes()[..]));
        assert_eq!(values[2], (STATUS, &0x18cu32.to_be_bytes()[..]));
        assert_eq!(values.len(), 3);
        let second = &bytes[first_len..];
        assert_eq!(second.len(), u32::from_ne_bytes(second[..4].try_into().unwrap()) as usize);
        let mut all = Attributes::new(&second[20..]).skip(1);
        let (kind, value) = all.next().unwrap();
        assert_eq!((kind, all.next()), (PROTOINFO, None));
        let (_, tcp) = Attributes::new(value).next().unwrap();
        let flags: Vec<_> = Attributes::new(tcp).collect();
        assert_eq!(flags, [(4, &[8u8, 8][..]), (5, &[8, 8])]);
        // As the kernel reads them.
        let read = |bytes: &[u8]| {
            let messages = Messages::new(bytes);
            messages.map(|(header, whole)| asked(header.kind, &whole[16..])).collect::<Vec<_>>()
        };
        let update = |timeout_s| Some(Asked::Update { original: entry.original, timeout_s });
        assert_eq!(read(&bytes), [update(Some(120)), update(None)]);
        assert_eq!(read(&dump()), [Some(Asked::Dump)]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_borne(bytes: Vec<u8>, what in 0u16..4) {
            events(&bytes).for_each(drop);
            let mut request = ask(what, 0);
            request.raw(&bytes);
            events(&request.finish()).for_each(drop);
        }
    }
}
