//! DNS messages: the question, and the addresses that an answer gives it (RFC 1035 §4; HTTPS records: RFC 9460).
//!
//! ```text
//!   id 2 | flags 2 | counts 4 x 2 | question: name, type 2, class 2
//!   | answers: name | type 2 | class 2 | TTL 4 | length 2 | data
//! ```
//!
//! An answer is for its question only: records of other names count where a chain of CNAMEs leads to them. Authority and
//! additional records are not read.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::name::Name;
use crate::reader::Reader;
use crate::tls::public_names;

/// A message of the Internet class with one question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Number that ties an answer to its query.
    pub id: u16,
    /// True for an answer.
    pub is_response: bool,
    /// Question of the message.
    pub question: Question,
    /// Content of the answer section; empty in a query, and where there was an error.
    pub answer: Answer,
}

/// The question of a message.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Question {
    /// The name as it is spelt: resolvers that mix cases want them back
    /// (`draft-vixie-dnsext-dns0x20`).
    pub spelling: Box<[u8]>,
    /// Type of record that is asked for.
    pub kind: u16,
}

impl Question {
    /// The host in question. `None` if it is no host name, as that of the root.
    pub fn host(&self) -> Option<Name> {
        let name = Name::new(&self.spelling)?;
        if self.kind != kind::HTTPS && self.kind != kind::SVCB {
            return Some(name);
        }
        // A port and scheme in front of the host (RFC 9460 §2.3).
        let host = name.suffixes().find(|suffix| !suffix.starts_with('_'))?;
        Name::new(host.as_bytes())
    }
}

/// Addresses of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Addresses of the host, each once.
    pub addresses: Vec<IpAddr>,
    /// Seconds for which all of it holds: the least of the records.
    pub ttl_s: u32,
    /// Names that clients of the host show outside of an encrypted ClientHello.
    pub public_names: Vec<Name>,
}

/// Types of records, by their numbers.
mod kind {
    pub(super) const A: u16 = 1;
    pub(super) const CNAME: u16 = 5;
    pub(super) const AAAA: u16 = 28;
    pub(super) const SVCB: u16 = 64;
    pub(super) const HTTPS: u16 = 65;
}

/// Parameters of HTTPS records, by their numbers (RFC 9460 §14.3.2).
mod parameter {
    pub(super) const IPV4_HINT: u16 = 4;
    pub(super) const ECH: u16 = 5;
    pub(super) const IPV6_HINT: u16 = 6;
}

const INTERNET: u16 = 1;

/// Records of an answer that are read.
const MOST_RECORDS: u16 = 64;

/// Addresses that are kept of an answer.
const MOST_ADDRESSES: usize = 32;

/// Names in a chain of CNAMEs.
const MOST_ALIASES: usize = 16;

impl Message {
    /// Reads a message. `None` if it is none: a standard query, or an answer to one, with one question.
    pub fn parse(bytes: &[u8]) -> Option<Message> {
        let mut reader = Reader::new(bytes);
        let id = reader.u16()?;
        let flags = reader.u16()?;
        let (questions, answers) = (reader.u16()?, reader.u16()?);
        reader.take(4)?;
        let is_response = flags & 0x8000 != 0;
        let is_standard = flags & 0x7800 == 0;
        if !is_standard || questions != 1 || !is_response && answers != 0 {
            return None;
        }
        let spelling = name(bytes, &mut reader)?;
        let (kind, class) = (reader.u16()?, reader.u16()?);
        if class != INTERNET {
            return None;
        }
        let question = Question { spelling: spelling.into(), kind };
        let is_error = flags & 0x000f != 0;
        let answer = match is_response && !is_error {
            true => answer(bytes, &mut reader, &question, answers.min(MOST_RECORDS))?,
            false => Answer::default(),
        };
        Some(Message { id, is_response, question, answer })
    }
}

/// Reads the answers to a question.
fn answer<'m>(
    bytes: &'m [u8],
    reader: &mut Reader<'m>,
    question: &Question,
    count: u16,
) -> Option<Answer> {
    let mut found = Answer { ttl_s: u32::MAX, ..Answer::default() };
    let mut chain = vec![lower(&question.spelling)];
    for _ in 0..count {
        let owner = lower(&name(bytes, reader)?);
        let (kind, class) = (reader.u16()?, reader.u16()?);
        let ttl_s = reader.u32()?;
        let data = reader.vec16()?;
        if class != INTERNET || !chain.contains(&owner) {
            continue;
        }
        // Where the data begins in the message: names in it may point before it.
        let mut at = Reader::new(bytes.get(..bytes.len() - reader.rest().len())?);
        at.take(at.rest().len() - data.len())?;
        let is_used = match kind {
            kind::A => <[u8; 4]>::try_from(data).is_ok_and(|a| found.add(Ipv4Addr::from(a).into())),
            kind::AAAA => {
                <[u8; 16]>::try_from(data).is_ok_and(|a| found.add(Ipv6Addr::from(a).into()))
            }
            kind::CNAME => name(bytes, &mut at).is_some_and(|to| alias(&mut chain, &to)),
            kind::HTTPS | kind::SVCB => service(bytes, at, &mut chain, &mut found),
            _ => false,
        };
        if is_used {
            // A TTL with the first bit set is 0 (RFC 2181 §8).
            let ttl_s = if ttl_s >> 31 == 0 { ttl_s } else { 0 };
            found.ttl_s = found.ttl_s.min(ttl_s);
        }
    }
    if found.ttl_s == u32::MAX {
        found.ttl_s = 0;
    }
    Some(found)
}

impl Answer {
    /// Adds an address, while there is room.
    fn add(&mut self, address: IpAddr) -> bool {
        if self.addresses.contains(&address) {
            return true;
        }
        let has_room = self.addresses.len() < MOST_ADDRESSES;
        if has_room {
            self.addresses.push(address);
        }
        has_room
    }
}

/// Adds a name to a chain.
fn alias(chain: &mut Vec<Vec<u8>>, to: &[u8]) -> bool {
    let to = lower(to);
    let is_new = chain.len() < MOST_ALIASES && !chain.contains(&to);
    if is_new {
        chain.push(to);
    }
    true
}

/// Reads the data of an HTTPS record: an alias, or parameters of the service.
fn service<'m>(
    bytes: &'m [u8],
    mut data: Reader<'m>,
    chain: &mut Vec<Vec<u8>>,
    found: &mut Answer,
) -> bool {
    let Some(priority) = data.u16() else { return false };
    let Some(target) = name(bytes, &mut data) else { return false };
    if priority == 0 {
        return alias(chain, &target);
    }
    while let Some((key, value)) = data.u16().and_then(|key| Some((key, data.vec16()?))) {
        match key {
            parameter::IPV4_HINT => value.as_chunks::<4>().0.iter().for_each(|address| {
                found.add(Ipv4Addr::from(*address).into());
            }),
            parameter::IPV6_HINT => value.as_chunks::<16>().0.iter().for_each(|address| {
                found.add(Ipv6Addr::from(*address).into());
            }),
            parameter::ECH => found.public_names.extend(public_names(value)),
            _ => {}
        }
    }
    true
}

/// Reads a name, and follows its pointers, each of which leads further back (RFC 1035 §4.1.4): labels with dots between.
fn name<'m>(message: &'m [u8], reader: &mut Reader<'m>) -> Option<Vec<u8>> {
    /// The longest name with the lengths of its labels, in bytes.
    const MOST_LEN: usize = 255;
    /// As many as a name of that length has labels: one that leads to another pointer adds none.
    const MOST_POINTERS: usize = 127;
    let mut text = Vec::new();
    let mut jumped = None;
    let (mut before, mut pointers) = (message.len(), 0);
    loop {
        let here = jumped.as_mut().unwrap_or(&mut *reader);
        let len = here.u8()?;
        match len >> 6 {
            0 if len == 0 => return Some(text),
            0 => {
                let label = here.take(len.into())?;
                if !text.is_empty() {
                    text.push(b'.');
                }
                text.extend_from_slice(label);
                if text.len() > MOST_LEN {
                    return None;
                }
            }
            3 => {
                let to = usize::from(len & 0x3f) << 8 | usize::from(here.u8()?);
                if to >= before || pointers >= MOST_POINTERS {
                    return None;
                }
                (before, pointers) = (to, pointers + 1);
                jumped = Some(Reader::new(message.get(to..)?));
            }
            _ => return None,
        }
    }
}

fn lower(name: &[u8]) -> Vec<u8> {
    name.to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name as it stands in a message.
    fn wire_name(name: &str) -> Vec<u8> {
        let labels = name.split('.').filter(|label| !label.is_empty());
        let mut bytes: Vec<u8> =
            labels.flat_map(|label| [&[label.len() as u8], label.as_bytes()].concat()).collect();
        bytes.push(0);
        bytes
    }

    fn message(
        flags: u16,
        name: &str,
        kind: u16,
        records: &[(&[u8], u16, u32, Vec<u8>)],
    ) -> Vec<u8> {
        let mut bytes = vec![0x12, 0x34];
        bytes.extend(flags.to_be_bytes());
        bytes.extend([0, 1]);
        bytes.extend((records.len() as u16).to_be_bytes());
        bytes.extend([0; 4]);
        bytes.extend(wire_name(name));
        bytes.extend(kind.to_be_bytes());
        bytes.extend([0, 1]);
        for (owner, kind, ttl, data) in records {
            bytes.extend_from_slice(owner);
            bytes.extend(kind.to_be_bytes());
            bytes.extend([0, 1]);
            bytes.extend(ttl.to_be_bytes());
            bytes.extend((data.len() as u16).to_be_bytes());
            bytes.extend_from_slice(data);
        }
        bytes
    }

    /// A pointer to the question's name.
    const QUESTION: &[u8] = &[0xc0, 12];

    #[test]
    fn a_chain_of_aliases_leads_to_addresses() {
        let owner = wire_name("edge.example");
        let other = wire_name("other.example");
        let bytes = message(
            0x8180,
            "WWW.example",
            kind::A,
            &[
                (QUESTION, kind::CNAME, 300, wire_name("EDGE.example")),
                (&owner, kind::A, 60, vec![192, 0, 2, 1]),
                (&owner, kind::A, 90, vec![192, 0, 2, 2]),
                (&other, kind::A, 10, vec![192, 0, 2, 66]),
            ],
        );
        let message = Message::parse(&bytes).expect("a message");
        assert_eq!(&*message.question.spelling, b"WWW.example");
        assert_eq!(message.question.host(), Name::new(b"www.example"));
        let addresses = [[192, 0, 2, 1], [192, 0, 2, 2]].map(IpAddr::from);
        assert_eq!(message.answer.addresses, addresses, "not the one of another name");
        assert_eq!(message.answer.ttl_s, 60);
    }

    #[test]
    fn a_name_that_leads_from_pointer_to_pointer_is_none() {
        // The question's name, and behind its class as many pointers, each to the one before.
        let names = |pointers: u16| {
            let mut data = Vec::new();
            for at in 0..pointers {
                // The record's own owner, type, class, TTL and length lie between.
                let before = if at == 0 { 12 } else { 39 + 2 * (at - 1) };
                data.extend((0xc000 | before).to_be_bytes());
            }
            let owner = (0xc000 | (39 + 2 * (pointers - 1))).to_be_bytes();
            let text = (QUESTION, 16, 60, data);
            let address = (&owner[..], kind::A, 60, vec![192, 0, 2, 1]);
            let bytes = message(0x8180, "a.example", kind::A, &[text, address]);
            assert_eq!(bytes[37..39], (2 * pointers).to_be_bytes());
            Message::parse(&bytes).map(|message| message.answer.addresses.len())
        };
        assert_eq!(names(3), Some(1));
        assert_eq!(names(1000), None);
    }

    #[test]
    fn https_records_give_hints_and_public_names() {
        let config =
            [&[1, 0, 0x20, 0, 2, 9, 9, 0, 4, 0, 1, 0, 1, 42, 11][..], b"ech.example", &[0, 0]]
                .concat();
        let mut ech = vec![0, 0, 0xfe, 0x0d, 0, config.len() as u8];
        ech[1] = config.len() as u8 + 4;
        ech.extend(&config);
        let mut data = vec![0, 1, 0];
        for (key, value) in [
            (parameter::IPV4_HINT, vec![192, 0, 2, 7]),
            (parameter::ECH, ech),
            (parameter::IPV6_HINT, Ipv6Addr::LOCALHOST.octets().to_vec()),
        ] {
            data.extend(key.to_be_bytes());
            data.extend((value.len() as u16).to_be_bytes());
            data.extend(value);
        }
        let bytes = message(
            0x8180,
            "_8443._https.a.example",
            kind::HTTPS,
            &[(QUESTION, kind::HTTPS, 7, data)],
        );
        let message = Message::parse(&bytes).expect("a message");
        assert_eq!(message.question.host(), Name::new(b"a.example"));
        let addresses = [IpAddr::from([192, 0, 2, 7]), Ipv6Addr::LOCALHOST.into()];
        assert_eq!(message.answer.addresses, addresses);
        assert_eq!(message.answer.public_names, [Name::new(b"ech.example").expect("a name")]);
    }

    #[test]
    fn what_is_no_message() {
        let good = message(0x0100, "a.example", kind::A, &[]);
        assert!(Message::parse(&good).is_some_and(|message| !message.is_response));
        for len in 0..good.len() {
            assert_eq!(Message::parse(&good[..len]), None, "cut at {len}");
        }
        let mut update = good.clone();
        update[2] = 0x28;
        assert_eq!(Message::parse(&update), None);
        let mut loops = good.clone();
        loops[12..14].copy_from_slice(&[0xc0, 12]);
        assert_eq!(Message::parse(&loops), None, "a name that points to itself");
        let failed = message(0x8183, "a.example", kind::A, &[]);
        let failed = Message::parse(&failed).expect("a message");
        assert_eq!((failed.is_response, failed.answer), (true, Answer::default()));
    }
}
