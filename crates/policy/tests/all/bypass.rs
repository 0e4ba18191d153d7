//! Packets that always bypass the policies.

use crate::common::{TCP, UDP, headers, v4, v6};
use policy::{Ends, always_bypass};
use wire::Fragment;

const ICMPV6: u8 = 58;

#[test]
fn own_ike_passes_and_forwarded_does_not() {
    for (src_port, dst_port) in [(500, 500), (500, 40_000), (40_000, 500)] {
        let h = headers(v4(1), v4(2), UDP, src_port, dst_port);
        assert!(always_bypass(&h, Ends::Local, false));
        assert!(!always_bypass(&h, Ends::Forwarded, false));
    }
    let tcp = headers(v4(1), v4(2), TCP, 500, 500);
    assert!(!always_bypass(&tcp, Ends::Local, false));
}

#[test]
fn nat_traversal_ike_is_the_callers_word() {
    let h = headers(v4(1), v4(2), UDP, 4500, 4500);
    assert!(always_bypass(&h, Ends::Local, true));
    assert!(!always_bypass(&h, Ends::Local, false));
    assert!(!always_bypass(&h, Ends::Forwarded, true));
    let tcp = headers(v4(1), v4(2), TCP, 4500, 4500);
    assert!(!always_bypass(&tcp, Ends::Local, true));
}

#[test]
fn neighbour_discovery_passes_by_type_and_hop_limit() {
    for icmp_type in 0..=255u16 {
        let mut h = headers(v6(1), v6(2), ICMPV6, icmp_type, 0);
        h.ttl = 255;
        let is_nd = (133..=137).contains(&icmp_type);
        assert_eq!(always_bypass(&h, Ends::Local, false), is_nd, "type {icmp_type}");
        assert!(!always_bypass(&h, Ends::Forwarded, false));
        h.ttl = 254;
        assert!(!always_bypass(&h, Ends::Local, false));
    }
    // ICMPv6's number over IPv4 is something else.
    let mut h = headers(v4(1), v4(2), ICMPV6, 135, 0);
    h.ttl = 255;
    assert!(!always_bypass(&h, Ends::Local, false));
}

#[test]
fn later_fragments_never_pass() {
    let mut h = headers(v4(1), v4(2), UDP, 500, 500);
    h.fragment = Fragment::Later;
    assert!(!always_bypass(&h, Ends::Local, true));
}
