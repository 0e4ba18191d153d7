//! The inbound replay window (RFC 4303 §3.4.3, appendix A) on a ring of words (RFC 6479).
//!
//! ```text
//!   bitmap: 2^k words of 64 bits, more than the window by at least one word
//!   ... | word w-1 | word w = (edge / 64) mod 2^k | word w+1: the oldest, cleared when entered | ...
//!        <--------- window, `size` numbers --------> edge
//! ```
//!
//! Number `n` has bit `n mod 64` of word `(n / 64) mod 2^k`. Moving the edge clears only the words
//! that it enters, never shifts. Numbers are 64-bit throughout; without ESN they stop at 2^32 - 1.
//!
//! The check reads; only the commit writes, and it comes after the ICV has verified.

use core::sync::atomic::{
    AtomicU64,
    Ordering::{Relaxed, Release},
};

use outcome::DropReason;

use crate::live_numbers::LiveNumbers;
use crate::size::Shape;

/// A view of an SA's replay window in its live numbers.
///
/// One writer at a time for each SA, see [`LiveNumbers`]; others may read and see some mix of before
/// and after.
#[derive(Clone, Copy, Debug)]
pub struct ReplayWindow<'a> {
    live: &'a LiveNumbers,
    shape: Shape,
}

impl<'a> ReplayWindow<'a> {
    /// The window of this shape in these live numbers, which were made for it.
    #[inline(always)]
    pub(crate) fn new(live: &'a LiveNumbers, shape: Shape) -> ReplayWindow<'a> {
        ReplayWindow { live, shape }
    }

    /// Size in packets; 0 when the check is off.
    #[inline]
    pub fn size(&self) -> u32 {
        self.shape.window_size()
    }

    /// The highest number accepted so far.
    #[inline]
    pub fn edge(&self) -> u64 {
        self.live.edge().load(Relaxed)
    }

    /// The whole number of a packet that carries `low` (RFC 4303 appendix A2.2).
    ///
    /// The answer is the one number with these low-order bits among the 2^32 that begin at the
    /// window's lower edge; that covers both cases of the appendix, the window within one
    /// 32-bit subspace and the window across two. With the check off there is no lower edge, and
    /// the nearest number to the highest one received is taken.
    ///
    /// `edge` is the window's, now or lately: by an earlier one the answer is another only for numbers that
    /// have left the window since, and which are found too old then.
    ///
    /// # Errors
    /// [`DropReason::InReplayOld`] when that number would lie past 2^64 - 1: the packet is older
    /// than the window, as numbers never cycle.
    #[inline]
    pub fn infer(&self, edge: u64, low: u32) -> Result<u64, DropReason> {
        if !self.shape.esn() {
            return Ok(u64::from(low));
        }
        let behind = if self.size() == 0 { 1 << 31 } else { u64::from(self.size()) - 1 };
        let lowest = edge.saturating_sub(behind);
        let number = (lowest & !u64::from(u32::MAX)) | u64::from(low);
        if number >= lowest {
            return Ok(number);
        }
        number.checked_add(1 << 32).ok_or(DropReason::InReplayOld)
    }

    /// The whole number of a packet that carries `low`, if it may be accepted as things stand: changes nothing.
    ///
    /// # Errors
    /// As of [`Self::infer`] and [`Self::check`].
    #[inline(always)]
    pub fn look(&self, low: u32) -> Result<u64, DropReason> {
        let edge = self.edge();
        let number = self.infer(edge, low)?;
        if number <= edge {
            self.check(number)?;
        }
        Ok(number)
    }

    /// Brings the word near that a number has its bit in.
    #[inline(always)]
    pub fn prefetch(&self, number: u64) {
        self.word(number / 64).into_iter().for_each(mem::prefetch);
    }

    /// Checks that a packet with this number may be accepted. Changes nothing.
    ///
    /// # Errors
    /// [`DropReason::InSequenceZero`], [`DropReason::InReplayOld`] or
    /// [`DropReason::InReplayDuplicate`]. Never an error when the check is off.
    #[inline(always)]
    pub fn check(&self, number: u64) -> Result<(), DropReason> {
        if self.size() == 0 {
            return Ok(());
        }
        if number == 0 {
            return Err(DropReason::InSequenceZero);
        }
        let edge = self.edge();
        if number > edge {
            return Ok(());
        }
        if edge - number >= u64::from(self.size()) {
            return Err(DropReason::InReplayOld);
        }
        match self.bit(number) {
            true => Err(DropReason::InReplayDuplicate),
            false => Ok(()),
        }
    }

    /// True if the number lies in the window and was received.
    pub fn seen(&self, number: u64) -> bool {
        let edge = self.edge();
        self.size() != 0
            && number <= edge
            && edge - number < u64::from(self.size())
            && self.bit(number)
    }

    /// Marks a number as received; only after its packet's ICV has verified and [`Self::check`]
    /// passed.
    #[inline(always)]
    pub(crate) fn commit(&self, number: u64) {
        let edge = self.edge();
        if number > edge {
            // With the check off the edge still guides ESN inference, and people.
            self.live.edge().store(number, Relaxed);
            if number / 64 != edge / 64 {
                self.clear_entered(edge, number);
            }
        }
        if self.size() != 0
            && let Some(word) = self.word(number / 64)
        {
            word.store(word.load(Relaxed) | 1 << (number % 64), Release);
        }
    }

    /// Sets the whole window, for a state that someone else kept (`XFRM_MSG_NEWAE`, a hand-over).
    ///
    /// `seen` says for each number in the window whether it was received. Not while a worker
    /// uses the SA.
    pub fn restore(&self, edge: u64, mut seen: impl FnMut(u64) -> bool) {
        self.live.edge().store(edge, Relaxed);
        for word in self.words() {
            word.store(0, Release);
        }
        let lowest = edge.saturating_sub(u64::from(self.size().saturating_sub(1)));
        for number in (lowest.max(1)..=edge).filter(|_| self.size() != 0) {
            if seen(number)
                && let Some(word) = self.word(number / 64)
            {
                word.store(word.load(Relaxed) | 1 << (number % 64), Release);
            }
        }
    }

    /// Adds what another window of the same numbers has received, of somebody who has opened packets of the
    /// SA as well: the edge is the higher of the two, and a number counts as received if either window says
    /// so. What is below the window then is too old, as ever.
    ///
    /// `seen` says of a number up to `edge` whether the other has received it. The call of the SA's one
    /// writer.
    pub fn merge(&self, edge: u64, mut seen: impl FnMut(u64) -> bool) {
        let own = self.edge();
        if edge > own {
            self.live.edge().store(edge, Relaxed);
            if edge / 64 != own / 64 {
                self.clear_entered(own, edge);
            }
        }
        if self.size() == 0 {
            return;
        }
        let lowest = self.edge().saturating_sub(u64::from(self.size()) - 1).max(1);
        for index in lowest / 64..=edge / 64 {
            let is_new = |bit: &u64| {
                let number = index * 64 + bit;
                lowest <= number && number <= edge && seen(number)
            };
            let bits = (0..64).filter(is_new).fold(0, |bits, bit| bits | 1 << bit);
            if bits != 0
                && let Some(word) = self.word(index)
            {
                word.store(word.load(Relaxed) | bits, Release);
            }
        }
    }

    /// Clears every word that the edge has entered on its way from `edge` to `number`.
    ///
    /// The edge is stored before, and the stores stay in order: a crash in between leaves bits set
    /// that should be clear, so a fresh packet may be refused, and never the other way round.
    #[cold]
    fn clear_entered(&self, edge: u64, number: u64) {
        if self.size() == 0 {
            return;
        }
        let entered = (number / 64 - edge / 64).min(self.words().len() as u64);
        for i in 0..entered {
            if let Some(word) = self.word(number / 64 - i) {
                word.store(0, Release);
            }
        }
    }

    fn bit(&self, number: u64) -> bool {
        self.word(number / 64).is_some_and(|w| w.load(Relaxed) >> (number % 64) & 1 == 1)
    }

    /// The ring: the part of the bitmap that this size uses, a power of two.
    fn words(&self) -> &'a [AtomicU64] {
        let bitmap = self.live.bitmap();
        bitmap.get(..=self.shape.ring_mask()).unwrap_or(bitmap)
    }

    #[inline(always)]
    fn word(&self, index: u64) -> Option<&'a AtomicU64> {
        self.live.bitmap().get(index as usize & self.shape.ring_mask())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::params::{Mode, Protocol, SaFlags, SaParams};
    use crate::ring::{MAX_REPLAY_WINDOW, ring_words};

    fn view(live: &LiveNumbers, size: u32, esn: bool) -> ReplayWindow<'_> {
        let address = core::net::Ipv4Addr::LOCALHOST.into();
        let params = SaParams {
            spi: 0x100,
            src: address,
            dst: address,
            protocol: Protocol::Esp,
            mode: Mode::Tunnel,
            suite: crypto::Suite::ChaCha20Poly1305,
            encap: None,
            esn,
            replay_window: size,
            tfc_pad_len: 0,
            flags: SaFlags::default(),
        };
        ReplayWindow::new(live, Shape::new(&params))
    }

    /// The window as the RFC's words define it, without any cleverness.
    struct Model {
        size: u64,
        edge: u64,
        seen: BTreeSet<u64>,
    }

    impl Model {
        fn check(&self, number: u64) -> Result<(), DropReason> {
            if number == 0 {
                Err(DropReason::InSequenceZero)
            } else if number <= self.edge && self.edge - number >= self.size {
                Err(DropReason::InReplayOld)
            } else if self.seen.contains(&number) {
                Err(DropReason::InReplayDuplicate)
            } else {
                Ok(())
            }
        }

        fn commit(&mut self, number: u64) {
            self.edge = self.edge.max(number);
            self.seen.insert(number);
            let (edge, size) = (self.edge, self.size);
            self.seen.retain(|n| edge - n < size);
        }
    }

    /// Where each step goes, relative to the edge.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        Forward(u64),
        Back(u64),
        At(u64),
    }

    fn steps(size: u32) -> impl Strategy<Value = Vec<Step>> {
        let size = u64::from(size);
        let step = prop_oneof![
            4 => (1u64..4).prop_map(Step::Forward),
            2 => (1..size * 2 + 130).prop_map(Step::Forward),
            1 => (1u64..1 << 31).prop_map(Step::Forward),
            6 => (0..size + 2).prop_map(Step::Back),
            1 => (0..size * 3 + 200).prop_map(Step::Back),
            1 => any::<u32>().prop_map(|n| Step::At(u64::from(n))),
        ];
        proptest::collection::vec(step, 1..200)
    }

    fn sizes() -> impl Strategy<Value = u32> {
        prop_oneof![
            4 => 1u32..200,
            2 => prop::sample::select(vec![1u32, 32, 63, 64, 65, 127, 128, 129, 256, 1024, 4096]),
            2 => 1u32..=MAX_REPLAY_WINDOW,
            1 => Just(MAX_REPLAY_WINDOW),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn agrees_with_a_plain_set(
            (size, steps) in sizes().prop_flat_map(|s| (Just(s), steps(s))),
            start in prop_oneof![
                3 => Just(0u64),
                2 => (1u64 << 32) - 100..(1u64 << 32) + 100,
                1 => any::<u64>().prop_map(|n| n / 2),
            ],
        ) {
            let live = LiveNumbers::on_heap(size);
            let window = view(&live, size, true);
            let mut model = Model { size: size.into(), edge: 0, seen: BTreeSet::new() };
            if start != 0 {
                window.commit(start);
                model.commit(start);
            }
            for step in steps {
                let number = match step {
                    Step::Forward(n) => model.edge.saturating_add(n),
                    Step::Back(n) => model.edge.saturating_sub(n),
                    Step::At(n) => n,
                };
                prop_assert_eq!(window.check(number), model.check(number), "number {}", number);
                if model.check(number).is_ok() {
                    window.commit(number);
                    model.commit(number);
                    prop_assert_eq!(window.check(number), Err(DropReason::InReplayDuplicate));
                }
                prop_assert_eq!(window.edge(), model.edge);
                prop_assert_eq!(window.seen(number), model.seen.contains(&number));
            }
        }

        /// A receiver that sees low halves only, around multiples of 2^32. Where it infers another
        /// number than the sender's the ICV fails; that may happen to packets that are too old
        /// anyway, and to no other.
        #[test]
        fn low_halves_are_enough(
            (size, steps) in sizes().prop_flat_map(|s| (Just(s), steps(s))),
            subspace in 1u64..5,
            before in 0u64..70000,
        ) {
            let live = LiveNumbers::on_heap(size);
            let window = view(&live, size, true);
            let start = (subspace << 32) - before;
            window.restore(start, |_| false);
            let mut model = Model { size: size.into(), edge: start, seen: BTreeSet::new() };
            for step in steps {
                let number = match step {
                    Step::Forward(n) => model.edge + n,
                    Step::Back(n) => model.edge.saturating_sub(n),
                    Step::At(n) => (model.edge >> 32 << 32) + n,
                };
                if number >= model.edge.saturating_sub(u64::from(size) - 1) + (1 << 32) {
                    continue; // too far ahead for 32 bits to tell
                }
                let inferred = window.infer(window.edge(), number as u32).unwrap();
                if inferred != number {
                    prop_assert_eq!(model.check(number), Err(DropReason::InReplayOld));
                    continue;
                }
                prop_assert_eq!(window.check(number), model.check(number), "number {}", number);
                if model.check(number).is_ok() {
                    window.commit(number);
                    model.commit(number);
                }
            }
        }

        /// Whatever the number, within the window or less than a subspace ahead: its low half is
        /// enough to find it.
        #[test]
        fn infers_every_acceptable_number(
            size in sizes(),
            edge in prop_oneof![
                0u64..1 << 20,
                (1u64 << 32) - 70000..(1u64 << 32) + 70000,
                any::<u64>(),
            ],
            ahead in any::<bool>(),
            distance in prop_oneof![0u64..70000, 0u64..(1 << 32) - 70000],
        ) {
            let live = LiveNumbers::on_heap(size);
            let window = view(&live, size, true);
            window.restore(edge, |_| false);
            let number = if ahead {
                edge.checked_add(distance)
            } else {
                edge.checked_sub(distance % u64::from(size))
            };
            prop_assume!(number.is_some());
            let number = number.unwrap_or(0);
            prop_assert_eq!(window.infer(window.edge(), number as u32), Ok(number));
        }

        /// Two that have opened packets of one SA, each with a window of its own: what one of them then
        /// accepts is what neither has.
        #[test]
        fn a_merged_window_has_what_either_has(
            (size, ours, theirs, after) in
                sizes().prop_flat_map(|s| (Just(s), steps(s), steps(s), steps(s))),
            esn: bool,
            start in prop_oneof![2 => 1u64..1000, 1 => (1u64 << 31) - 100..(1u64 << 31) + 100],
            apart in prop_oneof![2 => 0u64..300, 1 => 0u64..200_000],
        ) {
            // Without ESN there is no more room than that.
            let start = if esn { start * 2 } else { start };
            let highest = if esn { u64::MAX } else { u64::from(u32::MAX) };
            let run = |window: &ReplayWindow<'_>, model: &mut Model, steps: &[Step]| {
                for step in steps {
                    let number = match *step {
                        // Not so far that the two windows never meet.
                        Step::Forward(n) => model.edge.saturating_add(n % (1 << 20)).min(highest),
                        Step::Back(n) => model.edge.saturating_sub(n),
                        Step::At(n) => n,
                    };
                    prop_assert_eq!(window.check(number), model.check(number), "{}", number);
                    if model.check(number).is_ok() {
                        window.commit(number);
                        model.commit(number);
                    }
                }
                Ok::<(), TestCaseError>(())
            };
            let lives = [0, 1].map(|_| LiveNumbers::on_heap(size));
            let [mine, other] = lives.each_ref().map(|live| view(live, size, esn));
            let model = || Model { size: size.into(), edge: 0, seen: BTreeSet::new() };
            let (mut mine_model, mut other_model) = (model(), model());
            for (window, model, steps, start) in [
                (&mine, &mut mine_model, &ours, start),
                (&other, &mut other_model, &theirs, start.saturating_add(apart).min(highest)),
            ] {
                window.commit(start);
                model.commit(start);
                run(window, model, steps)?;
            }
            mine.merge(other.edge(), |number| other.seen(number));
            let Model { edge, seen, .. } = other_model;
            mine_model.edge = mine_model.edge.max(edge);
            let lowest = mine_model.edge.saturating_sub(u64::from(size) - 1);
            mine_model.seen.extend(seen);
            mine_model.seen.retain(|number| *number >= lowest);
            prop_assert_eq!(mine.edge(), mine_model.edge);
            let all = lowest.saturating_sub(200)..=mine_model.edge;
            let seen: Vec<u64> = all.filter(|number| mine.seen(*number)).collect();
            prop_assert!(seen.iter().eq(&mine_model.seen), "{:?} {:?}", seen, mine_model.seen);
            // Twice is as good as once; and what comes then is told apart as ever.
            mine.merge(other.edge(), |number| other.seen(number));
            run(&mine, &mut mine_model, &after)?;
        }

        #[test]
        fn restore_sets_exactly_what_it_is_told(size in 1u32..300, edge in 0u64..1000, salt: u64) {
            let live = LiveNumbers::on_heap(size);
            let window = view(&live, size, false);
            for n in 1..200 {
                window.commit(n);
            }
            let said = |n: u64| (n ^ salt).count_ones().is_multiple_of(2);
            window.restore(edge, said);
            prop_assert_eq!(window.edge(), edge);
            for n in 1..=edge {
                let within = edge - n < u64::from(size);
                prop_assert_eq!(window.seen(n), within && said(n), "number {}", n);
            }
        }
    }

    #[test]
    fn ring_is_what_the_cells_reserve() {
        for size in (0..=MAX_REPLAY_WINDOW).step_by(7).chain([1, 64, 65, 65535, 65536]) {
            let words = LiveNumbers::on_heap(size).bitmap().len();
            assert_eq!(words, ring_words(size));
            assert!(words * 64 >= size as usize + 64, "one word more than the window");
        }
    }

    #[test]
    fn high_half_follows_the_window_across_subspaces() {
        let live = LiveNumbers::on_heap(64);
        let window = view(&live, 64, true);
        // Nothing received: every low half is in the first subspace.
        assert_eq!(window.infer(window.edge(), u32::MAX), Ok(u64::from(u32::MAX)));
        // The window spans two subspaces (case B of the appendix).
        window.restore((1 << 32) + 10, |_| false);
        assert_eq!(window.infer(window.edge(), 5), Ok((1 << 32) + 5));
        assert_eq!(window.infer(window.edge(), 11), Ok((1 << 32) + 11));
        assert_eq!(window.infer(window.edge(), 0xffff_fff0), Ok(0xffff_fff0));
        // Below the lower edge: taken for the end of the present subspace.
        assert_eq!(window.infer(window.edge(), 0xffff_ff00), Ok((1 << 32) + 0xffff_ff00));
        // The lower edge itself is inside, the number before it is not.
        let lowest = (1u64 << 32) + 10 - 63;
        assert_eq!(window.infer(window.edge(), lowest as u32), Ok(lowest));
        assert_eq!(window.infer(window.edge(), lowest as u32 - 1), Ok(lowest - 1 + (1 << 32)));
        // Low half zero is a number like any other once the high half is not zero.
        assert_eq!(window.infer(window.edge(), 0), Ok(1 << 32));
        assert_eq!(window.check(1 << 32), Ok(()));
        // In the last subspace nothing comes after it.
        window.restore(u64::MAX - 10, |_| false);
        assert_eq!(window.infer(window.edge(), u32::MAX), Ok(u64::MAX));
        assert_eq!(window.infer(window.edge(), 3), Err(DropReason::InReplayOld));
    }

    #[test]
    fn without_esn_numbers_do_not_wrap() {
        let live = LiveNumbers::on_heap(32);
        let window = view(&live, 32, false);
        window.commit(u64::from(u32::MAX));
        assert_eq!(window.infer(window.edge(), 1), Ok(1));
        assert_eq!(window.check(1), Err(DropReason::InReplayOld));
        assert_eq!(window.check(0), Err(DropReason::InSequenceZero));
    }

    #[test]
    fn off_accepts_everything_and_still_follows_esn() {
        let live = LiveNumbers::on_heap(0);
        let window = view(&live, 0, true);
        for n in [0, 7, 7, u64::from(u32::MAX) - 1] {
            assert_eq!(window.check(n), Ok(()));
            window.commit(n);
            assert!(!window.seen(n));
        }
        assert_eq!(window.infer(window.edge(), 3), Ok((1 << 32) + 3));
        assert_eq!(window.infer(window.edge(), 0xffff_0000), Ok(0xffff_0000));
    }

    #[test]
    fn without_a_window_the_higher_edge_is_taken() {
        let live = LiveNumbers::on_heap(0);
        let window = view(&live, 0, true);
        for (edge, expected) in [(7, 7), (3, 7), (u64::MAX, u64::MAX)] {
            window.merge(edge, |_| true);
            assert_eq!((window.edge(), window.seen(edge)), (expected, false));
        }
    }

    /// A crash inside the commit may cost a fresh packet, never accept one twice.
    #[test]
    fn edge_moves_before_bits_are_cleared() {
        let live = LiveNumbers::on_heap(64);
        let window = view(&live, 64, false);
        for n in 1..=64 {
            window.commit(n);
        }
        // Memory as it is if the process dies right after the edge was stored.
        live.edge().store(100, Relaxed);
        for n in 37..=64 {
            assert!(window.check(n).is_err(), "number {n} was accepted before");
        }
    }
}
