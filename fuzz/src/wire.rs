//! Every header parser and its accessors, on bytes from the wire.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| wire::fuzz::exercise(data));
