//! IPComp inside of ESP and AH: what is compressed and what is not arrives as it was sent.

use core::sync::atomic::Ordering::Relaxed;

use esp::Mode;
use outcome::DropReason;
use policy::{Direction, Prefix, Selector};
use wire::protocol;

use crate::nested::{
    AH_TRANSPORT, COMP_TRANSPORT, COMP_TUNNEL, ESP_TRANSPORT, Layer, companion, config, id, pair,
    protect, templates,
};
use crate::packets::{Ip, hopped};
use crate::pool::pooled;
use crate::support::{Gateway, Pair, Side, make_sa, policy};

const STACKS: [&[Layer]; 4] = [
    &[COMP_TUNNEL, ESP_TRANSPORT],
    &[COMP_TRANSPORT, ESP_TRANSPORT],
    &[COMP_TUNNEL, ESP_TRANSPORT, AH_TRANSPORT],
    &[COMP_TRANSPORT, AH_TRANSPORT],
];

/// Bytes that nobody can make shorter.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let next = move || {
        // Marsaglia's xorshift.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    core::iter::repeat_with(next).take(len).collect()
}

fn is_tunnel(layers: &[Layer]) -> bool {
    layers.iter().any(|layer| layer.mode == Mode::Tunnel)
}

/// Sends packets, and returns what was on the wire; all arrive.
fn cross(pair: &mut Pair, layers: &[Layer], from: Side, sent: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let (near, _) = pair.end(from);
    for packet in sent {
        match is_tunnel(layers) {
            true => near.put_lan(packet),
            false => near.put_linux(packet),
        }
    }
    near.run();
    let carried = pair.carry(from);
    let (near, far) = pair.end(from);
    let hops = if is_tunnel(layers) { 2 } else { 0 };
    let expected: Vec<_> = sent.iter().map(|packet| hopped(packet, hops)).collect();
    let arrived = if is_tunnel(layers) { far.lan_out() } else { far.linux_out() };
    assert_eq!((near.drops(), far.drops()), (vec![], vec![]), "{layers:?}");
    assert_eq!(ports(&arrived), ports(&expected), "{layers:?}");
    assert!(arrived == expected, "{layers:?}: other bytes");
    carried
}

/// Source ports, which say where a packet stands among others.
fn ports(packets: &[Vec<u8>]) -> Vec<u16> {
    packets.iter().map(|p| wire::parse_ip(p).expect("packet").src_port).collect()
}

fn count(gateway: &Gateway, id: &policy::SaId) -> (u64, u64) {
    let sa = gateway.db.sa(id).expect("sa");
    (sa.esp.live().packets().load(Relaxed), sa.esp.live().bytes().load(Relaxed))
}

#[test]
fn what_goes_in_comes_out_shorter_or_as_it_is() {
    for layers in STACKS {
        for (v6, inner_v6) in [(false, false), (false, true), (true, false), (true, true)] {
            if layers[0].mode == Mode::Transport && v6 != inner_v6 {
                continue;
            }
            let mut pair = pair(layers, v6);
            let addr = |side: Side| match is_tunnel(layers) {
                true => side.lan(inner_v6, 10),
                false => side.wan(inner_v6),
            };
            for from in [Side::A, Side::B] {
                let flow = Ip::new(addr(from), addr(from.other()));
                // Text becomes shorter; noise, and what is below the threshold, does not.
                let text = flow.udp(1, 2, &b"All work and no play. ".repeat(50));
                let random = flow.udp(1, 2, &noise(1100));
                let short = flow.udp(1, 2, &[7; 30]);
                let sent = [text, random, short];
                let carried = cross(&mut pair, layers, from, &sent);
                let lens: Vec<usize> = carried.iter().map(Vec::len).collect();
                assert!(lens[0] < 300, "{lens:?}");
                assert!(lens[1] > 1100 && lens[2] < 300, "{lens:?}");
                let (near, far) = pair.end(from);
                let comp = id(layers[0], from, 0, v6);
                let esp = id(layers[1], from, 1, v6);
                assert_eq!(count(near, &esp).0, 3);
                assert_eq!(count(near, &esp), count(far, &esp), "{layers:?}");
                // The sender counts what it tried to compress, the receiver what was compressed.
                assert_eq!((count(near, &comp).0, count(far, &comp).0), (3, 1));
                if layers[0].mode == Mode::Tunnel {
                    let beside = companion(from, v6).id();
                    assert_eq!((count(near, &beside).0, count(far, &beside).0), (0, 2));
                    let whole = sent.iter().map(|packet| packet.len() as u64);
                    assert_eq!(count(near, &comp).1, whole.clone().sum::<u64>());
                    assert_eq!(count(far, &comp).1 + count(far, &beside).1, whole.sum::<u64>());
                }
            }
        }
    }
}

/// Compressed or not, by helpers or without, packets leave in the order in which they came.
#[test]
fn order_is_kept_with_helpers() {
    for layers in STACKS {
        let mut pair = pair(layers, false);
        let mut threads = pooled(&mut pair.a, 2);
        threads.extend(pooled(&mut pair.b, 2));
        let addr = |side: Side| match is_tunnel(layers) {
            true => side.lan(false, 10),
            false => side.wan(false),
        };
        let flow = Ip::new(addr(Side::A), addr(Side::B));
        for round in 0..5 {
            let sent: Vec<_> = (0..200_u16)
                .map(|n| match (n + round) % 3 {
                    0 => flow.udp(n, 2, &b"dull boy ".repeat(60)),
                    1 => flow.udp(n, 2, &noise(600)),
                    _ => flow.udp(n, 2, &[7; 30]),
                })
                .collect();
            cross(&mut pair, layers, Side::A, &sent);
        }
        drop(pair);
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    }
}

/// A packet between the gateways inside of the ESP of [`STACKS`], whatever it is.
fn in_esp(packet: &[u8]) -> Vec<u8> {
    all_in_esp(&[packet.to_vec()]).remove(0)
}

/// The same of several.
fn all_in_esp(packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let (layers, mut a) = (STACKS[0], Gateway::new(Side::A));
    let host = |side: Side| Prefix { addr: side.wan(false), len: 32 };
    let selector = Selector::between(host(Side::A), host(Side::B));
    let template = templates(layers, Side::A, false).remove(1);
    a.db.put_policy(policy(1, Direction::Out, selector, vec![template]));
    let config = config(layers[1], Side::A, 1, false);
    let sa = make_sa(&config.params);
    a.db.add_sa(config, sa).expect("new");
    packets.iter().for_each(|packet| a.put_linux(packet));
    a.run();
    a.wan_out()
}

/// A packet with this deflate stream under a CPI.
fn compressed(cpi: u32, next_header: u8, stream: &[u8]) -> Vec<u8> {
    let outer = Ip::new(Side::A.wan(false), Side::B.wan(false));
    let [_, _, high, low] = cpi.to_be_bytes();
    let payload = [&[next_header, 0, high, low][..], stream].concat();
    Ip { protocol: protocol::IPCOMP, ..outer }.with(&payload)
}

fn deflate(bytes: &[u8]) -> Vec<u8> {
    let mut compressor = libdeflater::Compressor::new(libdeflater::CompressionLvl::best());
    let mut out = vec![0; bytes.len() + 100];
    let len = compressor.deflate_compress(bytes, &mut out).expect("room");
    out.truncate(len);
    out
}

fn cpi() -> u32 {
    config(COMP_TUNNEL, Side::A, 0, false).params.spi
}

/// A gateway that has dropped a packet for one of the reasons that are about compression.
pub fn produce(reason: DropReason) -> Gateway {
    let mut b = Gateway::new(Side::B);
    protect(&mut b, STACKS[0], false);
    let packet = match reason {
        DropReason::MalformedIpComp => {
            let outer = Ip::new(Side::A.wan(false), Side::B.wan(false));
            Ip { protocol: protocol::IPCOMP, ..outer }.with(&[4, 0, 16])
        }
        DropReason::InDeflate => compressed(cpi(), 4, &[0xff; 100]),
        DropReason::InDeflateTooLong => compressed(cpi(), 4, &deflate(&[0; 65_536])),
        DropReason::InDeflateLimit => {
            let bombs = vec![compressed(cpi(), 4, &bomb()); 5];
            all_in_esp(&bombs).iter().for_each(|packet| b.put_wan(packet));
            return b;
        }
        other => panic!("{other:?} is about other things"),
    };
    b.put_wan(&in_esp(&packet));
    b
}

/// The longest packet of all, in as few bytes as can be.
fn bomb() -> Vec<u8> {
    let inner = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 1));
    deflate(&inner.udp(1, 2, &vec![0; 65_000]))
}

/// A peer whose packets become long keeps nobody from being served: of a burst so much is decompressed, and what
/// stays short always is.
#[test]
fn what_becomes_long_has_a_share_of_each_burst() {
    let short = |n: u16| {
        let inner = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10));
        inner.udp(n, 2, &b"All work and no play. ".repeat(60))
    };
    for with_helpers in [false, true] {
        let mut b = Gateway::new(Side::B);
        protect(&mut b, STACKS[0], false);
        let threads = if with_helpers { pooled(&mut b, 2) } else { Vec::new() };
        let (mut arrived, mut long) = (Vec::new(), 0);
        // Each other one of a burst.
        let both = |n| [bomb(), deflate(&short(n))].map(|stream| compressed(cpi(), 4, &stream));
        let all: Vec<_> = (0..96).flat_map(both).collect();
        for burst in all_in_esp(&all).chunks(64) {
            burst.iter().for_each(|packet| b.put_wan(packet));
            b.run();
            arrived.extend(ports(&b.lan_out()));
            let linux = b.linux_out();
            assert!(linux.iter().all(|packet| packet.len() > 65_000));
            long += linux.len() as u64;
        }
        assert_eq!(arrived, (0..96).collect::<Vec<_>>(), "what is short comes as ever");
        // Two of each burst, three at most.
        assert!((6..=9).contains(&long), "{long}");
        assert_eq!(b.drops(), [(DropReason::InDeflateLimit, 96 - long)]);
        drop(b);
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    }
}

/// A packet under a protection that policy does not ask for is dropped, compressed or not.
#[test]
fn compression_protects_nothing() {
    let inner = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10)).udp(1, 2, &[7; 400]);
    let outer = Ip { protocol: 4, ..Ip::new(Side::A.wan(false), Side::B.wan(false)) };
    let in_ip = outer.with(&inner);
    let in_comp = compressed(cpi(), 4, &deflate(&inner));
    // Each is good inside of ESP ...
    for packet in [&in_ip, &in_comp] {
        let mut b = Gateway::new(Side::B);
        protect(&mut b, STACKS[0], false);
        b.put_wan(&in_esp(packet));
        b.run();
        assert_eq!((b.lan_out().len(), b.drops()), (1, vec![]));
        // ... and nothing by itself: in clear it is Linux's, which has no such SAs.
        b.put_wan(packet);
        b.run();
        assert_eq!(b.lan_out(), Vec::<Vec<u8>>::new());
    }
    // Nor is the inner packet alone, in clear or in ESP.
    for packet in [inner.clone(), in_esp_tunnel(&inner)] {
        let mut b = Gateway::new(Side::B);
        protect(&mut b, STACKS[0], false);
        b.put_wan(&packet);
        b.run();
        assert_eq!(b.lan_out(), Vec::<Vec<u8>>::new());
        assert_eq!(b.drops().len(), 1);
    }
}

/// The inner packet in IP in IP of another source than the SA's.
fn in_esp_tunnel(inner: &[u8]) -> Vec<u8> {
    let outer = Ip { protocol: 4, ..Ip::new(Side::A.wan(false), Side::B.wan(false)) };
    // ESP that carries the packet of ESP again: the second time round it is no IP in IP.
    in_esp(&outer.with(&outer.with(inner)))
}

/// Packets that became longer than their frame, up to the longest of all.
#[test]
fn what_is_long_gets_a_large_frame() {
    for len in [3000, 9000, 65_000] {
        let inner = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 1)).udp(1, 2, &vec![7; len]);
        let mut b = Gateway::new(Side::B);
        protect(&mut b, STACKS[0], false);
        b.put_wan(&in_esp(&compressed(cpi(), 4, &deflate(&inner))));
        b.run();
        assert_eq!(b.linux_out(), [inner], "{len}");
        assert_eq!(b.drops(), []);
    }
}

/// Nobody may send what compression has not made shorter (RFC 3173 §2.2); Linux refuses it too.
#[test]
fn a_stream_that_saves_nothing_is_refused() {
    let inner = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10)).udp(1, 2, &noise(60));
    let mut stored = vec![1];
    let len = inner.len() as u16;
    stored.extend([len.to_le_bytes(), (!len).to_le_bytes()].concat());
    stored.extend(&inner);
    let mut b = Gateway::new(Side::B);
    protect(&mut b, STACKS[0], false);
    b.put_wan(&in_esp(&compressed(cpi(), 4, &stored)));
    b.run();
    assert_eq!(b.drops(), [(DropReason::InDeflate, 1)]);
}
