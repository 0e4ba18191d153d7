//! Priorities of VLANs: code points by the tag on arrival, and frames that may be dropped first.

use dataplane::{MarkRule, Remark};
use outcome::DropReason;
use policy::{Direction, Mark, Prefix, Selector};

use crate::nested::{self, AH_TRANSPORT, COMP_TUNNEL, ESP_TRANSPORT, ESP_TUNNEL};
use crate::on_vlans::{PORT_MAC, tagged};
use crate::packets::{Ip, cut, hopped};
use crate::support::{Gateway, LAN, SIZES, Side, Spec, ethernet, ip, make_sa, policy, template};

/// With code points for priorities 5 and 3 of the tags of these numbers, on the LAN's and the WAN's VLAN.
fn gateway(side: Side, tags: [Option<usize>; 2]) -> Gateway {
    let mut g = without_policies(side, tags);
    g.add_policies(&Spec::default());
    g
}

fn without_policies(side: Side, tags: [Option<usize>; 2]) -> Gateway {
    let mut g = Gateway::on_vlans(side, SIZES, 1);
    let dscps = [None, None, None, Some(10), None, Some(46), None, None];
    let remarks = tags.map(|tag| tag.map(|tag| Remark { tag, dscps }));
    g.vlans.as_mut().expect("VLANs").remarks = remarks;
    g.set_topology(1500, Vec::new());
    g.add_sas(&Spec::default());
    g
}

fn to_b(number: u16) -> Vec<u8> {
    Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10)).sized(100, number)
}

/// Puts a frame into the LAN whose tag has these upper bits, priority and DEI.
fn put_lan(g: &mut Gateway, upper: u8, packet: &[u8]) {
    let tags = g.vlans.as_ref().expect("VLANs").lan;
    let mut frame = tagged(tags, &ethernet(g.side.mac(LAN), g.side.host_mac(10), packet));
    frame[14] = frame[14] & 0xf | upper << 4;
    let lan = g.lan.clone();
    g.put_into(&lan, &frame, io::HEADROOM);
    g.run();
}

/// The upper bits of both tags of each frame that the WAN has sent, and the DSCP of its outer header.
fn sent(g: &mut Gateway) -> Vec<[u8; 3]> {
    let mut all = Vec::new();
    loop {
        let Some(frame) = g.wan.lock().collect() else { return all };
        let bytes = frame.data();
        all.push([bytes[14] >> 4, bytes[18] >> 4, bytes[23] >> 2]);
        g.stock.push(frame.frame);
    }
}

/// From a tag to the packet, to the header that encryption puts in front, to the tags of the way out; and what was
/// decrypted keeps it.
#[test]
fn a_priority_becomes_a_dscp_and_a_priority_again() {
    let (mut a, mut b) = (gateway(Side::A, [Some(0), None]), gateway(Side::B, [None; 2]));
    for (pcp, dscp) in [(5, 46), (3, 10), (0, 0), (5, 46)] {
        let packet = to_b(pcp.into());
        put_lan(&mut a, pcp << 1, &packet);
        let frame = a.wan.lock().collect().expect("sent");
        let (tags, sealed) = frame.data()[12..].split_at(10);
        assert_eq!([tags[2] >> 5, tags[6] >> 5], [dscp >> 3; 2]);
        assert_eq!(sealed[1] >> 2, dscp);
        assert_eq!(wire::checksum::checksum(&sealed[..20]), 0);
        b.put_wan(sealed);
        a.stock.push(frame.frame);
        b.run();
        let mut expected = hopped(&packet, 2);
        wire::set_traffic_class(&mut expected, dscp << 2);
        assert_eq!(b.lan_out(), [expected]);
    }
    assert!(a.drops().is_empty() && b.drops().is_empty());
}

/// The code point of what carries an SA is not that of what it carries.
#[test]
fn what_is_decrypted_keeps_its_own() {
    let mut a = gateway(Side::A, [None; 2]);
    // Frames of the test have priority 5 in both tags.
    for tag in [0, 1] {
        let mut b = gateway(Side::B, [None, Some(tag)]);
        let packet = to_b(7);
        put_lan(&mut a, 0, &packet);
        a.wan_out().iter().for_each(|sealed| b.put_wan(sealed));
        b.run();
        assert_eq!(b.lan_out(), [hopped(&packet, 2)]);
        assert!(b.drops().is_empty());
    }
}

#[test]
fn a_tag_of_vlan_0_has_a_priority_too() {
    let mut g = gateway(Side::A, [Some(0), None]);
    let packet = to_b(1);
    let frame = ethernet(PORT_MAC, g.side.host_mac(10), &packet);
    let lan = g.lan.clone();
    // Without it the frame is as it was; one of a VLAN has the VLAN's.
    for (tag, dscp) in [(&[0x81, 0, 0xa0, 0][..], 46), (&[], 0)] {
        g.put_into(&lan, &[&frame[..12], tag, &frame[12..]].concat(), io::HEADROOM);
        g.run();
        assert_eq!(sent(&mut g), [[(dscp >> 3) << 1, (dscp >> 3) << 1, dscp]]);
    }
    assert!(g.drops().is_empty());
}

/// By the first packet of a flow and by its plan; a buffer that is used again remembers nothing.
#[test]
fn what_may_be_dropped_first_stays_so_from_vlan_to_vlan() {
    let mut g = gateway(Side::A, [None; 2]);
    for (number, dei) in [1, 1, 0, 1, 0, 0].into_iter().enumerate() {
        put_lan(&mut g, 5 << 1 | dei, &to_b(number as u16));
        assert_eq!(sent(&mut g), [[dei, dei, 0]], "{number}");
    }
    // What did not come by a VLAN: of this host, in all buffers that there are.
    for number in 0..64 {
        g.put_linux(&Ip::new(Side::A.lan(false, 1), Side::B.lan(false, 10)).sized(100, number));
        g.run();
        assert_eq!(sent(&mut g), [[0, 0, 0]]);
    }
    assert!(g.drops().is_empty());
}

/// Pieces of a packet lie in buffers of their own.
#[test]
fn pieces_may_be_dropped_first_if_the_whole_may() {
    let mut g = gateway(Side::A, [None; 2]);
    for (number, dei) in [1, 0, 1, 0].into_iter().enumerate() {
        let packet = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10));
        put_lan(&mut g, dei, &packet.sized(1490, number as u16));
        assert_eq!(sent(&mut g), [[dei, dei, 0]; 2], "{number}");
    }
    assert!(g.drops().is_empty(), "{:?}", g.drops());
}

/// And a packet that is put together of its fragments, for a transport SA.
#[test]
fn the_whole_may_be_dropped_first_if_its_first_piece_may() {
    let mut g = Gateway::on_vlans(Side::A, SIZES, 1);
    let (src, dst) = (Side::A.lan(false, 10), ip("203.0.113.9"));
    let mut config = nested::config(ESP_TRANSPORT, Side::A, 0, false);
    (config.params.src, config.params.dst) = (src, dst);
    let sa = make_sa(&config.params);
    g.db.add_sa(config, sa).expect("new");
    let one = |addr| Prefix { addr, len: 32 };
    let templates = nested::templates(&[ESP_TRANSPORT], Side::A, false);
    let selector = Selector::between(one(src), one(dst));
    g.db.put_policy(policy(9, Direction::Out, selector, templates));
    for (number, dei) in [1, 0, 1, 0].into_iter().enumerate() {
        for piece in cut(&Ip::new(src, dst).sized(100, number as u16), 68, number as u16) {
            assert!(sent(&mut g).is_empty(), "not whole yet");
            put_lan(&mut g, dei, &piece);
        }
        assert_eq!(sent(&mut g), [[dei, dei, 0]], "{number}");
    }
    assert!(g.drops().is_empty(), "{:?}", g.drops());
}

#[test]
fn what_several_sas_protect_may_be_dropped_first_too() {
    for layers in [[ESP_TUNNEL, AH_TRANSPORT], [COMP_TUNNEL, ESP_TRANSPORT]] {
        let mut g = Gateway::on_vlans(Side::A, SIZES, 1);
        nested::protect(&mut g, &layers, false);
        // By the first packet of a flow and by its plan.
        for (number, dei) in [1, 1, 0, 1, 0, 0].into_iter().enumerate() {
            put_lan(&mut g, dei, &to_b(number as u16));
            assert_eq!(sent(&mut g), [[dei, dei, 0]], "{layers:?} {number}");
        }
        assert!(g.drops().is_empty(), "{:?}", g.drops());
    }
}

/// Nothing is written where an IP packet is not.
#[test]
fn what_is_no_ip_packet_is_left() {
    let mut g = gateway(Side::A, [Some(0), None]);
    put_lan(&mut g, 5 << 1, &[]);
    put_lan(&mut g, 5 << 1, &[0x45]);
    assert_eq!(g.dropped(DropReason::MalformedIp), 2);
    assert_eq!(g.wan_out().len() + g.linux_out().len(), 0);
}

/// A rule about marks names a VLAN as it does a port, and finds the code point that the priority has given.
#[test]
fn a_mark_by_the_vlan_and_by_the_new_code_point() {
    let mut g = without_policies(Side::A, [Some(0), None]);
    g.set_topology_but(Vec::new(), |topology| {
        let rule = MarkRule { ifindex: LAN, dscp: Some(46), src: None, dst: None, mark: 7 };
        topology.mark_rules.push(rule);
    });
    let template = template(&Spec::default(), Side::A);
    let selector = Selector::between(Side::A.net(false), Side::B.net(false));
    let mut config = policy(9, Direction::Out, selector, vec![template]);
    config.mark = Mark { value: 7, mask: !0 };
    g.db.put_policy(config);
    for (number, pcp) in [5, 3, 5, 0].into_iter().enumerate() {
        put_lan(&mut g, pcp << 1, &to_b(number as u16));
        assert_eq!(sent(&mut g).len(), usize::from(pcp == 5));
        assert_eq!(g.linux_out().len(), usize::from(pcp != 5));
    }
    // By the port itself, with the same priority.
    let frame = ethernet(PORT_MAC, g.side.host_mac(10), &to_b(9));
    let lan = g.lan.clone();
    g.put_into(&lan, &[&frame[..12], &[0x81, 0, 0xa0, 0], &frame[12..]].concat(), io::HEADROOM);
    g.run();
    assert_eq!((sent(&mut g).len(), g.linux_out().len(), g.drops()), (0, 1, vec![]));
}
