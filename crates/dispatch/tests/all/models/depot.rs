//! Numbers that come back to all threads.

use arrayvec::ArrayVec;
use dispatch::Depot;
use dispatch::depot::BATCH;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread::{self};

/// Things that are known by numbers, each watched by loom: its number says who may touch it.
#[derive(Clone)]
struct Things(Arc<(Depot, [UnsafeCell<usize>; 4])>);

impl Things {
    fn new() -> Self {
        Self(Arc::new((Depot::new(4), core::array::from_fn(|_| UnsafeCell::new(0)))))
    }

    fn take(&self) -> ArrayVec<u32, BATCH> {
        let mut out = ArrayVec::new();
        self.0.0.take(&mut out);
        out.iter().for_each(|number| self.touch(*number));
        out
    }

    #[allow(unsafe_code, reason = "loom's cells are read and written by pointers")]
    fn touch(&self, number: u32) {
        // SAFETY: loom fails the model if two threads come here unordered: that is the test.
        self.0.1[number as usize].with_mut(|thing| unsafe { *thing += 1 });
    }

    fn put(&self, number: u32) {
        self.touch(number);
        self.0.0.put(number);
    }

    fn put_batch(&self, numbers: [u32; BATCH]) {
        numbers.iter().for_each(|number| self.touch(*number));
        self.0.0.put_batch(&numbers);
    }

    /// All that is in the depot, when no other thread is left.
    fn rest(&self) -> Vec<u32> {
        let mut rest = Vec::new();
        while !self.0.0.is_empty() {
            rest.extend(self.take());
        }
        rest.sort_unstable();
        rest
    }
}

#[test]
fn depot_singles_that_go_and_come_back_are_with_one_thread() {
    loom::model(|| {
        let things = Things::new();
        (0..3).for_each(|number| things.put(number));
        let hand = {
            let things = things.clone();
            thread::spawn(move || {
                // The classic trap: top and next go, and the top comes back.
                let mut taken = things.take();
                taken.drain(..1).for_each(|number| things.put(number));
                taken
            })
        };
        let mine = things.take();
        let theirs = hand.join().unwrap();
        let mut all = things.rest();
        all.extend(mine.into_iter().chain(theirs));
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2]);
    });
}

#[test]
fn depot_batches_go_round_between_two_threads() {
    loom::model(|| {
        let things = Things::new();
        things.put_batch([0, 1]);
        let hand = {
            let things = things.clone();
            thread::spawn(move || {
                let taken = things.take();
                if let Ok(batch) = taken.into_inner() {
                    things.put_batch(batch);
                }
            })
        };
        things.put_batch([2, 3]);
        let taken = things.take();
        taken.into_iter().for_each(|number| things.put(number));
        hand.join().unwrap();
        assert_eq!(things.rest(), [0, 1, 2, 3]);
    });
}

#[test]
fn depot_two_threads_never_take_one_batch() {
    loom::model(|| {
        let things = Things::new();
        things.put_batch([0, 1]);
        things.put_batch([2, 3]);
        let hand = {
            let things = things.clone();
            thread::spawn(move || {
                let first = things.take();
                let second = things.take();
                first.into_inner().ok().into_iter().for_each(|batch| things.put_batch(batch));
                second
            })
        };
        let mine = things.take();
        let theirs = hand.join().unwrap();
        let mut all = things.rest();
        all.extend(mine.into_iter().chain(theirs));
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 3]);
    });
}
