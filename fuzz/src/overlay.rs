//! Overlays: what arrives, and what is put in front of it.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| overlay::fuzz::exercise(data));
