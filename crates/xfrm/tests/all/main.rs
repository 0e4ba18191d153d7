//! The databases by their messages, and the kernel's answers to the same, in one program: it is linked once.

mod common;
mod kernel;
mod lifetimes;
mod marks;
mod migrate;
mod migrate_state;
mod offload;
mod per_cpu;
mod policies;
mod requests;
mod sa;
mod server;
