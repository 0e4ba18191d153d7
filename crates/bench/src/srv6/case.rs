//! The ways of the bench `srv6`, and what their packets look like.

use core::net::Ipv6Addr;

use srv6::{Behaviour, Done, Headend, Mode, Sid};

use crate::options::Direction;
use crate::shape::Shape;
use crate::traffic::{Choice, Traffic};

/// One of the ways in turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) direction: Direction,
    pub(super) segments: usize,
}

/// The first one is without segments, and comes from Linux as in the bench `forward`: packets from a network that are
/// neither protected nor get segments would go to Linux.
pub(super) const CASES: [Case; 4] = [
    Case::of("forward", Direction::Inbound, 0),
    Case::of("H.Encaps.Red, 1 SID", Direction::Outbound, 1),
    Case::of("H.Encaps, 2 SIDs", Direction::Outbound, 2),
    Case::of("End.DX6 of 2 SIDs", Direction::Inbound, 2),
];

impl Case {
    const fn of(name: &'static str, direction: Direction, segments: usize) -> Case {
        Case { name, direction, segments }
    }

    pub(super) fn traffic(self, size: usize, flows: usize) -> Traffic {
        let shape = Shape { v6: true, ..Shape::default() };
        Traffic::new(self.direction, size, 1, flows, Choice::InTurn(0)).shaped(shape)
    }

    /// A packet of a flow as it arrives.
    pub(super) fn packet(self, traffic: &Traffic, flow: usize) -> Option<Vec<u8>> {
        let mut packet = vec![0; traffic.size];
        traffic.write(flow, &mut packet);
        match (self.direction, headend(self.segments)) {
            (Direction::Outbound, _) | (_, None) => Some(packet),
            (Direction::Inbound, Some(headend)) => {
                let mut bytes = vec![0; headend.overhead()];
                bytes.append(&mut packet);
                arrive(&headend, &mut bytes)?;
                Some(bytes)
            }
        }
    }
}

/// The headend of so many segments, none for none. One alone needs no header.
pub(super) fn headend(count: usize) -> Option<Headend> {
    let segments = [FIRST, LAST];
    let mode = if count == 1 { Mode::EncapRed } else { Mode::Encap };
    let segments = segments.get(segments.len().checked_sub(count)?..)?;
    Headend::new(mode, segments, SOURCE).ok()
}

/// A headend's result for a packet, if there are segments.
pub(crate) fn with_segments(count: usize, packet: Option<Vec<u8>>) -> Option<Vec<u8>> {
    let Some(headend) = headend(count) else { return packet };
    let mut bytes = vec![0; headend.overhead()];
    bytes.append(&mut packet?);
    headend.apply(&mut bytes).ok()?;
    Some(bytes)
}

/// Puts segments on a packet behind room for them, and has it pass all but the last one.
pub(super) fn arrive(headend: &Headend, bytes: &mut [u8]) -> Option<()> {
    headend.apply(bytes).ok()?;
    for _ in 1..headend.segments().len() {
        let done = Sid::new(Behaviour::End).process(bytes).ok()?;
        (done == Done::Onward { cut: 0 }).then_some(())?;
    }
    Some(())
}

/// Source address of the outer headers.
pub(super) const SOURCE: Ipv6Addr = Ipv6Addr::new(0xfc00, 1, 0, 0, 0, 0, 0, 0xff);
const FIRST: Ipv6Addr = Ipv6Addr::new(0xfc00, 2, 0, 0, 0, 0, 0, 1);
pub(super) const LAST: Ipv6Addr = Ipv6Addr::new(0xfc00, 2, 0, 0, 0, 0, 0, 0xd6);
/// Where the segments are.
pub(super) const DOMAIN: Ipv6Addr = Ipv6Addr::new(0xfc00, 2, 0, 0, 0, 0, 0, 0);
pub(super) const DOMAIN_LEN: u8 = 32;
/// Prefix length of [`crate::world::REMOTE`] in IPv6.
pub(super) const REMOTE_LEN: u8 = 96 + 9;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_arrive_at_their_last_segment() {
        let case = CASES[3];
        let traffic = case.traffic(60, 4);
        let packet = case.packet(&traffic, 1).unwrap();
        assert_eq!(packet.len(), 60 + 40 + 8 + 2 * 16);
        assert_eq!((&packet[24..40], packet[43]), (&LAST.octets()[..], 0));
        assert_eq!(CASES[0].packet(&CASES[0].traffic(60, 4), 1).unwrap().len(), 60);
        assert_eq!(headend(1).unwrap().overhead(), 40);
        assert_eq!((headend(0), headend(3)), (None, None));
    }
}
