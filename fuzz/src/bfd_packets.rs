//! Control packets of BFD at a session.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| bfd::fuzz::packets(data));
