//! Decrypted ESP text, as a peer that knows the keys could send it.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| esp::fuzz::open(data));
