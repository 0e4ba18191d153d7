//! Super-packets from the private interface.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| io::tun::segment::fuzz(data));
