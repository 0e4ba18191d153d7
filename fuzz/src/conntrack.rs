//! ctnetlink datagrams.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    conntrack::events(data).for_each(drop);
    conntrack::Statistics::default().add(data);
});
