//! Devices in memory, in one program: it is linked once.

mod engine;
mod memory;
