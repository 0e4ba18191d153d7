//! The databases from outside, in one program: it is linked once.

mod bypass;
mod chosen;
mod common;
mod lifetimes;
mod no_allocation;
mod outbound;
mod reference;
mod reuse;
mod sad_reference;
mod stress;
mod verify;
mod workload;
