//! FRR's protocol for data planes (`bfdd --dplaneaddr`): `bfdd` keeps configuration and what routing daemons hear, the data
//! plane sends and checks the packets.
//!
//! A stream of messages, each a header of eight bytes (version, zero, type, id, length with the header) and a
//! payload; all numbers are in network byte order. FRR 8 to 10.6 speak version 1, later ones version 2, which appends fields
//! to sessions that classical BFD does without. Answers have the version of the message before.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::session::Settings;
use crate::standing::{Counts, Standing};

/// Length of a message's header, in bytes.
pub const HEADER_LEN: usize = 8;

/// Longest message that is read, in bytes.
pub const MAX_LEN: usize = 1024;

const ECHO_REQUEST: u16 = 0;
const ECHO_REPLY: u16 = 1;
const ADD_SESSION: u16 = 2;
const DELETE_SESSION: u16 = 3;
const STATE_CHANGE: u16 = 4;
const REQUEST_COUNTERS: u16 = 5;
const COUNTERS: u16 = 6;

/// Length of a session in version 1; version 2 appends to it.
const SESSION_LEN: usize = 132;

const MULTI_HOP: u32 = 1;
const DEMAND: u32 = 1 << 1;
const INDEPENDENT: u32 = 1 << 2;
const ECHO: u32 = 1 << 3;
const IPV6: u32 = 1 << 4;
const PASSIVE: u32 = 1 << 5;
const SHUTDOWN: u32 = 1 << 6;

/// A message of `bfdd`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Version of the protocol: 1 or 2.
    pub version: u8,
    /// Number that an answer repeats; 0: none is wanted.
    pub id: u16,
    /// Content of the message.
    pub body: Body,
}

/// Content of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// A sign of life, with a time that the answer repeats.
    EchoRequest {
        /// Time of the data plane, in its own unit.
        data_plane: u64,
        /// Time of `bfdd`, in microseconds.
        bfdd: u64,
    },
    /// An answer to such a sign.
    EchoReply,
    /// Adds a session, or changes the one of that discriminator.
    Add(Box<Peer>),
    /// Deletes the session of a discriminator.
    Delete {
        /// Discriminator of the session.
        discr: u32,
    },
    /// Asks for the counters of a session.
    RequestCounters {
        /// Discriminator of the session.
        discr: u32,
    },
}

/// A session as `bfdd` describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Settings of the session.
    pub settings: Settings,
    /// Address of this host; unspecified: the one of the interface.
    pub src: IpAddr,
    /// Address of the peer.
    pub dst: IpAddr,
    /// True if the peer may be several hops away.
    pub is_multi_hop: bool,
    /// Lowest TTL of packets of a multi-hop session.
    pub min_ttl: u8,
    /// Milliseconds that the session waits before it begins.
    pub hold_ms: u32,
    /// Index of the interface; 0: any.
    pub ifindex: u32,
    /// True if echo packets are to be sent. A session can do without: it hears of a loss by its control packets then.
    pub wants_echo: bool,
    /// Functions that are asked for, and that there are none of.
    pub lacks: Option<&'static str>,
}

/// Why bytes are no message. The stream cannot be followed any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// A version that is not spoken here.
    Version(u8),
    /// A length below the header's, above [`MAX_LEN`], or below what the type has.
    Length(u16),
    /// A type that only data planes send, or that there is none of.
    Type(u16),
    /// A session with a discriminator or a detection multiplier of 0.
    Session,
}

impl core::fmt::Display for Wrong {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Wrong::Version(version) => {
                write!(f, "version {version} of the protocol, where 1 and 2 are spoken")
            }
            Wrong::Length(length) => {
                write!(f, "a message of {length} bytes, which its type does not have")
            }
            Wrong::Type(kind) => write!(f, "a message of type {kind}, which bfdd does not send"),
            Wrong::Session => write!(f, "a session with a discriminator or a multiplier of 0"),
        }
    }
}

/// Reads the first message of a stream, and how many bytes it has. `None`: more bytes have to come.
///
/// # Errors
///
/// Bytes that are no message.
pub fn parse(stream: &[u8]) -> Result<Option<(Message, usize)>, Wrong> {
    let Some(&[version, _, t0, t1, i0, i1, l0, l1]) = stream.first_chunk::<HEADER_LEN>() else {
        return Ok(None);
    };
    let (kind, id, length) =
        (u16::from_be_bytes([t0, t1]), u16::from_be_bytes([i0, i1]), u16::from_be_bytes([l0, l1]));
    if !(1..=2).contains(&version) {
        return Err(Wrong::Version(version));
    }
    let len = usize::from(length);
    if !(HEADER_LEN..=MAX_LEN).contains(&len) {
        return Err(Wrong::Length(length));
    }
    let Some(payload) = stream.get(HEADER_LEN..len) else { return Ok(None) };
    let short = Wrong::Length(length);
    let body = match kind {
        ECHO_REQUEST => {
            let long = |at: usize| {
                let bytes = payload.get(at..at + 8).and_then(|bytes| bytes.first_chunk());
                bytes.map(|bytes| u64::from_be_bytes(*bytes)).ok_or(short)
            };
            Body::EchoRequest { data_plane: long(0)?, bfdd: long(8)? }
        }
        ECHO_REPLY => Body::EchoReply,
        ADD_SESSION => Body::Add(Box::new(peer(payload).ok_or(short)??)),
        DELETE_SESSION => Body::Delete { discr: word(payload, 36).ok_or(short)? },
        REQUEST_COUNTERS => Body::RequestCounters { discr: word(payload, 0).ok_or(short)? },
        other => return Err(Wrong::Type(other)),
    };
    Ok(Some((Message { version, id, body }, len)))
}

fn word(payload: &[u8], at: usize) -> Option<u32> {
    payload.get(at..at + 4)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

/// A session's fields. `None`: there are too few bytes.
fn peer(payload: &[u8]) -> Option<Result<Peer, Wrong>> {
    let fields = payload.get(..SESSION_LEN)?;
    let word = |at| word(fields, at).unwrap_or_default();
    let flags = word(0);
    let addr = |at: usize| {
        let bytes: [u8; 16] = *fields.get(at..)?.first_chunk()?;
        let [a, b, c, d, ..] = bytes;
        Some(match flags & IPV6 {
            0 => IpAddr::V4(Ipv4Addr::new(a, b, c, d)),
            _ => IpAddr::V6(Ipv6Addr::from(bytes)),
        })
    };
    let [min_ttl, detect_mult] = *fields.get(60..)?.first_chunk()?;
    let settings = Settings {
        discr: word(36),
        min_tx: word(40),
        min_rx: word(44),
        min_echo_rx: word(52),
        detect_mult,
        is_passive: flags & PASSIVE != 0,
        is_shut: flags & SHUTDOWN != 0,
        is_independent: flags & INDEPENDENT != 0,
    };
    if settings.discr == 0 || detect_mult == 0 {
        return Some(Err(Wrong::Session));
    }
    // Of version 2.
    let is_other_mode = payload.get(SESSION_LEN).is_some_and(|mode| *mode != 0)
        || payload.get(SESSION_LEN + 1).is_some_and(|encap| *encap != 0);
    let lacks = match flags {
        _ if is_other_mode => Some("seamless BFD, or BFD over SRv6"),
        flags if flags & DEMAND != 0 => Some("demand mode"),
        _ => None,
    };
    Some(Ok(Peer {
        settings,
        src: addr(4)?,
        dst: addr(20)?,
        is_multi_hop: flags & MULTI_HOP != 0,
        min_ttl,
        hold_ms: word(56),
        ifindex: word(64),
        wants_echo: flags & ECHO != 0,
        lacks,
    }))
}

/// A message with this payload.
fn message(version: u8, kind: u16, id: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![version, 0];
    bytes.extend_from_slice(&kind.to_be_bytes());
    bytes.extend_from_slice(&id.to_be_bytes());
    bytes.extend_from_slice(&((HEADER_LEN + payload.len()) as u16).to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// The answer to a sign of life.
pub fn echo_reply(version: u8, id: u16, (data_plane, bfdd): (u64, u64)) -> Vec<u8> {
    message(version, ECHO_REPLY, id, &[data_plane.to_be_bytes(), bfdd.to_be_bytes()].concat())
}

/// News of a session: its state, and what its peer says.
pub fn state_change(version: u8, session: &Standing) -> Vec<u8> {
    let peer = &session.peer;
    let flags = u32::from(peer.is_independent) | u32::from(peer.demand) << 1;
    let intervals = [peer.desired_min_tx, peer.required_min_rx, peer.required_min_echo_rx];
    let mut payload = Vec::with_capacity(28);
    let words = [session.discr, peer.discr, flags].into_iter().chain(intervals);
    words.for_each(|word| payload.extend_from_slice(&word.to_be_bytes()));
    // A C compiler fills the struct up to a multiple of four bytes.
    payload.extend_from_slice(&[session.state as u8, peer.diagnostic.0, peer.detect_mult, 0]);
    message(version, STATE_CHANGE, 0, &payload)
}

/// The counters of a session, by its discriminator; zeros for one that is not there, as `bfdd` waits for an answer.
pub fn counters(version: u8, id: u16, discr: u32, counts: Counts) -> Vec<u8> {
    let bytes = |packets: u64| packets * crate::packet::PACKET_LEN as u64;
    let numbers =
        [bytes(counts.received), counts.received, bytes(counts.sent), counts.sent, 0, 0, 0, 0];
    let mut payload = discr.to_be_bytes().to_vec();
    // The struct's 64-bit numbers stand at multiples of eight bytes.
    payload.extend_from_slice(&[0; 4]);
    numbers.iter().for_each(|number| payload.extend_from_slice(&number.to_be_bytes()));
    message(version, COUNTERS, id, &payload)
}
