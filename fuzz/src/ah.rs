//! Packets with AH whose ICV is right, and packets that get AH and lose it again.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| esp::fuzz::ah(data));
