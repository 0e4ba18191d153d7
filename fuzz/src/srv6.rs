//! SRv6: headends and segments, with whatever arrives.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| srv6::fuzz::exercise(data));
