//! ICMP errors of routers behind the peer, which no selector has: they go the way of what they are about
//! (RFC 4301 §6.2), if policies and SAs have Linux's `flag icmp`.

use esp::SaFlags;
use forward::{IcmpCause, Reporter, icmp_error};
use outcome::DropReason;
use policy::{PolicyConfig, PolicyFlags};
use wire::parse_ip;

use crate::nested::{AH_TRANSPORT, ESP_TUNNEL};
use crate::packets::{Ip, hopped};
use crate::support::{Gateway, LAN, Pair, Side, Sizes, Spec, ethernet, ip};

/// Routers behind gateway B, of networks that are not protected.
fn router(v6: bool) -> std::net::IpAddr {
    ip(if v6 { "2001:db8:f::77" } else { "203.0.113.9" })
}

/// A router's error to the sender of a packet that it cannot deliver.
fn unreachable(packet: &[u8]) -> Vec<u8> {
    let h = parse_ip(packet).expect("packet");
    let mut out = vec![0; 1500];
    let from = Reporter { src: router(h.src.is_ipv6()), ident: 5 };
    let len = icmp_error::build(IcmpCause::HostUnreachable, packet, &h, false, from, &mut out);
    out.truncate(len.expect("an error"));
    out
}

/// A packet from behind gateway A to a host behind gateway B.
fn forth(v6: bool) -> Ip {
    Ip::new(Side::A.lan(v6, 10), Side::B.lan(v6, 10))
}

fn flag_policies(gateway: &mut Gateway, icmp: bool) {
    let configs: Vec<PolicyConfig> = gateway.db.policies().map(|p| p.config.clone()).collect();
    for config in configs {
        let flags = PolicyFlags { icmp, ..config.flags };
        gateway.db.put_policy(PolicyConfig { flags, ..config });
    }
}

/// Gateways whose SAs are open to errors or not, and their policies.
fn pair(sas: bool, policies: bool) -> Pair {
    let flags = SaFlags { icmp: sas, ..SaFlags::default() };
    let mut pair = Pair::new(&Spec { flags, ..Spec::default() });
    for gateway in [&mut pair.a, &mut pair.b] {
        flag_policies(gateway, policies);
    }
    pair
}

#[test]
fn an_error_goes_the_way_of_what_it_is_about() {
    for v6 in [false, true] {
        let mut pair = pair(true, true);
        for n in 0..3 {
            let error = unreachable(&forth(v6).sized(200, n));
            pair.b.put_lan(&error);
            pair.b.run();
            assert_eq!(pair.carry(Side::B).len(), 1, "protected, and not in clear");
            assert_eq!(pair.b.linux_out().len() + pair.b.lan_out().len(), 0);
            assert_eq!(pair.a.lan_out(), [hopped(&error, 2)]);
        }
        assert_eq!((pair.a.drops(), pair.b.drops()), (vec![], vec![]));
    }
}

#[test]
fn without_the_flags_it_is_nobodys() {
    let error = unreachable(&forth(false).sized(200, 1));
    // No policy of B's: it is Linux's, as it came.
    let mut none = pair(true, false);
    none.b.put_lan(&error);
    none.b.run();
    assert_eq!((none.carry(Side::B).len(), none.b.linux_out()), (0, vec![error.clone()]));
    // A's SA is not open to errors.
    let mut closed = pair(false, true);
    closed.b.put_lan(&error);
    closed.b.run();
    closed.carry(Side::B);
    assert_eq!(closed.a.lan_out(), Vec::<Vec<u8>>::new());
    assert_eq!(closed.a.drops(), [(DropReason::InPolicy, 1)]);
}

/// The next error with the same headers may be about another packet, so nothing is remembered of one.
#[test]
fn each_error_is_judged_by_what_it_quotes() {
    let mut pair = pair(true, true);
    let ours = unreachable(&forth(false).sized(200, 1));
    let to = |addr: &str| Ip::new(Side::A.lan(false, 10), ip(addr)).sized(200, 1);
    for round in 0..3 {
        pair.b.put_lan(&ours);
        // About a packet that went elsewhere in clear, and about nothing that can be read.
        let other = unreachable(&to("198.51.100.7"));
        let cut = {
            let mut cut = ours[..40].to_vec();
            cut[2..4].copy_from_slice(&40_u16.to_be_bytes());
            wire::ipv4::fill_checksum(&mut cut);
            cut
        };
        pair.b.put_lan(&other);
        pair.b.put_lan(&cut);
        pair.b.run();
        assert_eq!(pair.carry(Side::B).len(), 1, "round {round}");
        assert_eq!(pair.b.linux_out(), [other, cut]);
        assert_eq!(pair.a.lan_out(), [hopped(&ours, 2)]);
    }
    // What the peer sends is judged so too: its policies may be wider.
    let wide: PolicyConfig = pair.b.db.policy(11).expect("policy").config.clone();
    let mut selector = wide.selector;
    selector.src.len = 0;
    pair.b.db.put_policy(PolicyConfig { selector, ..wide });
    pair.b.put_lan(&unreachable(&to("198.51.100.7")));
    pair.b.put_lan(&ours);
    pair.b.run();
    assert_eq!(pair.carry(Side::B).len(), 2);
    assert_eq!(pair.a.lan_out(), [hopped(&ours, 2)]);
    assert_eq!(pair.a.drops(), [(DropReason::InPolicy, 1)]);
}

/// The same where several SAs protect, and where another worker is their home.
#[test]
fn no_plan_is_made_of_an_error() {
    let ours = unreachable(&forth(false).sized(200, 1));
    let other = Ip::new(Side::A.lan(false, 10), ip("198.51.100.7")).sized(200, 1);
    let other = unreachable(&other);
    let mut nested = crate::nested::pair(&[ESP_TUNNEL, AH_TRANSPORT], false);
    let mut spread = pair(true, true);
    let sizes = Sizes { chunks: 8192, stock: 2048, port_limit: 512 };
    spread.b = Gateway::with_workers(Side::B, sizes, 1024, 2);
    spread.b.protect(&Spec::default());
    spread.b.sa(Side::B, &Spec::default()).home().claim(0);
    for pair in [&mut nested, &mut spread] {
        let b = &mut pair.b;
        flag_policies(b, true);
        // To the worker that is not the home, where there is one.
        let lan = b.others.first().map_or_else(|| b.lan.clone(), |other| other.ports[0].clone());
        for round in 0..3 {
            for error in [&ours, &other] {
                let frame = ethernet(b.side.mac(LAN), b.side.host_mac(10), error);
                b.put_into(&lan, &frame, io::HEADROOM);
                b.run();
            }
            assert_eq!(b.wan_out().len(), 1, "round {round}");
            assert_eq!(b.linux_out(), std::slice::from_ref(&other));
        }
        let handed: u64 = b.all_counters().map(|c| c.totals().handed_over).sum();
        assert_eq!(handed, if b.others.is_empty() { 0 } else { 3 }, "the other kind is not");
    }
}

/// Flows that were decided about when no policy was for errors are asked about again.
#[test]
fn the_flag_comes_and_goes_under_traffic() {
    let mut pair = pair(true, false);
    let error = unreachable(&forth(false).sized(200, 1));
    for (flag, protected) in [(false, 0), (true, 1), (false, 0), (true, 1)] {
        flag_policies(&mut pair.b, flag);
        flag_policies(&mut pair.a, flag);
        for _ in 0..3 {
            pair.b.put_lan(&error);
            pair.b.run();
            assert_eq!(pair.carry(Side::B).len(), protected);
            assert_eq!(pair.b.linux_out().len(), 1 - protected);
        }
    }
}

/// Without an SA an error is dropped, and an owner that other packets ask for one is asked by those.
#[test]
fn nobody_waits_for_an_error() {
    let mut pair = pair(true, true);
    let id = pair.b.sa(Side::B, &Spec::default()).config.id();
    pair.b.db.remove_sa(&id);
    pair.b.put_lan(&unreachable(&forth(false).sized(200, 1)));
    pair.b.run();
    assert_eq!(pair.b.drops(), [(DropReason::OutNoState, 1)]);
    assert_eq!((pair.b.events(), pair.b.counters.totals().held), (vec![], 0));
}
