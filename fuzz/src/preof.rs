//! Packets in copies: labels, numbers, and the order of a stream.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| preof::fuzz::exercise(data));
