//! IP-TFS between two gateways: packets in payloads and out of them, whatever happens to these on their way.

use core::sync::atomic::Ordering::Relaxed;

use crypto::{AesKey, Cipher, IcvLen, Integrity, Job, JobStatus, Op, Provider, Suite};
use esp::Mode;
use forward::NeighbourState;
use outcome::DropReason;
use policy::{Iptfs, IptfsCounters, IptfsRate, SaId, VolumeLimits};

use crate::packets::{Ip, hopped, number};
use crate::support::{
    GCM, Gateway, PROVIDER, Pair, Side, Sizes, Spec, craft_esp, esp_text, keys, make_sa, sa_config,
};

pub fn spec(change: impl FnOnce(&mut Iptfs)) -> Spec {
    let mut iptfs = Iptfs::default();
    change(&mut iptfs);
    Spec { mode: Mode::Iptfs, iptfs, ..Spec::default() }
}

fn a_to_b(v6: bool) -> Ip {
    Ip::new(Side::A.lan(v6, 10), Side::B.lan(v6, 10))
}

/// A counter of the SA by which A sends, at one end.
fn counted(g: &Gateway, spec: &Spec, read: impl Fn(&IptfsCounters) -> u64) -> u64 {
    read(g.sa(Side::A, spec).iptfs().expect("of that mode"))
}

/// Sends packets through both gateways; returns the outer packets, and asserts that all inner ones arrive in order.
fn through(pair: &mut Pair, sent: &[Vec<u8>]) -> Vec<Vec<u8>> {
    sent.iter().for_each(|packet| pair.a.put_lan(packet));
    pair.a.run();
    let outer = pair.carry(Side::A);
    let expected: Vec<_> = sent.iter().map(|packet| hopped(packet, 2)).collect();
    assert_eq!(pair.b.lan_out(), expected);
    outer
}

/// An AGGFRAG payload by hand (RFC 9347, section 6.1.1).
fn payload(offset: u16, parts: &[&[u8]]) -> Vec<u8> {
    let [high, low] = offset.to_be_bytes();
    [&[0, 0, high, low], &parts.concat()[..]].concat()
}

/// The same as ESP from A.
fn craft(number: u32, payload: &[u8]) -> Vec<u8> {
    craft_esp(Side::A, number, &esp_text(payload, 144), 0)
}

/// Content of an ESP packet over IPv4 under the keys of [`GCM`]: payload and next header.
fn decrypt(packet: &[u8]) -> (Vec<u8>, u8) {
    let session = PROVIDER.session(GCM, &keys(GCM)).expect("session");
    let mut esp = packet[20..].to_vec();
    let mut jobs = [Job::esp(&session, Op::Open, &mut esp, None)];
    PROVIDER.engine().expect("engine").run(&mut jobs);
    assert_eq!(jobs[0].status, JobStatus::Done);
    let text = &esp[16..esp.len() - 16];
    let [rest @ .., pad_len, next_header] = text else { panic!("a trailer") };
    (rest[..rest.len() - usize::from(*pad_len)].to_vec(), *next_header)
}

#[test]
fn small_packets_share_payloads_under_every_kind_of_sa() {
    let cbc = Suite::Separate {
        cipher: Cipher::AesCbc(AesKey::Aes256),
        integrity: Integrity::Sha256_128,
    };
    let ccm = Suite::AesCcm { key: AesKey::Aes128, icv: IcvLen::Icv16 };
    for suite in [GCM, cbc, Suite::ChaCha20Poly1305, ccm] {
        for (outer_v6, encap, esn) in
            [(false, false, false), (true, true, true), (false, true, true), (true, false, false)]
        {
            let spec = Spec { suite, outer_v6, encap, esn, ..spec(|_| {}) };
            let mut pair = Pair::new(&spec);
            let sent: Vec<_> =
                (0..60).map(|n| a_to_b(n % 3 == 0).sized(60 + usize::from(n), n)).collect();
            let outer = through(&mut pair, &sent);
            let bytes: usize = sent.iter().map(Vec::len).sum();
            assert!(outer.len() <= bytes / 1350 + 1, "{} payloads", outer.len());
            for g in [&pair.a, &pair.b] {
                assert_eq!(counted(g, &spec, |c| c.packets.value()), 60);
                assert_eq!(counted(g, &spec, |c| c.payloads.value()), outer.len() as u64);
                assert_eq!(g.drops(), []);
            }
            // What the SA counts are payloads.
            let live = pair.b.sa(Side::A, &spec);
            assert_eq!(live.esp.live().packets().load(Relaxed), outer.len() as u64);
        }
    }
}

/// Bytes as RFC 9347 has them, and not as the receiver here takes them.
#[test]
fn what_leaves_is_what_the_rfc_says() {
    let mut pair = Pair::new(&spec(|_| {}));
    let (one, two) = (a_to_b(false).sized(100, 1), a_to_b(true).sized(90, 2));
    let outer = through(&mut pair, &[one.clone(), two.clone()]);
    assert_eq!(outer.len(), 1);
    let (found, next_header) = decrypt(&outer[0]);
    assert_eq!(next_header, 144);
    assert_eq!(found, payload(0, &[&hopped(&one, 1), &hopped(&two, 1)]));
    assert_eq!(outer[0][6] & 0x40, 0x40, "DF");
}

#[test]
fn packets_of_any_length_go_in_pieces_and_nobody_is_told_a_smaller_mtu() {
    for v6 in [false, true] {
        let spec = spec(|_| {});
        let mut pair = Pair::new(&spec);
        pair.a.set_topology(700, Vec::new());
        let ip = Ip { dont_fragment: true, ..a_to_b(v6) };
        let sent = [ip.sized(1500, 1), ip.sized(100, 2), ip.sized(1400, 3), ip.sized(600, 4)];
        let outer = through(&mut pair, &sent);
        assert!(outer.iter().all(|packet| packet.len() <= 700));
        assert_eq!(pair.a.lan_out(), Vec::<Vec<u8>>::new());
        assert_eq!(counted(&pair.b, &spec, |c| c.spread.value()), 2);
        assert_eq!((pair.a.drops(), pair.b.drops()), (vec![], vec![]));
    }
}

#[test]
fn what_must_not_be_cut_is_told_what_fits() {
    let spec = spec(|iptfs| iptfs.dont_fragment = true);
    let mut pair = Pair::new(&spec);
    let most = pair.a.sa(Side::A, &spec).esp.max_inner_len(1500) - 4;
    let ip = Ip { dont_fragment: true, ..a_to_b(false) };
    assert_eq!(through(&mut pair, &[ip.sized(most, 1), ip.sized(60, 2)]).len(), 2);
    pair.a.put_lan(&ip.sized(most + 1, 3));
    pair.a.run();
    let told = pair.a.lan_out().remove(0);
    assert_eq!(usize::from(u16::from_be_bytes([told[26], told[27]])), most);
    assert_eq!(pair.a.dropped(DropReason::OutTooBig), 1);
    // Without DF the packet itself is cut (RFC 9347, section 2.2.3), and each piece fits.
    pair.a.put_lan(&a_to_b(false).sized(most + 1, 3));
    pair.a.run();
    assert_eq!(pair.carry(Side::A).len(), 2);
    assert_eq!(pair.b.lan_out().len(), 2);
}

#[test]
fn the_size_of_payloads_can_be_chosen() {
    let spec = spec(|iptfs| iptfs.packet_len = 336);
    let mut pair = Pair::new(&spec);
    let sent: Vec<_> = (0..20).map(|n| a_to_b(false).sized(100, n)).collect();
    let outer = through(&mut pair, &sent);
    // 20 + 8 + 8 in front: 300 bytes of payload, with two whole packets each.
    assert_eq!(outer.len(), 10);
    assert!(outer.iter().all(|packet| decrypt(packet).0.len() == 204));
}

/// Payloads of ten packets of 200 bytes each, two to a payload.
fn payloads(pair: &mut Pair) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let sent: Vec<_> = (0..10).map(|n| a_to_b(false).sized(200, n)).collect();
    sent.iter().for_each(|packet| pair.a.put_lan(packet));
    pair.a.run();
    (pair.a.wan_out(), sent.iter().map(|packet| hopped(packet, 2)).collect())
}

fn two_to_a_payload(iptfs: &mut Iptfs) {
    iptfs.packet_len = 36 + 404;
}

fn arrive(pair: &mut Pair, packets: &[&Vec<u8>]) -> Vec<u16> {
    packets.iter().for_each(|packet| pair.b.put_wan(packet));
    pair.b.run();
    pair.b.lan_out().iter().map(|packet| number(packet)).collect()
}

#[test]
fn payloads_out_of_order_are_put_in_order_and_lost_ones_are_waited_for() {
    let spec = spec(two_to_a_payload);
    let mut pair = Pair::new(&spec);
    let (p, _) = payloads(&mut pair);
    assert_eq!(p.len(), 5);
    // 2 and 3 before 1; each twice, of which ESP's window takes one.
    let got = arrive(&mut pair, &[&p[0], &p[2], &p[2], &p[3]]);
    assert_eq!((got, pair.b.counters.totals().held), (vec![0, 1], 2));
    assert_eq!(arrive(&mut pair, &[&p[1], &p[1]]), [2, 3, 4, 5, 6, 7]);
    assert_eq!(pair.b.dropped(DropReason::InReplayDuplicate), 2);
    assert_eq!(counted(&pair.b, &spec, |c| c.early.value()), 2);

    // The next one is lost: what came behind it is waited with for a second.
    let (q, _) = payloads(&mut pair);
    assert_eq!(arrive(&mut pair, &[&q[0], &q[1]]), []);
    pair.b.pass_ns(999_999_999);
    assert_eq!(pair.b.lan_out().len(), 0);
    pair.b.pass_ns(2);
    assert_eq!(pair.b.lan_out().len(), 4);
    assert_eq!(counted(&pair.b, &spec, |c| c.missing.value()), 1);
    // It comes too late.
    assert_eq!(arrive(&mut pair, &[&p[4]]), []);
    assert_eq!(pair.b.drops().last(), Some(&(DropReason::InIptfsLate, 1)));
    // With more behind it than the window takes it is given up at once.
    assert_eq!(arrive(&mut pair, &[&q[3], &q[4]]), []);
    let (r, _) = payloads(&mut pair);
    assert_eq!(arrive(&mut pair, &[&r[0], &r[1]]), [6, 7, 8, 9, 0, 1, 2, 3]);
    assert_eq!(counted(&pair.b, &spec, |c| c.missing.value()), 2);
}

#[test]
fn without_a_window_payloads_are_taken_as_they_come() {
    let spec = spec(|iptfs| {
        two_to_a_payload(iptfs);
        iptfs.reorder_window = 0;
    });
    let mut pair = Pair::new(&spec);
    let (p, _) = payloads(&mut pair);
    assert_eq!(arrive(&mut pair, &[&p[1], &p[0], &p[4]]), [2, 3, 0, 1, 8, 9]);
    assert_eq!(pair.b.drops(), []);
}

#[test]
fn a_lost_piece_is_a_lost_packet_and_no_other() {
    let spec = spec(two_to_a_payload);
    let mut pair = Pair::new(&spec);
    let long = a_to_b(false).sized(1300, 1);
    let sent = [a_to_b(false).sized(100, 0), long, a_to_b(false).sized(60, 2)];
    sent.iter().for_each(|packet| pair.a.put_lan(packet));
    pair.a.run();
    let p = pair.a.wan_out();
    assert_eq!(p.len(), 4);
    assert_eq!(arrive(&mut pair, &[&p[0], &p[1], &p[3]]), [0]);
    pair.b.pass_ns(1_000_000_001);
    assert_eq!(pair.b.lan_out().iter().map(|p| number(p)).collect::<Vec<_>>(), [2]);
    assert_eq!(pair.b.drops(), [(DropReason::InIptfsIncomplete, 1)]);
    assert_eq!(counted(&pair.b, &spec, |c| c.dropped.value()), 1);
    // And one whose last piece never comes, without anything behind it.
    let long = a_to_b(false).sized(1300, 3);
    pair.a.put_lan(&long);
    pair.a.run();
    let p = pair.a.wan_out();
    assert_eq!(arrive(&mut pair, &[&p[0]]), []);
    assert_eq!(pair.b.counters.totals().held, 1);
    pair.b.pass_ns(1_000_000_001);
    assert_eq!(pair.b.counters.totals().held, 0);
    assert_eq!(pair.b.dropped(DropReason::InIptfsIncomplete), 2);
}

#[test]
fn payloads_by_hand_are_taken_apart_and_hostile_ones_end_counted() {
    let spec = spec(|_| {});
    let mut b = Gateway::new(Side::B);
    b.protect(&spec);
    let (one, two) = (a_to_b(false).sized(100, 1), a_to_b(true).sized(80, 2));
    let long = a_to_b(false).sized(1000, 3);
    let jumbo = [&[0x60, 0, 0, 0, 0, 0, 0][..], &[0; 60]].concat();
    let mut report = vec![1, 3, 0, 0];
    report.extend([7; 20]);
    let cases: [(Vec<u8>, usize, bool); 12] = [
        (payload(0, &[&one, &two, &[0; 30]]), 2, true),
        (payload(0, &[]), 0, true),
        (payload(0, &[&[0; 1000]]), 0, true),
        ([&report[..], &one].concat(), 1, true),
        (payload(0, &[&one, &long[..500]]), 1, true),
        (payload(0, &[&[0; 8]]), 0, true),
        (payload(500, &[&long[500..], &two]), 2, true),
        (payload(0, &[&one, &[0x45, 0, 0, 0], &two]), 1, false),
        (payload(0, &[&jumbo]), 0, false),
        (payload(60000, &[&one]), 0, true),
        (payload(0, &[&[0x95; 40]]), 0, false),
        (vec![9; 40], 0, false),
    ];
    let mut faults = 0;
    for (n, (payload, packets, is_right)) in (1..).zip(cases) {
        b.put_wan(&craft(n, &payload));
        b.run();
        assert_eq!(b.lan_out().len(), packets, "{n}");
        faults += u64::from(!is_right);
        assert_eq!(b.drops().iter().map(|(_, n)| n).sum::<u64>(), faults, "{n}: {:?}", b.drops());
    }
    assert_eq!(b.dropped(DropReason::InIptfs), 4);
    assert_eq!(counted(&b, &spec, |c| c.faulty.value()), 4);
    assert_eq!(counted(&b, &spec, |c| c.padding.value()), 3);
    // What is inside is judged as anything that the SA has decrypted.
    let other = Ip::new("198.51.100.7".parse().unwrap(), Side::B.lan(false, 10)).sized(60, 1);
    let broken = [&[0x45, 0, 0, 20][..], &[0; 16]].concat();
    b.put_wan(&craft(20, &payload(0, &[&other, &broken, &two])));
    b.pass_ns(1);
    b.pass_ns(1_000_000_001);
    assert_eq!(b.lan_out().len(), 1);
    assert_eq!(b.dropped(DropReason::InPolicy), 1);
    assert_eq!(b.dropped(DropReason::InInnerHeader), 1);
}

#[test]
fn an_sa_takes_what_is_of_its_mode() {
    let packet = a_to_b(false).sized(100, 1);
    for (mode, text, reason) in [
        (Mode::Tunnel, esp_text(&payload(0, &[&packet]), 144), DropReason::InStateMode),
        (Mode::Iptfs, esp_text(&packet, 4), DropReason::InInnerHeader),
        (Mode::Iptfs, esp_text(&packet, 41), DropReason::InInnerHeader),
    ] {
        let mut b = Gateway::new(Side::B);
        b.protect(&Spec { mode, ..spec(|_| {}) });
        b.put_wan(&craft_esp(Side::A, 1, &text, 0));
        b.run();
        assert_eq!((b.drops(), b.lan_out().len()), (vec![(reason, 1)], 0));
    }
    // A dummy is one in every mode.
    let mut b = Gateway::new(Side::B);
    b.protect(&spec(|_| {}));
    b.put_wan(&craft_esp(Side::A, 1, &esp_text(&[0; 50], 59), 0));
    b.run();
    assert_eq!((b.drops(), b.counters.totals().consumed), (vec![], 1));
}

#[test]
fn marks_of_congestion_and_classes_come_out_right() {
    let mut b = Gateway::new(Side::B);
    b.protect(&spec(|_| {}));
    let of = |class: u8| Ip { traffic_class: class, ..a_to_b(false) }.sized(60, 1);
    let inside = payload(0, &[&of(0xb8), &of(0xba), &of(0xb9)]);
    b.put_wan(&craft_esp(Side::A, 1, &esp_text(&inside, 144), 0x03));
    b.run();
    let classes: Vec<u8> = b.lan_out().iter().map(|packet| packet[1]).collect();
    assert_eq!(classes, [0xb8, 0xbb, 0xbb], "CE where it can be told");
    // Outbound the first packet's class, without marks.
    let mut pair = Pair::new(&spec(|_| {}));
    [of(0xba), of(0)].iter().for_each(|packet| pair.a.put_lan(packet));
    pair.a.run();
    assert_eq!(pair.a.wan_out()[0][1], 0xb8);
}

#[test]
fn what_waits_for_others_leaves_when_its_time_has_come() {
    let spec = spec(|iptfs| iptfs.init_delay_us = 500);
    let mut pair = Pair::new(&spec);
    let packet = |n| a_to_b(false).sized(100, n);
    pair.a.put_lan(&packet(1));
    pair.a.run();
    assert_eq!((pair.a.wan_out().len(), pair.a.counters.totals().held), (0, 1));
    pair.a.put_lan(&packet(2));
    pair.a.pass_ns(499_999);
    assert_eq!(pair.a.wan_out().len(), 0);
    pair.a.pass_ns(1);
    assert_eq!(pair.carry(Side::A).len(), 1);
    assert_eq!(pair.b.lan_out().len(), 2);
    assert_eq!(counted(&pair.a, &spec, |c| c.longest_wait_ns.value()), 500_000);
    assert_eq!(counted(&pair.a, &spec, |c| c.mean_wait_ns()), 500_000);
    // A full one does not wait.
    (0..30).for_each(|n| pair.a.put_lan(&packet(n)));
    pair.a.run();
    assert_eq!(pair.carry(Side::A).len(), 2);
}

#[test]
fn a_queue_that_is_full_drops() {
    let spec = spec(|iptfs| {
        iptfs.init_delay_us = 500;
        iptfs.max_queue_bytes = 450;
    });
    let mut pair = Pair::new(&spec);
    (0..6).for_each(|n| pair.a.put_lan(&a_to_b(false).sized(100, n)));
    pair.a.run();
    assert_eq!(pair.a.drops(), [(DropReason::OutNoQueueSpace, 2)]);
    assert_eq!(counted(&pair.a, &spec, |c| c.dropped.value()), 2);
    pair.a.pass_ns(500_000);
    pair.carry(Side::A);
    assert_eq!(pair.b.lan_out().len(), 4);
    pair.a.put_lan(&a_to_b(false).sized(100, 7));
    pair.a.run();
    assert_eq!(pair.a.dropped(DropReason::OutNoQueueSpace), 2, "there is room again");
}

#[test]
fn a_path_that_becomes_shorter_gets_shorter_payloads() {
    let spec = spec(|iptfs| iptfs.init_delay_us = 500);
    let mut pair = Pair::new(&spec);
    let packet = |n| a_to_b(false).sized(300, n);
    (0..4).for_each(|n| pair.a.put_lan(&packet(n)));
    pair.a.run();
    pair.a.set_topology(800, Vec::new());
    (4..6).for_each(|n| pair.a.put_lan(&packet(n)));
    pair.a.run();
    pair.a.pass_ns(500_000);
    let outer = pair.carry(Side::A);
    // What was filled for the longer path goes in fragments.
    assert!(outer.iter().all(|packet| packet.len() <= 800));
    assert_eq!(pair.b.lan_out(), (0..6).map(|n| hopped(&packet(n), 2)).collect::<Vec<_>>());
    // And a way that is lost and found again.
    pair.a.set_neighbours(NeighbourState::Incomplete);
    pair.a.put_lan(&packet(7));
    pair.a.pass_ns(1);
    pair.a.pass_ns(500_000);
    assert_eq!(pair.a.wan_out().len(), 0);
    pair.a.set_neighbours(NeighbourState::Reachable);
    pair.a.run();
    pair.carry(Side::A);
    assert_eq!(pair.b.lan_out(), [hopped(&packet(7), 2)]);
}

fn id(spec: &Spec, from: Side) -> SaId {
    sa_config(spec, from).id()
}

#[test]
fn what_waits_for_an_sa_that_goes_ends_with_it() {
    let spec = spec(|iptfs| iptfs.init_delay_us = 500);
    let mut pair = Pair::new(&spec);
    (0..3).for_each(|n| pair.a.put_lan(&a_to_b(false).sized(100, n)));
    pair.a.run();
    let long = a_to_b(false).sized(1500, 9);
    pair.b.put_wan(&craft(1, &payload(0, &[&long[..700]])));
    pair.b.put_wan(&craft(3, &payload(0, &[&long[..700]])));
    pair.b.run();
    assert_eq!((pair.a.counters.totals().held, pair.b.counters.totals().held), (1, 2));
    for g in [&mut pair.a, &mut pair.b] {
        assert!(g.db.remove_sa(&id(&spec, Side::A)).is_some());
        g.pass_ns(1);
        assert_eq!(g.counters.totals().held, 0);
    }
    assert_eq!(pair.a.drops(), [(DropReason::OutStateExpired, 1)]);
    let gone = [(DropReason::InStateExpired, 1), (DropReason::InIptfsIncomplete, 1)];
    assert_eq!(pair.b.drops(), gone);
}

#[test]
fn on_a_rekey_each_sa_has_payloads_of_its_own() {
    let spec = spec(|iptfs| iptfs.init_delay_us = 500);
    let mut pair = Pair::new(&spec);
    let sent: Vec<_> = (0..3).map(|n| a_to_b(false).sized(100, n)).collect();
    pair.a.put_lan(&sent[0]);
    pair.a.run();
    for g in [&mut pair.a, &mut pair.b] {
        let mut young = sa_config(&spec, Side::A);
        young.params.spi += 0x100;
        young.added_s += 1;
        young.generation += 1;
        g.db.add_sa(young.clone(), make_sa(&young.params)).expect("new");
    }
    sent[1..].iter().for_each(|packet| pair.a.put_lan(packet));
    pair.a.run();
    pair.a.pass_ns(500_000);
    let outer = pair.carry(Side::A);
    let spis: Vec<&[u8]> = outer.iter().map(|packet| &packet[20..24]).collect();
    assert_eq!(spis, [&[0, 0, 0x10, 1][..], &[0, 0, 0x11, 1]]);
    assert_eq!(pair.b.lan_out(), sent.iter().map(|p| hopped(p, 2)).collect::<Vec<_>>());
}

#[test]
fn limits_are_of_payloads() {
    let limits = VolumeLimits { hard_packets: 3, ..VolumeLimits::NONE };
    let mut pair = Pair::new(&Spec { limits, ..spec(|iptfs| iptfs.packet_len = 240) });
    (0..8).for_each(|n| pair.a.put_lan(&a_to_b(false).sized(180, n)));
    pair.a.run();
    assert_eq!(pair.carry(Side::A).len(), 3);
    assert_eq!(pair.b.lan_out().len(), 3);
    // One was in a payload, one came then; the others wait for another SA.
    assert_eq!(pair.a.drops(), [(DropReason::OutStateExpired, 2)]);
    assert_eq!(pair.a.counters.totals().held, 3);
}

fn constant(iptfs: &mut Iptfs) {
    // 100 bytes on the wire, of which 54 are around 46 of payload: 10000 a second.
    iptfs.packet_len = 20 + 16 + 46;
    iptfs.rate = Some(IptfsRate::constant(8_000_000));
}

#[test]
fn a_constant_rate_goes_on_whatever_there_is_to_send() {
    let spec = spec(constant);
    let mut pair = Pair::new(&spec);
    let sent: Vec<_> = (0..5).map(|n| a_to_b(false).sized(60 + 9 * usize::from(n), n)).collect();
    sent.iter().for_each(|packet| pair.a.put_lan(packet));
    pair.a.run();
    let mut outer = pair.carry(Side::A);
    for _ in 0..99 {
        pair.a.pass_ns(100_000);
        outer.extend(pair.carry(Side::A));
    }
    assert_eq!(outer.len(), 100);
    assert!(outer.iter().all(|packet| packet.len() == 100 && packet[1] == 0), "all look alike");
    assert!(outer.iter().all(|packet| decrypt(packet).0.len() == 46));
    assert_eq!(pair.b.lan_out(), sent.iter().map(|p| hopped(p, 2)).collect::<Vec<_>>());
    assert_eq!((pair.a.drops(), pair.b.drops()), (vec![], vec![]));
    let bytes: usize = sent.iter().map(Vec::len).sum();
    let filled = 100 - counted(&pair.a, &spec, |c| c.padding.value());
    // No piece is shorter than a header, so some have padding behind.
    assert!((bytes.div_ceil(42)..bytes / 21).contains(&(filled as usize)), "{filled}");
    assert_eq!(counted(&pair.a, &spec, |c| c.longest_wait_ns.value()), (filled - 1) * 100_000);
    // After a stall some of what was not sent is made up for, not all.
    pair.a.pass_ns(1_000_000_000);
    assert_eq!(pair.carry(Side::A).len(), 16);
    pair.a.pass_ns(99_999);
    assert_eq!(pair.a.wan_out().len(), 0);
    // The last packets of all leave when the workers change; then it waits for the first packet again.
    pair.a.put_lan(&sent[4]);
    pair.a.run();
    pair.a.set_workers(2);
    assert!(pair.carry(Side::A).len() >= 3);
    assert_eq!(pair.b.lan_out().len(), 1);
    pair.a.pass_ns(1_000_000);
    assert_eq!(pair.a.wan_out().len(), 0);
}

#[test]
fn several_workers_and_helpers_make_no_difference() {
    const SIZES: Sizes = Sizes { chunks: 16384, stock: 8192, port_limit: 2048 };
    let spec = spec(|_| {});
    for workers in [1, 3] {
        let gateway = |side| {
            let mut g = Gateway::with_workers(side, SIZES, 1024, workers);
            g.protect(&spec);
            g
        };
        let mut pair = Pair { a: gateway(Side::A), b: gateway(Side::B) };
        let mut threads = Vec::new();
        if workers == 1 {
            threads.extend(crate::pool::pooled(&mut pair.a, 2));
            threads.extend(crate::pool::pooled(&mut pair.b, 2));
        }
        let ip = a_to_b(false);
        for round in 0..10 {
            for n in 0..300_u16 {
                pair.a.put_lan(&ip.udp(
                    1000 + n % 7,
                    2000,
                    &[&n.to_be_bytes()[..], &[7; 60]].concat(),
                ));
            }
            pair.a.run();
            assert!(pair.carry(Side::A).len() < 40);
            let got = pair.b.lan_out();
            assert_eq!(got.len(), 300, "{round}");
            for flow in 0..7 {
                let of = |p: &&Vec<u8>| u16::from_be_bytes([p[20], p[21]]) == 1000 + flow;
                assert!(got.iter().filter(of).map(|p| number(p)).is_sorted());
            }
        }
        assert_eq!((pair.a.drops(), pair.b.drops()), (vec![], vec![]));
        if workers > 1 {
            // A window and a payload in use when the workers change.
            let (p, _) = payloads(&mut pair);
            let last = craft(1_000_000, &payload(0, &[&ip.sized(60, 1)]));
            arrive(&mut pair, &[&p[0], &last]);
            pair.b.set_workers(4);
            assert_eq!(pair.b.all_counters().map(|c| c.totals().held).sum::<u64>(), 0);
            pair.b.run();
        }
        drop(pair);
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    }
}

/// Makes `b` one of that mode, and has payloads arrive: their numbers, and what they begin with: nothing that there is, a
/// packet, or the beginning of a packet.
pub fn produce(b: &mut Gateway, payloads: &[(u32, u8)]) {
    *b = Gateway::new(Side::B);
    b.protect(&spec(|_| {}));
    let packet = a_to_b(false).sized(100, 1);
    for (number, kind) in payloads {
        let parts = match kind {
            4 => &packet[..],
            5 => &packet[..50],
            _ => &[0x90; 20],
        };
        b.put_wan(&craft(*number, &payload(0, &[parts])));
        b.run();
    }
}
