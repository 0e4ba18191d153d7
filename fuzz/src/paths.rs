//! Packets of STAMP, and bodies of echoes, at a reflector and at sessions.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| paths::fuzz::packets(data));
