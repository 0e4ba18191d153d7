//! What FRR's bfdd says to its data plane.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| bfd::fuzz::stream(data));
