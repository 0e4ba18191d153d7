//! Memory for the data path, where safe code does not give it.
//!
//! One of the few crates with unsafe code, so that the pure crates above it need none. Each part
//! has a safe interface of its own and knows nothing of packets or SAs.
//!
//! | | | unsafe because |
//! | --- | --- | --- |
//! | [`prefetch`](prefetch()), [`prefetch_into`], [`prefetch_at`], ... | asks for a cache line and waits for nothing | an instruction of the processor |
//! | [`evict`](evict()) | puts lines back into memory, for benchmarks | the same |
//! | [`find_among_eight`] | which of eight values is the one | SSE2, with a portable twin |
//! | [`Words`], [`StableWords`] | atomic words in memory that their owner keeps alive, one pointer away | the owner's promise outlives a borrow |
//! | [`Allocator`] | many objects of whole cache lines, side by side on huge pages | it is a `GlobalAlloc` |
//! | [`OrExit`] | ends the process with a message when memory has run out | the same |
//! | [`wipe_stack`] | overwrites what functions that have returned left of keys | it is not |
//!
//! # Example
//!
//! ```
//! use core::sync::atomic::Ordering::Relaxed;
//! use mem::{Cache, LINE_LEN, Words, find_among_eight, prefetch_all_into};
//!
//! // Four words that every packet touches and eight more, of which number 4 begins a cache line.
//! let words: Words<4> = Words::on_heap(8, 4);
//! words.head()[0].store(41, Relaxed);
//! let same = words.clone();
//! assert_eq!(same.head()[0].fetch_add(1, Relaxed), 41);
//! assert_eq!(same.rest().as_ptr().addr() % LINE_LEN, 0);
//!
//! let tags = [7, 9, 11, 9, 0, 0, 0, 0];
//! prefetch_all_into(Cache::First, &tags); // some work earlier
//! assert_eq!(find_among_eight(&tags, 9), Some(1), "the first of two");
//! assert_eq!(find_among_eight(&tags, 8), None);
//! ```
//!
//! # Threads
//!
//! Prefetch, eviction and search touch no state. [`Words`] are atomics and are shared by cloning.
//! [`Allocator`] takes a lock for each length of slot, so it is for set-up and control work: the
//! data path does not allocate.
//!
//! # Not handled
//!
//! Memory of a NUMA node of one's choice. Huge pages are asked for by `madvise`; whether the kernel
//! has some is not checked here. Prefetch does nothing on processors other than x86-64 and AArch64,
//! eviction on those other than x86-64.

mod allocator;
mod evict;
mod find;
mod out_of_memory;
mod prefetch;
mod stack;
mod words;

pub use allocator::Allocator;
pub use evict::evict;
pub use find::find_among_eight;
pub use out_of_memory::OrExit;
pub use prefetch::{
    Cache, prefetch, prefetch_all_into, prefetch_all_to_write, prefetch_at, prefetch_into,
    prefetch_pointer, prefetch_pointer_to_write,
};
pub use stack::wipe_stack;
pub use words::{StableWords, Words};

/// Bytes in a cache line.
pub const LINE_LEN: usize = 64;
