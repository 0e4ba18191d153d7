//! Small cases under the model checker, in all interleavings up to a number of preemptions.
//!
//! The items' contents and the flows' states are cells that loom watches: a hand-over that orders too
//! little is found even where the values happen to come out right.
//!
//! `RUSTFLAGS='--cfg loom' LOOM_MAX_PREEMPTIONS=3 cargo test --release -p culvert-dispatch
//! --target-dir target/loom --test all`

mod atomic;
mod depot;
mod directed;
mod home;
mod ordered;
mod sleep;
mod support;
