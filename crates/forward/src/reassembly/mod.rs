//! Fragments that wait for the others of their packet (RFC 791 §3.2, RFC 8200 §4.5).
//!
//! [`Reassembler`] keeps fragments until all of a packet are there, or until the first one has come and
//! says that they go on as they are. It knows nothing of their content: [`join`] makes one packet of them.
//!
//! ```text
//!   push ──> waiting ──── complete, or judged by the first ────> next_done, pop_piece
//!               │
//!               └─ overlap, limits, time ──────────────────────> pop_gone
//! ```
//!
//! | case | what happens |
//! | --- | --- |
//! | any order | put together when the last piece has come |
//! | an exact repetition | that fragment alone is refused |
//! | overlap; two ends; data behind the end | the whole packet is discarded, and what comes of it later (RFC 5722 §3, RFC 8200 §4.5, for IPv4 too) |
//! | not a multiple of 8 bytes before the end; empty | that fragment alone is refused |
//! | more fragments than a packet may have | the whole packet is discarded |
//! | a source that has too much here | its own oldest packet gives way |
//! | too much in all | the oldest packet gives way |
//! | time is up | all that came of the packet is given up |
//!
//! All memory is allocated when it is made. The cost of a fragment is bounded by
//! [`ReassemblyLimits::per_packet`].

pub mod join;
mod ledger;
mod packets;
mod piece;
mod slots;

use std::collections::VecDeque;

use ledger::Ledger;
use packets::{Packets, State};
pub use piece::{FragmentKey, Piece, Unjoined};
use slots::{Chain, Slots};

/// How much may wait, and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReassemblyLimits {
    /// Fragments in all.
    pub fragments: usize,
    /// Packets of which something waits, or is remembered.
    pub packets: usize,
    /// Fragments and packets of one source address, added up.
    pub per_source: usize,
    /// Fragments of one packet.
    pub per_packet: usize,
    /// How long a packet is waited for, from its first arrival on, in ns.
    pub timeout_ns: u64,
}

/// Treatment of a packet, chosen by its first fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment<M> {
    /// The fragments are put together.
    Join,
    /// The fragments go on as they came, each with this beside it.
    Pass(M),
}

/// Fragments that go on. [`Reassembler::pop_piece`] takes them out, in the order of their arrival.
#[derive(Debug)]
#[must_use = "its fragments stay where they are until they are taken out"]
pub struct Done<M> {
    /// All fragments of a packet, or some that go on as they came.
    pub fate: Fate<M>,
    /// How many they are.
    pub count: usize,
    chain: Chain,
}

/// Treatment of fragments that are done with waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate<M> {
    /// They are all of one packet.
    Join {
        /// Length of the headers in front of the fragmentable part, in bytes.
        head_len: usize,
        /// Length of the fragmentable part, in bytes.
        len: usize,
    },
    /// They go on as they came.
    Pass(M),
}

/// Fragments of type `T` that wait for the others of their packets. One owner: each worker has its own.
///
/// A piece that [`Reassembler::push`] takes in comes out once, by [`Reassembler::pop_piece`] or
/// [`Reassembler::pop_gone`]. Call the latter after each `push`, `expire` and `clear` until it gives no
/// more: only then is there room again.
pub struct Reassembler<T, M> {
    limits: ReassemblyLimits,
    slots: Slots<T>,
    packets: Packets<M>,
    sources: Ledger,
    done: VecDeque<Done<M>>,
    gone: Chain,
    /// Fragments that wait, or have not been taken out.
    len: usize,
}

impl<T, M: Copy> Reassembler<T, M> {
    /// An empty one with all its memory.
    pub fn new(limits: ReassemblyLimits) -> Reassembler<T, M> {
        Reassembler {
            limits,
            slots: Slots::new(limits.fragments),
            packets: Packets::new(limits.packets),
            sources: Ledger::new(limits.packets),
            done: VecDeque::with_capacity(limits.fragments),
            gone: Chain::default(),
            len: 0,
        }
    }

    /// How many fragments are in it.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// True if there is no fragment.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// True if nothing waits and nothing is remembered.
    pub fn is_idle(&self) -> bool {
        self.packets.oldest().is_none()
    }

    /// True if [`Reassembler::next_done`] has a packet.
    pub fn has_done(&self) -> bool {
        !self.done.is_empty()
    }

    /// Takes a fragment in. `judge` says what is to become of its packet; it is asked once, with the
    /// first fragment (that of offset 0) when that comes.
    ///
    /// # Errors
    /// The fragment comes back, and why. Others of its packet may be gone with it.
    pub fn push(
        &mut self,
        key: FragmentKey,
        piece: Piece,
        item: T,
        now_ns: u64,
        judge: impl FnOnce(&T) -> Treatment<M>,
    ) -> Result<(), (T, Unjoined)> {
        if piece.len == 0 || piece.more && !piece.len.is_multiple_of(8) {
            return Err((item, Unjoined::Malformed));
        }
        let Some(at) = self.packets.find(&key).or_else(|| self.begin(key, now_ns)) else {
            return Err((item, Unjoined::Limit));
        };
        if let Err(reason) = self.check(at, piece) {
            if reason != Unjoined::Duplicate {
                self.discard(at, reason);
            }
            return Err((item, reason));
        }
        if !self.has_room_at_source(at) {
            self.discard(at, Unjoined::Limit);
            return Err((item, Unjoined::Limit));
        }
        let treatment = (piece.offset == 0).then(|| judge(&item));
        // No room: all are on their way out, and were not taken.
        let slot = self.slots.put(item, piece).map_err(|item| (item, Unjoined::Limit))?;
        self.len += 1;
        self.enter(at, piece, slot, treatment);
        self.make_room(at);
        Ok(())
    }

    /// Gives up what has waited too long.
    pub fn expire(&mut self, now_ns: u64) {
        while let Some(at) = self.packets.oldest().filter(|at| self.packets.is_over(*at, now_ns)) {
            self.remove(at, Unjoined::Timeout);
        }
    }

    /// Gives up all that waits.
    pub fn clear(&mut self) {
        while let Some(at) = self.packets.oldest() {
            self.remove(at, Unjoined::Timeout);
        }
    }

    /// The next fragments that go on.
    pub fn next_done(&mut self) -> Option<Done<M>> {
        self.done.pop_front()
    }

    /// The next of them, in the order of arrival.
    pub fn pop_piece(&mut self, done: &mut Done<M>) -> Option<(Piece, T)> {
        let (piece, item, _) = self.slots.pop(&mut done.chain)?;
        self.len -= 1;
        Some((piece, item))
    }

    /// A fragment that comes to nothing.
    pub fn pop_gone(&mut self) -> Option<(T, Unjoined)> {
        let (_, item, reason) = self.slots.pop(&mut self.gone)?;
        self.len -= 1;
        Some((item, reason))
    }

    /// A packet of which this is the first arrival. The oldest gives way if there is no place.
    fn begin(&mut self, key: FragmentKey, now_ns: u64) -> Option<usize> {
        while self.sources.charge(key.src) + 2 > self.limits.per_source {
            // Its source has nothing here: then the limit is too small for anything.
            let oldest = self.sources.oldest(key.src)?;
            self.remove(oldest, Unjoined::Limit);
        }
        if self.packets.is_full() {
            let oldest = self.packets.oldest()?;
            self.remove(oldest, Unjoined::Limit);
        }
        let at = self.packets.insert(key, now_ns.saturating_add(self.limits.timeout_ns))?;
        self.sources.enter(key.src, at, &mut self.packets);
        Some(at)
    }

    /// Checks that a fragment fits those that came before it.
    fn check(&self, at: usize, piece: Piece) -> Result<(), Unjoined> {
        let packet = self.packets.at(at);
        match packet.state {
            State::Discarded(reason) => return Err(reason),
            State::Passing(_) => {}
            State::Waiting if packet.count >= self.limits.per_packet => {
                return Err(Unjoined::Limit);
            }
            State::Waiting => {}
        }
        let span = piece.span();
        let is_past_end = match packet.end {
            Some(end) if piece.more => span.end > end,
            Some(end) => span.end != end,
            None => !piece.more && packet.reach > span.end,
        };
        if matches!(packet.state, State::Passing(_)) {
            // Those that went on are not remembered, but the first, which was judged.
            return match span.start < packet.first_len {
                true if span == (0..packet.first_len) => Err(Unjoined::Duplicate),
                false if !is_past_end => Ok(()),
                _ => Err(Unjoined::Overlap),
            };
        }
        let mut others = self.slots.pieces(packet.chain);
        let touches = |other: &Piece| {
            let other = other.span();
            other.start < span.end && span.start < other.end
        };
        match others.find(touches) {
            Some(other) if other == piece => Err(Unjoined::Duplicate),
            None if !is_past_end => Ok(()),
            _ => Err(Unjoined::Overlap),
        }
    }

    /// True if the packet's source may have one more fragment here. Its older packets are given up
    /// for it.
    fn has_room_at_source(&mut self, at: usize) -> bool {
        let src = self.packets.at(at).key.src;
        while self.sources.charge(src) >= self.limits.per_source {
            match self.sources.oldest(src) {
                Some(oldest) if oldest != at => self.remove(oldest, Unjoined::Limit),
                _ => return false,
            }
        }
        true
    }

    /// Enters a fragment that lies in a slot, and moves on what can go on.
    fn enter(&mut self, at: usize, piece: Piece, slot: usize, treatment: Option<Treatment<M>>) {
        let packet = self.packets.at_mut(at);
        let span = piece.span();
        packet.bytes += piece.len;
        packet.reach = packet.reach.max(span.end);
        if !piece.more {
            packet.end = Some(span.end);
        }
        if piece.offset == 0 {
            packet.first_len = piece.len;
            packet.head_len = piece.head_len;
        }
        if let Some(Treatment::Pass(with)) = treatment {
            packet.state = State::Passing(with);
        }
        self.slots.append(&mut packet.chain, slot);
        packet.count += 1;
        let src = packet.key.src;
        self.sources.add(src, 1);
        let packet = self.packets.at_mut(at);
        let is_all = packet.end == Some(packet.bytes);
        let fate = match packet.state {
            State::Passing(with) => Fate::Pass(with),
            _ if is_all => Fate::Join { head_len: packet.head_len, len: packet.bytes },
            _ => return,
        };
        let (chain, count) =
            (core::mem::take(&mut packet.chain), core::mem::take(&mut packet.count));
        self.sources.take(src, count);
        self.done.push_back(Done { fate, count, chain });
        if is_all {
            self.forget(at);
        }
    }

    /// Sees to it that the next fragment finds a slot: the oldest packet but this one gives way.
    fn make_room(&mut self, at: usize) {
        if self.slots.is_full() {
            let mut oldest = self.packets.oldest();
            while let Some(next) = oldest.filter(|next| *next == at || !self.has_pieces(*next)) {
                oldest = self.packets.newer(next);
            }
            if let Some(oldest) = oldest.or(Some(at)).filter(|at| self.packets.is_used(*at)) {
                self.remove(oldest, Unjoined::Limit);
            }
        }
    }

    fn has_pieces(&self, at: usize) -> bool {
        self.packets.at(at).count > 0
    }

    /// Gives up a packet, and remembers that, so that what comes of it later is given up too.
    fn discard(&mut self, at: usize, reason: Unjoined) {
        self.give_up_pieces(at, reason);
        let packet = self.packets.at_mut(at);
        if !matches!(packet.state, State::Discarded(_)) {
            packet.state = State::Discarded(reason);
        }
    }

    /// Gives up a packet, and forgets it.
    fn remove(&mut self, at: usize, reason: Unjoined) {
        self.give_up_pieces(at, reason);
        self.forget(at);
    }

    fn give_up_pieces(&mut self, at: usize, reason: Unjoined) {
        let packet = self.packets.at_mut(at);
        let (mut chain, count) =
            (core::mem::take(&mut packet.chain), core::mem::take(&mut packet.count));
        let src = packet.key.src;
        self.sources.take(src, count);
        self.slots.give_up(&mut chain, reason, &mut self.gone);
    }

    /// Forgets a packet that has no pieces here.
    fn forget(&mut self, at: usize) {
        let src = self.packets.at(at).key.src;
        self.sources.leave(src, at, &mut self.packets);
        self.packets.remove(at);
    }
}

impl<T, M> core::fmt::Debug for Reassembler<T, M> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Reassembler({} fragments)", self.len)
    }
}

#[cfg(test)]
mod tests;
