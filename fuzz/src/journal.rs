//! The vault's journal, as a crash or a stranger left it.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| drop(vault::read_journal(data)));
