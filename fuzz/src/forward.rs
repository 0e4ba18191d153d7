//! Fragmentation and ICMP errors, on any packet.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| forward::fuzz::exercise(data));
