//! Packets of IPComp that have been decrypted, and packets that are compressed and become themselves again.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| esp::fuzz::ipcomp(data));
