//! One stream at its far end: a number is taken once, and packets go on in order within a bound.

use crate::numbered::NUMBERS;

/// Numbers behind the latest one that are known to have come, or not.
pub const HISTORY: u32 = 2048;

/// Most packets that wait for those before them.
pub const MOST_HELD: u32 = 64;

/// The largest step ahead of the latest number: from the next one, which lies less than [`MOST_HELD`] behind, it is ahead as well.
const MOST_AHEAD: u32 = NUMBERS / 2 - MOST_HELD;

/// How long a stream takes nothing before it begins anew with a number of any age, in nanoseconds: its sender has begun anew.
const RESET_NS: u64 = 2_000_000_000;

const WORDS: usize = HISTORY as usize / 64;

/// Reason that a packet ends here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A copy of it was taken.
    Duplicate,
    /// It is older than the history, so that nobody knows; or so far ahead that it may as well be.
    Late,
}

/// State of a stream. Memory for packets that wait is taken with the first one.
///
/// A stream that begins has delivered nothing, so that what is before its first packet is late, and not a second copy; it
/// waits for those from number 0 on, if these are near.
#[derive(Debug)]
pub struct Recovery<T> {
    /// Set if it goes on where another one has delivered packets: what is before the first one counts as taken then.
    goes_on: bool,
    /// A bit for each number of the history, by the number's rest.
    taken: [u64; WORDS],
    /// The latest number that was taken; `None` before the first.
    latest: Option<u32>,
    taken_ns: u64,
    /// The number that goes on next.
    next: u32,
    /// Packets that wait, by the rest of their numbers; none lies [`MOST_HELD`] or more ahead of the next one.
    held: Vec<Option<Held<T>>>,
    waiting: u32,
    due_ns: Option<u64>,
    gaps: u64,
}

#[derive(Debug)]
struct Held<T> {
    number: u32,
    due_ns: u64,
    item: T,
}

impl<T> Default for Recovery<T> {
    fn default() -> Recovery<T> {
        Recovery {
            goes_on: false,
            taken: [0; WORDS],
            latest: None,
            taken_ns: 0,
            next: 0,
            held: Vec::new(),
            waiting: 0,
            due_ns: None,
            gaps: 0,
        }
    }
}

impl<T> Recovery<T> {
    /// A stream of which another state, which is lost, has delivered packets.
    pub fn after_loss() -> Recovery<T> {
        Recovery { goes_on: true, ..Recovery::default() }
    }

    /// Packets that wait.
    pub const fn waiting(&self) -> u32 {
        self.waiting
    }

    /// When a packet has waited for long enough.
    pub const fn due_ns(&self) -> Option<u64> {
        self.due_ns
    }

    /// Numbers that were waited for in vain so far. Some may have come later.
    pub const fn gaps(&self) -> u64 {
        self.gaps
    }

    /// Takes a packet. Those whose turn it is then are delivered, in order. It waits for those before it until `now_ns +
    /// wait_ns`; with 0 it goes on at once.
    ///
    /// # Errors
    /// It ends here, and is given back.
    pub fn push(
        &mut self,
        number: u32,
        item: T,
        (now_ns, wait_ns): (u64, u64),
        mut deliver: impl FnMut(T),
    ) -> Result<(), (Refusal, T)> {
        let number = number % NUMBERS;
        if let Err(refusal) = self.eliminate(number) {
            if refusal == Refusal::Duplicate || !self.is_stale(now_ns) {
                return Err((refusal, item));
            }
            self.drain(&mut deliver);
            self.goes_on = false;
            self.begin(number);
        }
        self.taken_ns = now_ns;
        let ahead = ahead(number, self.next);
        if ahead < 0 {
            // It was given up, and is late; but nobody has had it.
            deliver(item);
            return Ok(());
        }
        match wait_ns {
            0 => self.skip_to(number, &mut deliver),
            _ => self.make_room(number, &mut deliver),
        }
        if number == self.next {
            self.next = after(number);
            deliver(item);
            self.go_on(&mut deliver);
        } else {
            self.hold(Held { number, due_ns: now_ns.saturating_add(wait_ns), item });
        }
        Ok(())
    }

    /// Delivers what has waited for long enough, and all that is before it.
    pub fn expire(&mut self, now_ns: u64, mut deliver: impl FnMut(T)) {
        while self.due_ns.is_some_and(|due_ns| due_ns <= now_ns) {
            let overdue = self.held.iter().flatten().filter(|held| held.due_ns <= now_ns);
            let next = self.next;
            let Some(last) = overdue.map(|held| held.number).max_by_key(|n| ahead(*n, next)) else {
                self.find_due();
                return;
            };
            self.skip_to(last, &mut deliver);
            self.go_on(&mut deliver);
        }
    }

    /// Delivers all that waits.
    pub fn drain(&mut self, mut deliver: impl FnMut(T)) {
        let held = self.held.iter().flatten().map(|held| ahead(held.number, self.next));
        if let Some(last) = held.max() {
            let end = self.next.wrapping_add(last.unsigned_abs() + 1) % NUMBERS;
            self.skip_to(end, &mut deliver);
        }
    }

    /// Notes a number as taken.
    fn eliminate(&mut self, number: u32) -> Result<(), Refusal> {
        let Some(latest) = self.latest else {
            self.begin(number);
            return Ok(());
        };
        let ahead = ahead(number, latest);
        match ahead.unsigned_abs() {
            // Else it would be behind the next number, and those that wait there would stay.
            0..=MOST_AHEAD if ahead > 0 => {
                self.forget(latest, ahead.unsigned_abs());
                self.latest = Some(number);
            }
            0..HISTORY if ahead <= 0 => {}
            _ => return Err(Refusal::Late),
        }
        let (word, bit) = place(number);
        let Some(word) = self.taken.get_mut(word) else { return Err(Refusal::Late) };
        if *word & bit != 0 {
            return Err(Refusal::Duplicate);
        }
        *word |= bit;
        Ok(())
    }

    /// Begins with a number.
    fn begin(&mut self, number: u32) {
        self.taken = [if self.goes_on { !0 } else { 0 }; WORDS];
        let (word, bit) = place(number);
        if let Some(word) = self.taken.get_mut(word) {
            *word |= bit;
        }
        let is_near = !self.goes_on && number < MOST_HELD;
        (self.latest, self.next) = (Some(number), if is_near { 0 } else { number });
    }

    /// Makes room in the history for so many numbers behind the latest one.
    fn forget(&mut self, latest: u32, count: u32) {
        if count >= HISTORY {
            self.taken = [0; WORDS];
            return;
        }
        for step in 1..=count {
            let (word, bit) = place(latest.wrapping_add(step) % NUMBERS);
            if let Some(word) = self.taken.get_mut(word) {
                *word &= !bit;
            }
        }
    }

    /// True if nothing was taken for so long that the sender may have begun anew.
    const fn is_stale(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.taken_ns) >= RESET_NS
    }

    /// Passes the gaps that lie so far behind a number that it has no place.
    fn make_room(&mut self, number: u32, deliver: &mut impl FnMut(T)) {
        let beyond = ahead(number, self.next) - i32::try_from(MOST_HELD).unwrap_or(0) + 1;
        if beyond > 0 {
            let least = self.next.wrapping_add(beyond.unsigned_abs()) % NUMBERS;
            // What is held ends before it, or goes on in its turn.
            self.skip_to(least, deliver);
            self.go_on(deliver);
        }
    }

    fn hold(&mut self, held: Held<T>) {
        if self.held.is_empty() {
            self.held.resize_with(MOST_HELD as usize, || None);
        }
        let due_ns = held.due_ns;
        if let Some(place) = self.held.get_mut(slot(held.number)) {
            *place = Some(held);
            self.waiting += 1;
            self.due_ns = Some(self.due_ns.map_or(due_ns, |first| first.min(due_ns)));
        }
    }

    /// Delivers what waits in front of a number, which goes on next.
    fn skip_to(&mut self, number: u32, deliver: &mut impl FnMut(T)) {
        if number == self.next {
            return;
        }
        let steps = ahead(number, self.next).unsigned_abs();
        let mut delivered = 0;
        // Nothing waits further ahead.
        for step in 0..steps.min(MOST_HELD) {
            if let Some(held) = self.take(self.next.wrapping_add(step) % NUMBERS) {
                delivered += 1;
                deliver(held.item);
            }
        }
        self.gaps = self.gaps.saturating_add(u64::from(steps - delivered));
        self.next = number;
        self.find_due();
    }

    /// Delivers what waits without a gap.
    fn go_on(&mut self, deliver: &mut impl FnMut(T)) {
        if self.waiting == 0 {
            return;
        }
        while let Some(held) = self.take(self.next) {
            self.next = after(self.next);
            deliver(held.item);
        }
        self.find_due();
    }

    fn take(&mut self, number: u32) -> Option<Held<T>> {
        let place = self.held.get_mut(slot(number))?;
        let held = place.take_if(|held| held.number == number)?;
        self.waiting -= 1;
        Some(held)
    }

    fn find_due(&mut self) {
        let held = self.held.iter().flatten();
        self.due_ns = if self.waiting == 0 { None } else { held.map(|held| held.due_ns).min() };
    }
}

/// How far a number is ahead of another; below 0 if it is behind.
const fn ahead(number: u32, of: u32) -> i32 {
    // The 28 bits are moved up, and their sign back down.
    (number.wrapping_sub(of) << 4).cast_signed() >> 4
}

const fn after(number: u32) -> u32 {
    number.wrapping_add(1) % NUMBERS
}

const fn slot(number: u32) -> usize {
    (number % MOST_HELD) as usize
}

const fn place(number: u32) -> (usize, u64) {
    let rest = number % HISTORY;
    ((rest / 64) as usize, 1 << (rest % 64))
}

#[cfg(test)]
#[path = "recovery_tests.rs"]
mod tests;
