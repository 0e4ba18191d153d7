//! Constant rates of IP-TFS that heed losses, between two gateways with a path that loses.

use std::collections::VecDeque;

use dataplane::{BreakCause, Event};
use outcome::DropReason;
use policy::{Iptfs, IptfsBreaker, IptfsLosses, IptfsRate};

use crate::iptfs::spec;
use crate::packets::{Ip, hopped};
use crate::support::{Gateway, Pair, SIZES, Side, Sizes, Spec};

/// Between two looks, and what the path takes, in such steps.
const STEP_NS: u64 = 10_000_000;
const DELAY_STEPS: usize = 2;

/// Two gateways, and what is on its way to each.
struct Path {
    pair: Pair,
    spec: Spec,
    under_way: [VecDeque<Vec<Vec<u8>>>; 2],
    /// Packets that have left each side.
    left: [u64; 2],
    /// Packets that a port takes at a time.
    limit: usize,
}

impl Path {
    fn new(spec: Spec) -> Path {
        let under_way = || (0..DELAY_STEPS).map(|_| Vec::new()).collect();
        // What one side gets and does not send stays there.
        const LARGE: Sizes = Sizes { chunks: 32768, stock: 16384, port_limit: 512 };
        let gateway = |side| {
            let mut g = Gateway::with_sizes(side, LARGE);
            g.protect(&spec);
            g
        };
        let pair = Pair { a: gateway(Side::A), b: gateway(Side::B) };
        let (under_way, limit) = ([under_way(), under_way()], SIZES.port_limit);
        Path { pair, spec, under_way, left: [0; 2], limit }
    }

    /// Lets time pass. What one side has sent is changed, or lost, by its count.
    fn run(&mut self, steps: u64, change: impl Fn(Side, u64, &mut Vec<u8>) -> bool) -> [u64; 2] {
        let before = self.left;
        for _ in 0..steps {
            for (at, side) in [Side::A, Side::B].into_iter().enumerate() {
                let (from, to) = self.pair.end(side);
                from.wan.lock().set_limit(self.limit);
                from.pass_ns(STEP_NS);
                let mut packets = from.wan_out();
                from.wan.lock().set_limit(SIZES.port_limit);
                packets.retain_mut(|packet| {
                    self.left[at] += 1;
                    change(side, self.left[at], packet)
                });
                self.under_way[at].push_back(packets);
                for packet in self.under_way[at].pop_front().into_iter().flatten() {
                    to.put_wan(&packet);
                }
                to.run();
            }
        }
        [self.left[0] - before[0], self.left[1] - before[1]]
    }

    /// Rate and losses of the SA by which A sends, as one end shows them: bits a second, and losses of a million.
    fn shown(&self, at: Side) -> (u64, u64) {
        let g = if at == Side::A { &self.pair.a } else { &self.pair.b };
        let sa = g.sa(Side::A, &self.spec);
        let now = &sa.iptfs().expect("of that mode").now;
        (now.bits_per_s.value(), now.lost_ppm.value())
    }

    fn packet(&self) -> Vec<u8> {
        Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10)).sized(60, 1)
    }
}

/// 500 packets of 124 bytes a second at most: payloads of 70 bytes, of which 24 are their header.
fn rate(losses: IptfsLosses) -> Spec {
    spec(|iptfs: &mut Iptfs| {
        iptfs.packet_len = 20 + 16 + 70;
        iptfs.rate = Some(IptfsRate { bits_per_s: 496_000, losses });
    })
}

fn followed(least_bits_per_s: u64, has_ecn: bool) -> Spec {
    rate(IptfsLosses::Followed { least_bits_per_s, has_ecn })
}

#[test]
fn a_rate_follows_losses_and_marks() {
    for has_ecn in [false, true] {
        let mut path = Path::new(followed(9_920, has_ecn));
        path.pair.a.put_lan(&path.packet());
        // B has nothing to send, and reports all the same.
        path.run(800, |_, _, _| true);
        let sent = path.run(200, |_, _, packet| {
            assert_eq!(packet[1], if has_ecn { 2 } else { 0 });
            true
        });
        assert!(
            sent.iter().all(|sent| (990..=1001).contains(sent)),
            "{sent:?}: at most 500 a second"
        );
        assert_eq!(path.shown(Side::A), (496_000, 0));
        assert_eq!(path.pair.b.lan_out(), [hopped(&path.packet(), 2)]);
        // Every twentieth of A's is lost, or marked.
        let twentieth = move |side, n: u64, packet: &mut Vec<u8>| {
            if side == Side::B || !n.is_multiple_of(20) {
                return true;
            }
            wire::set_traffic_class(packet, 3);
            has_ecn
        };
        path.run(500, twentieth);
        let [a, b] = path.run(500, twentieth);
        // 40 ms there and back, and 5 %: 92 packets a second by RFC 5348.
        assert!((250..750).contains(&a) && b >= 2490, "{a} {b} in 5 s");
        let ((bits, here), (_, there)) = (path.shown(Side::A), path.shown(Side::B));
        assert!((50_000..150_000).contains(&bits), "{bits}");
        assert!(
            (30_000..70_000).contains(&here) && here.abs_diff(there) < 30_000,
            "{here} {there}"
        );
        let sa = path.pair.b.sa(Side::A, &path.spec);
        assert_eq!(sa.iptfs().expect("of that mode").marked.value() > 0, has_ecn);
        // It rises again when that is over.
        path.run(1000, |_, _, _| true);
        assert!(path.shown(Side::A).0 > 200_000, "{:?}", path.shown(Side::A));
        // Nothing comes back: down to the least, 10 a second.
        path.run(1500, |side, _, _| side == Side::A);
        let [a, _] = path.run(200, |side, _, _| side == Side::A);
        assert!((19..=21).contains(&a), "{a} in 2 s");
        assert_eq!(path.shown(Side::A).0, 9_920);
        assert_eq!(path.pair.b.drops(), []);
    }
}

const BREAKER: IptfsLosses =
    IptfsLosses::Broken(IptfsBreaker { loss_percent: 30, after_s: 3, restart_s: 5 });

#[test]
fn a_breaker_opens_with_losses_and_closes_when_they_are_over() {
    let mut path = Path::new(rate(BREAKER));
    let id = path.pair.a.sa(Side::A, &path.spec).config.id();
    path.pair.a.put_lan(&path.packet());
    let sent = path.run(600, |_, _, _| true);
    assert!(sent.iter().all(|sent| (2990..=3002).contains(sent)), "{sent:?}: at once");
    let third = |side, n: u64, _: &mut Vec<u8>| side == Side::B || !n.is_multiple_of(3);
    let [a, b] = path.run(250, third);
    assert!(a >= 1249 && b >= 1249, "{a} {b}: not yet");
    assert_eq!(path.pair.a.events(), []);
    path.run(150, third);
    let [a, b] = path.run(400, third);
    assert_eq!((a, b), (4, 2000), "one a second");
    let [Event::RateBroken { sa, cause: Some(BreakCause::Losses { ppm }) }] =
        path.pair.a.events()[..]
    else {
        panic!("it is told")
    };
    assert!(sa == id && (300_001..400_000).contains(&ppm), "{sa:?} {ppm}");
    path.pair.a.put_lan(&path.packet());
    path.run(1, third);
    assert_eq!(path.pair.a.drops(), [(DropReason::OutIptfsBroken, 1)]);
    // Well again, as soon as that is known.
    path.run(2000, |_, _, _| true);
    assert_eq!(path.pair.a.events(), [Event::RateBroken { sa: id, cause: None }]);
    path.pair.b.lan_out();
    path.pair.a.put_lan(&path.packet());
    path.run(20, |_, _, _| true);
    assert_eq!(path.pair.b.lan_out(), [hopped(&path.packet(), 2)]);
    let sa = path.pair.a.sa(Side::A, &path.spec);
    assert_eq!(sa.iptfs().expect("of that mode").breaks.value(), 1);
}

#[test]
fn a_breaker_opens_when_nothing_is_heard_or_the_port_is_full() {
    let mut g = Gateway::new(Side::A);
    silence(&mut g, 290);
    assert_eq!(g.events(), []);
    g.pass_ns(200_000_000);
    let id = g.sa(Side::A, &rate(BREAKER)).config.id();
    assert_eq!(g.events(), [Event::RateBroken { sa: id, cause: Some(BreakCause::Silence) }]);

    let mut path = Path::new(rate(BREAKER));
    path.pair.a.put_lan(&path.packet());
    path.run(100, |_, _, _| true);
    path.limit = 2;
    path.run(350, |_, _, _| true);
    let [Event::RateBroken { cause: Some(BreakCause::Device), .. }] = path.pair.a.events()[..]
    else {
        panic!("it is told: {:?}", path.pair.a.drops())
    };
}

#[test]
fn an_sa_that_takes_another_one_s_place_goes_on_at_its_rate() {
    let mut path = Path::new(followed(0, false));
    path.pair.a.put_lan(&path.packet());
    path.run(1000, |_, _, _| true);
    let olds = [Side::A, Side::B].map(|side| crate::support::sa_config(&path.spec, side));
    for g in [&mut path.pair.a, &mut path.pair.b] {
        for old in &olds {
            let mut young = old.clone();
            young.params.spi += 0x100;
            young.added_s += 1;
            young.generation += 1;
            g.db.add_sa(young.clone(), crate::support::make_sa(&young.params)).expect("new");
        }
    }
    path.pair.a.put_lan(&path.packet());
    path.run(10, |_, _, _| true);
    for g in [&mut path.pair.a, &mut path.pair.b] {
        assert!(olds.iter().all(|old| g.db.remove_sa(&old.id()).is_some()));
    }
    path.run(10, |_, _, _| true);
    let sent = path.run(100, |_, _, _| true);
    assert!(sent.iter().all(|sent| (490..=501).contains(sent)), "{sent:?}");
}

/// One that has sent at its rate for so many steps, and heard nothing.
fn silence(g: &mut Gateway, steps: u64) {
    g.protect(&rate(BREAKER));
    g.put_lan(&Ip::new(g.side.lan(false, 10), g.side.other().lan(false, 10)).sized(60, 1));
    for _ in 0..steps {
        g.pass_ns(STEP_NS);
        g.wan_out();
    }
}

/// Makes `b` one whose breaker is open.
pub fn produce(b: &mut Gateway, packet: &[u8]) {
    *b = Gateway::new(Side::B);
    silence(b, 310);
    b.put_lan(packet);
}
