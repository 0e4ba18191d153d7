//! The places that fragments lie in: numbered, and linked into chains.

use super::piece::{Piece, Unjoined};

/// Fragments one behind the other: the first and the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Chain {
    ends: Option<(usize, usize)>,
}

impl Chain {
    pub(super) const EMPTY: Chain = Chain { ends: None };
}

struct Slot<T> {
    item: Option<T>,
    piece: Piece,
    reason: Unjoined,
    /// The next of its chain, or the next free one.
    next: Option<usize>,
}

/// A fixed number of slots for packets, of which free ones form a list.
pub(super) struct Slots<T> {
    slots: Vec<Slot<T>>,
    free: Option<usize>,
}

impl<T> Slots<T> {
    pub(super) fn new(count: usize) -> Slots<T> {
        let slot = |at| Slot {
            item: None,
            piece: Piece::default(),
            reason: Unjoined::Limit,
            next: Some(at + 1).filter(|next| *next < count),
        };
        let slots = (0..count).map(slot).collect();
        Slots { slots, free: Some(0).filter(|_| count > 0) }
    }

    pub(super) const fn is_full(&self) -> bool {
        self.free.is_none()
    }

    /// Puts a fragment into a free place; it comes back if there is none.
    pub(super) fn put(&mut self, item: T, piece: Piece) -> Result<usize, T> {
        let Some((at, slot)) = self.free.and_then(|at| Some((at, self.slots.get_mut(at)?))) else {
            return Err(item);
        };
        self.free = slot.next;
        *slot = Slot { item: Some(item), piece, reason: Unjoined::Limit, next: None };
        Ok(at)
    }

    pub(super) fn append(&mut self, chain: &mut Chain, at: usize) {
        chain.ends = match chain.ends {
            Some((first, last)) => {
                if let Some(last) = self.slots.get_mut(last) {
                    last.next = Some(at);
                }
                Some((first, at))
            }
            None => Some((at, at)),
        };
    }

    /// Takes the first fragment of a chain out.
    pub(super) fn pop(&mut self, chain: &mut Chain) -> Option<(Piece, T, Unjoined)> {
        let (first, last) = chain.ends?;
        let slot = self.slots.get_mut(first)?;
        chain.ends = slot.next.filter(|_| first != last).map(|next| (next, last));
        let taken = (slot.piece, slot.item.take()?, slot.reason);
        slot.next = self.free;
        self.free = Some(first);
        Some(taken)
    }

    /// Moves a chain behind another one, each of its fragments marked with a reason.
    pub(super) fn give_up(&mut self, chain: &mut Chain, reason: Unjoined, gone: &mut Chain) {
        let Some((first, last)) = chain.ends.take() else { return };
        let mut next = Some(first);
        while let Some(slot) = next.and_then(|at| self.slots.get_mut(at)) {
            slot.reason = reason;
            next = slot.next;
        }
        gone.ends = match gone.ends {
            Some((before, end)) => {
                if let Some(end) = self.slots.get_mut(end) {
                    end.next = Some(first);
                }
                Some((before, last))
            }
            None => Some((first, last)),
        };
    }

    /// Where the fragments of a chain lie in their packet.
    pub(super) fn pieces(&self, chain: Chain) -> impl Iterator<Item = Piece> {
        let mut next = chain.ends.map(|(first, _)| first);
        core::iter::from_fn(move || {
            let slot = self.slots.get(next?)?;
            next = slot.next;
            Some(slot.piece)
        })
    }
}
