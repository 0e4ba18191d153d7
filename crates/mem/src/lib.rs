//! What the data path needs of memory and the language does not give in safe code: prefetch hints and
//! eviction, a search of eight values at once, atomic words whose owner is kept beside a pointer to
//! them, an allocator on huge pages, and an
//! end in words where there is no memory.
//!
//! One of the few crates with unsafe code, so that the pure ones above need none.

mod allocator;
mod evict;
mod find;
mod out_of_memory;
mod prefetch;
mod words;

pub use allocator::Allocator;
pub use evict::evict;
pub use find::find_among_eight;
pub use out_of_memory::OrExit;
pub use prefetch::{
    Cache, prefetch, prefetch_all_into, prefetch_all_to_write, prefetch_at, prefetch_into,
    prefetch_pointer, prefetch_pointer_to_write,
};
pub use words::{StableWords, Words};

/// Bytes in a cache line.
pub const LINE_LEN: usize = 64;
