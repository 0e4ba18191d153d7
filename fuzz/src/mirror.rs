//! rtnetlink datagrams.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mirror::decode(data).for_each(drop));
