//! Packets out of payloads (RFC 9347, sections 2.2.3, 2.2.4 and 6.1).

use crate::block::{HEAD_LEN, Look, look};
use crate::header::{Congestion, Header, HeaderError};

/// Takes what a payload holds; the memory is its own.
pub trait Sink {
    /// A whole packet.
    fn packet(&mut self, bytes: &[u8]);
    /// Pieces of a packet follow, whose length is this if it is known yet; false if there is no memory for it.
    fn begin(&mut self, len: Option<usize>) -> bool;
    /// The next piece; false if the packet becomes too long for the memory.
    fn append(&mut self, bytes: &[u8]) -> bool;
    /// The piece before was the last one.
    fn complete(&mut self);
    /// The packet has no further piece.
    fn abort(&mut self);
}

/// Error of a payload, or of its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The payload has no header.
    Header(HeaderError),
    /// A block of no kind that there is, or with a length that no packet has: what is behind it is lost.
    Block,
    /// The payload does not continue the packet that the one before has begun.
    Offset,
    /// There was no memory for a packet in pieces.
    Memory,
}

/// Contents of a payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Packets that lay in it as a whole.
    pub whole: u32,
    /// Packets of which the last piece lay in it.
    pub joined: u32,
    /// Packets given up: a piece did not come.
    pub given_up: u32,
    /// True if it was all padding, or empty.
    pub is_padding: bool,
    /// Congestion report of the other end.
    pub congestion: Option<Congestion>,
    /// The first thing that was wrong.
    pub fault: Option<Fault>,
}

/// Takes payloads in the order of their sequence numbers apart. Keeps at most one packet that is not complete.
#[derive(Debug, Default)]
pub struct Deaggregator {
    partial: Option<Partial>,
}

/// A packet of which pieces are missing.
#[derive(Clone, Copy, Debug)]
struct Partial {
    /// The number of the payload with its next piece.
    next: u64,
    /// Bytes of the packet that have arrived.
    got: usize,
    /// Length of the packet, once its length field has arrived.
    len: Option<usize>,
    /// Beginning of the packet, until its length is known.
    head: [u8; HEAD_LEN],
}

impl Partial {
    /// One whose first bytes are these; none if they are those of no packet.
    fn new(number: u64, bytes: &[u8]) -> Option<Partial> {
        let next = number.wrapping_add(1);
        let mut partial = Partial { next, got: 0, len: None, head: [0; HEAD_LEN] };
        partial.add(bytes).then_some(partial)
    }

    /// Adds the next bytes; false if no packet is so.
    fn add(&mut self, bytes: &[u8]) -> bool {
        if self.len.is_none() {
            let room = self.head.get_mut(self.got..).unwrap_or_default();
            room.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
            let there = (self.got + bytes.len()).min(HEAD_LEN);
            match look(self.head.get(..there).unwrap_or_default()) {
                Look::Packet(len) => self.len = Some(len),
                Look::Short => {}
                Look::Bad | Look::Pad => return false,
            }
        }
        self.got += bytes.len();
        self.len.is_none_or(|len| self.got <= len)
    }
}

impl Deaggregator {
    /// Takes a payload apart. `number` is its sequence number, `payload` all of it, from its header on.
    #[inline]
    pub fn payload(&mut self, number: u64, payload: &[u8], sink: &mut impl Sink) -> Found {
        let mut found = Found::default();
        let (header, blocks) = match Header::parse(payload) {
            Ok(parsed) => parsed,
            Err(error) => {
                found.fault = Some(Fault::Header(error));
                self.give_up(sink, &mut found);
                return found;
            }
        };
        found.congestion = header.congestion;
        let offset = usize::from(header.block_offset);
        found.is_padding = offset == 0 && blocks.first().is_none_or(|first| first >> 4 == 0);
        if self.partial.is_some() {
            self.go_on(number, (offset, found.is_padding), blocks, sink, &mut found);
        }
        // The rest of a packet whose beginning did not come is skipped.
        let rest = blocks.get(offset..).unwrap_or_default();
        if !rest.is_empty() && !found.is_padding {
            self.blocks(number, rest, sink, &mut found);
        }
        found
    }

    /// True if pieces of a packet wait for others.
    pub fn is_partial(&self) -> bool {
        self.partial.is_some()
    }

    /// Gives up the packet that is not complete; true if there was one.
    pub fn abort(&mut self, sink: &mut impl Sink) -> bool {
        let had = self.partial.take().is_some();
        if had {
            sink.abort();
        }
        had
    }

    fn give_up(&mut self, sink: &mut impl Sink, found: &mut Found) {
        found.given_up += u32::from(self.abort(sink));
    }

    /// Goes on with the packet that is not complete.
    fn go_on(
        &mut self,
        number: u64,
        (offset, is_padding): (usize, bool),
        blocks: &[u8],
        sink: &mut impl Sink,
        found: &mut Found,
    ) {
        let Some(mut partial) = self.partial else { return };
        if partial.next != number {
            return self.give_up(sink, found);
        }
        partial.next = number.wrapping_add(1);
        // May stand between pieces (section 2.2.3).
        if is_padding {
            self.partial = Some(partial);
            return;
        }
        let piece = blocks.get(..offset).unwrap_or(blocks);
        let before = partial.got;
        // The offset says how much is left of the packet, here and behind.
        let goes_on = partial.add(piece) && offset > 0;
        let fits = goes_on && partial.len.is_none_or(|len| len - before == offset);
        if !fits {
            found.fault.get_or_insert(Fault::Offset);
            return self.give_up(sink, found);
        }
        if !sink.append(piece) {
            found.fault.get_or_insert(Fault::Memory);
            return self.give_up(sink, found);
        }
        if partial.len == Some(partial.got) {
            self.partial = None;
            found.joined += 1;
            sink.complete();
        } else if offset > blocks.len() {
            self.partial = Some(partial);
        } else {
            // The rest is said to be here, and is not.
            found.fault.get_or_insert(Fault::Offset);
            self.give_up(sink, found);
        }
    }

    /// Blocks that begin here.
    #[inline]
    fn blocks(&mut self, number: u64, mut rest: &[u8], sink: &mut impl Sink, found: &mut Found) {
        while !rest.is_empty() {
            match look(rest) {
                Look::Pad => return,
                Look::Packet(len) if let Some((packet, behind)) = rest.split_at_checked(len) => {
                    found.whole += 1;
                    sink.packet(packet);
                    rest = behind;
                }
                Look::Packet(_) | Look::Short => {
                    return self.begin(number, rest, sink, found);
                }
                Look::Bad => {
                    found.fault.get_or_insert(Fault::Block);
                    return;
                }
            }
        }
    }

    /// The beginning of a packet that goes on in the next payload.
    fn begin(&mut self, number: u64, piece: &[u8], sink: &mut impl Sink, found: &mut Found) {
        let Some(partial) = Partial::new(number, piece) else { return };
        if !sink.begin(partial.len) {
            found.fault.get_or_insert(Fault::Memory);
            return;
        }
        if sink.append(piece) {
            self.partial = Some(partial);
        } else {
            found.fault.get_or_insert(Fault::Memory);
            found.given_up += 1;
            sink.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets as they came, those in pieces of 100 bytes at most.
    #[derive(Default)]
    struct Got {
        packets: Vec<Vec<u8>>,
        partial: Option<Vec<u8>>,
    }

    impl Sink for Got {
        fn packet(&mut self, bytes: &[u8]) {
            self.packets.push(bytes.to_vec());
        }

        fn begin(&mut self, len: Option<usize>) -> bool {
            assert!(len.is_none_or(|len| len >= 20));
            assert!(self.partial.replace(Vec::new()).is_none());
            true
        }

        fn append(&mut self, bytes: &[u8]) -> bool {
            let partial = self.partial.as_mut().unwrap();
            partial.extend(bytes);
            partial.len() <= 100
        }

        fn complete(&mut self) {
            self.packets.extend(self.partial.take());
        }

        fn abort(&mut self) {
            assert!(self.partial.take().is_some());
        }
    }

    fn v4(len: u8) -> Vec<u8> {
        let mut packet = vec![0xab; len.into()];
        packet[..4].copy_from_slice(&[0x45, 0, 0, len]);
        packet
    }

    fn v6(payload_len: u8) -> Vec<u8> {
        let mut packet = vec![0xcd; 40 + usize::from(payload_len)];
        packet[..7].copy_from_slice(&[0x60, 0, 0, 0, 0, payload_len, 59]);
        packet
    }

    fn payload(offset: u16, parts: &[&[u8]]) -> Vec<u8> {
        let [high, low] = offset.to_be_bytes();
        [&[0, 0, high, low], &parts.concat()[..]].concat()
    }

    /// Packets out of these payloads, numbered from 1, and what was found in the last.
    fn run(payloads: &[Vec<u8>]) -> (Vec<Vec<u8>>, Found) {
        let (mut deaggregator, mut got, mut found) =
            (Deaggregator::default(), Got::default(), None);
        for (number, payload) in (1..).zip(payloads) {
            found = Some(deaggregator.payload(number, payload, &mut got));
            assert_eq!(deaggregator.is_partial(), got.partial.is_some());
        }
        (got.packets, found.unwrap())
    }

    /// The figures of RFC 9347, appendix A: packets one behind the other, one of them over payloads.
    #[test]
    fn packets_lie_one_behind_the_other_and_across() {
        let (one, two, three) = (v4(30), v6(20), v4(50));
        let (begin, end) = three.split_at(13);
        let (packets, found) =
            run(&[payload(0, &[&one, &two, begin]), payload(37, &[end, &one, &[0; 9]])]);
        assert_eq!(packets, [one.clone(), two, three, one]);
        assert_eq!(found, Found { whole: 1, joined: 1, ..Found::default() });
    }

    #[test]
    fn a_packet_may_take_many_payloads_with_padding_between() {
        for packet in [v4(60), v6(20)] {
            for first in 1..20 {
                let (begin, rest) = packet.split_at(first);
                let (middle, end) = rest.split_at(3);
                let (packets, found) = run(&[
                    payload(0, &[begin]),
                    payload(rest.len() as u16, &[middle]),
                    payload(0, &[&[0; 20]]),
                    payload(0, &[]),
                    payload(end.len() as u16, &[end]),
                ]);
                assert_eq!((packets, found.joined), (vec![packet.clone()], 1), "{first}");
            }
        }
    }

    #[test]
    fn a_packet_with_a_piece_lost_is_given_up_and_the_next_one_is_found() {
        let (one, two) = (v4(60), v4(20));
        let mut deaggregator = Deaggregator::default();
        let mut got = Got::default();
        deaggregator.payload(1, &payload(0, &[&one[..30]]), &mut got);
        let found = deaggregator.payload(3, &payload(10, &[&one[50..], &two]), &mut got);
        assert_eq!(found, Found { whole: 1, given_up: 1, ..Found::default() });
        // The beginning is lost: what is left of it goes on behind the payload.
        let found = deaggregator.payload(4, &payload(50, &[&one[10..30]]), &mut got);
        assert_eq!(found, Found::default());
        assert_eq!(got.packets, [two]);
    }

    #[test]
    fn a_payload_that_contradicts_itself_or_the_one_before_is_told() {
        let (one, two) = (v4(60), v4(20));
        let begin = payload(0, &[&one[..30]]);
        let offset = Some(Fault::Offset);
        for (payloads, fault, packets) in [
            (vec![vec![0, 0]], Some(Fault::Header(HeaderError::Truncated)), 0),
            (vec![v4(40)], Some(Fault::Header(HeaderError::SubType(0x45))), 0),
            (vec![payload(0, &[&two, &[0x45, 0, 0, 19, 0], &two])], Some(Fault::Block), 1),
            (vec![payload(0, &[&[0x45, 0, 0, 0], &two])], Some(Fault::Block), 0),
            (vec![payload(0, &[&[0x60, 0, 0, 0, 0, 0, 0], &two])], Some(Fault::Block), 0),
            (vec![payload(0, &[&[0x90], &two])], Some(Fault::Block), 0),
            // 30 bytes are left, and it says 29, or 31, or none.
            (vec![begin.clone(), payload(29, &[&one[30..], &two])], offset, 0),
            (vec![begin.clone(), payload(31, &[&one[30..], &two])], offset, 0),
            (vec![begin.clone(), payload(0, &[&two])], offset, 1),
            // Behind the end, of nothing that began: no fault, and nothing in it.
            (vec![payload(9999, &[&two])], None, 0),
            // The length comes with the second piece, and says something else.
            (vec![payload(0, &[&one[..2]]), payload(50, &[&one[2..52], &two])], offset, 1),
            // Longer than there is memory for.
            (vec![payload(0, &[&[0x45, 0, 0xff, 0xff], &[0; 97]])], Some(Fault::Memory), 0),
        ] {
            let (got, found) = run(&payloads);
            assert_eq!((found.fault, got.len()), (fault, packets), "{payloads:x?}");
        }
    }

    #[test]
    fn what_is_not_complete_can_be_given_up() {
        let (mut deaggregator, mut got) = (Deaggregator::default(), Got::default());
        assert!(!deaggregator.abort(&mut got));
        deaggregator.payload(1, &payload(0, &[&v4(60)[..30]]), &mut got);
        assert!(deaggregator.abort(&mut got));
        assert!(!deaggregator.is_partial() && got.partial.is_none());
    }
}
