//! GTP-U of an address that a gateway shares with an application behind its LAN port.

use dataplane::Application;
use outcome::DropReason;

use crate::packets::{Ip, cut};
use crate::support::{Gateway, LAN, Pair, Side, Spec};

/// Host 10 on the LAN has the GTP-U of the gateway's LAN addresses.
pub fn share(gateway: &Gateway, side: Side) {
    gateway.set_topology_but(Vec::new(), |topology| {
        for v6 in [false, true] {
            let (addr, via) = (side.lan(v6, 1), side.lan(v6, 10));
            topology.applications.push(Application { addr, ifindex: LAN, via });
        }
    });
}

/// A G-PDU of so many bytes.
fn g_pdu(len: u16) -> Vec<u8> {
    let mut message = vec![0x30, 255];
    message.extend(len.to_be_bytes());
    message.extend([0, 0, 0, 7]);
    message.extend(vec![9; len.into()]);
    message
}

#[test]
fn gtpu_goes_to_the_application_and_the_rest_to_linux() {
    let mut pair = Pair::new(&Spec::default());
    share(&pair.b, Side::B);
    for v6 in [false, true] {
        let flow = Ip::new(Side::A.lan(v6, 10), Side::B.lan(v6, 1));
        // The second and the third of a flow go by its plan.
        for round in 0..3_u16 {
            let user = flow.udp(2152, 2152, &g_pdu(100 + round));
            let other = flow.udp(4000, 161, &[7; 60]);
            pair.a.put_lan(&user);
            pair.a.put_lan(&other);
            pair.a.run();
            pair.carry(Side::A);
            let (lan, linux) = (pair.b.lan_out(), pair.b.linux_out());
            // One hop, that of A: the application is at B itself.
            assert_eq!((lan.len(), linux.len()), (1, 1), "v6: {v6}, round {round}");
            assert_eq!(lan[0], crate::packets::hopped(&user, 1));
            assert_eq!(linux[0], crate::packets::hopped(&other, 1));
        }
        // A malformed one among them, by the plan's own look.
        pair.a.put_lan(&flow.udp(2152, 2152, &[0x30, 255, 0, 200, 0, 0, 0, 7, 1]));
        pair.a.put_lan(&flow.udp(2152, 2152, &g_pdu(8)));
        pair.a.run();
        pair.carry(Side::A);
        assert_eq!(pair.b.lan_out().len(), 1);
    }
    assert_eq!(pair.b.drops(), [(DropReason::MalformedGtpu, 2)]);
}

#[test]
fn its_fragments_follow_the_first_one() {
    let mut pair = Pair::new(&Spec::default());
    share(&pair.b, Side::B);
    let flow = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 1));
    for (packet, goes_to_application) in
        [(flow.udp(2152, 2152, &g_pdu(600)), true), (flow.udp(4000, 161, &[7; 600]), false)]
    {
        let fragments = cut(&packet, 300, 1);
        for fragment in fragments.iter().rev() {
            pair.a.put_lan(fragment);
        }
        pair.a.run();
        pair.carry(Side::A);
        let (lan, linux) = (pair.b.lan_out().len(), pair.b.linux_out().len());
        let all = fragments.len();
        assert_eq!((lan, linux), if goes_to_application { (all, 0) } else { (0, all) });
    }
    assert!(pair.b.drops().is_empty());
}

#[test]
fn what_the_application_sends_is_protected() {
    let mut pair = Pair::new(&Spec::default());
    share(&pair.b, Side::B);
    for v6 in [false, true] {
        let uplink = Ip::new(Side::B.lan(v6, 1), Side::A.lan(v6, 10));
        for round in 0..2 {
            pair.b.put_lan(&uplink.udp(2152, 2152, &g_pdu(100)));
            pair.b.run();
            assert_eq!(pair.carry(Side::B).len(), 1, "v6: {v6}, round {round}");
            assert_eq!(pair.a.lan_out().len(), 1);
        }
        // Anything else with an address of the gateway's own is forged, as ever.
        pair.b.put_lan(&uplink.udp(4000, 4000, &[1; 60]));
        pair.b.run();
    }
    assert_eq!(pair.b.drops(), [(DropReason::MartianSource, 2)]);
}
