//! Random packets both ways.

use std::collections::BTreeMap;
use std::env;
use std::sync::atomic::Ordering::Relaxed;

use esp::Mode;
use offload::{Burst, Request, SaHandle, Status, Work};
use outcome::DropReason;
use policy::Direction as Way;
use rtl::{Counters, Drop};
use wire::parse_ip;

use crate::coverage::Coverage;
use crate::offloaded::{BYPASS_PORT, DISCARD_PORT, Decision, OTHER_PORT, Offloaded};
use crate::packets::{self, Random};
use crate::world;

/// Packets that are to come out, each so many times.
type Multiset = BTreeMap<Vec<u8>, usize>;

fn take(set: &mut Multiset, packet: &[u8]) -> bool {
    let Some(count) = set.get_mut(packet) else { return false };
    *count -= 1;
    if *count == 0 {
        set.remove(packet);
    }
    true
}

/// Packets under way at once: less than any anti-replay window.
const INSIDE: usize = 48;

struct Run {
    world: Offloaded,
    coverage: Coverage,
    /// Packets that are to come out at the protected side.
    to_here: Multiset,
    /// Packets that are to come out at the unprotected side: in clear, or inside ESP of one SA (its SPI).
    to_there: BTreeMap<Option<u32>, Multiset>,
    /// Drops that are due, by direction and the gateway's reason.
    drops: [BTreeMap<usize, u64>; 2],
    /// Packets that came back dropped, by direction and reason.
    dropped: [BTreeMap<DropReason, u64>; 2],
    /// Sequence numbers that the gateway used, by SPI.
    numbers: BTreeMap<u32, Vec<u64>>,
    /// Packets that the gateway has opened long ago, and their tunnels.
    old: Vec<(usize, Vec<u8>)>,
}

fn packet_count() -> usize {
    let is_quick = env::var("CULVERT_COSIM").is_ok_and(|value| value == "quick");
    let usual = if is_quick { 600 } else { 3000 };
    env::var("CULVERT_COSIM_PACKETS").ok().and_then(|n| n.parse().ok()).unwrap_or(usual)
}

fn seed() -> u64 {
    env::var("CULVERT_COSIM_SEED").ok().and_then(|n| n.parse().ok()).unwrap_or(1)
}

/// The bin of a length.
fn length_bin(len: usize) -> &'static str {
    match len {
        0..64 => "below 64",
        64..128 => "64 to 127",
        128..600 => "128 to 599",
        600..1500 => "600 to 1499",
        _ => "1500 to 9000",
    }
}

/// A packet's upper layer: protocol, ports of which some have a meaning, and bytes.
fn upper(random: &mut Random, len: usize) -> (u8, Vec<u8>) {
    let protocol = random.pick(&[17, 17, 17, 6, 6, 1, 47, 132]);
    // ICMP's type and code lie elsewhere in the two databases' selectors; none names them here.
    let mut bytes = random.bytes(len.max(if protocol == 6 { 20 } else { 8 }));
    if matches!(protocol, 6 | 17 | 132) {
        let port = random.pick(&[BYPASS_PORT, DISCARD_PORT, OTHER_PORT, 80, 443, 5060, 1701, 8080]);
        bytes[2..4].copy_from_slice(&port.to_be_bytes());
    }
    if protocol == 6 {
        bytes[12] = 0x50;
    }
    if protocol == 17 {
        let len = bytes.len() as u16;
        bytes[4..6].copy_from_slice(&len.to_be_bytes());
    }
    (protocol, bytes)
}

/// How long the upper layer of the next packet is.
fn upper_len(random: &mut Random) -> usize {
    match random.below(12) {
        0..4 => random.below(50),
        4..8 => random.below(200),
        8..10 => random.below(700),
        10 => random.below(1500),
        _ => random.below(8900),
    }
}

impl Run {
    fn new(seed: u64) -> Run {
        let world = Offloaded::with_tunnels(seed);
        {
            let mut gateway = world.gateway.lock().unwrap();
            gateway.disturb(20, 20, seed);
            gateway.set_sad_period(600 + seed as u32 % 9 * 100);
        }
        let mut coverage = Coverage::default();
        for tunnel in &world.tunnels {
            coverage.expect("sealed", &tunnel.name);
            coverage.expect("opened", &tunnel.name);
        }
        for bin in ["below 64", "64 to 127", "128 to 599", "600 to 1499", "1500 to 9000"] {
            coverage.expect("sealed, length", bin);
            coverage.expect("opened, length", bin);
        }
        Run {
            world,
            coverage,
            to_here: Multiset::new(),
            to_there: BTreeMap::new(),
            drops: [BTreeMap::new(), BTreeMap::new()],
            dropped: [BTreeMap::new(), BTreeMap::new()],
            numbers: BTreeMap::new(),
            old: Vec::new(),
        }
    }

    fn drop_due(&mut self, inbound: bool, reason: Drop) {
        *self.drops[usize::from(inbound)].entry(reason as usize).or_default() += 1;
        let group = if inbound { "dropped, inbound" } else { "dropped, outbound" };
        self.coverage.hit(group, format!("{reason:?}"));
    }

    /// A packet of a tunnel's networks, in one direction or the other.
    fn packet(&mut self, number: usize, outbound: bool) -> Vec<u8> {
        let random = &mut self.world.random;
        let tunnel = &self.world.tunnels[number];
        let v6 = match tunnel.mode {
            Mode::Tunnel | Mode::Iptfs => random.one_in(2),
            Mode::Transport => tunnel.v6,
        };
        let (near, far) = (world::here(number as u8, v6), world::there(number as u8, v6));
        let (src, dst) = if outbound { (near, far) } else { (far, near) };
        let len = upper_len(random);
        let (protocol, mut upper) = upper(random, len);
        if !outbound && matches!(protocol, 6 | 17 | 132) {
            // The mirrored policies name the other end's port.
            upper.swap(0, 2);
            upper.swap(1, 3);
        }
        let protocol = if protocol == 1 && v6 { 253 } else { protocol };
        let mut packet = packets::ip(src, dst, random.next() as u8, protocol, &upper);
        if !v6 && random.one_in(2) {
            packets::set_df(&mut packet);
        }
        packet
    }

    /// The decision of the software's policies on a packet.
    fn decision(&self, way: Way, packet: &[u8]) -> Option<Decision> {
        let index = self.world.policies.find(way, packet)?;
        self.world.decisions.get(&index).copied()
    }

    fn send_outbound(&mut self) {
        let number = self.world.random.below(self.world.tunnels.len());
        let mut packet = self.packet(number, true);
        let is_v4 = packet[0] >> 4 == 4;
        match self.world.random.below(40) {
            0 if is_v4 => {
                packet[10] ^= 0x55;
                self.drop_due(false, Drop::Header);
            }
            1 => {
                packet[0] = packet[0] & 0x0f | 0x70;
                self.drop_due(false, Drop::Header);
            }
            2 => {
                packet.push(0);
                self.drop_due(false, Drop::TooLong);
            }
            fate => {
                if fate == 3 {
                    // A network of nobody, or of nobody yet.
                    let place = if is_v4 { 17 } else { 29 };
                    packet[place] = self.world.random.pick(&[1, 77, 78]);
                    packet[place + 1] = 250;
                    if is_v4 {
                        wire::ipv4::fill_checksum(&mut packet);
                    }
                }
                self.expect_outbound(&packet);
            }
        }
        self.submit(Work::Outbound, packet);
    }

    fn expect_outbound(&mut self, packet: &[u8]) {
        match self.decision(Way::Out, packet) {
            None => self.drop_due(false, Drop::NoPolicy),
            Some(Decision::Discard) => self.drop_due(false, Drop::Policy),
            Some(Decision::Bypass) => {
                self.coverage.hit("in clear", "outbound");
                *self.to_there.entry(None).or_default().entry(packet.to_vec()).or_default() += 1;
            }
            Some(Decision::Tunnel(number)) => {
                let tunnel = &self.world.tunnels[number];
                self.coverage.hit("sealed", &tunnel.name);
                self.coverage.hit("sealed, length", length_bin(packet.len()));
                let spi = tunnel.receiver.params().spi;
                let due = self.to_there.entry(Some(spi)).or_default();
                *due.entry(packet.to_vec()).or_default() += 1;
            }
        }
    }

    /// A packet came out at the unprotected side.
    fn check_there(&mut self, packet: &[u8]) {
        let outer = parse_ip(packet).unwrap();
        let clear = self.to_there.get_mut(&None);
        if clear.is_some_and(|clear| take(clear, packet)) {
            return;
        }
        assert_eq!(outer.protocol, 50, "in clear, by no policy: {packet:02x?}");
        let esp = &packet[usize::from(outer.header_len)..];
        let spi = u32::from_be_bytes(esp[..4].try_into().unwrap());
        let tunnel = self.world.tunnels.iter().find(|t| t.receiver.params().spi == spi).unwrap();
        let opened = self.world.software.open(&tunnel.receiver, packet);
        let Ok(Some(inner)) = opened else { panic!("{}: {opened:?}", tunnel.name) };
        let due = self.to_there.entry(Some(spi)).or_default();
        assert!(take(due, &inner), "{}: not the packet that went in", tunnel.name);
        let seq = u32::from_be_bytes(esp[4..8].try_into().unwrap());
        self.numbers.entry(spi).or_default().push(seq.into());
        let params = tunnel.receiver.params();
        assert_eq!((outer.src, outer.dst), (params.src, params.dst));
        let inside = parse_ip(&inner).unwrap();
        assert_eq!(outer.traffic_class, inside.traffic_class, "DSCP and ECN are copied");
        match tunnel.mode {
            Mode::Tunnel | Mode::Iptfs => {
                assert_eq!(outer.ttl, 64);
                let v4 = outer.src.is_ipv4() && inside.src.is_ipv4();
                assert_eq!(outer.dont_fragment, !v4 || inside.dont_fragment);
            }
            Mode::Transport => assert_eq!(outer.ttl, inside.ttl),
        }
    }

    fn send_inbound(&mut self) {
        let number = self.world.random.below(self.world.tunnels.len());
        let inner = self.packet(number, false);
        let fate = self.world.random.below(40);
        if fate < 4 {
            // In clear: let through, or told apart from what had to be protected.
            match self.decision(Way::In, &inner) {
                None => self.drop_due(true, Drop::NoPolicy),
                Some(Decision::Discard) => self.drop_due(true, Drop::Policy),
                Some(Decision::Tunnel(_)) => self.drop_due(true, Drop::Mismatch),
                Some(Decision::Bypass) => {
                    self.coverage.hit("in clear", "inbound");
                    *self.to_here.entry(inner.clone()).or_default() += 1;
                }
            }
            self.submit(Work::Inbound, inner);
            return;
        }
        let Offloaded { software, tunnels, random, .. } = &mut self.world;
        let tunnel = &tunnels[number];
        let mut sealed = match fate {
            // The content is wrong, though authentic: padding, or no packet that fits.
            4 => software.forge(&tunnel.sender, &bad_padding(tunnel)),
            5 => software.forge(&tunnel.sender, &bad_content(tunnel)),
            _ => software.seal(&tunnel.sender, &inner),
        };
        let start = usize::from(parse_ip(&sealed).unwrap().header_len);
        match fate {
            6 => {
                let place = start + 8 + random.below(sealed.len() - start - 8);
                sealed[place] ^= 1 << random.below(8);
            }
            7 => {
                sealed[start] ^= 0x80;
                self.drop_due(true, Drop::NoSa);
                self.submit(Work::Inbound, sealed);
                return;
            }
            8 => shorten(&mut sealed, start + 8 + random.below(40)),
            9..20 => packets::set_ecn(&mut sealed, random.pick(&[0, 1, 2, 3, 3])),
            _ => {}
        }
        let copies = if fate == 20 { 2 } else { 1 };
        for _ in 0..copies {
            self.expect_inbound(number, &sealed);
            self.submit(Work::Inbound, sealed.clone());
        }
        if fate > 20 && self.old.len() < 200 {
            self.old.push((number, sealed));
        }
    }

    fn expect_inbound(&mut self, number: usize, sealed: &[u8]) {
        let Offloaded { software, tunnels, .. } = &mut self.world;
        let tunnel = &tunnels[number];
        match software.open(&tunnel.twin, sealed) {
            Ok(Some(packet)) => match self.decision(Way::In, &packet) {
                None => self.drop_due(true, Drop::NoPolicy),
                Some(Decision::Discard) => self.drop_due(true, Drop::Policy),
                Some(Decision::Tunnel(by)) if by == number => {
                    let name = self.world.tunnels[number].name.clone();
                    self.coverage.hit("opened", name);
                    self.coverage.hit("opened, length", length_bin(packet.len()));
                    *self.to_here.entry(packet).or_default() += 1;
                }
                Some(_) => self.drop_due(true, Drop::Mismatch),
            },
            Ok(None) => panic!("no dummy was sent"),
            Err(reason) => {
                let reason = match reason {
                    DropReason::InReplayOld | DropReason::InSequenceZero => Drop::ReplayLate,
                    DropReason::InReplayDuplicate => Drop::Replay,
                    DropReason::InIntegrity => Drop::Integrity,
                    DropReason::InPadding => Drop::Padding,
                    DropReason::MalformedEsp => Drop::Short,
                    DropReason::InNextHeader
                    | DropReason::InInnerHeader
                    | DropReason::InStateMode
                    | DropReason::InEcn => Drop::Inner,
                    other => panic!("the software drops for {other:?}"),
                };
                self.drop_due(true, reason);
            }
        }
    }

    fn inside(&self) -> usize {
        let there: usize = self.to_there.values().flat_map(|set| set.values()).sum();
        there + self.to_here.values().sum::<usize>()
    }

    /// Gives the device a packet, as soon as it takes it.
    fn submit(&mut self, work: Work, buffer: Vec<u8>) {
        let mut requests = Burst::new();
        requests.push(Request { buffer, work });
        while self.world.queue.submit(&mut requests) == 0 {
            self.step();
        }
    }

    /// Takes what has come back.
    fn step(&mut self) {
        let mut completions = Burst::new();
        self.world.queue.poll(&mut completions);
        for completion in completions {
            let packet = completion.buffer;
            match (completion.work, completion.status) {
                (Work::Outbound, Status::Done) => self.check_there(&packet),
                (Work::Inbound, Status::Done) => {
                    assert!(take(&mut self.to_here, &packet), "came out of nowhere: {packet:02x?}");
                }
                (work, Status::Dropped(reason)) => {
                    let inbound = work == Work::Inbound;
                    *self.dropped[usize::from(inbound)].entry(reason).or_default() += 1;
                }
                (work, status) => panic!("{work:?}: {status:?}"),
            }
        }
    }

    /// Runs until everything that went in has come back.
    fn drain(&mut self) {
        let mut patience = 40_000;
        while self.world.queue.in_flight() > 0 {
            self.step();
            patience -= 1;
            assert!(patience > 0, "{} packets do not come out", self.inside());
        }
        assert_eq!(self.inside(), 0, "packets that are due came back dropped");
    }

    /// Every packet that went in came out, or was dropped for the reason that software gives; every
    /// SA has counted what software counts.
    fn account(&mut self) {
        for inbound in [false, true] {
            let counters = Counters::read(&mut *self.world.gateway.lock().unwrap(), inbound);
            assert_eq!(counters.packets_in, counters.packets_out + counters.dropped_in_all());
            let due = &self.drops[usize::from(inbound)];
            let mut told = BTreeMap::new();
            for reason in Drop::ALL {
                let due = due.get(&(reason as usize)).copied().unwrap_or(0);
                assert_eq!(counters.dropped(reason), due, "inbound {inbound}: {reason:?}");
                if due > 0 {
                    *told.entry(word(reason, inbound)).or_default() += due;
                }
            }
            assert_eq!(self.dropped[usize::from(inbound)], told, "inbound {inbound}: as told");
        }
        let Offloaded { device, tunnels, .. } = &mut self.world;
        for tunnel in tunnels.iter() {
            // The peer counts what it has opened; the twin opened what the gateway did.
            let sent = tunnel.receiver.live();
            let live = device.live(tunnel.out).unwrap();
            let want = (sent.packets().load(Relaxed), sent.bytes().load(Relaxed));
            assert_eq!((live.packets, live.bytes), want, "{}: outbound", tunnel.name);
            // Packets with wrong padding count inbound and move the window, bytes of theirs do not count.
            let live = device.live(tunnel.back).unwrap();
            let want = tunnel.twin.live().bytes().load(Relaxed);
            assert_eq!(live.bytes, want, "{}: inbound", tunnel.name);
            let window = tunnel.twin.replay();
            assert!(live.number >= window.edge(), "{}: window", tunnel.name);
            for back in 0..u64::from(window.size()).min(live.number) {
                let number = live.number - back;
                let is_near =
                    window.edge() >= number && window.edge() - number < window.size().into();
                let is_seen = live.received[(back / 64) as usize] >> (back % 64) & 1 == 1;
                assert!(is_seen || !is_near || !window.seen(number), "{}: {number}", tunnel.name);
            }
        }
        for (spi, numbers) in &mut self.numbers {
            numbers.sort_unstable();
            let want: Vec<u64> = (1..=numbers.len() as u64).collect();
            assert_eq!(*numbers, want, "SPI {spi:#x}: every number once, none left out");
        }
    }
}

/// The software path's word for the gateway's reason.
fn word(reason: Drop, inbound: bool) -> DropReason {
    match (reason, inbound) {
        (Drop::Header, _) | (Drop::TooLong, true) => DropReason::MalformedIp,
        (Drop::TooLong, false) => DropReason::OutTooBig,
        (Drop::NoPolicy | Drop::Policy, false) => DropReason::OutPolicyBlock,
        (Drop::NoPolicy | Drop::Policy, true) => DropReason::InPolicyBlock,
        (Drop::Mismatch, true) => DropReason::InPolicy,
        (Drop::NoSa, true) => DropReason::InNoState,
        (Drop::ReplayLate, true) => DropReason::InReplayOld,
        (Drop::Replay, true) => DropReason::InReplayDuplicate,
        (Drop::Integrity, true) => DropReason::InIntegrity,
        (Drop::Padding, true) => DropReason::InPadding,
        (Drop::Inner, true) => DropReason::InInnerHeader,
        (Drop::Short, true) => DropReason::MalformedEsp,
        other => panic!("{other:?} was not to happen"),
    }
}

/// Payload, padding, pad length, next header, aligned for every cipher; the padding is not 1, 2, 3.
fn bad_padding(tunnel: &world::Tunnel<SaHandle>) -> Vec<u8> {
    let mut text = vec![0x11; 32];
    text[26..30].copy_from_slice(&[1, 2, 9, 4]);
    text[30] = 4;
    text[31] = if tunnel.v6 { 41 } else { 4 };
    text
}

/// Authentic, well padded, and not what the SA carries: a next header that tunnels do not have, or a
/// version that is not the next header's.
fn bad_content(tunnel: &world::Tunnel<SaHandle>) -> Vec<u8> {
    let mut text = vec![0x65; 48];
    text[46] = 0;
    text[47] = match tunnel.mode {
        Mode::Tunnel | Mode::Iptfs => 4,
        // In transport mode any protocol may be inside, but nothing of it may be missing.
        Mode::Transport => 17,
    };
    text
}

/// Cuts a packet, and makes its IP header say so.
fn shorten(packet: &mut Vec<u8>, len: usize) {
    let len = len.min(packet.len());
    packet.truncate(len);
    if packet[0] >> 4 == 4 {
        packet[2..4].copy_from_slice(&(len as u16).to_be_bytes());
        wire::ipv4::fill_checksum(&mut packet[..20]);
    } else {
        packet[4..6].copy_from_slice(&(len as u16 - 40).to_be_bytes());
    }
}

#[test]
fn the_gateway_does_what_the_software_does() {
    let (packets, seed) = (packet_count(), seed());
    let mut run = Run::new(seed);
    for sent in 0..packets {
        while run.inside() >= INSIDE {
            run.step();
        }
        if run.world.random.one_in(2) {
            run.send_outbound();
        } else {
            run.send_inbound();
        }
        // Now and then everything comes to rest, and what was accepted long ago comes again.
        if sent % 1000 == 999 {
            run.drain();
            for (number, sealed) in core::mem::take(&mut run.old) {
                run.expect_inbound(number, &sealed);
                run.submit(Work::Inbound, sealed);
            }
            run.drain();
            run.account();
        }
    }
    run.drain();
    run.account();
    let (report, missed) = run.coverage.report();
    let cycles = run.world.gateway.lock().unwrap().cycles();
    println!("{packets} packets, seed {seed}, {cycles} cycles\n{report}");
    assert!(missed.is_empty() || packets < 2500, "never met: {missed:?}");
}
