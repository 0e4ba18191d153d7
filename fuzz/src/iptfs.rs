//! Payloads of IP-TFS as they come, with losses and in any order.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| iptfs::fuzz::payloads(data));
