//! Reassembly of fragments, from any sequence of them.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| forward::fuzz::reassemble(data));
