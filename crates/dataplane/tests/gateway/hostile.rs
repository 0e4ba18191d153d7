//! Random and mutated frames on every port: no panic, nothing lost, nothing out in clear.

use proptest::prelude::*;
use proptest::sample::Index;
use wire::{parse_ip, protocol};

use crate::on_vlans::tagged;
use crate::packets::Ip;
use crate::support::{Gateway, LAN, Pair, SIZES, Side, Spec, WAN, craft_esp, ethernet};

/// Good frames and packets to begin with: (port, bytes).
fn seeds() -> Vec<(usize, Vec<u8>)> {
    let mut all = Vec::new();
    for spec in specs() {
        let mut pair = Pair::new(&spec);
        for v6 in [false, true] {
            let to_us = Ip::new(Side::B.lan(v6, 10), Side::A.lan(v6, 10));
            pair.b.put_lan(&to_us.sized(200, 1));
            pair.b.put_lan(&to_us.sized(1400, 2));
            pair.b.put_lan(&Ip { ttl: 2, ..to_us }.sized(90, 3));
            let out = Ip::new(Side::A.lan(v6, 10), Side::B.lan(v6, 10));
            for packet in [out.sized(60, 4), out.sized(1490, 5), Ip { ttl: 1, ..out }.sized(70, 6)]
            {
                all.push((0, ethernet(Side::A.mac(LAN), Side::A.host_mac(10), &packet)));
                all.push((1, ethernet(Side::A.mac(WAN), Side::B.mac(WAN), &packet)));
                // From Linux other content: what it sends elsewhere may leave in clear.
                let mut other = packet;
                let upper = usize::from(parse_ip(&other).expect("packet").header_len) + 8;
                other[upper..].fill(0xaa);
                all.push((2, other));
            }
            let local = Ip::new(Side::B.lan(v6, 10), Side::A.lan(v6, 1));
            pair.b.put_lan(&local.sized(300, 7));
            let ike = Ip::new(Side::B.wan(v6), Side::A.wan(v6));
            let natt = ike.udp(4500, 4500, &[0; 40]);
            all.push((1, ethernet(Side::A.mac(WAN), Side::B.mac(WAN), &natt)));
        }
        pair.b.run();
        for packet in pair.b.wan_out() {
            all.push((1, ethernet(Side::A.mac(WAN), Side::B.mac(WAN), &packet)));
        }
    }
    all
}

fn specs() -> [Spec; 3] {
    let plain = Spec::default();
    [plain, Spec { outer_v6: true, esn: true, ..plain }, Spec { encap: true, ..plain }]
}

/// One change to a frame.
#[derive(Clone, Debug)]
enum Change {
    None,
    Flip(Index, u8),
    Cut(Index),
    Extend(Vec<u8>),
    Replace(Vec<u8>),
    /// A header byte, where it hurts most, with IPv4's checksum made right again.
    Header(u8, u8),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        3 => Just(Change::None),
        2 => (any::<Index>(), any::<u8>()).prop_map(|(i, v)| Change::Flip(i, v)),
        1 => any::<Index>().prop_map(Change::Cut),
        1 => prop::collection::vec(any::<u8>(), 1..100).prop_map(Change::Extend),
        1 => prop::collection::vec(any::<u8>(), 0..200).prop_map(Change::Replace),
        4 => (0u8..64, any::<u8>()).prop_map(|(i, v)| Change::Header(i, v)),
    ]
}

fn apply(frame: &mut Vec<u8>, change: &Change, ip_at: usize) {
    match change {
        Change::None => {}
        Change::Flip(..) | Change::Cut(_) if frame.is_empty() => {}
        Change::Flip(at, value) => {
            let at = at.index(frame.len());
            frame[at] ^= value;
        }
        Change::Cut(at) => frame.truncate(at.index(frame.len())),
        Change::Extend(more) => frame.extend(more),
        Change::Replace(bytes) => *frame = bytes.clone(),
        Change::Header(at, value) => {
            let at = ip_at + usize::from(*at);
            if let Some(byte) = frame.get_mut(at) {
                *byte = *value;
            }
            if frame.get(ip_at).is_some_and(|b| b >> 4 == 4) && frame.len() >= ip_at + 20 {
                wire::ipv4::fill_checksum(&mut frame[ip_at..]);
            }
        }
    }
}

/// ESP from this gateway to the other, of the SA that protects.
fn is_esp(packet: &[u8], spec: &Spec) -> bool {
    let Ok(h) = parse_ip(packet) else { return false };
    let upper = &packet[usize::from(h.header_len)..];
    let spi = Side::A.spi().to_be_bytes();
    let has_spi = match (h.fragment, spec.encap) {
        (wire::Fragment::Later, _) => !has_plaintext(packet),
        (_, true) => h.protocol == protocol::UDP && upper.get(8..12) == Some(&spi[..]),
        (_, false) => h.protocol == protocol::ESP && upper.get(..4) == Some(&spi[..]),
    };
    has_spi && h.src == Side::A.wan(spec.outer_v6) && h.dst == Side::B.wan(spec.outer_v6)
}

/// A piece of the payload that only hosts of the protected networks send.
fn has_plaintext(packet: &[u8]) -> bool {
    let piece: Vec<u8> = (20..36).collect();
    packet.windows(16).any(|w| w == piece)
}

/// True if a packet is one of those that policy wants protected.
fn is_protected(packet: &[u8]) -> bool {
    parse_ip(packet).is_ok_and(|h| {
        [false, true]
            .iter()
            .any(|v6| Side::A.net(*v6).contains(h.src) && Side::B.net(*v6).contains(h.dst))
    })
}

proptest! {
    #[test]
    fn nothing_panics_is_lost_or_leaks(
        kind in 0usize..3,
        has_sas in any::<bool>(),
        is_on_vlans in any::<bool>(),
        steps in prop::collection::vec((any::<Index>(), change(), change(), 0u8..12), 1..120),
    ) {
        static SEEDS: std::sync::LazyLock<Vec<(usize, Vec<u8>)>> = std::sync::LazyLock::new(seeds);
        let spec = specs()[kind];
        let mut g = match is_on_vlans {
            true => Gateway::on_vlans(Side::A, SIZES, 1),
            false => Gateway::new(Side::A),
        };
        g.add_policies(&spec);
        if has_sas {
            g.add_sas(&spec);
        }
        for (seed, first, second, then) in steps {
            let (port, frame) = &SEEDS[seed.index(SEEDS.len())];
            let mut frame = frame.clone();
            let mut ip_at = if *port == 2 { 0 } else { 14 };
            apply(&mut frame, &first, ip_at);
            let handle = [&g.lan, &g.wan, &g.linux][*port].clone();
            // The second change may be of the tags.
            if let Some(vlans) = g.vlans.as_ref().filter(|_| *port < 2) {
                let tags = [vlans.lan, vlans.wan][*port];
                frame = tagged(tags, &frame);
                ip_at += 4 * tags.len();
            }
            apply(&mut frame, &second, ip_at);
            g.put_into(&handle, &frame, io::HEADROOM);
            match then {
                0..3 => g.run(),
                3 => g.pass_ns(1_500_000_000),
                4 => g.set_neighbours(forward::NeighbourState::Incomplete),
                5 => g.set_neighbours(forward::NeighbourState::Failed),
                6 | 7 => g.set_neighbours(forward::NeighbourState::Reachable),
                8 => g.set_topology(600, Vec::new()),
                9 => g.set_topology(1500, Vec::new()),
                10 if g.db.sa_count() == 0 => g.add_sas(&spec),
                10 => {
                    let id = g.sa(Side::A, &spec).config.id();
                    g.db.remove_sa(&id);
                    let id = g.sa(Side::B, &spec).config.id();
                    g.db.remove_sa(&id);
                }
                11 => _ = g.crypto_fails.fetch_xor(true, core::sync::atomic::Ordering::Relaxed),
                _ => {}
            }
            g.check();
            for packet in g.wan_out() {
                prop_assert!(
                    is_esp(&packet, &spec) || !is_protected(&packet) && !has_plaintext(&packet),
                    "in clear: {packet:02x?}"
                );
            }
            // To Linux goes nothing that has to be protected, from whichever side it came.
            for packet in g.linux_out() {
                prop_assert!(!is_protected(&packet), "to Linux in clear: {packet:02x?}");
            }
            g.lan_out();
        }
    }
}

proptest! {
    /// The peer holds the keys and is hostile: whatever it seals, nothing breaks, and nothing that
    /// its policy does not cover comes out.
    #[test]
    fn a_hostile_peer_breaks_nothing(
        steps in prop::collection::vec((any::<Index>(), change(), change(), any::<u8>(), 0u8..4), 1..60),
    ) {
        let spec = Spec::default();
        let mut g = Gateway::new(Side::A);
        g.protect(&spec);
        let mut good = Vec::new();
        for v6 in [false, true] {
            for host in [1, 10] {
                let ip = Ip::new(Side::B.lan(v6, 10), Side::A.lan(v6, host));
                good.extend([ip.sized(60, 1), ip.sized(1400, 2), Ip { ttl: 1, ..ip }.sized(80, 3)]);
            }
        }
        for (number, (seed, first, second, odd, kind)) in (1..).zip(steps) {
            let mut inner = good[seed.index(good.len())].clone();
            apply(&mut inner, &first, 0);
            apply(&mut inner, &second, 0);
            inner.truncate(1440);
            let mut text = crate::support::esp_text(&inner, if inner.first().is_some_and(|b| b >> 4 == 6) { 41 } else { 4 });
            let len = text.len();
            match kind {
                // Pad length, next header, or both.
                0 => text[len - 1] = odd,
                1 => text[len - 2] = odd,
                _ => {}
            }
            g.put_wan(&craft_esp(Side::B, number, &text, odd & 3));
            g.run();
            for packet in g.lan_out().iter().chain(&g.linux_out()) {
                let h = parse_ip(packet).expect("what comes out is well formed");
                let (mut from, mut to) = (false, false);
                for v6 in [false, true] {
                    from |= Side::B.net(v6).contains(h.src);
                    to |= Side::A.net(v6).contains(h.dst);
                }
                prop_assert!(from && to, "{h:?}");
            }
            for packet in g.wan_out() {
                prop_assert!(is_esp(&packet, &spec), "in clear: {packet:02x?}");
            }
        }
    }
}
