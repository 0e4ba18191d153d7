//! Every reason in the table of drops can be produced: one test each, in a table.

use core::sync::atomic::Ordering::Relaxed;

use esp::Mode;
use forward::NeighbourState;
use outcome::DropReason;
use policy::{Action, Direction, SaState, Selector};
use wire::protocol;

use crate::packets::{Ip, cut};
use crate::support::{
    Gateway, HELD, LAN, Pair, Side, Sizes, Spec, WAN, craft_esp, esp_text, ethernet, ip,
    make_leased_sa, make_sa, sa_config,
};
use crate::{
    bfd, device, gtpu, ipcomp, iptfs, iptfs_rates, nested, newcomers, overlays, parity, paths,
    rates, replication, route_based, shaping, srv6, steering,
};

/// Makes gateway B drop one packet at least for this reason.
fn produce(reason: DropReason) -> Gateway {
    let spec = Spec::default();
    let mut pair = Pair::new(&spec);
    let forth = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10));
    let back = Ip::new(Side::B.lan(false, 10), Side::A.lan(false, 10));
    let good = forth.sized(100, 1);
    let reply = back.sized(100, 1);
    let mut sealed = |n: usize| {
        for _ in 0..n {
            pair.a.put_lan(&good);
        }
        pair.a.run();
        pair.a.wan_out()
    };
    let lan_frame = |packet: &[u8]| ethernet(Side::B.mac(LAN), Side::B.host_mac(10), packet);
    let mut b = Gateway::new(Side::B);
    b.protect(&spec);
    let lan = b.lan.clone();
    let crafted = |b: &mut Gateway, payload: &[u8], next| {
        b.put_wan(&craft_esp(Side::A, 1, &esp_text(payload, next), 0))
    };
    match reason {
        DropReason::MalformedEthernet => b.put(&lan, &[0; 13]),
        DropReason::OtherHost => {
            b.put(&lan, &ethernet(Side::A.mac(LAN), Side::B.host_mac(10), &reply));
        }
        DropReason::UnexpectedProtocol => {
            let mut frame = lan_frame(&reply);
            frame[12] = 0x88;
            b.put(&lan, &frame);
        }
        DropReason::UnknownVlan => {
            let mut frame = lan_frame(&reply);
            frame.splice(12..12, [0x81, 0, 0, 5]);
            b.put(&lan, &frame);
        }
        DropReason::MalformedIp => b.put_lan(&reply[..15]),
        DropReason::BadIpChecksum => {
            let mut bad = reply;
            bad[10] ^= 1;
            b.put_lan(&bad);
        }
        DropReason::MalformedUpper => b.put_lan(&back.with(&[1, 2, 3])),
        DropReason::MalformedEsp => {
            b.put_wan(
                &Ip { protocol: protocol::ESP, ..outer() }.with(&Side::A.spi().to_be_bytes()),
            );
        }
        DropReason::FragmentMalformed => {
            let mut fragments = cut(&sealed(1)[0], 60, 1);
            fragments[0].truncate(20 + 39);
            fragments[0][3] = 59;
            wire::ipv4::fill_checksum(&mut fragments[0]);
            b.put_wan(&fragments[0]);
        }
        DropReason::FragmentDuplicate => {
            let fragments = cut(&sealed(1)[0], 60, 1);
            b.put_wan(&fragments[0]);
            b.put_wan(&fragments[0]);
        }
        DropReason::FragmentOverlap => {
            let packet = sealed(1).remove(0);
            b.put_wan(&cut(&packet, 60, 1)[0]);
            b.put_wan(&cut(&packet, 44, 1)[1]);
        }
        DropReason::FragmentLimit => {
            let fragments = cut(&outer_esp(&[7; 1200]), 28, 1);
            assert!(fragments.len() > 128);
            fragments.iter().for_each(|f| b.put_wan(f));
        }
        DropReason::FragmentTimeout => {
            b.put_wan(&cut(&sealed(1)[0], 60, 1)[0]);
            b.run();
            b.pass_ns(14_999_999_999);
            assert_eq!(b.dropped(reason), 0);
            b.pass_ns(1);
        }
        DropReason::FragmentTooLong => {
            // 60 bytes of options in the first one's header, and the last one ends at 65515.
            let mut fragments = cut(&outer_esp(&[7; 65_515]), 1500, 1);
            let mut first = fragments.remove(0);
            first.splice(20..20, [1; 40]);
            first[0] = 0x4f;
            let len = first.len() as u16;
            first[2..4].copy_from_slice(&len.to_be_bytes());
            wire::ipv4::fill_checksum(&mut first[..60]);
            b.put_wan(&first);
            fragments.iter().for_each(|f| b.put_wan(f));
        }
        DropReason::FragmentEcn => {
            let mut fragments = cut(&sealed(1)[0], 60, 1);
            for (fragment, mark) in fragments.iter_mut().zip([0, 3]) {
                wire::set_traffic_class(fragment, mark);
            }
            fragments.iter().for_each(|f| b.put_wan(f));
        }
        DropReason::Srv6Malformed
        | DropReason::Srv6SegmentsLeft
        | DropReason::Srv6UpperLayer
        | DropReason::Srv6Hmac
        | DropReason::Srv6Fragment
        | DropReason::Srv6Edge
        | DropReason::Srv6NoFrame => b = srv6::produce(reason),
        DropReason::OverlayLoop => b = overlays::produce(),
        DropReason::MalformedIpComp
        | DropReason::InDeflate
        | DropReason::InDeflateTooLong
        | DropReason::InDeflateLimit => {
            b = ipcomp::produce(reason);
        }
        DropReason::MalformedAh | DropReason::InNoRoom | DropReason::InNesting => {
            b = nested::produce(reason);
        }
        DropReason::MartianSource => {
            b.put_wan(&Ip::new(Side::B.lan(false, 1), Side::B.lan(false, 10)).sized(100, 1));
        }
        DropReason::ReversePath => {
            b.put_wan(&Ip::new(Side::B.lan(false, 11), Side::B.lan(false, 10)).sized(100, 1));
        }
        DropReason::InNoState => {
            b.put_wan(&Ip { protocol: protocol::ESP, ..outer() }.with(&[9; 64]));
        }
        DropReason::InStateExpired => {
            b.sa(Side::A, &spec).advance(SaState::Expired);
            b.put_wan(&sealed(1)[0]);
        }
        // A whole IP packet's place is taken by what transport mode would carry.
        DropReason::InStateMode => crafted(&mut b, &good[20..], protocol::UDP),
        DropReason::InEncapMismatch => {
            let packet = sealed(1).remove(0);
            b.put_wan(&outer().udp(4500, 4500, &packet[20..]));
        }
        DropReason::InReplayOld => {
            let packets = sealed(300);
            b.put_wan(&packets[299]);
            b.put_wan(&packets[0]);
        }
        DropReason::InReplayDuplicate => {
            let packets = sealed(1);
            b.put_wan(&packets[0]);
            b.put_wan(&packets[0]);
        }
        DropReason::InSequenceZero => b.put_wan(&craft_esp(Side::A, 0, &esp_text(&good, 4), 0)),
        DropReason::InIntegrity => {
            let mut packet = sealed(1).remove(0);
            packet[40] ^= 1;
            b.put_wan(&packet);
        }
        DropReason::InCrypto => {
            b.crypto_fails.store(true, Relaxed);
            b.put_wan(&sealed(1)[0]);
        }
        DropReason::InPadding => {
            let mut text = esp_text(&good[..], 4);
            let at = text.len() - 2;
            text[at] = 200;
            b.put_wan(&craft_esp(Side::A, 1, &text, 0));
        }
        DropReason::InNextHeader => crafted(&mut b, &good, protocol::IPV6),
        DropReason::InInnerHeader => {
            let mut bad = good.clone();
            bad[10] ^= 1;
            crafted(&mut b, &bad, protocol::IPV4);
        }
        DropReason::InSelector => {
            let mut config = b.sa(Side::A, &spec).config.clone();
            config.selector = Some(Selector::between(Side::B.net(false), Side::B.net(false)));
            let esp = crate::support::make_sa(&config.params);
            b.db.replace_sa(config, esp);
            b.put_wan(&sealed(1)[0]);
        }
        DropReason::InPolicy => {
            b.db.remove_policy(13);
            b.put_wan(&sealed(1)[0]);
        }
        DropReason::InPolicyBlock => {
            b.db.set_default(Direction::In, Action::Block);
            b.put_lan(&Ip::new(Side::B.lan(false, 10), Side::B.lan(false, 1)).sized(60, 1));
        }
        DropReason::InCleartext => b.put_wan(&good),
        DropReason::InMark => {
            let config = sa_config(&spec, Side::A);
            let set_mark = policy::Mark { value: 10, mask: u32::MAX };
            b.db.remove_sa(&config.id());
            let sa = make_sa(&config.params);
            b.db.add_sa(policy::SaConfig { set_mark, ..config }, sa).expect("new");
            b.put_wan(&sealed(1)[0]);
        }
        DropReason::InEcn => b.put_wan(&craft_esp(Side::A, 1, &esp_text(&good, 4), 3)),
        DropReason::OutPolicyBlock => {
            let mut config = b.db.policy(11).expect("policy").config.clone();
            config.action = Action::Block;
            b.db.put_policy(config);
            b.put_lan(&reply);
        }
        DropReason::OutNoState => {
            let id = b.sa(Side::B, &spec).config.id();
            b.db.remove_sa(&id);
            (0..=HELD).for_each(|_| b.put_lan(&reply));
        }
        DropReason::OutStateExpired => {
            let mut config = b.sa(Side::B, &spec).config.clone();
            config.limits.hard_packets = 0;
            let esp = crate::support::make_sa(&config.params);
            b.db.replace_sa(config, esp);
            b.put_lan(&reply);
        }
        DropReason::OutSequenceExhausted => {
            b.sa(Side::B, &spec).esp.live().sent().store(u32::MAX.into(), Relaxed);
            b.put_lan(&reply);
        }
        DropReason::OutLease => {
            let config = sa_config(&spec, Side::B);
            let sa = make_leased_sa(&config.params, 0);
            b.db.replace_sa(config, sa);
            b.put_lan(&reply);
        }
        DropReason::OutTooBig => {
            b.put_lan(&Ip { dont_fragment: true, ..back }.sized(1500, 1));
        }
        DropReason::OutNoRoom => b.put_at(&lan, &lan_frame(&reply), 0),
        DropReason::OutCrypto => {
            b.crypto_fails.store(true, Relaxed);
            b.put_lan(&reply);
        }
        DropReason::OutUnsupported => {
            let mut config = b.db.policy(11).expect("policy").config.clone();
            config.templates[0].protocol = 108;
            b.db.put_policy(config);
            b.put_lan(&reply);
        }
        DropReason::OutNoTunnel => {
            b.db.remove_policy(11);
            b.set_topology_but(vec![], |topology| {
                let interface = topology.interfaces.get_mut(&WAN).expect("a port");
                let binding = dataplane::Binding::IfId(7);
                (interface.port, interface.binding) = (None, Some(binding));
                let tunnel = dataplane::Tunnel { ifindex: WAN, slot: Some(1), is_elsewhere: false };
                topology.tunnels = [(binding, tunnel)].into_iter().collect();
            });
            b.put_lan(&Ip::new(Side::B.lan(false, 10), ip("203.0.113.9")).sized(100, 1));
        }
        DropReason::OutTunnelMulticast => {
            let (gateway, tunnel) = route_based::gateway(Side::B);
            b = gateway;
            b.put(&tunnel, &Ip::new(ip("fe80::1"), ip("ff02::16")).sized(60, 1));
        }
        DropReason::OutMode => {
            b = Gateway::new(Side::B);
            let spec = Spec { mode: Mode::Transport, outer_v6: true, ..spec };
            b.protect(&spec);
            // Whole, but with a fragment header (RFC 6946).
            let from = Ip { protocol: 44, ..Ip::new(Side::B.wan(true), Side::A.wan(true)) };
            b.put_linux(&from.with(&[&[17, 0, 0, 0, 0, 0, 0, 1][..], &[9; 16]].concat()));
        }
        DropReason::OutDeviceMismatch
        | DropReason::OutDeviceFragment
        | DropReason::InDeviceFragment
        | DropReason::DeviceFull
        | DropReason::DeviceLost => b = device::produce(reason),
        DropReason::GtpuMalformed | DropReason::GtpuTeid | DropReason::GtpuTooLong => {
            b = gtpu::produce(reason);
        }
        DropReason::ProbeRefused => b = paths::produce(),
        DropReason::BfdRefused => b = bfd::produce(),
        DropReason::NewFlowLimit => b = newcomers::produce(),
        DropReason::CopyDuplicate
        | DropReason::CopyLate
        | DropReason::CopyUnknown
        | DropReason::CopyMalformed => b = replication::produce(reason),
        DropReason::ParityMalformed | DropReason::ParityMissing => b = parity::produce(reason),
        DropReason::NoPath => b = steering::produce(),
        DropReason::SteerCleartext => b = steering::produce_in_clear(),
        DropReason::RateLimit => b = rates::produce(),
        DropReason::LimitQueueFull | DropReason::LimitWait => b = shaping::produce(reason),
        DropReason::TtlExceeded => b.put_lan(&Ip { ttl: 1, ..back }.sized(100, 1)),
        DropReason::NoRoute => {
            b.put_linux(&Ip::new(Side::B.wan(false), ip("100.64.0.1")).sized(60, 1));
        }
        DropReason::RouteProhibited => {
            b.put_linux(&Ip::new(Side::B.wan(false), ip("198.18.0.1")).sized(60, 1));
        }
        DropReason::NeighbourFailed => {
            b.set_neighbours(NeighbourState::Failed);
            b.put_lan(&reply);
        }
        DropReason::HoldQueueFull => {
            b.set_neighbours(NeighbourState::Incomplete);
            (0..=HELD).for_each(|_| b.put_lan(&reply));
        }
        DropReason::HandOverFull => {
            let sizes = Sizes { chunks: 8192, stock: 4000, port_limit: 4096 };
            b = Gateway::with_workers(Side::B, sizes, 64, 2);
            b.protect(&spec);
            // Its home never comes to take anything over.
            assert_eq!(b.sa(Side::B, &spec).home().claim(1), 1);
            let lan = b.lan.clone();
            for _ in 0..2049 {
                b.put_into(&lan, &lan_frame(&reply), io::HEADROOM);
            }
            while b.worker.round_at(b.now) > 0 {}
            assert_eq!(b.dropped(reason), 1);
            assert_eq!(b.counters.totals().handed_over, 2048);
        }
        DropReason::HoldTimeout => {
            b.set_neighbours(NeighbourState::Incomplete);
            b.put_lan(&reply);
            b.run();
            b.pass_ns(3_000_000_000);
        }
        DropReason::EgressNotPort => {
            let peer = forward::Subnet { addr: Side::A.wan(false), len: 32 };
            let kind = forward::RouteKind::Local;
            let route = crate::support::route(forward::table::LOCAL, peer, kind, None, None);
            b.set_topology(1500, vec![route]);
            b.put_lan(&reply);
        }
        DropReason::ForwardLoop => {
            b.put_linux(&Ip::new(Side::B.wan(false), Side::B.lan(false, 1)).sized(60, 1));
        }
        DropReason::TransmitFull => {
            b.wan.lock().set_limit(0);
            b.put_lan(&reply);
        }
        DropReason::TransmitDown => {
            b.put_lan(&reply);
            b.wan.lock().unplug();
        }
        DropReason::LinuxFull => {
            b.linux.lock().set_limit(0);
            b.put_lan(&Ip::new(Side::B.lan(false, 10), Side::B.lan(false, 1)).sized(60, 1));
        }
        DropReason::InIptfs => iptfs::produce(&mut b, &[(1, 0)]),
        DropReason::InIptfsLate => iptfs::produce(&mut b, &[(30, 4), (29, 4)]),
        DropReason::InIptfsIncomplete => iptfs::produce(&mut b, &[(1, 5), (2, 4)]),
        DropReason::OutIptfsBroken => iptfs_rates::produce(&mut b, &reply),
        DropReason::OutNoQueueSpace => {
            b = Gateway::new(Side::B);
            b.protect(&iptfs::spec(|iptfs| iptfs.max_queue_bytes = 50));
            b.put_lan(&reply);
        }
        DropReason::NoFrames => {
            b = Gateway::with_sizes(Side::B, Sizes { chunks: 8, stock: 8, port_limit: 8 });
            b.protect(&spec);
            b.put_lan(&back.sized(1500, 1));
        }
    }
    b.run();
    b
}

fn outer() -> Ip {
    Ip::new(Side::A.wan(false), Side::B.wan(false))
}

/// A whole packet that says that it is ESP.
fn outer_esp(payload: &[u8]) -> Vec<u8> {
    Ip { protocol: protocol::ESP, ..outer() }.with(payload)
}

#[test]
fn every_reason_is_produced() {
    let mut missing = Vec::new();
    for reason in DropReason::ALL {
        let mut gateway = produce(*reason);
        if gateway.dropped(*reason) == 0 {
            missing.push((*reason, gateway.drops()));
        }
        // Whatever happened, nothing of it left in clear by the WAN.
        for packet in gateway.wan_out() {
            let h = wire::parse_ip(&packet).expect("packet");
            assert_eq!(h.protocol, protocol::ESP, "{reason:?}");
        }
    }
    assert_eq!(missing, []);
}
