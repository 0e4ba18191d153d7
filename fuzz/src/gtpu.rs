//! GTP-U: the header, and the chain of extension headers.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| wire::fuzz::gtpu(data));
