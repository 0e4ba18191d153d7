//! Netlink datagrams: framing, attributes, acknowledgements.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| netlink::fuzz::exercise(data));
