//! Payloads in the order of their sequence numbers (RFC 9347, section 2.2.3), as Linux's `xfrm_iptfs.c` has it.

/// A window of payloads that came before one that is missing.
///
/// A payload that comes in order goes straight through. One that comes early waits for what is missing, until that
/// comes, or the window moves past it, or the time to wait for it is over. `T` is a payload, whose memory is the
/// caller's.
#[derive(Debug)]
pub struct Window<T> {
    /// Payloads that came early, by their numbers modulo the length: one place more than payloads
    /// wait.
    early: Box<[Option<T>]>,
    count: usize,
    /// The number that is due; none before the first payload.
    next: Option<u64>,
    wait_ns: u64,
    /// When the number that is due is given up, while payloads wait.
    due_ns: u64,
}

/// A payload that is not taken: its number was given up, or came before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Late<T>(pub T);

impl<T> Window<T> {
    /// A window for `size` payloads behind a missing one, which is waited for so long. With a size of 0 payloads are
    /// taken as they come.
    pub fn new(size: u16, wait_ns: u64) -> Window<T> {
        let early = (0..=size).map(|_| None).collect();
        Window { early, count: 0, next: None, wait_ns, due_ns: 0 }
    }

    /// How many payloads wait.
    pub fn len(&self) -> usize {
        self.count
    }

    /// True if no payload waits.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// When [`Window::expire`] has something to do next; none while nothing waits.
    pub fn due_ns(&self) -> Option<u64> {
        (self.count > 0).then_some(self.due_ns)
    }

    /// Takes a payload, and gives what is in order now to `deliver`, each with its number. Returns how many numbers were
    /// given up.
    ///
    /// # Errors
    /// The payload comes back if its number is not due any more, or waits already.
    #[inline]
    pub fn push(
        &mut self,
        number: u64,
        payload: T,
        now_ns: u64,
        mut deliver: impl FnMut(u64, T),
    ) -> Result<u64, Late<T>> {
        let size = self.early.len() as u64 - 1;
        // An SA begins with 1: near there the first payload to come may not be the first.
        let next = *self.next.get_or_insert(if number <= size { 1 } else { number });
        if number == next || size == 0 {
            self.next = Some(number.saturating_add(1).max(next));
            deliver(number, payload);
            if self.count > 0 {
                self.deliver_ready(now_ns, &mut deliver);
            }
            return Ok(number.saturating_sub(next));
        }
        if number < next {
            return Err(Late(payload));
        }
        // The window moves until the newest number is its last.
        let given_up = self.give_up_to(number.saturating_sub(size), &mut deliver);
        self.deliver_ready(now_ns, &mut deliver);
        if self.next == Some(number) {
            self.next = Some(number.saturating_add(1));
            deliver(number, payload);
            return Ok(given_up);
        }
        match self.slot(number) {
            Some(slot) if slot.is_none() => *slot = Some(payload),
            _ => return Err(Late(payload)),
        }
        if self.count == 0 {
            self.due_ns = now_ns.saturating_add(self.wait_ns);
        }
        self.count += 1;
        Ok(given_up)
    }

    /// Gives up the number that is due, and those that are missing behind it, if it was waited for long enough. Returns
    /// how many that were.
    pub fn expire(&mut self, now_ns: u64, mut deliver: impl FnMut(u64, T)) -> u64 {
        match self.count > 0 && now_ns >= self.due_ns {
            true => self.skip(now_ns, &mut deliver),
            false => 0,
        }
    }

    /// Gives up all that is missing: delivers whatever waits. Returns how many numbers were given up.
    pub fn drain(&mut self, mut deliver: impl FnMut(u64, T)) -> u64 {
        let mut given_up = 0;
        while self.count > 0 {
            given_up += self.skip(0, &mut deliver);
        }
        given_up
    }

    /// Gives up what is missing in front of the first payload that waits.
    fn skip(&mut self, now_ns: u64, deliver: &mut impl FnMut(u64, T)) -> u64 {
        let next = self.next.unwrap_or(0);
        let numbers = next..next.saturating_add(self.early.len() as u64);
        let first =
            numbers.into_iter().find(|number| self.slot(*number).is_some_and(|s| s.is_some()));
        let given_up = first.map_or(0, |first| first - next);
        self.next = first.or(self.next);
        self.deliver_ready(now_ns, deliver);
        given_up
    }

    /// Moves the window up to a number: payloads that wait are delivered, missing ones given up.
    fn give_up_to(&mut self, to: u64, deliver: &mut impl FnMut(u64, T)) -> u64 {
        let mut given_up = 0;
        while let Some(next) = self.next.filter(|next| *next < to) {
            if self.count == 0 {
                self.next = Some(to);
                return given_up + (to - next);
            }
            given_up += u64::from(!self.deliver_next(next, deliver));
        }
        given_up
    }

    /// Delivers the payloads that are in order now. The wait for a missing one behind them begins.
    fn deliver_ready(&mut self, now_ns: u64, deliver: &mut impl FnMut(u64, T)) {
        while let Some(next) = self.next
            && self.count > 0
            && self.slot(next).is_some_and(|slot| slot.is_some())
        {
            self.deliver_next(next, deliver);
            self.due_ns = now_ns.saturating_add(self.wait_ns);
        }
    }

    /// Moves the window by one number; whether its payload was there.
    fn deliver_next(&mut self, next: u64, deliver: &mut impl FnMut(u64, T)) -> bool {
        self.next = Some(next.saturating_add(1));
        let payload = self.slot(next).and_then(Option::take);
        let is_there = payload.is_some();
        if let Some(payload) = payload {
            self.count -= 1;
            deliver(next, payload);
        }
        is_there
    }

    fn slot(&mut self, number: u64) -> Option<&mut Option<T>> {
        let place = number % self.early.len() as u64;
        self.early.get_mut(place as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Pushes numbers; those delivered, in order, and how many were given up.
    fn play(window: &mut Window<u64>, numbers: &[u64]) -> (Vec<u64>, u64) {
        let (mut got, mut given_up) = (Vec::new(), 0);
        for number in numbers {
            let pushed = window.push(*number, *number, 0, |n, payload| {
                assert_eq!(n, payload);
                got.push(n);
            });
            given_up += pushed.unwrap_or(0);
        }
        (got, given_up)
    }

    #[test]
    fn the_first_to_come_may_not_be_the_first() {
        assert_eq!(play(&mut Window::new(3, 10), &[3, 1, 2]), (vec![1, 2, 3], 0));
        assert_eq!(play(&mut Window::new(3, 10), &[4, 3, 5]), (vec![4, 5], 0));
        assert_eq!(play(&mut Window::new(0, 10), &[3, 1]), (vec![3, 1], 0));
    }

    #[test]
    fn what_comes_early_waits_for_what_is_missing() {
        let mut window = Window::new(3, 10);
        assert_eq!(play(&mut window, &[7, 9, 10]), (vec![7], 0));
        assert_eq!((window.len(), window.due_ns()), (2, Some(10)));
        assert_eq!(play(&mut window, &[8]), (vec![8, 9, 10], 0));
        assert_eq!((window.is_empty(), window.due_ns()), (true, None));
    }

    #[test]
    fn the_window_moves_with_the_newest() {
        let mut window = Window::new(3, 10);
        assert_eq!(play(&mut window, &[1, 3, 4, 5]), (vec![1], 0));
        // 6 is four ahead of 2, which is given up.
        assert_eq!(play(&mut window, &[6]), (vec![3, 4, 5, 6], 1));
        assert_eq!(window.push(2, 2, 0, |_, _| panic!()), Err(Late(2)));
        // Far ahead: all that waits goes, all that is missing is given up but the last three.
        assert_eq!(play(&mut window, &[8, 1000]), (vec![8], 989));
        assert_eq!(play(&mut window, &[998]), (vec![], 0));
        assert_eq!(play(&mut window, &[997, 999]), (vec![997, 998, 999, 1000], 0));
    }

    #[test]
    fn a_missing_one_is_waited_for_so_long() {
        let mut window = Window::new(3, 10);
        let mut got = Vec::new();
        window.push(1, (), 0, |n, ()| got.push(n)).unwrap();
        window.push(3, (), 5, |n, ()| got.push(n)).unwrap();
        assert_eq!(window.push(3, (), 6, |_, ()| panic!()), Err(Late(())), "it waits already");
        assert_eq!(window.expire(14, |_, ()| panic!()), 0);
        assert_eq!(window.expire(15, |n, ()| got.push(n)), 1);
        assert_eq!(got, [1, 3]);
        // Behind it the wait begins anew.
        window.push(6, (), 20, |_, ()| panic!()).unwrap();
        window.push(7, (), 25, |_, ()| panic!()).unwrap();
        assert_eq!(window.due_ns(), Some(30));
        window.push(4, (), 26, |n, ()| got.push(n)).unwrap();
        assert_eq!(window.expire(30, |n, ()| got.push(n)), 1);
        assert_eq!(got, [1, 3, 4, 6, 7]);
    }

    #[test]
    fn without_a_window_all_are_taken_as_they_come() {
        let mut window = Window::new(0, 10);
        assert_eq!(play(&mut window, &[5, 4, 9, 4]), (vec![5, 4, 9, 4], 3));
    }

    #[test]
    fn what_waits_can_be_had_at_once() {
        let mut window = Window::new(8, 10);
        assert_eq!(play(&mut window, &[1, 3, 5]), (vec![1], 0));
        let mut got = Vec::new();
        assert_eq!(window.drain(|n, _| got.push(n)), 2);
        assert_eq!((got, window.len()), (vec![3, 5], 0));
    }

    proptest! {
        /// Whatever comes and goes, in whatever order: numbers are delivered once each and in order, and nothing is
        /// lost that is not too far from its place.
        #[test]
        fn delivers_each_once_and_in_order(
            size in 1u16..9,
            shifts in prop::collection::vec((0u64..12, 0u8..10, 0u64..4), 1..200),
        ) {
            let mut numbers: Vec<(u64, u64)> = Vec::new();
            for (at, (shift, lost, twice)) in (100..).zip(&shifts) {
                let copies = if *lost == 0 { 0 } else { 1 + u64::from(*twice == 3) };
                (0..copies).for_each(|copy| numbers.push((at + shift * (copy + 1), at)));
            }
            let max_shift = shifts.iter().map(|(shift, ..)| *shift).max().unwrap_or(0);
            numbers.sort();
            let mut window = Window::new(size, 1_000);
            let (mut got, mut given_up, first) = (Vec::new(), 0, numbers.first().map(|n| n.1));
            for (_, number) in &numbers {
                given_up += window.push(*number, *number, 0, |n, _| got.push(n)).unwrap_or(0);
                prop_assert!(window.len() <= usize::from(size));
            }
            given_up += window.drain(|n, _| got.push(n));
            prop_assert!(got.windows(2).all(|two| two[0] < two[1]));
            if let (Some(first), Some(last)) = (first, got.last()) {
                prop_assert_eq!(got.len() as u64 + given_up, last - first + 1);
            }
            if max_shift == 0 {
                let mut all: Vec<u64> = numbers.iter().map(|n| n.1).collect();
                all.dedup();
                prop_assert_eq!(got, all);
            }
        }
    }
}
