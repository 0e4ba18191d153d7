//! Messages of the process that asks nDPI.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ndpi::fuzz::answer(data));
