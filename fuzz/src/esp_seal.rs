//! Cleartext packets of any shape, on their way into an SA.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| esp::fuzz::seal(data));
