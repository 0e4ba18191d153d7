//! Session-Reflector: sends probes of others back (RFC 8762 §4.3).

use core::net::SocketAddr;
use std::collections::HashMap;

use crate::forgeries::Forgeries;
use crate::labels::Remover;
use crate::stamp::tlv::{self, Class, Numbers};
use crate::stamp::{
    Counts, ErrorEstimate, Key, Layout, Malformed, Reflection, TestPacket, Timestamp, received_of,
};

/// Time in which a session without probes makes room for another one (RFC 8762 §4.3: REFWAIT of RFC 5357, 900 s).
const REFWAIT_NS: u64 = 900_000_000_000;

/// Bounds of a reflector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Reflections a second, and as many at once after a second without any.
    pub per_second: u32,
    /// Sessions that it counts for; 0 for a stateless one. Beyond that reflections have the numbers of their probes.
    pub sessions: usize,
}

/// HMACs that are checked for each reflection that is allowed, of a reflector in clear: what forged probes cost is bounded,
/// and a sender with a key has its share among as many forgeries.
const CHECKS: u32 = 8;

/// A reflection's time of receipt is this near to the present, in seconds. Random padding in its place is not.
const NEAR_S: u64 = 3600;

/// Reflector of this host.
#[derive(Debug)]
pub struct Reflector {
    /// Keys that probes may have. Without any, probes have none.
    keys: Vec<Key>,
    limits: Limits,
    counts: HashMap<(SocketAddr, u16), Count>,
    /// No session is without probes for long enough before, as far as is known.
    used_until_ns: u64,
    tokens: Tokens,
    /// Checks of HMACs, where they are bounded.
    checks: Option<Tokens>,
    forgeries: Forgeries,
    reflections: Reflections,
    remover: Option<Remover>,
}

/// Count of a session, of a stateful reflector.
#[derive(Clone, Copy, Debug)]
struct Count {
    next: u32,
    last_ns: u64,
}

/// How a probe came.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// Sender of the probe.
    pub from: SocketAddr,
    /// TTL or hop limit with which it came.
    pub ttl: u8,
    /// Traffic class with which it came: DSCP and ECN.
    pub class: u8,
}

/// Times of a probe's stay.
#[derive(Clone, Copy, Debug)]
pub struct Stay {
    /// Nanoseconds of a monotonic clock.
    pub now_ns: u64,
    /// Wall clock when the probe came.
    pub received: Timestamp,
    /// Wall clock when the reflection goes.
    pub sent: Timestamp,
}

/// Counts of a reflector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reflections {
    /// Probes that were sent back.
    pub reflected: u64,
    /// Probes shorter than packets of the mode, or with an error estimate of nothing.
    pub malformed: u64,
    /// Probes with the HMAC of no key.
    pub unauthentic: u64,
    /// Probes beyond the limit of a second, of a reflector in clear those beyond what it checks in a second, and those of a
    /// source of too many with the HMAC of no key.
    pub limited: u64,
    /// Reflections, which somebody sent in the name of their reflector: two reflectors would send them to and fro.
    pub reflection: u64,
    /// Probes in clear of senders that are not named.
    pub unnamed: u64,
    /// Probes that are longer than what is sent back.
    pub too_long: u64,
    /// Probes without a buffer, or a way back, or beyond those that one burst has room for.
    pub no_room: u64,
    /// Probes sent back whose extensions had a wrong HMAC, or none.
    pub bad_extensions: u64,
    /// Probes sent back without a count of their own, as all places were taken.
    pub uncounted: u64,
}

/// Reasons for which a probe is refused before it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// Its sender is not named.
    Unnamed,
    /// It is longer than what is sent back.
    TooLong,
    /// There is no buffer for its reflection, no way back, or no place in the burst.
    NoRoom,
}

impl Reflector {
    /// A reflector for probes in clear: with one of these keys, of which it checks a bounded number in a second. `None` without
    /// a key, as anybody could have it send then.
    pub fn in_clear(keys: Vec<Key>, limits: Limits) -> Option<Reflector> {
        let checks = Some(Tokens::full());
        (!keys.is_empty()).then(|| Reflector { checks, ..Reflector::new(keys, limits) })
    }

    /// A reflector for probes with one of these keys, or without keys if there are none.
    pub fn new(keys: Vec<Key>, limits: Limits) -> Reflector {
        let counts = HashMap::with_capacity(limits.sessions);
        let reflections = Reflections::default();
        let (tokens, checks, used_until_ns, remover) = (Tokens::full(), None, 0, None);
        Reflector {
            keys,
            limits,
            counts,
            used_until_ns,
            tokens,
            checks,
            forgeries: Forgeries::new(),
            reflections,
            remover,
        }
    }

    /// The same, of a host that removes second copies: senders that ask get labels.
    pub fn with_remover(self, remover: Remover) -> Reflector {
        Reflector { remover: Some(remover), ..self }
    }

    /// The counts so far.
    pub const fn reflections(&self) -> Reflections {
        self.reflections
    }

    /// Counts a probe that is not read.
    pub fn refuse(&mut self, reason: Unread) {
        let Reflections { unnamed, too_long, no_room, .. } = &mut self.reflections;
        *match reason {
            Unread::Unnamed => unnamed,
            Unread::TooLong => too_long,
            Unread::NoRoom => no_room,
        } += 1;
    }

    /// Writes the reflection of a probe, as long as the probe. Returns its length in bytes, and its DSCP; `None` if
    /// there is none, which is counted. Allocates nothing.
    ///
    /// `count` is called if the probe asks what was received beside it, and sent beside its reflection; `None`: nobody counts.
    pub fn reflect(
        &mut self,
        probe: &[u8],
        asked: Asked,
        stay: Stay,
        count: impl FnOnce() -> Option<Counts>,
        out: &mut [u8],
    ) -> Option<(usize, u8)> {
        let source = self.forgeries.place(asked.from.ip(), stay.now_ns);
        let Some((place, likely)) = source else {
            self.reflections.limited += 1;
            return None;
        };
        let checks_a_second = self.limits.per_second.saturating_mul(CHECKS);
        if self.checks.as_mut().is_some_and(|it| !it.take(checks_a_second, stay.now_ns)) {
            self.reflections.limited += 1;
            return None;
        }
        let (key, packet) = match self.parse(probe, likely) {
            Ok((key, packet)) => {
                key.into_iter().for_each(|key| self.forgeries.proven(place, key));
                (key, packet)
            }
            Err(Malformed::Hmac) => {
                self.forgeries.forged(place, stay.now_ns);
                self.reflections.unauthentic += 1;
                return None;
            }
            Err(Malformed::Short | Malformed::Estimate) => {
                self.reflections.malformed += 1;
                return None;
            }
        };
        if is_reflection(key.and_then(|at| self.keys.get(at)), probe, stay.received) {
            self.reflections.reflection += 1;
            return None;
        }
        if !self.tokens.take(self.limits.per_second, stay.now_ns) {
            self.reflections.limited += 1;
            return None;
        }
        let seq = self.number(asked.from, &packet, stay.now_ns);
        let key = key.and_then(|at| self.keys.get(at));
        let reflection = Reflection {
            seq,
            time: stay.sent,
            error: ErrorEstimate::UNSYNCHRONISED,
            ssid: packet.ssid,
            received: stay.received,
            sender: TestPacket { ssid: 0, ..packet },
            sender_ttl: asked.ttl,
        };
        let mut class = Class { came: asked.class, goes: asked.class >> 2 };
        let out = out.get_mut(..probe.len())?;
        let base = reflection.emit(key, out).ok()?;
        let (tail, came) = (out.get_mut(base..)?, probe.get(base..)?);
        tail.copy_from_slice(came);
        let numbers = Numbers { asked: packet.seq, answer: seq };
        let remover = &mut self.remover;
        let assign = |sender| remover.as_mut()?.assign(sender, stay.now_ns);
        if !tlv::reflect(key, numbers, tail, &mut class, assign, count) {
            self.reflections.bad_extensions += 1;
        }
        self.reflections.reflected += 1;
        Some((probe.len(), class.goes))
    }

    /// The test packet, and the place of its key. One key is `likely`, and tried first.
    fn parse(&self, probe: &[u8], likely: usize) -> Result<(Option<usize>, TestPacket), Malformed> {
        if self.keys.is_empty() {
            return Ok((None, TestPacket::parse(None, probe)?));
        }
        if probe.len() < Layout::KEYED.len {
            return Err(Malformed::Short);
        }
        let all = || self.keys.iter().enumerate();
        let rest = all().filter(|(at, _)| *at != likely);
        for (at, key) in all().skip(likely).take(1).chain(rest) {
            match TestPacket::parse(Some(key), probe) {
                Err(Malformed::Hmac) => {}
                parsed => return Ok((Some(at), parsed?)),
            }
        }
        Err(Malformed::Hmac)
    }

    /// Number of a reflection: one more for each of a session, or the probe's.
    fn number(&mut self, from: SocketAddr, packet: &TestPacket, now_ns: u64) -> u32 {
        if self.limits.sessions == 0 {
            return packet.seq;
        }
        let session = (from, packet.ssid);
        if let Some(count) = self.counts.get_mut(&session) {
            let is_over = now_ns.saturating_sub(count.last_ns) > REFWAIT_NS;
            let seq = if is_over { 0 } else { count.next };
            *count = Count { next: seq.wrapping_add(1), last_ns: now_ns };
            return seq;
        }
        if self.counts.len() >= self.limits.sessions && now_ns > self.used_until_ns {
            self.counts.retain(|_, count| now_ns.saturating_sub(count.last_ns) <= REFWAIT_NS);
            let oldest_ns = self.counts.values().map(|count| count.last_ns).min();
            self.used_until_ns =
                oldest_ns.map_or(0, |oldest_ns| oldest_ns.saturating_add(REFWAIT_NS));
        }
        if self.counts.len() >= self.limits.sessions {
            self.reflections.uncounted += 1;
            return packet.seq;
        }
        self.counts.insert(session, Count { next: 1, last_ns: now_ns });
        0
    }
}

/// True for a reflection, which says when it was received; a sender leaves that empty (RFC 8762 §4.2). Neither port nor address
/// is under the HMAC, so anybody on the way may send one on to another reflector with the same key. Without a key senders of
/// TWAMP-light may have random padding there.
fn is_reflection(key: Option<&Key>, probe: &[u8], now: Timestamp) -> bool {
    let received = received_of(key, probe);
    let apart = (received.0 >> 32).abs_diff(now.0 >> 32);
    received != Timestamp(0) && (key.is_some() || apart <= NEAR_S)
}

/// Tokens of a second, in nanoseconds of it.
#[derive(Debug)]
struct Tokens {
    left_ns: u64,
    filled_ns: u64,
}

impl Tokens {
    const fn full() -> Tokens {
        Tokens { left_ns: SECOND_NS, filled_ns: 0 }
    }

    /// Takes one of so many a second; false if there is none left.
    fn take(&mut self, per_second: u32, now_ns: u64) -> bool {
        let since_ns = now_ns.saturating_sub(self.filled_ns);
        self.filled_ns = now_ns.max(self.filled_ns);
        self.left_ns = self.left_ns.saturating_add(since_ns).min(SECOND_NS);
        let left_ns = SECOND_NS
            .checked_div(per_second.into())
            .and_then(|price_ns| self.left_ns.checked_sub(price_ns));
        self.left_ns = left_ns.unwrap_or(self.left_ns);
        left_ns.is_some()
    }
}

const SECOND_NS: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { per_second: 1000, sessions: 0 };
    const TIME: Timestamp = Timestamp(77);

    fn asked(port: u16) -> Asked {
        let from = SocketAddr::from(([192, 0, 2, 1], port));
        Asked { from, ttl: 61, class: 46 << 2 | 1 }
    }

    fn stay(now_ns: u64) -> Stay {
        Stay { now_ns, received: Timestamp(100), sent: Timestamp(200) }
    }

    fn probe(seq: u32, key: Option<&Key>) -> Vec<u8> {
        let error = ErrorEstimate(0x0101);
        let mut out = [0; 112];
        let len = TestPacket { seq, time: TIME, error, ssid: 9 }.emit(key, &mut out);
        out[..len.expect("room")].to_vec()
    }

    fn reflected(
        reflector: &mut Reflector,
        probe: &[u8],
        port: u16,
        now_ns: u64,
    ) -> Option<Vec<u8>> {
        let mut out = [0xff; 256];
        let (len, dscp) = reflector.reflect(probe, asked(port), stay(now_ns), || None, &mut out)?;
        assert_eq!(dscp, 46);
        Some(out[..len].to_vec())
    }

    #[test]
    fn a_stateless_one_repeats_the_number() {
        let mut reflector = Reflector::new(Vec::new(), LIMITS);
        let out = reflected(&mut reflector, &probe(41, None), 1, 0).expect("a reflection");
        let seen = Reflection::parse(None, &out).expect("whole");
        assert_eq!((seen.seq, seen.ssid, seen.sender_ttl), (41, 9, 61));
        assert_eq!((seen.received, seen.time), (Timestamp(100), Timestamp(200)));
        assert_eq!((seen.sender.seq, seen.sender.time), (41, TIME));
        assert_eq!(seen.sender.error, ErrorEstimate(0x0101));
    }

    #[test]
    fn a_stateful_one_counts_for_each_session() {
        let limits = Limits { sessions: 2, ..LIMITS };
        let mut reflector = Reflector::new(Vec::new(), limits);
        let mut number = |port, at_ns| {
            let out = reflected(&mut reflector, &probe(500, None), port, at_ns).expect("one");
            Reflection::parse(None, &out).expect("whole").seq
        };
        assert_eq!([number(1, 0), number(1, 0), number(2, 0), number(1, 0)], [0, 1, 0, 2]);
        // All places are taken: the number is the probe's.
        assert_eq!(number(3, 0), 500);
        // And free again once nothing has come for long enough.
        assert_eq!([number(1, REFWAIT_NS), number(3, REFWAIT_NS + 1)], [3, 0]);
        assert_eq!(number(1, 3 * REFWAIT_NS), 0);
        assert_eq!(reflector.reflections().uncounted, 1);
        assert_eq!(reflector.reflections().reflected, 8);
    }

    #[test]
    fn keys_are_wanted_once_there_are_some() {
        let keys: Vec<_> = [7, 8, 9].map(|b| Key::new(&[b; 32]).expect("a key")).into();
        let mut reflector = Reflector::new(keys[..2].to_vec(), LIMITS);
        for key in &keys[..2] {
            let out = reflected(&mut reflector, &probe(1, Some(key)), 1, 0).expect("one");
            assert_eq!(Reflection::parse(Some(key), &out).expect("whole").seq, 1);
        }
        assert_eq!(reflected(&mut reflector, &probe(1, Some(&keys[2])), 1, 0), None);
        assert_eq!(reflected(&mut reflector, &probe(1, None), 1, 0), None);
        let seen = reflector.reflections();
        assert_eq!((seen.reflected, seen.unauthentic, seen.malformed), (2, 1, 1));
    }

    #[test]
    fn no_more_a_second_than_allowed() {
        let mut reflector = Reflector::new(Vec::new(), Limits { per_second: 3, sessions: 0 });
        let mut at = |now_ns| reflected(&mut reflector, &probe(1, None), 1, now_ns).is_some();
        assert_eq!([at(0), at(0), at(0), at(0)], [true, true, true, false]);
        assert_eq!([at(SECOND_NS / 3), at(SECOND_NS / 3)], [true, false]);
        // A clock that goes back gives nothing.
        assert!(!at(0));
        assert_eq!(reflector.reflections().limited, 3);
        let mut none = Reflector::new(Vec::new(), Limits { per_second: 0, sessions: 0 });
        assert_eq!(reflected(&mut none, &probe(1, None), 1, 0), None);
    }

    #[test]
    fn the_reflection_is_as_long_as_the_probe_and_marks_extensions() {
        let mut reflector = Reflector::new(Vec::new(), LIMITS);
        let long = [probe(1, None), vec![0xc0, 222, 0, 2, 5, 5], vec![0; 3]].concat();
        let out = reflected(&mut reflector, &long, 1, 0).expect("one");
        assert_eq!(out[44..], [tlv::UNRECOGNIZED, 222, 0, 2, 5, 5, 0, 0, 0]);
        let key = Key::new(&[7; 32]).expect("a key");
        let mut keyed = Reflector::new(vec![key.clone()], LIMITS);
        let long = [probe(1, Some(&key)), vec![0xc0, 222, 0, 2, 5, 5]].concat();
        let out = reflected(&mut keyed, &long, 1, 0).expect("one");
        assert_eq!(out[112], tlv::INTEGRITY);
        assert_eq!(keyed.reflections().bad_extensions, 1);
        assert_eq!(reflected(&mut reflector, &[0; 43], 1, 0), None);
        assert_eq!(reflector.reflections().malformed, 1);
    }
    #[test]
    fn in_clear_there_is_none_without_a_key() {
        assert!(Reflector::in_clear(Vec::new(), LIMITS).is_none());
        let key = Key::new(&[7; 32]).expect("a key");
        let mut keyed = Reflector::in_clear(vec![key.clone()], LIMITS).expect("one");
        assert_eq!(reflected(&mut keyed, &probe(1, None), 1, 0), None);
        let out = reflected(&mut keyed, &probe(1, Some(&key)), 1, 0).expect("a reflection");
        assert_eq!(out.len(), probe(1, Some(&key)).len(), "no more than came");
        keyed.refuse(Unread::Unnamed);
        keyed.refuse(Unread::TooLong);
        keyed.refuse(Unread::TooLong);
        keyed.refuse(Unread::NoRoom);
        let seen = keyed.reflections();
        assert_eq!((seen.reflected, seen.malformed), (1, 1));
        assert_eq!((seen.unnamed, seen.too_long, seen.no_room), (1, 2, 1));
    }

    #[test]
    fn forged_probes_in_clear_leave_a_share_for_those_with_a_key() {
        let key = Key::new(&[7; 32]).expect("a key");
        let limits = Limits { per_second: 10, sessions: 0 };
        let mut keyed = Reflector::in_clear(vec![key.clone()], limits).expect("one");
        // Forged in the names of many: of one no more than a few are checked.
        for n in 0..500_u32 {
            let from = SocketAddr::from(((10_u32 << 24 | n).to_be_bytes(), 1));
            let (asked, mut out) = (Asked { from, ..asked(1) }, [0; 256]);
            assert!(keyed.reflect(&[0; 112], asked, stay(0), || None, &mut out).is_none());
        }
        let seen = keyed.reflections();
        assert_eq!((seen.unauthentic, seen.limited), (80, 420), "no more HMACs than that");
        assert_eq!(reflected(&mut keyed, &probe(1, Some(&key)), 1, 0), None);
        // Forgeries take tokens of checks alone.
        assert!(reflected(&mut keyed, &probe(1, Some(&key)), 1, SECOND_NS / 80).is_some());
    }

    #[test]
    fn a_reflection_is_not_sent_back() {
        let key = Key::new(&[7; 32]).expect("a key");
        for keys in [vec![], vec![key]] {
            let [mut one, mut other] = [0; 2].map(|_| Reflector::new(keys.clone(), LIMITS));
            let probe = probe(1, keys.first());
            let out = reflected(&mut one, &probe, 862, 0).expect("a reflection");
            assert_eq!(reflected(&mut other, &out, 862, 0), None, "to and fro without an end");
            assert_eq!(other.reflections().reflection, 1);
            // A sender of TWAMP-light may have padding there.
            let mut padded = probe;
            padded[16..44].fill(0xa5);
            let is_open = keys.is_empty();
            assert_eq!(reflected(&mut other, &padded, 1, 0).is_some(), is_open);
        }
    }

    #[test]
    fn forged_probes_of_one_source_are_read_no_more_and_those_of_others_are() {
        let keys: Vec<_> = (1..9).map(|b| Key::new(&[b; 32]).expect("a key")).collect();
        let mut reflector = Reflector::new(keys.clone(), LIMITS);
        let mut from = |last, probe: &[u8], now_ns| {
            let from = SocketAddr::from(([192, 0, 2, last], 1));
            let mut out = [0; 256];
            let asked = Asked { from, ..asked(1) };
            reflector.reflect(probe, asked, stay(now_ns), || None, &mut out).is_some()
        };
        let honest = probe(1, Some(&keys[7]));
        for _ in 0..1000 {
            assert!(!from(66, &[0; 112], 0));
        }
        // Two of three may be in the forger's place; not all of them.
        assert!((1..4).any(|last| from(last, &honest, 0)));
        assert!(!from(66, &honest, 0), "it has forged too many");
        assert!(from(66, &honest, SECOND_NS));
        let seen = reflector.reflections();
        assert_eq!((seen.unauthentic, seen.limited >= 985), (16, true), "no more HMACs than that");
    }
}
