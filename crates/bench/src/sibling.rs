//! Use of the other half of a core by somebody else.
//!
//! Most cores work on two threads of instructions at once, its *siblings*, which share its units. On a virtual
//! machine the sibling is often another machine's: for some milliseconds at a time the core is a third slower,
//! and nothing that the system counts says so. It shows in how fast instructions go that wait for nothing,
//! beside such that wait for one another: the latter leave most of the units idle, and take as long as ever
//! beside any neighbour. By the ratio of the two the core's clock cancels out.

use core::hint::black_box;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use rustix::process::setpriority_process;

use crate::cycles;
use crate::error::BenchError;
use crate::pin::pin;

/// True if the calling thread, which is pinned, has its core for itself: no other program runs
/// beside it. True where the processor has no counter to tell by.
pub(crate) fn is_quiet() -> bool {
    let core = rustix::thread::sched_getcpu();
    let Some(now) = look() else { return true };
    let mut all = LEAST.lock().unwrap_or_else(PoisonError::into_inner);
    let least = all.entry(core).or_insert_with(calibrate);
    if now < *least {
        // An interrupt in all rounds of the chain reads as a lower ratio: only what a second look confirms counts.
        let again = look().unwrap_or(now);
        *least = least.min(now.max(again));
    }
    now < *least * TOLERANCE
}

/// True if the calling thread's core and those of all `posts` are quiet.
pub(crate) fn are_quiet(posts: &[Post]) -> bool {
    let asked: Vec<u64> = posts.iter().map(Post::ask).collect();
    let here = is_quiet();
    // All answers are waited for: who is late would disturb what comes now.
    posts.iter().zip(asked).fold(here, |all, (post, number)| post.answer(number) && all)
}

/// Waits until all these cores are quiet, but not for long, and no longer than `patience` where that is given.
pub(crate) fn await_quiet(posts: &[Post], patience: Option<Duration>) {
    let limit = patience.map_or(PATIENCE, |patience| patience.min(PATIENCE));
    let begun = Instant::now();
    while !are_quiet(posts) && begun.elapsed() < limit {}
}

/// A thread that looks at a core on which another thread of the benchmark spins.
pub(crate) struct Post {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    asked: AtomicU64,
    /// The number of the last question answered.
    answered: AtomicU64,
    is_quiet: AtomicBool,
    is_over: AtomicBool,
}

impl Post {
    /// # Errors
    /// When a thread cannot be pinned to `core`.
    pub(crate) fn new(core: usize) -> Result<Post, BenchError> {
        let shared = Arc::new(Shared::default());
        let (tell, told) = std::sync::mpsc::sync_channel(1);
        let thread = thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                // A thread that may not go before the spinning one waits for its turn.
                let _ = setpriority_process(None, FIRST);
                let pinned = pin(Some(core));
                let is_pinned = pinned.is_ok();
                // Somebody listens.
                let _ = tell.send(pinned);
                if is_pinned {
                    shared.watch();
                }
            }
        });
        let post = Post { shared, thread: Some(thread) };
        // It tells, or panics, which is seen when the post goes.
        told.recv().unwrap_or(Ok(()))?;
        Ok(post)
    }

    /// Asks whether its core is quiet; returns the question's number.
    fn ask(&self) -> u64 {
        // Relaxed: numbers, and nothing that hangs on them.
        let number = self.shared.asked.fetch_add(1, Ordering::Relaxed) + 1;
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
        number
    }

    /// Waits for the answer; false if it is long in coming. Not asleep, so that the caller's core stays awake.
    fn answer(&self, number: u64) -> bool {
        let begun = Instant::now();
        // Acquire: pairs with the release in watch(), behind what it found.
        while self.shared.answered.load(Ordering::Acquire) < number {
            if begun.elapsed() > PATIENCE {
                return false;
            }
            core::hint::spin_loop();
        }
        self.shared.is_quiet.load(Ordering::Relaxed)
    }
}

impl Shared {
    /// Answers questions until it is over.
    fn watch(&self) {
        while !self.is_over.load(Ordering::Acquire) {
            let asked = self.asked.load(Ordering::Relaxed);
            if asked == self.answered.load(Ordering::Relaxed) {
                thread::park();
                continue;
            }
            self.is_quiet.store(is_quiet(), Ordering::Relaxed);
            self.answered.store(asked, Ordering::Release);
        }
    }
}

impl Drop for Post {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
    }
}

/// The least that [`look`] has found on each core.
static LEAST: Mutex<BTreeMap<usize, f64>> = Mutex::new(BTreeMap::new());

/// The ratio on this core when nobody works beside, if that was so for a moment: the least that two looks on end
/// agree on.
fn calibrate() -> f64 {
    let begun = Instant::now();
    let (mut least, mut last) = (f64::INFINITY, f64::INFINITY);
    while begun.elapsed() < CALIBRATION
        && let Some(now) = look()
    {
        least = least.min(now.max(last));
        last = now;
    }
    least
}

/// Cycles of instructions that wait for nothing, for each of a chain that do.
///
/// Of the chain the fastest round counts, so that an interrupt in one of them changes nothing.
fn look() -> Option<f64> {
    let (mut fastest_chain, mut all_wide) = (u64::MAX, 0);
    for _ in 0..LOOKS {
        let begun = cycles::now()?;
        chain();
        let between = cycles::now()?;
        wide();
        let ended = cycles::now()?;
        fastest_chain = fastest_chain.min(between.wrapping_sub(begun));
        all_wide += ended.wrapping_sub(between);
    }
    Some(all_wide as f64 / LOOKS as f64 / fastest_chain.max(1) as f64)
}

/// Multiplications of which each waits for the one before.
#[inline(never)]
fn chain() {
    let mut x: u64 = black_box(3);
    for _ in 0..ROUNDS {
        x = x.wrapping_mul(x);
    }
    black_box(x);
}

/// Eight instructions at a time that do not wait for one another. Each takes something of its neighbour's last
/// result, and they differ, so that they are not put into one for all.
#[inline(never)]
fn wide() {
    let mut all: [u64; 8] = black_box([1, 2, 3, 4, 5, 6, 7, 8]);
    for _ in 0..ROUNDS {
        let [a, b, c, d, e, f, g, h] = all;
        all = [
            a.wrapping_add(b),
            b ^ c,
            c.wrapping_sub(d),
            d ^ e,
            e.wrapping_add(f),
            f ^ g,
            g.wrapping_sub(h),
            h ^ a,
        ];
    }
    black_box(all);
}

/// Rounds of either loop: less than a microsecond each.
const ROUNDS: usize = 2000;
/// Rounds of both in one look, which takes some 10 us.
const LOOKS: usize = 4;
/// By how much a quiet core's looks differ: by 2 % where it was measured, and by 10 % at the least from others.
const TOLERANCE: f64 = 1.05;
/// Neighbours come and go within milliseconds.
const CALIBRATION: Duration = Duration::from_millis(50);
/// For how long a core is waited for.
const PATIENCE: Duration = Duration::from_millis(50);
/// Before all other threads.
const FIRST: i32 = -20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_finds_what_instructions_take_that_wait_for_nothing() {
        let Some(least) = look().map(|_| calibrate()) else { return };
        // Eight instructions and the loop's, at two to eight a cycle, and three or four cycles of a multiplication:
        // 0.25 to 2. A hypervisor that takes the core away within each chain makes it less.
        assert!((0.02..2.0).contains(&least), "{least}");
    }

    #[test]
    fn a_post_answers_from_its_core_and_goes_when_it_is_dropped() {
        let here = rustix::thread::sched_getcpu();
        let post = Post::new(here).unwrap();
        for _ in 0..3 {
            // Whatever it is: it comes.
            are_quiet(core::slice::from_ref(&post));
            assert_eq!(
                post.shared.asked.load(Ordering::Relaxed),
                post.shared.answered.load(Ordering::Relaxed)
            );
        }
        await_quiet(core::slice::from_ref(&post), None);
        drop(post);
        assert!(matches!(Post::new(1000), Err(e) if e.to_string().contains("--cpu 1000")));
    }
}
