//! ctnetlink datagrams.
#![no_main]

use netlink::{Field as _, Header, Messages};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    conntrack::events(data).for_each(drop);
    let mut statistics = conntrack::Statistics::default();
    for (_, message) in Messages::new(data) {
        statistics.add_fill(&message[Header::LEN..]);
        statistics.add_refusals(&message[Header::LEN..]);
    }
});
