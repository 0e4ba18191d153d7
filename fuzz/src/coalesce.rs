//! Bursts for the private interface.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| io::tun::coalesce::fuzz(data));
