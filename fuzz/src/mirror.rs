//! rtnetlink datagrams, and those of L2TP.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mirror::fuzz::exercise(data));
