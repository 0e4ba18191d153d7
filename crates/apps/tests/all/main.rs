//! The crate by its public interface: vectors of the standards, streams cut anywhere, what is not believed, floods.

mod believed;
mod bounds;
mod lab;
mod second;
mod streams;
mod vectors;
