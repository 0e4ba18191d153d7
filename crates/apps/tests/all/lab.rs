//! Packets and messages, made for tests.

use core::net::IpAddr;
use std::sync::Arc;

use apps::{Application, Catalogue, Classifier, Hints, Name};
use policy::Prefix;
use wire::{fill_l4_checksum, ipv4, parse_ip, protocol, udp};

/// An end of a flow: the last byte of an address in 10.1.0.0/24, and a port.
pub(crate) type At = (u8, u16);

pub(crate) fn addr(last: u8) -> IpAddr {
    [10, 1, 0, last].into()
}

pub(crate) fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).expect("a name")
}

/// The bytes of a vector file: hexadecimal, and lines of comment.
pub(crate) fn vector(text: &str) -> Vec<u8> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let digits: Vec<u8> = lines.flat_map(|line| line.trim().bytes()).collect();
    let byte = |pair: &[u8]| {
        let pair = core::str::from_utf8(pair).expect("digits");
        u8::from_str_radix(pair, 16).expect("hexadecimal")
    };
    digits.chunks(2).map(byte).collect()
}

pub(crate) struct Bench {
    pub(crate) classifier: Classifier,
    pub(crate) hints: Arc<Hints>,
}

impl Bench {
    /// With the applications `calls` (calls.example) and `files` (files.example).
    pub(crate) fn new(forwarders: Vec<Prefix>) -> Bench {
        let app = |name: &str, domain: &str| Application {
            name: name.into(),
            domains: vec![self::name(domain)],
            ..Application::default()
        };
        let apps = vec![app("calls", "calls.example"), app("files", "files.example")];
        let catalogue = Arc::new(Catalogue::new(apps).expect("a catalogue"));
        let hints = Arc::new(Hints::new(1 << 12));
        let classifier = Classifier::new(catalogue, Arc::clone(&hints), forwarders);
        Bench { classifier, hints }
    }

    /// Name of the application that a flow to a server would most likely have.
    pub(crate) fn likely(&self, client: u8, server: u8, now_ns: u64) -> Option<String> {
        let end = |last, port| apps::End { addr: addr(last), port };
        let likely = self.hints.likely(6, end(client, 50_000), end(server, 443), now_ns)?;
        Some(self.classifier.catalogue().name(likely.application()).to_owned())
    }
}

fn ip(payload: &[u8], protocol: u8, src: u8, dst: u8) -> Vec<u8> {
    let [IpAddr::V4(src), IpAddr::V4(dst)] = [addr(src), addr(dst)] else { unreachable!() };
    let total_len = (20 + payload.len()) as u16;
    let fields = ipv4::Ipv4Fields {
        traffic_class: 0,
        total_len,
        ident: 1,
        dont_fragment: true,
        ttl: 64,
        protocol,
        src,
        dst,
    };
    let mut packet = vec![0; 20];
    packet.extend_from_slice(payload);
    fields.emit(&mut packet).expect("room");
    let h = parse_ip(&packet).expect("a packet");
    fill_l4_checksum(&mut packet, &h);
    packet
}

pub(crate) fn datagram(src: At, dst: At, payload: &[u8]) -> Vec<u8> {
    let len = (8 + payload.len()) as u16;
    let mut bytes = vec![0; 8];
    let fields = udp::UdpFields { src_port: src.1, dst_port: dst.1, len, checksum: 0 };
    fields.emit(&mut bytes).expect("room");
    bytes.extend_from_slice(payload);
    ip(&bytes, protocol::UDP, src.0, dst.0)
}

pub(crate) fn segment(src: At, dst: At, sequence: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(src.1.to_be_bytes());
    bytes.extend(dst.1.to_be_bytes());
    bytes.extend(sequence.to_be_bytes());
    bytes.extend(1u32.to_be_bytes());
    bytes.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    bytes.extend_from_slice(payload);
    ip(&bytes, protocol::TCP, src.0, dst.0)
}

/// A ClientHello as a handshake message; `padding` bytes of an extension stand in front of the server name.
pub(crate) fn client_hello(host: Option<&str>, has_ech: bool, padding: usize) -> Vec<u8> {
    let extension = |kind: u16, bytes: &[u8]| {
        [&kind.to_be_bytes(), &(bytes.len() as u16).to_be_bytes(), bytes].concat()
    };
    let mut extensions = extension(21, &vec![0; padding]);
    if has_ech {
        extensions.extend(extension(0xfe0d, &[0, 0, 1, 0, 1, 42, 0, 0, 0, 0]));
    }
    if let Some(host) = host {
        let len = host.len() as u16;
        let list = [&(len + 3).to_be_bytes()[..], &[0], &len.to_be_bytes(), host.as_bytes()];
        extensions.extend(extension(0, &list.concat()));
    }
    extensions.extend(extension(16, b"\0\x03\x02h2"));
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.extend([0, 0, 2, 0x13, 1, 1, 0]);
    body.extend((extensions.len() as u16).to_be_bytes());
    body.extend(extensions);
    let mut hello = vec![1];
    hello.extend(&(body.len() as u32).to_be_bytes()[1..]);
    hello.extend(body);
    hello
}

/// A handshake message in records of so many bytes.
pub(crate) fn in_records(handshake: &[u8], len: usize) -> Vec<u8> {
    let record = |part: &[u8]| [&[22, 3, 1], &(part.len() as u16).to_be_bytes()[..], part].concat();
    handshake.chunks(len).flat_map(record).collect()
}

/// A DNS message about an A record; an answer with these addresses, if there are any.
pub(crate) fn dns(id: u16, spelling: &str, addresses: Option<&[u8]>, ttl_s: u32) -> Vec<u8> {
    let mut bytes = id.to_be_bytes().to_vec();
    bytes.extend(if addresses.is_some() { [0x81, 0x80] } else { [1, 0] });
    let count = addresses.map_or(0, <[u8]>::len) as u16;
    bytes.extend([0, 1]);
    bytes.extend(count.to_be_bytes());
    bytes.extend([0; 4]);
    for label in spelling.split('.') {
        bytes.push(label.len() as u8);
        bytes.extend(label.as_bytes());
    }
    bytes.extend([0, 0, 1, 0, 1]);
    for last in addresses.unwrap_or_default() {
        bytes.extend([0xc0, 12, 0, 1, 0, 1]);
        bytes.extend(ttl_s.to_be_bytes());
        bytes.extend([0, 4, 10, 1, 0, *last]);
    }
    bytes
}
