//! The latest packets of a stream at its far end, for those that parity recovers.

use crate::numbered::NUMBERS;
use crate::parity::{LONGEST_COVERED, Parity, SPAN, xor};

/// How long a packet counts, in nanoseconds: less than the time in which a stream may begin anew with the same numbers.
const KEPT_NS: u64 = 1_000_000_000;

/// Reason that parity recovers nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unrecovered {
    /// All packets of its group have come.
    Complete,
    /// More than one packet of its group is missing.
    Missing,
    /// The result is no packet as the group says it is: the parity is of other packets.
    Wrong,
}

/// The last [`SPAN`] packets of a stream, with how each has come: parity is about those alone that came as itself, so that nobody
/// learns or changes by it what came from others.
#[derive(Debug)]
pub struct Memory<C> {
    slots: Box<[Slot<C>]>,
    /// [`LONGEST_COVERED`] bytes for each slot.
    bytes: Box<[u8]>,
}

#[derive(Clone, Copy, Debug)]
struct Slot<C> {
    number: u32,
    len: u16,
    kept_ns: u64,
    /// `None`: the slot is empty.
    came: Option<C>,
}

impl<C: Copy + PartialEq> Default for Memory<C> {
    fn default() -> Memory<C> {
        let empty = Slot { number: 0, len: 0, kept_ns: 0, came: None };
        Memory {
            slots: vec![empty; SPAN as usize].into(),
            bytes: vec![0; SPAN as usize * LONGEST_COVERED].into(),
        }
    }
}

impl<C: Copy + PartialEq> Memory<C> {
    /// Keeps a packet as its sender has numbered it. The first one with its number stays; one that is too long is not kept.
    pub fn keep(&mut self, number: u32, came: C, packet: &[u8], now_ns: u64) {
        let number = number % NUMBERS;
        let Memory { slots, bytes } = self;
        let at = (number % SPAN) as usize;
        let place = bytes.get_mut(at * LONGEST_COVERED..).and_then(|b| b.get_mut(..packet.len()));
        let (Some(slot), Some(place)) = (slots.get_mut(at), place) else { return };
        if packet.len() > LONGEST_COVERED || slot.is_of(number, now_ns) {
            return;
        }
        place.copy_from_slice(packet);
        // Not longer than a slot.
        *slot = Slot { number, len: packet.len() as u16, kept_ns: now_ns, came: Some(came) };
    }

    /// Makes the body of a parity packet, that came so, the one packet of its group that is missing. Returns its number and length.
    ///
    /// # Errors
    /// There is no such packet. The body may have changed.
    pub fn recover(
        &self,
        parity: &Parity,
        came: C,
        body: &mut [u8],
        now_ns: u64,
    ) -> Result<(u32, usize), Unrecovered> {
        let known = |number: u32| {
            let slot = self.slots.get((number % SPAN) as usize)?;
            (slot.is_of(number, now_ns) && slot.came == Some(came)).then_some(slot)
        };
        let mut missing = parity.numbers().filter(|number| known(*number).is_none());
        let lost = missing.next().ok_or(Unrecovered::Complete)?;
        if missing.next().is_some() {
            return Err(Unrecovered::Missing);
        }
        let mut lost_len = parity.len;
        for slot in parity.numbers().filter_map(known) {
            let from = (slot.number % SPAN) as usize * LONGEST_COVERED;
            let packet = self.bytes.get(from..from + usize::from(slot.len)).unwrap_or_default();
            if packet.len() > body.len() {
                return Err(Unrecovered::Wrong);
            }
            xor(body, packet);
            lost_len ^= slot.len;
        }
        let lost_len = usize::from(lost_len);
        // Behind the packet its padding is left.
        match body.get(lost_len..) {
            Some(padding) if lost_len > 0 && padding.iter().all(|byte| *byte == 0) => {
                Ok((lost, lost_len))
            }
            _ => Err(Unrecovered::Wrong),
        }
    }
}

impl<C> Slot<C> {
    /// True if it has the packet of a number that came lately.
    const fn is_of(&self, number: u32, now_ns: u64) -> bool {
        self.came.is_some()
            && self.number == number
            && now_ns.saturating_sub(self.kept_ns) < KEPT_NS
    }
}

#[cfg(test)]
#[path = "memory_tests.rs"]
mod tests;
