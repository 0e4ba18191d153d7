//! Packets of strongSwan's vici.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| apps::fuzz::packets(data));
