//! Queues between the threads of a fast path: three kinds, as hardware schedulers know them, in memory.
//!
//! | kind | who takes an item | order | for |
//! | --- | --- | --- | --- |
//! | [`directed`] | its one consumer | of each producer | packets to the worker that owns their SA |
//! | [`ordered`] | any free worker | restored at release | an SA's packets, encrypted by many |
//! | [`atomic`] | the holder of its flow | of each flow | receive queues that do not match cores |
//!
//! All of them
//! - have their memory from the beginning, and never more: a full queue gives the item back;
//! - block nobody, take no lock, and allocate nothing after they were made;
//! - move bursts as they move single items: one store, or one compare-and-swap, for all of it;
//! - lose nothing: what an end leaves behind comes back to the other side, or is dropped, once;
//! - say how deep they are and how often they were full, for two loads by the caller.
//!
//! Three more, for workers that hand packets to each other and share their frames:
//!
//! | module | what it is |
//! | --- | --- |
//! | [`mesh`] | a directed queue from each worker to each other, one [`Peer`] a worker |
//! | [`home`] | [`Home`]: the one worker that may write an SA's state, and how it moves |
//! | [`depot`] | [`Depot`]: free frames, by number, given back and taken in batches |
//!
//! A consumer whose queues are empty polls, or sleeps by means of [`Sleepers`].
//!
//! # Threads
//!
//! Handles belong to one thread at a time each and may move; those that are for many threads can be
//! cloned. Items must be [`Send`]. Everything that is passed on is ordered: what was done to an item
//! before it was put happens before what is done after it was taken.
//!
//! # Example
//!
//! A worker submits a burst for encryption, helps with it, and sends in order what is done.
//!
//! ```
//! use arrayvec::ArrayVec;
//! use dispatch::ordered::{self, Released};
//!
//! let (mut submitter, worker, mut releaser) = ordered::queue::<u32>(256);
//! let mut burst: ArrayVec<u32, 64> = (0..64).collect();
//! submitter.put_many(&mut burst);
//! for left in burst {
//!     // No room: the packet is encrypted in place, after what waits was released.
//! #   unreachable!("{left}");
//! }
//! while let Some(mut work) = worker.take(8) {
//!     for packet in work.iter_mut() {
//!         *packet += 1000;
//!     }
//!     work.finish();
//! }
//! let mut done: ArrayVec<Released<u32>, 64> = ArrayVec::new();
//! assert_eq!(releaser.release_many(&mut done), 64);
//! for (number, packet) in done.into_iter().enumerate() {
//!     match packet {
//!         Released::Finished(packet) => assert_eq!(packet, 1000 + number as u32),
//!         Released::Unfinished(_) | Released::Untouched(_) => unreachable!("dropped, with a reason"),
//!     }
//! }
//! ```
//!
//! # How it is checked
//!
//! - `tests/all/models/`: loom tries the interleavings of small cases, stale reads included (`.ci/run models`):
//!   `RUSTFLAGS='--cfg loom' LOOM_MAX_PREEMPTIONS=3 cargo test --release -p culvert-dispatch
//!   --target-dir target/loom --test all`
//! - `tests/all/stress.rs`: millions of items between threads, with delays.
//! - `tests/all/sequences.rs`: random sequences of operations against plain models.
//! - All but the random sequences also run under Miri, which checks the unsafe code:
//!   `cargo +nightly miri test -p culvert-dispatch --target-dir target/miri --lib --test all`

#![warn(unsafe_code)]

pub mod atomic;
pub mod depot;
pub mod directed;
pub mod home;
pub mod mesh;
pub mod ordered;

mod common;
mod ends;
mod outcome;
mod place;
mod sleep;
mod sync;
mod turns;

pub use depot::Depot;
pub use home::Home;
pub use mesh::{Mesh, Peer};
pub use outcome::{Refused, Stats};
pub use sleep::Sleepers;
