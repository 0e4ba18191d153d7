//! The control channel of memif, with a hostile peer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| memif::fuzz::messages(data));
