//! AH, and SAs one inside the other: what goes in comes out, and nothing goes around a layer.

use core::sync::atomic::Ordering::Relaxed;

use crypto::{Integrity, Suite};
use esp::{Mode, Protocol, SaFlags, SaParams};
use outcome::DropReason;
use policy::{Direction, Mark, Prefix, SaConfig, SaId, Selector, Template, VolumeLimits};
use wire::{parse_ip, protocol};

use crate::packets::{Ip, cut, hopped, reassemble};
use crate::pool::pooled;
use crate::support::{GCM, Gateway, Pair, Side, Sizes, WAN, ip, make_sa, policy};

/// One SA of each direction among those that protect the same packets.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Layer {
    pub protocol: Protocol,
    pub mode: Mode,
    pub suite: Suite,
    pub esn: bool,
}

pub const SHA256: Suite = Suite::integrity_only(Integrity::Sha256_128);
pub const AH_TUNNEL: Layer =
    Layer { protocol: Protocol::Ah, mode: Mode::Tunnel, suite: SHA256, esn: false };
pub const AH_TRANSPORT: Layer = Layer { mode: Mode::Transport, ..AH_TUNNEL };
pub const ESP_TUNNEL: Layer =
    Layer { protocol: Protocol::Esp, mode: Mode::Tunnel, suite: GCM, esn: false };
pub const ESP_TRANSPORT: Layer = Layer { mode: Mode::Transport, ..ESP_TUNNEL };
pub const COMP_TUNNEL: Layer =
    Layer { protocol: Protocol::IpComp, mode: Mode::Tunnel, suite: Suite::None, esn: false };
pub const COMP_TRANSPORT: Layer = Layer { mode: Mode::Transport, ..COMP_TUNNEL };

/// The n-th SA, the innermost being the first, of a side's packets.
pub fn config(layer: Layer, from: Side, n: usize, v6: bool) -> SaConfig {
    SaConfig {
        params: SaParams {
            spi: from.spi() + 0x100 * n as u32,
            src: from.wan(v6),
            dst: from.other().wan(v6),
            protocol: layer.protocol,
            mode: layer.mode,
            suite: layer.suite,
            encap: None,
            esn: layer.esn,
            replay_window: if layer.protocol.is_bare() { 0 } else { 128 },
            tfc_pad_len: 0,
            flags: SaFlags::default(),
        },
        mark: Mark::default(),
        set_mark: Mark::default(),
        cpu: None,
        if_id: 0,
        reqid: 1 + n as u32,
        selector: None,
        iptfs: None,
        limits: VolumeLimits::NONE,
        added_s: 1,
        generation: 1,
    }
}

pub fn id(layer: Layer, from: Side, n: usize, v6: bool) -> SaId {
    config(layer, from, n, v6).id()
}

pub fn templates(layers: &[Layer], from: Side, v6: bool) -> Vec<Template> {
    let any = if v6 { ip("::") } else { ip("0.0.0.0") };
    let template = |(n, layer): (usize, &Layer)| {
        let (src, dst) = match layer.mode {
            Mode::Tunnel | Mode::Iptfs => (from.wan(v6), from.other().wan(v6)),
            Mode::Transport => (any, any),
        };
        let protocol = layer.protocol.number();
        Template {
            src,
            dst,
            spi: 0,
            protocol,
            mode: layer.mode,
            reqid: 1 + n as u32,
            optional: false,
        }
    };
    layers.iter().enumerate().map(template).collect()
}

/// The templates of packets that arrive: compression is not insisted on (charon's `ipcomp = yes`).
fn templates_in(layers: &[Layer], from: Side, v6: bool) -> Vec<Template> {
    let mut all = templates(layers, from, v6);
    all.iter_mut().for_each(|t| t.optional = t.protocol == protocol::IPCOMP);
    all
}

/// The SA of IP in IP beside a tunnel of IPComp.
pub fn companion(from: Side, v6: bool) -> SaConfig {
    let ip_in_ip = if v6 { Protocol::IpInV6 } else { Protocol::IpInV4 };
    let mut config = config(Layer { protocol: ip_in_ip, ..COMP_TUNNEL }, from, 0, v6);
    (config.params.spi, config.reqid) = (policy::spi_of_source(from.wan(v6)), 0);
    config
}

/// Protects what goes between the sides' networks, or between the gateways where no layer is a tunnel.
pub fn protect(gateway: &mut Gateway, layers: &[Layer], v6: bool) {
    add_policies(gateway, layers, v6);
    for config in configs(layers, v6) {
        let sa = make_sa(&config.params);
        gateway.db.add_sa(config, sa).expect("new");
    }
}

/// The SAs of both directions.
pub fn configs(layers: &[Layer], v6: bool) -> Vec<SaConfig> {
    let is_comp_tunnel =
        |layer: &Layer| (layer.protocol, layer.mode) == (Protocol::IpComp, Mode::Tunnel);
    let of = |from: Side| {
        let all = layers.iter().enumerate().map(move |(n, layer)| config(*layer, from, n, v6));
        all.chain(layers.first().filter(|l| is_comp_tunnel(l)).map(|_| companion(from, v6)))
    };
    [Side::A, Side::B].into_iter().flat_map(of).collect()
}

/// The policies of a gateway.
pub fn add_policies(gateway: &mut Gateway, layers: &[Layer], v6: bool) {
    let (here, there) = (gateway.side, gateway.side.other());
    let is_tunnel = layers.iter().any(|layer| layer.mode == Mode::Tunnel);
    for inner_v6 in [false, true] {
        let end = |side: Side| match is_tunnel {
            true => side.net(inner_v6),
            false => Prefix { addr: side.wan(inner_v6), len: if inner_v6 { 128 } else { 32 } },
        };
        let base = if inner_v6 { 20 } else { 10 };
        let (ours, theirs) = (templates(layers, here, v6), templates_in(layers, there, v6));
        let out = Selector::between(end(here), end(there));
        let back = Selector::between(end(there), end(here));
        gateway.db.put_policy(policy(base + 1, Direction::Out, out, ours));
        gateway.db.put_policy(policy(base + 2, Direction::In, back, theirs.clone()));
        gateway.db.put_policy(policy(base + 3, Direction::Forward, back, theirs));
    }
}

pub fn pair(layers: &[Layer], v6: bool) -> Pair {
    let mut pair = Pair { a: Gateway::new(Side::A), b: Gateway::new(Side::B) };
    protect(&mut pair.a, layers, v6);
    protect(&mut pair.b, layers, v6);
    pair
}

/// The protocols of a packet's headers behind IP, as far as they can be read.
fn protocols(packet: &[u8]) -> Vec<u8> {
    let h = parse_ip(packet).expect("outer");
    let mut all = vec![h.protocol];
    let mut at = usize::from(h.header_len);
    while all.last() == Some(&protocol::AH) {
        all.push(packet[at]);
        at += (usize::from(packet[at + 1]) + 2) * 4;
    }
    all
}

const AH: u8 = protocol::AH;
const ESP: u8 = protocol::ESP;

/// Layers, the innermost first; what is seen on the wire behind the outer header, of an IPv4 and of an
/// IPv6 packet.
type Stack<'s> = (&'s [Layer], [&'s [u8]; 2]);

const STACKS: &[Stack<'_>] = &[
    (&[AH_TUNNEL], [&[AH, 4], &[AH, 41]]),
    (&[AH_TRANSPORT], [&[AH, 17], &[AH, 17]]),
    (&[ESP_TUNNEL, AH_TRANSPORT], [&[AH, ESP], &[AH, ESP]]),
    (&[ESP_TRANSPORT, AH_TRANSPORT], [&[AH, ESP], &[AH, ESP]]),
    (&[AH_TUNNEL, ESP_TRANSPORT], [&[ESP], &[ESP]]),
    (&[ESP_TUNNEL, ESP_TUNNEL], [&[ESP], &[ESP]]),
    (&[ESP_TUNNEL, ESP_TRANSPORT, AH_TRANSPORT], [&[AH, ESP], &[AH, ESP]]),
];

#[test]
fn what_goes_in_comes_out() {
    for (layers, seen) in STACKS {
        for esn in [false, true] {
            let layers: Vec<Layer> = layers.iter().map(|layer| Layer { esn, ..*layer }).collect();
            for (v6, inner_v6) in [(false, false), (false, true), (true, false), (true, true)] {
                let is_tunnel = layers.iter().any(|layer| layer.mode == Mode::Tunnel);
                // Transport mode is between the gateways, and of their family.
                if layers[0].mode == Mode::Transport && v6 != inner_v6 {
                    continue;
                }
                let mut pair = pair(&layers, v6);
                let addr = |side: Side| match is_tunnel {
                    true => side.lan(inner_v6, 10),
                    false => side.wan(inner_v6),
                };
                for from in [Side::A, Side::B] {
                    let flow = Ip::new(addr(from), addr(from.other()));
                    let sent: Vec<_> =
                        (0..40).map(|n| flow.sized(60 + 29 * usize::from(n), n)).collect();
                    let (near, _) = pair.end(from);
                    for packet in &sent {
                        match is_tunnel {
                            true => near.put_lan(packet),
                            false => near.put_linux(packet),
                        }
                    }
                    near.run();
                    let carried = pair.carry(from);
                    assert_eq!(carried.len(), sent.len(), "{layers:?} {v6} {inner_v6}");
                    for packet in &carried {
                        assert_eq!(protocols(packet), seen[usize::from(inner_v6)], "{layers:?}");
                    }
                    let (near, far) = pair.end(from);
                    let expected: Vec<_> =
                        sent.iter().map(|p| hopped(p, if is_tunnel { 2 } else { 0 })).collect();
                    let arrived = if is_tunnel { far.lan_out() } else { far.linux_out() };
                    assert_eq!(arrived, expected, "{layers:?} {v6} {inner_v6}");
                    assert_eq!((near.drops(), far.drops()), (vec![], vec![]), "{layers:?}");
                    // Each SA has counted each packet, and what it protected of it, on both sides alike.
                    for (n, layer) in layers.iter().enumerate() {
                        let count = |gateway: &Gateway| {
                            let sa = gateway.db.sa(&id(*layer, from, n, v6)).expect("sa");
                            let live = sa.esp.live();
                            (live.packets().load(Relaxed), live.bytes().load(Relaxed))
                        };
                        assert_eq!(count(near), count(far), "{layers:?} {n}");
                        assert_eq!(count(near).0, 40);
                    }
                }
            }
        }
    }
}

/// Each packet has numbers of its own from each SA, whichever thread seals it.
#[test]
fn bundles_are_numbered_in_order_with_helpers() {
    let layers = [ESP_TUNNEL, AH_TRANSPORT];
    let mut pair = pair(&layers, false);
    let mut threads = pooled(&mut pair.a, 2);
    threads.extend(pooled(&mut pair.b, 2));
    let flow = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10));
    let mut next = 1;
    for _ in 0..10 {
        let sent: Vec<_> = (0..300).map(|n| flow.sized(60 + usize::from(n), n)).collect();
        sent.iter().for_each(|packet| pair.a.put_lan(packet));
        pair.a.run();
        let carried = pair.carry(Side::A);
        let word =
            |p: &[u8], at: usize| u32::from_be_bytes(p[at..at + 4].try_into().expect("four"));
        // AH of 32 bytes, then ESP.
        let numbers: Vec<_> = carried.iter().map(|p| (word(p, 28), word(p, 56))).collect();
        assert_eq!(numbers, (next..next + 300).map(|n| (n, n)).collect::<Vec<_>>());
        next += 300;
        let expected: Vec<_> = sent.iter().map(|packet| hopped(packet, 2)).collect();
        assert_eq!(pair.b.lan_out(), expected);
    }
    assert_eq!((pair.a.drops(), pair.b.drops()), (vec![], vec![]));
    drop(pair);
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
}

/// Several workers: who has the first SA of a bundle has them all.
#[test]
fn bundles_have_one_home() {
    let layers = [ESP_TUNNEL, AH_TRANSPORT];
    let gateway = |side| {
        let sizes = Sizes { chunks: 8192, stock: 4096, port_limit: 1024 };
        let mut gateway = Gateway::with_workers(side, sizes, 256, 3);
        protect(&mut gateway, &layers, false);
        gateway
    };
    let (mut a, mut b) = (gateway(Side::A), gateway(Side::B));
    for n in 0..300_u16 {
        let flow = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10));
        a.put_lan(&flow.udp(1000 + n % 16, 2000, &[7; 60]));
    }
    a.run();
    let carried = a.wan_out();
    assert_eq!(carried.len(), 300);
    carried.iter().for_each(|packet| b.put_wan(packet));
    b.run();
    assert_eq!(b.lan_out().len(), 300);
    assert_eq!((a.drops(), b.drops()), (vec![], vec![]));
}

#[test]
fn nothing_goes_around_a_layer() {
    let layers = [ESP_TUNNEL, AH_TRANSPORT];
    let mut pair = pair(&layers, false);
    let packet = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10)).sized(100, 1);
    pair.a.put_lan(&packet);
    pair.a.run();
    let sealed = pair.a.wan_out().remove(0);
    // Without its AH: 32 bytes behind the IP header.
    let mut bare = [&sealed[..20], &sealed[52..]].concat();
    bare[9] = ESP;
    let len = bare.len() as u16;
    bare[2..4].copy_from_slice(&len.to_be_bytes());
    wire::ipv4::fill_checksum(&mut bare);
    pair.b.put_wan(&bare);
    pair.b.run();
    assert_eq!(pair.b.drops(), [(DropReason::InPolicy, 1)]);
    // The inner number is used up now: as a whole it is a replay.
    pair.b.put_wan(&sealed);
    pair.b.run();
    assert_eq!(pair.b.dropped(DropReason::InReplayDuplicate), 1);
    assert!(pair.b.lan_out().is_empty());
}

#[test]
fn an_sa_that_is_missing_is_waited_for() {
    let layers = [ESP_TUNNEL, AH_TRANSPORT];
    for missing in 0..2 {
        let mut pair = pair(&layers, false);
        let id = id(layers[missing], Side::A, missing, false);
        pair.a.db.remove_sa(&id);
        let packet = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10)).sized(100, 1);
        pair.a.put_lan(&packet);
        pair.a.run();
        assert!(pair.a.wan_out().is_empty());
        let config = config(layers[missing], Side::A, missing, false);
        let sa = make_sa(&config.params);
        pair.a.db.add_sa(config, sa).expect("new");
        pair.a.run();
        pair.carry(Side::A);
        assert_eq!(pair.b.lan_out(), [hopped(&packet, 2)]);
    }
}

/// Around the MTU: what fits goes, what does not is told the truth or cut.
#[test]
fn sizes_around_the_mtu() {
    let stacks: [&[Layer]; 4] = [
        &[AH_TUNNEL],
        &[ESP_TUNNEL, AH_TRANSPORT],
        &[ESP_TUNNEL, ESP_TRANSPORT, AH_TRANSPORT],
        &[ESP_TUNNEL, ESP_TUNNEL],
    ];
    for layers in stacks {
        let mut pair = pair(layers, false);
        let header = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10));
        let df = Ip { dont_fragment: true, ..header };
        pair.a.put_lan(&df.sized(1500, 1));
        pair.a.run();
        let errors = pair.a.lan_out();
        let mtu = usize::from(u16::from_be_bytes([errors[0][26], errors[0][27]]));
        for (len, fits) in [(mtu, true), (mtu + 1, false)] {
            pair.a.now.ns += 1_000_000_000;
            let packet = df.sized(len, 1);
            pair.a.put_lan(&packet);
            pair.a.run();
            let carried = pair.carry(Side::A);
            assert_eq!(carried.len(), usize::from(fits), "{layers:?} {len}");
            assert!(carried.iter().all(|packet| packet.len() <= 1500));
            let arrived = pair.b.lan_out();
            assert_eq!(arrived, if fits { vec![hopped(&packet, 2)] } else { vec![] });
            pair.a.lan_out();
        }
        // Without DF it goes in pieces, each sealed.
        let packet = header.sized(1500, 1);
        pair.a.put_lan(&packet);
        pair.a.run();
        assert_eq!(pair.carry(Side::A).len(), 2, "{layers:?}");
        let whole = reassemble(&pair.b.lan_out());
        assert_eq!(whole[28..], packet[28..]);
    }
}

/// Fragments of the network are put together first, of AH as of ESP (RFC 4302 §3.4.1).
#[test]
fn fragments_are_put_together_first() {
    let stacks: [&[Layer]; 3] =
        [&[AH_TUNNEL], &[ESP_TUNNEL, AH_TRANSPORT], &[AH_TUNNEL, ESP_TRANSPORT]];
    for layers in stacks {
        for v6 in [false, true] {
            let mut pair = pair(layers, v6);
            pair.a.set_topology(9000, Vec::new());
            for (number, backwards) in [(1, false), (2, true)] {
                let packet = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10));
                let packet = packet.sized(1400, number);
                pair.a.put_lan(&packet);
                pair.a.run();
                let sent = pair.a.wan_out().remove(0);
                // AH covers IPv4's identification.
                let ident = if v6 { number } else { u16::from_be_bytes([sent[4], sent[5]]) };
                let mut fragments = cut(&sent, 600, ident);
                if backwards {
                    fragments.reverse();
                }
                fragments.iter().for_each(|fragment| pair.b.put_wan(fragment));
                pair.b.run();
                assert_eq!(pair.b.lan_out(), [hopped(&packet, 2)], "{layers:?} {v6}");
            }
            assert_eq!(pair.b.drops(), []);
        }
    }
}

/// AH over a port whose frames leave no room behind for what it takes to check it.
#[test]
fn no_room_behind() {
    let mut pair = pair(&[AH_TRANSPORT], false);
    let packet = Ip::new(Side::A.wan(false), Side::B.wan(false)).sized(100, 1);
    pair.a.put_linux(&packet);
    pair.a.run();
    let sealed = pair.a.wan_out().remove(0);
    let frame = crate::support::ethernet(Side::B.mac(WAN), Side::A.mac(WAN), &sealed);
    let wan = pair.b.wan.clone();
    pair.b.put_at(&wan, &frame, 2048 - frame.len());
    pair.b.run();
    assert_eq!(pair.b.drops(), [(DropReason::InNoRoom, 1)]);
    pair.b.put_at(&wan, &frame, 2048 - frame.len() - 36);
    pair.b.run();
    assert_eq!(pair.b.linux_out(), [packet]);
}

/// A gateway that drops a packet for one of the reasons that are about several SAs.
pub fn produce(reason: DropReason) -> Gateway {
    match reason {
        DropReason::InNesting => {
            let layers = [ESP_TUNNEL, ESP_TRANSPORT, AH_TRANSPORT, AH_TRANSPORT];
            let mut b = Gateway::new(Side::B);
            protect(&mut b, &layers, false);
            // Three layers by one gateway, the fourth by another.
            let mut a = Gateway::new(Side::A);
            protect(&mut a, &layers[..3], false);
            a.put_lan(&Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10)).sized(100, 1));
            a.run();
            let mut last = Gateway::new(Side::A);
            let fourth = config(layers[3], Side::A, 3, false);
            let selector = Selector::between(
                Prefix { addr: Side::A.wan(false), len: 32 },
                Prefix { addr: Side::B.wan(false), len: 32 },
            );
            let template = templates(&layers, Side::A, false).remove(3);
            last.db.put_policy(policy(1, Direction::Out, selector, vec![template]));
            let sa = make_sa(&fourth.params);
            last.db.add_sa(fourth, sa).expect("new");
            last.put_linux(&a.wan_out()[0]);
            last.run();
            b.put_wan(&last.wan_out()[0]);
            b
        }
        DropReason::MalformedAh | DropReason::InNoRoom => {
            let mut b = Gateway::new(Side::B);
            protect(&mut b, &[AH_TRANSPORT], false);
            let outer = Ip { protocol: AH, ..Ip::new(Side::A.wan(false), Side::B.wan(false)) };
            let spi = Side::A.spi().to_be_bytes();
            let words = if reason == DropReason::InNoRoom { 6 } else { 9 };
            let mut ah = [&[17, words, 0, 0][..], &spi, &[0, 0, 0, 1]].concat();
            ah.resize(60, 0);
            let frame =
                crate::support::ethernet(Side::B.mac(WAN), Side::A.mac(WAN), &outer.with(&ah));
            let wan = b.wan.clone();
            b.put_at(&wan, &frame, 2048 - frame.len());
            b
        }
        other => panic!("{other:?} is about other things"),
    }
}
