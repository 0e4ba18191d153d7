//! Taps record what passes, and what becomes of it.

use std::time::Duration;

use dataplane::{
    Command, Drops, Fate, Filter, FlowFilter, Gone, Place, PolicyFilter, Record, Step, TapConfig,
    TapReader, Verdict, tap,
};
use forward::NeighbourState;
use outcome::DropReason;
use policy::{Action, Direction, Prefix, Selector};

use crate::device::Offloading;
use crate::packets::{Ip, hopped};
use crate::support::{
    Gateway, LAN, Pair, SIZES, Side, Spec, WAN, ethernet, make_sa, policy, sa_config,
};

pub fn tapped(g: &Gateway, filter: Filter) -> TapReader {
    tapped_with(g, &TapConfig { filter, snap_len: 65535, limit: None, explains: false })
}

fn tapped_with(g: &Gateway, config: &TapConfig) -> TapReader {
    let (recorders, reader) = tap(config, 1 + g.others.len());
    let others = g.others.iter().map(|other| &other.commands);
    for (commands, recorder) in [&g.commands].into_iter().chain(others).zip(recorders) {
        commands.send(Command::Tap(Box::new(recorder))).expect("listens");
    }
    reader
}

/// All that was recorded so far.
pub fn records(reader: &TapReader) -> Vec<(Record, Vec<u8>)> {
    let mut all = Vec::new();
    while let Ok(Some(buffer)) = reader.next(Duration::ZERO) {
        all.extend(buffer.iter().map(|(record, bytes)| (record.clone(), bytes.to_vec())));
        reader.give_back(buffer);
    }
    all
}

/// The same, with what the workers keep for a reader that is behind.
pub fn all_records(g: &mut Gateway, reader: &TapReader) -> Vec<(Record, Vec<u8>)> {
    let mut all = Vec::new();
    loop {
        let more = records(reader);
        if more.is_empty() {
            return all;
        }
        all.extend(more);
        g.run();
    }
}

fn host(side: Side) -> Ip {
    Ip::new(side.lan(false, 10), side.other().lan(false, 10))
}

fn kinds(records: &[(Record, Vec<u8>)]) -> Vec<(Place, bool, Verdict)> {
    records.iter().map(|(r, _)| (r.place, r.is_outbound, r.verdict)).collect()
}

#[test]
fn both_sides_of_ipsec_at_both_ends() {
    let mut pair = Pair::new(&Spec::default());
    let readers = [tapped(&pair.a, Filter::default()), tapped(&pair.b, Filter::default())];
    let packets: Vec<_> = (0..3).map(|n| host(Side::A).sized(200, n)).collect();
    packets.iter().for_each(|packet| pair.a.put_lan(packet));
    pair.a.run();
    let wire = pair.carry(Side::A);
    pair.b.lan_out();
    let [a, b] = readers.map(|reader| records(&reader));

    let (plain, sealed): (Vec<_>, Vec<_>) = a.iter().partition(|(r, _)| r.place == Place::Plain);
    assert_eq!((plain.len(), sealed.len()), (3, 3));
    for ((record, bytes), packet) in plain.into_iter().zip(&packets) {
        let Verdict::Protected(by) = record.verdict else { panic!("{record:?}") };
        assert_eq!((by.id.spi, record.is_outbound, record.ifindex), (Side::A.spi(), true, LAN));
        assert_eq!(*bytes, hopped(packet, 1), "as it is encrypted");
        assert_eq!(record.policy, Some(11));
    }
    for ((record, bytes), packet) in sealed.into_iter().zip(&wire) {
        assert_eq!(record.sa.expect("an SA").id.spi, Side::A.spi());
        assert_eq!((record.verdict, record.ifindex), (Verdict::Sent { ifindex: WAN }, WAN));
        assert_eq!((bytes, record.len as usize), (packet, packet.len()));
        assert!(record.is_outbound);
    }
    let (plain, sealed): (Vec<_>, Vec<_>) = b.iter().partition(|(r, _)| r.place == Place::Plain);
    for ((record, bytes), packet) in sealed.into_iter().zip(&wire) {
        assert_eq!((record.verdict, record.is_outbound), (Verdict::Decrypted, false));
        assert_eq!((bytes, record.ifindex), (packet, WAN), "before it was decrypted");
    }
    for ((record, bytes), packet) in plain.into_iter().zip(&packets) {
        assert_eq!((record.verdict, record.is_outbound), (Verdict::Sent { ifindex: LAN }, false));
        assert_eq!(*bytes, hopped(packet, 1), "as it was decrypted");
        assert_eq!(record.sa.expect("an SA").id.spi, Side::A.spi());
    }
    assert_eq!(b.len(), 6);
}

#[test]
fn what_a_device_seals_and_opens_is_recorded_on_both_sides() {
    let spec = Spec::default();
    let mut a = Offloading::new(Side::A, &spec).gateway;
    let mut b = Gateway::new(Side::B);
    b.protect(&spec);
    // By what is inside.
    let flow = FlowFilter { protocol: Some(wire::protocol::UDP), ..FlowFilter::default() };
    let reader = tapped(&a, Filter { flow, ..Filter::default() });
    let packets = |from| (0..3).map(move |n| host(from).sized(200, n)).collect::<Vec<_>>();
    packets(Side::A).iter().for_each(|packet| a.put_lan(packet));
    a.run();
    let sealed = a.wan_out();
    let out = records(&reader);
    let (plain, wire): (Vec<_>, Vec<_>) = out.iter().partition(|(r, _)| r.place == Place::Plain);
    assert_eq!((plain.len(), wire.len()), (3, 3));
    for ((record, bytes), packet) in plain.into_iter().zip(packets(Side::A)) {
        let Verdict::Protected(by) = record.verdict else { panic!("{record:?}") };
        assert_eq!((by.id.spi, record.is_outbound, record.ifindex), (Side::A.spi(), true, LAN));
        assert_eq!((bytes, record.policy), (&hopped(&packet, 1), Some(11)));
    }
    for ((record, bytes), packet) in wire.into_iter().zip(&sealed) {
        assert_eq!((record.verdict, record.is_outbound), (Verdict::Sent { ifindex: WAN }, true));
        assert_eq!((bytes, record.sa.expect("an SA").id.spi), (packet, Side::A.spi()));
    }
    packets(Side::B).iter().for_each(|packet| b.put_lan(packet));
    b.run();
    let sealed = b.wan_out();
    sealed.iter().for_each(|packet| a.put_wan(packet));
    a.run();
    assert_eq!(a.lan_out().len(), 3, "{:?}", a.drops());
    let came = records(&reader);
    let (plain, wire): (Vec<_>, Vec<_>) = came.iter().partition(|(r, _)| r.place == Place::Plain);
    assert_eq!((plain.len(), wire.len()), (3, 3));
    for ((record, bytes), packet) in wire.into_iter().zip(&sealed) {
        assert_eq!((record.verdict, record.is_outbound), (Verdict::Decrypted, false));
        assert_eq!((bytes, record.sa.expect("an SA").id.spi), (packet, Side::B.spi()));
    }
    for ((record, bytes), packet) in plain.into_iter().zip(packets(Side::B)) {
        assert_eq!((record.verdict, record.is_outbound), (Verdict::Sent { ifindex: LAN }, false));
        assert_eq!((bytes, record.sa.expect("an SA").id.spi), (&hopped(&packet, 1), Side::B.spi()));
    }
}

#[test]
fn udp_encapsulation_is_of_the_wires_side() {
    let mut pair = Pair::new(&Spec { encap: true, ..Spec::default() });
    let filter = Filter { place: Some(Place::Wire), ..Filter::default() };
    let readers = [tapped(&pair.a, filter.clone()), tapped(&pair.b, filter)];
    pair.a.put_lan(&host(Side::A).sized(100, 1));
    // Too long for the path in one piece.
    pair.a.put_lan(&host(Side::A).sized(1500, 2));
    pair.a.run();
    let wire = pair.carry(Side::A);
    pair.b.lan_out();
    let [a, b] = readers.map(|reader| records(&reader));
    let sent = (Place::Wire, true, Verdict::Sent { ifindex: WAN });
    assert_eq!(kinds(&a), vec![sent; wire.len()]);
    assert_eq!(kinds(&b), vec![(Place::Wire, false, Verdict::Decrypted); wire.len()]);
    for records in [a, b] {
        assert!(records.iter().map(|(_, bytes)| bytes).eq(&wire));
    }
    assert_eq!(wire.len(), 3, "the second is cut in two");
}

#[test]
fn what_is_cut_is_recorded_with_its_pieces() {
    let mut g = Gateway::new(Side::A);
    g.protect(&Spec::default());
    let reader = tapped(&g, Filter { place: Some(Place::Plain), ..Filter::default() });
    g.put_lan(&host(Side::A).sized(1500, 1));
    g.run();
    let sealed = g.wan_out().len();
    let kinds = kinds(&records(&reader));
    assert_eq!(kinds[0], (Place::Plain, false, Verdict::Cut));
    let is_sealed = |verdict| matches!(verdict, Verdict::Protected(_));
    assert!(
        kinds[1..].iter().all(|(_, is_outbound, v)| *is_outbound && is_sealed(*v)),
        "{kinds:?}"
    );
    assert_eq!((kinds.len(), sealed), (3, 2));
}

#[test]
fn a_flow_is_found_under_its_encryption() {
    let mut pair = Pair::new(&Spec::default());
    let dst = Some(Prefix { addr: Side::B.lan(false, 11), len: 32 });
    let flow = FlowFilter { dst, port: Some(2000), ..FlowFilter::default() };
    let filter = Filter { flow, place: Some(Place::Wire), ..Filter::default() };
    let readers = [tapped(&pair.a, filter.clone()), tapped(&pair.b, filter)];
    let other = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 11));
    for n in 0..4 {
        pair.a.put_lan(&host(Side::A).sized(100, n));
        pair.a.put_lan(&other.sized(100, n));
    }
    pair.a.run();
    let wire = pair.carry(Side::A);
    pair.b.lan_out();
    for reader in readers {
        let records = records(&reader);
        let bytes: Vec<_> = records.into_iter().map(|(_, bytes)| bytes).collect();
        let expected: Vec<_> = wire.iter().skip(1).step_by(2).cloned().collect();
        assert_eq!(bytes, expected);
    }
}

#[test]
fn filters_take_what_they_name() {
    let mut pair = Pair::new(&Spec::default());
    let by_policy = |index| Some(PolicyFilter { index, reqids: vec![99] });
    let outbound = 6;
    let filters = [
        (Filter::default(), outbound),
        (Filter { spi: Some(Side::A.spi()), ..Filter::default() }, outbound),
        (Filter { spi: Some(Side::B.spi()), ..Filter::default() }, 0),
        (Filter { is_outbound: Some(false), ..Filter::default() }, 0),
        (Filter { interfaces: vec![LAN], ..Filter::default() }, 3),
        (Filter { interfaces: vec![LAN, WAN], ..Filter::default() }, outbound),
        (Filter { policy: by_policy(11), ..Filter::default() }, outbound),
        (Filter { policy: by_policy(21), ..Filter::default() }, 0),
        (Filter { place: Some(Place::Plain), ..Filter::default() }, 3),
        (Filter { drops: Some(Drops::Any), ..Filter::default() }, 0),
    ];
    for (filter, expected) in filters {
        let reader = tapped(&pair.a, filter.clone());
        (0..3).for_each(|n| pair.a.put_lan(&host(Side::A).sized(100, n)));
        pair.a.run();
        pair.carry(Side::A);
        pair.b.lan_out();
        assert_eq!(records(&reader).len(), expected, "{filter:?}");
        reader.end();
        pair.a.run();
        assert_eq!(reader.next(Duration::ZERO).expect_err("over"), Gone);
    }
}

#[test]
fn drops_have_their_reasons() {
    let mut pair = Pair::new(&Spec::default());
    pair.a.put_lan(&host(Side::A).sized(100, 1));
    pair.a.run();
    let wire = pair.carry(Side::A);
    pair.b.lan_out();
    let reader = tapped(&pair.b, Filter { drops: Some(Drops::Any), ..Filter::default() });
    let only =
        Filter { drops: Some(Drops::For(DropReason::InReplayDuplicate)), ..Filter::default() };
    let one = tapped(&pair.b, only);
    // Received before; with a wrong ICV; in clear; to an SA that is not there; nothing for this host.
    pair.b.put_wan(&wire[0]);
    let mut forged = wire[0].clone();
    forged[27] += 1;
    pair.b.put_wan(&forged);
    pair.b.put_wan(&host(Side::A).sized(100, 2));
    let mut unknown = wire[0].clone();
    unknown[20] ^= 1;
    pair.b.put_wan(&unknown);
    let frame = ethernet(Side::A.mac(WAN), Side::A.mac(WAN), &wire[0]);
    let wan = pair.b.wan.clone();
    pair.b.put(&wan, &frame);
    pair.b.run();
    let records = records(&reader);
    let dropped = |place, reason| (place, false, Verdict::Dropped(reason));
    let expected = [
        dropped(Place::Wire, DropReason::InReplayDuplicate),
        dropped(Place::Wire, DropReason::InIntegrity),
        dropped(Place::Plain, DropReason::InCleartext),
        dropped(Place::Wire, DropReason::InNoState),
        dropped(Place::Frame, DropReason::OtherHost),
    ];
    assert_eq!(kinds(&records), expected);
    assert_eq!(records[1].1, forged, "before the engine has worked on it");
    assert_eq!(records[4].1, frame);
    let one = self::records(&one);
    assert_eq!(kinds(&one), expected[..1]);
    assert_eq!(pair.b.drops().iter().map(|(_, n)| n).sum::<u64>(), 5);
}

#[test]
fn what_waits_is_recorded_when_it_comes_and_when_it_goes() {
    let spec = Spec::default();
    let mut g = Gateway::new(Side::A);
    g.add_policies(&spec);
    let reader = tapped(&g, Filter::default());
    g.put_lan(&host(Side::A).sized(100, 1));
    g.run();
    assert_eq!(kinds(&records(&reader)), [(Place::Plain, false, Verdict::Held)]);
    g.set_neighbours(NeighbourState::Incomplete);
    let config = sa_config(&spec, Side::A);
    let sa = make_sa(&config.params);
    g.db.add_sa(config, sa).expect("new");
    g.run();
    let found = records(&reader);
    let places: Vec<_> = kinds(&found).into_iter().map(|(place, out, _)| (place, out)).collect();
    assert_eq!(places, [(Place::Plain, true), (Place::Wire, true)]);
    assert_eq!(found[1].0.verdict, Verdict::Held, "its neighbour is not there");
    g.set_neighbours(NeighbourState::Reachable);
    g.run();
    let sent = g.wan_out();
    let last = records(&reader);
    assert_eq!(kinds(&last), [(Place::Wire, true, Verdict::Sent { ifindex: WAN })]);
    assert_eq!((&last[0].1, &found[1].1), (&sent[0], &sent[0]));
}

#[test]
fn clear_packets_are_recorded_too() {
    let mut g = Gateway::new(Side::A);
    g.protect(&Spec::default());
    let mut bypass = policy(
        31,
        Direction::Out,
        Selector::between(Side::A.net(false), Side::B.net(false)),
        vec![],
    );
    bypass.priority = 1;
    let reader = tapped(&g, Filter::default());
    g.db.put_policy(bypass.clone());
    let packet = host(Side::A).sized(100, 1);
    g.put_lan(&packet);
    g.run();
    bypass.action = Action::Block;
    g.db.put_policy(bypass);
    g.put_lan(&packet);
    g.run();
    let records = all_records(&mut g, &reader);
    let expected = [
        (Place::Plain, false, Verdict::ToLinux),
        (Place::Plain, false, Verdict::Dropped(DropReason::OutPolicyBlock)),
    ];
    assert_eq!(kinds(&records), expected);
    assert_eq!((records[1].0.policy, &records[1].1), (Some(31), &packet));
    g.linux_out();
}

#[test]
fn a_trace_tells_what_was_decided_and_ends_by_itself() {
    let mut pair = Pair::new(&Spec::default());
    let filter = Filter { place: Some(Place::Plain), ..Filter::default() };
    let config = TapConfig { filter, snap_len: 65535, limit: Some(2), explains: true };
    let reader = tapped_with(&pair.a, &config);
    for round in 0..3 {
        (0..3).for_each(|n| pair.a.put_lan(&host(Side::A).sized(100, round * 3 + n)));
        pair.a.run();
    }
    pair.a.wan_out();
    let records = records(&reader);
    assert_eq!(records.len(), 2);
    for (record, _) in &records {
        let explanation = record.explanation.as_ref().expect("one");
        assert_eq!(explanation.fate, Fate::Protected { cut: None });
        let is_sa = |step: &Step| matches!(step, Step::Sa(id) if id.spi == Side::A.spi());
        assert!(explanation.steps.iter().any(is_sa), "{explanation:?}");
    }
    assert_eq!(reader.next(Duration::ZERO).expect_err("over"), Gone);
}

#[test]
fn what_no_buffer_is_left_for_is_counted() {
    let mut g = Gateway::new(Side::A);
    let reader = tapped(&g, Filter::default());
    let packet = host(Side::A).sized(100, 1);
    let rounds = 100;
    for _ in 0..rounds {
        (0..SIZES.stock / 2).for_each(|_| g.put_lan(&packet));
        g.run();
        assert_eq!(g.linux_out().len(), SIZES.stock / 2);
    }
    let came = (rounds * SIZES.stock / 2) as u64;
    let lost = reader.lost(Place::Plain);
    let recorded = all_records(&mut g, &reader).len() as u64;
    assert!(lost > 0 && recorded > 0, "{lost} {recorded}");
    assert_eq!(recorded + lost, came);
    // What was given back is used again.
    g.put_lan(&packet);
    g.run();
    g.linux_out();
    assert_eq!((records(&reader).len(), reader.lost(Place::Plain)), (1, lost));
}

#[test]
fn several_workers_record_each_packet_once() {
    let spec = Spec::default();
    let mut g = Gateway::with_workers(Side::A, SIZES, dataplane::DEFAULT_FLOWS, 3);
    g.protect(&spec);
    let reader = tapped(&g, Filter::default());
    let hosts = 10..=11;
    let mut sent = 0;
    for port in 0..100_u16 {
        for host in hosts.clone() {
            let ip = Ip::new(Side::A.lan(false, host), Side::B.lan(false, 10));
            g.put_lan(&ip.udp(1000 + port, 2000, &port.to_be_bytes()));
            sent += 1;
        }
    }
    g.run();
    let wire = g.wan_out();
    assert_eq!(wire.len(), sent);
    let records = all_records(&mut g, &reader);
    let count = |place| records.iter().filter(|(record, _)| record.place == place).count();
    assert_eq!((count(Place::Plain), count(Place::Wire)), (sent, sent));
    let is_settled = |verdict| matches!(verdict, Verdict::Protected(_) | Verdict::Sent { .. });
    let unsettled: Vec<_> = records.iter().filter(|(r, _)| !is_settled(r.verdict)).collect();
    assert!(unsettled.iter().all(|(r, _)| r.verdict == Verdict::HandedOver), "{unsettled:?}");
    let mut recorded: Vec<_> =
        records.into_iter().filter(|(r, _)| r.place == Place::Wire).map(|(_, b)| b).collect();
    let mut wire = wire;
    recorded.sort();
    wire.sort();
    assert_eq!(recorded, wire);
}
