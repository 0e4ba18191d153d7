//! Interfaces that are VLANs of a port.

use std::sync::Arc;

use dataplane::{Filter, PortKind, Verdict};
use outcome::DropReason;
use wire::{EtherType, MacAddr, VlanTags};

use crate::on_vlans::{PORT_MAC, below, priority_of, tagged};
use crate::packets::{Ip, hopped};
use crate::support::{Gateway, LAN, SIZES, Side, Spec, WAN, ethernet, ip};
use crate::taps::{all_records, tapped};

fn gateway() -> Gateway {
    let mut g = Gateway::on_vlans(Side::A, SIZES, 1);
    g.protect(&Spec::default());
    g
}

fn to_b() -> Ip {
    Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10))
}

/// Frames on the wire: in by one VLAN, out by another, with the priority of the DSCP.
#[test]
fn a_tunnel_over_a_vlan_with_the_lan_behind_another() {
    let mut g = gateway();
    for (number, dscp) in [0, 46, 10].into_iter().enumerate() {
        let mut packet = to_b().sized(100, number as u16);
        wire::set_traffic_class(&mut packet, dscp << 2);
        g.put_lan(&packet);
        g.run();
        let frame = g.wan.lock().collect().expect("sent");
        let header = &frame.data()[..22];
        let priority = priority_of(dscp.into()) << 5;
        assert_eq!(header[..6], Side::B.mac(WAN).0);
        assert_eq!(header[6..12], g.side.mac(WAN).0, "the VLAN's own address");
        assert_eq!(header[12..], [0x88, 0xa8, priority, 7, 0x81, 0, priority, 100, 8, 0]);
        g.stock.push(frame.frame);
    }
    let [lan, wan] = g.vlans.as_ref().expect("VLANs").counters.each_ref().map(|c| c.read());
    assert_eq!((lan.rx_packets, lan.rx_bytes, lan.tx_packets), (3, 3 * 118, 0));
    assert_eq!((wan.rx_packets, wan.tx_packets), (0, 3));
    assert!(wan.tx_bytes > 3 * 122);
    assert!(g.drops().is_empty());
}

/// The pair's own test, with VLANs at one end.
#[test]
fn what_was_decrypted_leaves_by_the_lan_s_vlan() {
    let (mut a, mut b) = (Gateway::new(Side::A), Gateway::on_vlans(Side::B, SIZES, 1));
    a.protect(&Spec::default());
    b.protect(&Spec::default());
    for number in 0..3 {
        let packet = to_b().sized(100, number);
        a.put_lan(&packet);
        a.run();
        a.wan_out().iter().for_each(|sealed| b.put_wan(sealed));
        b.run();
        assert_eq!(b.lan_out(), [hopped(&packet, 2)]);
    }
    assert!(a.drops().is_empty() && b.drops().is_empty());
}

/// Puts a frame in as it is.
fn put_raw(g: &mut Gateway, frame: &[u8]) {
    let lan = g.lan.clone();
    g.put_into(&lan, frame, io::HEADROOM);
    g.run();
}

#[test]
fn which_frames_are_of_the_vlan() {
    let mut g = gateway();
    let (tags, src) = (g.vlans.as_ref().expect("VLANs").lan, g.side.host_mac(10));
    let packet = to_b().sized(100, 1);
    let to = |mac: MacAddr| ethernet(mac, src, &packet);
    let own = to(g.side.mac(LAN));
    let vlan = |tpid, id| VlanTags::NONE.with(tpid, id).expect("a VLAN");
    let with = |outer: [u8; 4], frame: &[u8]| [&frame[..12], &outer, &frame[12..]].concat();
    // To the VLAN's own address, to the port's, and behind or in front of a tag that is no VLAN's.
    let priority = [0x81, 0, 0xe0, 0];
    let taken = [
        tagged(tags, &own),
        tagged(tags, &to(PORT_MAC)),
        with(priority, &tagged(tags, &own)),
        tagged(tags, &with(priority, &own)),
    ];
    for (n, frame) in taken.iter().enumerate() {
        put_raw(&mut g, frame);
        assert_eq!(g.wan_out().len(), 1, "{n}");
    }
    assert!(g.drops().is_empty());
    // Of another VLAN, of a service VLAN of that number, deeper ones.
    let deeper = with([0x81, 0, 0, 9], &tagged(tags, &own));
    let unknown = [
        tagged(vlan(EtherType::VLAN, 201), &own),
        tagged(vlan(EtherType::SERVICE_VLAN, 200), &own),
        deeper.clone(),
        with([0x81, 0, 0, 9], &deeper),
        with(priority, &with(priority, &tagged(tags, &own))),
    ];
    unknown.iter().for_each(|frame| put_raw(&mut g, frame));
    assert_eq!(g.drops(), [(DropReason::UnknownVlan, 5)]);
    // To another station; and cut off in the tag.
    put_raw(&mut g, &tagged(tags, &to(Side::A.host_mac(11))));
    put_raw(&mut g, &tagged(tags, &own)[..15]);
    assert_eq!(g.dropped(DropReason::OtherHost), 1);
    assert_eq!(g.dropped(DropReason::MalformedEthernet), 1);
    // Without tags it is of the port, where nothing is known of the source.
    put_raw(&mut g, &to(PORT_MAC));
    assert!(g.wan_out().len() == 1 && g.linux_out().is_empty());
}

/// The program on the private interface puts the tags in again, with the priority.
#[test]
fn what_is_linuxs_goes_back_with_its_priority() {
    let mut g = Gateway::on_vlans(Side::A, SIZES, 1);
    const TAG: u16 = 3071;
    g.set_topology_but(Vec::new(), |topology| {
        let lan = topology.interfaces.get_mut(&LAN).expect("an interface");
        lan.back = Some(TAG | io::tun::back::HAS_PRIORITY);
    });
    let (mac, host) = (g.side.mac(LAN), g.side.host_mac(10));
    for number in 0..3 {
        let packet = Ip::new(Side::A.lan(false, 10), ip("198.51.100.7")).sized(100, number);
        let frame = ethernet(mac, host, &packet);
        let lan = g.lan.clone();
        g.put(&lan, &frame);
        g.run();
        let tag = (TAG | 5 << 13).to_be_bytes();
        assert_eq!(g.linux_out(), [[&[0x81, 0], &tag[..], &[8, 0], &frame].concat()]);
        // Drop eligible.
        let mut eligible = tagged(g.vlans.as_ref().expect("VLANs").lan, &frame);
        eligible[14] |= 0x10;
        put_raw(&mut g, &eligible);
        let tag = (TAG | 0xb << 12).to_be_bytes();
        assert_eq!(g.linux_out(), [[&[0x81, 0], &tag[..], &[8, 0], &frame].concat()]);
    }
    assert!(g.drops().is_empty());
}

#[test]
fn a_vlan_that_goes_while_packets_are_on_their_way() {
    let mut g = gateway();
    g.put_lan(&to_b().sized(100, 1));
    g.run();
    assert_eq!(g.wan_out().len(), 1);
    // The interface is there still, but its slot is empty.
    let old = g.tables.topology.load_full();
    let mut topology = dataplane::Topology { fib: old.fib.clone(), ..Default::default() };
    topology.interfaces = old.interfaces.clone();
    topology.local = old.local.clone();
    g.tables.topology.store(Arc::new(topology));
    g.put_linux(&Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10)).sized(100, 2));
    g.run();
    assert_eq!(g.drops(), [(DropReason::TransmitDown, 1)]);
    // Frames that come now are of no VLAN.
    g.put_lan(&to_b().sized(100, 3));
    g.run();
    assert_eq!(g.dropped(DropReason::UnknownVlan), 1);
}

/// Taps see IP packets, and the VLAN's interface.
#[test]
fn taps_see_packets_without_tags() {
    let mut g = gateway();
    let tap = tapped(&g, Filter::default());
    let packet = to_b().sized(100, 1);
    g.put_lan(&packet);
    g.run();
    g.wan_out();
    g.put_linux(&to_b().sized(100, 2));
    g.run();
    let sealed = g.wan_out();
    let seen = all_records(&mut g, &tap);
    assert_eq!((seen[0].0.ifindex, &seen[0].1), (LAN, &hopped(&packet, 1)));
    let sent = seen.iter().filter(|(r, _)| r.verdict == Verdict::Sent { ifindex: WAN });
    let sent: Vec<&Vec<u8>> = sent.map(|(_, bytes)| bytes).collect();
    assert_eq!((sent.len(), sent[1]), (2, &sealed[0]));
}

/// A full queue of the port is sent first, as for untagged frames; one that is gone drops.
#[test]
fn the_port_s_queue_is_the_vlan_s() {
    let mut g = gateway();
    g.wan.lock().set_limit(10);
    for n in 0..64 {
        g.put_lan(&to_b().sized(100, n));
    }
    g.run();
    assert_eq!(g.drops(), [(DropReason::TransmitFull, 54)]);
    assert_eq!(g.wan_out().len(), 10);
    g.wan.lock().unplug();
    g.put_lan(&to_b().sized(100, 1));
    g.run();
    assert_eq!(g.dropped(DropReason::TransmitDown), 1);
    let again = io::MemoryHandle::new("again", 512);
    g.worker.add_port(1, below(WAN), again.port(), PortKind::Ethernet);
    g.more.push(again.clone());
    g.put_lan(&to_b().sized(100, 1));
    g.run();
    let frame = again.lock().collect().expect("sent");
    assert_eq!(frame.data()[12..14], [0x88, 0xa8]);
    g.stock.push(frame.frame);
    g.events();
}
