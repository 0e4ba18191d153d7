//! Rings of memif in memory that a hostile peer writes to.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| memif::fuzz::rings(data));
