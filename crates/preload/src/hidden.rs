//! Culvert's own routes and rules, taken out of what a program receives from rtnetlink.
//!
//! An IKE daemon that dumps the routing tables would take culvert's routes for Linux's: it would
//! look for the peer behind the private interface, and send its key exchange there. They have a
//! protocol number of their own ([`ROUTE_PROTOCOL`]), and are taken out of dumps and of
//! notifications. The answer to a look-up of one destination stays as the kernel gave it.
//!
//! ```text
//! dump:          | route | culvert's | route | done |   ->  | route | route | done |
//! notification:  | culvert's |                          ->  | NLMSG_NOOP |
//! ```
//!
//! A dump closes up, because programs (`ip`) take a dump that holds anything but routes for
//! broken. A notification that is culvert's alone cannot close up: what is received would be empty,
//! which means an end, and a program that was told by `poll` that there is something must get it.

use crate::netlink::{self, F_MULTI, HEADER_LEN, Header};
use crate::shim_protocol::ROUTE_PROTOCOL;

/// Rest of a datagram, once messages were hidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// The datagram is as it was.
    All,
    /// So many bytes of it, at its front.
    Bytes(usize),
    /// Nothing of this part of a dump; the next one follows.
    Nothing,
}

/// True if any message may have to be hidden. A cheap look, to spare the rest.
pub(crate) fn has_hidden(datagram: &[u8]) -> bool {
    messages(datagram).is_some_and(|mut all| all.any(|(header, body)| is_ours(header.kind, body)))
}

/// Takes culvert's routes and rules out, in place. `port_id` is the receiving socket's own: a
/// message for it that is not part of a dump answers a look-up.
///
/// A datagram that is not whole, or whose lengths make no sense, is left alone.
pub(crate) fn hide(datagram: &mut [u8], port_id: u32) -> Left {
    if messages(datagram).is_none() {
        return Left::All;
    }
    let (mut from, mut to) = (0, 0);
    let (mut any, mut is_dump) = (false, false);
    while let Some(header) = datagram.get(from..).and_then(|rest| netlink::headers(rest).next()) {
        let end = (from + header.len as usize).next_multiple_of(4).min(datagram.len());
        let body = datagram.get(from + HEADER_LEN..from + header.len as usize).unwrap_or_default();
        let in_dump = header.flags & F_MULTI != 0;
        is_dump |= in_dump;
        let hides = is_ours(header.kind, body) && (in_dump || header.port_id != port_id);
        if hides {
            any = true;
        } else {
            datagram.copy_within(from..end, to);
            to += end - from;
        }
        from = end;
    }
    match (any, to) {
        (false, _) => Left::All,
        (true, 0) if is_dump => Left::Nothing,
        (true, 0) => {
            // Nothing was moved: the messages still stand where they stood.
            blank(datagram);
            Left::All
        }
        (true, _) => Left::Bytes(to),
    }
}

/// Turns every message into one that says nothing.
fn blank(datagram: &mut [u8]) {
    let mut at = 0;
    while let Some(header) = datagram.get(at..).and_then(|rest| netlink::headers(rest).next()) {
        if let Some(kind) = datagram.get_mut(at + 4..at + 6) {
            kind.copy_from_slice(&NOOP.to_ne_bytes());
        }
        at += (header.len as usize).next_multiple_of(4);
    }
}

/// The messages of a datagram with their bodies; `None` if they do not fill it to its end.
fn messages(datagram: &[u8]) -> Option<impl Iterator<Item = (Header, &[u8])>> {
    let mut at = 0;
    for header in netlink::headers(datagram) {
        at += (header.len as usize).next_multiple_of(4);
    }
    // The last one's padding may be missing.
    (at >= datagram.len() && !datagram.is_empty()).then(|| {
        let mut at = 0;
        netlink::headers(datagram).map(move |header| {
            let body = datagram.get(at + HEADER_LEN..at + header.len as usize);
            at += (header.len as usize).next_multiple_of(4);
            (header, body.unwrap_or_default())
        })
    })
}

/// True if a message is about a route or a rule of culvert's.
fn is_ours(kind: u16, body: &[u8]) -> bool {
    match kind {
        // `rtm_protocol` of struct rtmsg.
        NEWROUTE | DELROUTE => body.len() >= FIXED_LEN && body.get(5) == Some(&ROUTE_PROTOCOL),
        NEWRULE | DELRULE => body.get(FIXED_LEN..).and_then(rule_protocol) == Some(&ROUTE_PROTOCOL),
        _ => false,
    }
}

/// The value of the attribute `FRA_PROTOCOL`.
fn rule_protocol(mut attributes: &[u8]) -> Option<&u8> {
    loop {
        let half = |at: usize| Some(u16::from_ne_bytes(*attributes.get(at..)?.first_chunk()?));
        let (len, kind) = (usize::from(half(0)?), half(2)?);
        let value = attributes.get(4..len)?;
        if kind == FRA_PROTOCOL {
            return value.first();
        }
        attributes = attributes.get(len.next_multiple_of(4)..)?;
    }
}

/// Length of struct rtmsg and of struct fib_rule_hdr.
const FIXED_LEN: usize = 12;

// Of linux/netlink.h, linux/rtnetlink.h and linux/fib_rules.h.
const NOOP: u16 = 1;
const NEWROUTE: u16 = 24;
const DELROUTE: u16 = 25;
const NEWRULE: u16 = 32;
const DELRULE: u16 = 33;
const FRA_PROTOCOL: u16 = 21;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::{DONE, message};
    use proptest::prelude::*;

    const PORT: u32 = 4711;

    fn route(protocol: u8) -> Vec<u8> {
        let mut body = vec![2, 24, 0, 0, 219, protocol, 0, 1, 0, 0, 0, 0];
        body.extend([8, 0, 1, 0, 10, 0, 0, 0]);
        body
    }

    fn rule(protocol: u8) -> Vec<u8> {
        let mut body = vec![2, 0, 0, 0, 219, 0, 0, 1, 0, 0, 0, 0];
        body.extend(8u16.to_ne_bytes());
        body.extend([6, 0, 210, 0, 0, 0]);
        body.extend(5u16.to_ne_bytes());
        body.extend(FRA_PROTOCOL.to_ne_bytes());
        body.extend([protocol, 0, 0, 0]);
        body
    }

    #[test]
    fn a_dump_closes_up() {
        let other = message(NEWROUTE, F_MULTI, 7, PORT, &route(4));
        let ours = message(NEWROUTE, F_MULTI, 7, PORT, &route(ROUTE_PROTOCOL));
        let done = message(DONE, F_MULTI, 7, PORT, &[0; 4]);
        let mut datagram = [ours.clone(), other.clone(), ours.clone(), done.clone()].concat();
        assert!(has_hidden(&datagram));
        let Left::Bytes(len) = hide(&mut datagram, PORT) else { panic!() };
        assert_eq!(datagram[..len], [other.clone(), done].concat());
        let mut datagram = ours.clone();
        assert_eq!(hide(&mut datagram, PORT), Left::Nothing);
        let mut datagram = other.clone();
        assert!(!has_hidden(&datagram));
        assert_eq!(hide(&mut datagram, PORT), Left::All);
        assert_eq!(datagram, other);
    }

    #[test]
    fn rules_are_told_by_an_attribute() {
        let other = message(NEWRULE, F_MULTI, 7, PORT, &rule(2));
        let ours = message(NEWRULE, F_MULTI, 7, PORT, &rule(ROUTE_PROTOCOL));
        let mut datagram = [other.clone(), ours].concat();
        assert_eq!(hide(&mut datagram, PORT), Left::Bytes(other.len()));
        assert_eq!(datagram[..other.len()], other);
    }

    #[test]
    fn notifications_become_nothing_and_look_ups_stay() {
        for kind in [NEWROUTE, DELROUTE] {
            let mut event = message(kind, 0, 7, 1, &route(ROUTE_PROTOCOL));
            let len = event.len();
            assert_eq!(hide(&mut event, PORT), Left::All);
            let heads: Vec<_> = netlink::headers(&event).map(|h| (h.kind, h.len)).collect();
            assert_eq!(heads, [(NOOP, len as u32)]);
            let answer = message(kind, 0, 7, PORT, &route(ROUTE_PROTOCOL));
            let mut datagram = answer.clone();
            assert_eq!(hide(&mut datagram, PORT), Left::All);
            assert_eq!(datagram, answer);
        }
    }

    #[test]
    fn what_is_cut_or_senseless_is_left_alone() {
        let ours = message(NEWROUTE, F_MULTI, 7, PORT, &route(ROUTE_PROTOCOL));
        let two = [ours.clone(), ours].concat();
        for len in 0..two.len() {
            if len == two.len() / 2 {
                continue;
            }
            let mut datagram = two[..len].to_vec();
            assert_eq!(hide(&mut datagram, PORT), Left::All, "{len}");
            assert_eq!(datagram, two[..len]);
        }
        // Too short to have a protocol.
        let mut short = message(NEWROUTE, F_MULTI, 7, PORT, &route(ROUTE_PROTOCOL)[..8]);
        assert_eq!(hide(&mut short, PORT), Left::All);
    }

    proptest! {
        #[test]
        fn noise_is_harmless(mut bytes in proptest::collection::vec(0..40u8, 0..200)) {
            let before = bytes.clone();
            match hide(&mut bytes, PORT) {
                Left::Bytes(len) => prop_assert!(len < before.len()),
                Left::Nothing => {}
                Left::All => prop_assert_eq!(bytes.len(), before.len()),
            }
        }

        /// Descriptors that were not ours are left, in their order.
        #[test]
        fn the_rest_stays(list in proptest::collection::vec(any::<bool>(), 1..9)) {
            let one = |(n, ours): (usize, &bool)| {
                let protocol = if *ours { ROUTE_PROTOCOL } else { 4 };
                message(NEWROUTE, F_MULTI, n as u32, PORT, &route(protocol))
            };
            let mut datagram: Vec<u8> = list.iter().enumerate().flat_map(one).collect();
            let whole = datagram.len();
            let len = match hide(&mut datagram, PORT) {
                Left::All => whole,
                Left::Bytes(len) => len,
                Left::Nothing => 0,
            };
            let seen: Vec<u32> = netlink::headers(&datagram[..len]).map(|h| h.seq).collect();
            let wanted: Vec<u32> =
                (0..).zip(&list).filter(|(_, ours)| !**ours).map(|(n, _)| n).collect();
            prop_assert_eq!(seen, wanted);
        }
    }
}
