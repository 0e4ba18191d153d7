//! SAs by request: what is installed, answered, announced and journalled.

use crate::common::*;
use crypto::{Integrity, Suite};
use esp::Protocol;
use xfrm::codec::{
    AeventId, Encap, EsnReplay, Field, LifetimeCurrent, MarkAttribute, MessageWriter, ReplayState,
    SaFlush, SaId, SaInfo, attr, flag, kind,
};
use xfrm::{Counters, Group, Output, RecordKey, Refusal, Replay, Start};

#[test]
fn a_new_sa_reaches_the_data_path_its_group_and_the_journal() {
    let mut lab = Lab::new();
    let out = lab.ok(&gcm_sa(kind::NEWSA, &sa_info(0x100)).finish());
    assert_eq!(event_kinds(&out), [(Group::Sa, kind::NEWSA)]);
    let change = out.iter().find_map(|o| match o {
        Output::Change(c) => Some(c),
        _ => None,
    });
    assert_eq!(change.unwrap().key, RecordKey::Sa(path_id(0x100)));
    let (config, keys, start) = &lab.db.backend().sas[&path_id(0x100)];
    assert_eq!(config.params.suite.to_string(), "aes128gcm16");
    assert_eq!((config.params.replay_window, config.reqid), (32, 7));
    assert_eq!((keys.cipher.len(), keys.salt.len()), (16, 4));
    let zero = Start::At {
        replay: Replay { received: vec![0], ..Replay::default() },
        counters: Counters::default(),
    };
    assert_eq!(*start, zero);
    // The notification comes before the acknowledgement and names the request.
    assert!(matches!(out[0], Output::Event { .. }));
    assert_eq!(header(events(&out)[0].1).seq, 77);
}

/// AH has authentication alone: with a truncation or without, the dump has both forms, as Linux's.
#[test]
fn an_sa_of_ah_has_its_algorithm_and_no_other() {
    let mut lab = Lab::new();
    let mut info = sa_info(0x100);
    (info.id.protocol, info.flags) = (51, 64);
    let id = policy::SaId { protocol: 51, ..path_id(0x100) };
    let key = [9; 32];
    let mut new = request(kind::NEWSA, &info);
    new.attribute(attr::ALG_AUTH_TRUNC, &algorithm("hmac(sha256)", &[256, 128], &key));
    lab.ok(&new.finish());
    let (config, keys, _) = &lab.db.backend().sas[&id];
    assert_eq!(config.params.protocol, Protocol::Ah);
    assert_eq!(config.params.suite.to_string(), "null-sha256");
    assert!(config.params.flags.align4);
    assert_eq!((keys.cipher.len(), &keys.auth[..]), (0, &key[..]));
    let out = lab.ok(&request(kind::GETSA, &SaId { protocol: 51, ..sa_id(0x100) }).finish());
    let answer = replies(&out).next().unwrap();
    assert_eq!(fixed::<SaInfo>(answer).id.protocol, 51);
    let trunc = attribute::<SaInfo>(answer, attr::ALG_AUTH_TRUNC).unwrap();
    assert_eq!(trunc, algorithm("hmac(sha256)", &[256, 128], &key));
    let plain = attribute::<SaInfo>(answer, attr::ALG_AUTH).unwrap();
    assert_eq!(plain, algorithm("hmac(sha256)", &[256], &key));
    assert_eq!(attribute::<SaInfo>(answer, attr::ALG_CRYPT), None);
    // One of ESP with the same SPI is another SA.
    lab.ok(&gcm_sa(kind::NEWSA, &sa_info(0x100)).finish());
    // And it can be taken up again.
    let records: Vec<_> = lab.db.records().map(|c| c.record.unwrap()).collect();
    let mut again = Lab::new();
    records.iter().for_each(|record| again.db.restore(record, again.now).unwrap());
    assert_eq!(again.state(), lab.state());
}

fn comp_info(cpi: u32) -> SaInfo {
    let mut info = SaInfo { replay_window: 0, ..sa_info(cpi) };
    info.id.protocol = 108;
    info
}

fn comp_sa(info: &SaInfo) -> Vec<u8> {
    let mut w = request(kind::NEWSA, info);
    w.attribute(attr::ALG_COMP, &algorithm("deflate", &[0], &[]));
    w.finish().to_vec()
}

/// Id of the SA that Linux makes beside IPComp tunnels: its SPI is the source.
fn companion_id() -> policy::SaId {
    policy::SaId { spi: 0xc000_0201, protocol: 4, ..path_id(0) }
}

/// A tunnel of IPComp has an SA of IP in IP beside it, one for all tunnels between two addresses.
#[test]
fn a_tunnel_of_ipcomp_has_a_companion() {
    let mut lab = Lab::new();
    let ids = |cpi| policy::SaId { protocol: 108, ..path_id(cpi) };
    lab.ok(&comp_sa(&comp_info(0x1234)));
    let (config, keys, _) = &lab.db.backend().sas[&ids(0x1234)];
    assert_eq!((config.params.protocol, config.params.suite), (Protocol::IpComp, Suite::None));
    assert!(*keys == crypto::Keys::default());
    let (config, ..) = &lab.db.backend().sas[&companion_id()];
    assert_eq!((config.params.protocol, config.reqid), (Protocol::IpInV4, 0));
    let answer = lab.ok(&request(kind::GETSA, &SaId { protocol: 108, ..sa_id(0x1234) }).finish());
    let algorithm = attribute::<SaInfo>(replies(&answer).next().unwrap(), attr::ALG_COMP);
    assert_eq!(algorithm.unwrap(), crate::common::algorithm("deflate", &[0], &[]));

    // Seen in dumps, beside its tunnels, and not in the journal.
    lab.ok(&comp_sa(&comp_info(2)));
    let mut dump = MessageWriter::new(kind::GETSA, flag::REQUEST | flag::DUMP, 1, 0);
    dump.attribute(attr::PROTO, &[0]);
    let all = entries(&lab.dump(&dump.finish()));
    let mut protocols: Vec<u8> = all.iter().map(|(_, m)| fixed::<SaInfo>(m).id.protocol).collect();
    protocols.sort_unstable();
    assert_eq!(protocols, [4, 108, 108]);
    let records: Vec<_> = lab.db.records().map(|c| c.record.unwrap()).collect();
    assert_eq!(records.len(), 1 + 2);
    let mut again = Lab::new();
    records.iter().for_each(|record| again.db.restore(record, again.now).unwrap());
    assert_eq!(again.db.backend().sas.len(), 3);
    assert_eq!(again.state(), lab.state());

    // Found by both addresses, and nobody's to delete.
    let by_ends = |kind| {
        let id = SaId { protocol: 4, ..sa_id(0) };
        let mut w = request(kind, &id);
        w.field(attr::SRCADDR, &xfrm::codec::Address::from(ip(SRC)));
        w.finish()
    };
    assert_eq!(lab.errno(&by_ends(kind::GETSA)), 0);
    assert_eq!(lab.errno(&by_ends(kind::DELSA)), libc::EPERM);
    let without_source = request(kind::GETSA, &SaId { protocol: 4, ..sa_id(0) }).finish();
    assert_eq!(lab.errno(&without_source), libc::EINVAL);

    // It goes with the last of them.
    lab.ok(&request(kind::DELSA, &SaId { protocol: 108, ..sa_id(2) }).finish());
    assert!(lab.db.backend().sas.contains_key(&companion_id()));
    lab.ok(&request(kind::FLUSHSA, &SaFlush { protocol: 0, ..SaFlush::default() }).finish());
    assert!(lab.db.backend().sas.is_empty());
    assert_eq!(lab.db.sa_count(), 0);
}

/// In transport mode there is none; and an IPComp SA that is refused leaves none behind.
#[test]
fn transport_and_refused_tunnels_have_no_companion() {
    let mut lab = Lab::new();
    lab.ok(&comp_sa(&SaInfo { mode: 0, ..comp_info(0x1234) }));
    assert_eq!(lab.db.backend().sas.len(), 1);
    lab.db.backend_mut().refuse_protocol = Some((108, Refusal::new(libc::EIO, "no")));
    assert_eq!(lab.errno(&comp_sa(&comp_info(2))), libc::EIO);
    assert_eq!((lab.db.backend().sas.len(), lab.db.sa_count()), (1, 1));
}

/// As charon does it: a CPI is reserved, and the SA is its update.
#[test]
fn a_cpi_is_reserved() {
    let mut lab = Lab::new();
    let info = comp_info(0);
    let alloc = |min, max| {
        let info = info.clone();
        request(kind::ALLOCSPI, &xfrm::codec::SpiInfo { info, min, max }).finish()
    };
    assert_eq!(lab.errno(&alloc(0x100, 0x1_0000)), libc::EINVAL);
    let out = lab.ok(&alloc(0x100, 0xefff));
    let cpi = fixed::<SaInfo>(replies(&out).next().unwrap()).id.spi.0;
    assert!((0x100..=0xefff).contains(&cpi));
    let mut update = request(kind::UPDSA, &comp_info(cpi));
    update.attribute(attr::ALG_COMP, &algorithm("deflate", &[0], &[]));
    lab.ok(&update.finish());
    assert!(lab.db.backend().sas.contains_key(&policy::SaId { protocol: 108, ..path_id(cpi) }));
}

#[test]
fn the_same_identity_twice_is_refused_whatever_else_differs() {
    let mut lab = Lab::new();
    lab.ok(&gcm_sa(kind::NEWSA, &sa_info(0x100)).finish());
    let before = lab.state();
    let other = SaInfo { reqid: 99, ..sa_info(0x100) };
    assert_eq!(lab.errno(&gcm_sa(kind::NEWSA, &other).finish()), libc::EEXIST);
    assert_eq!(lab.state(), before);
}

#[test]
fn an_update_has_the_direction_of_its_sa() {
    let mut lab = Lab::new();
    let sa = |kind, spi, dir: Option<u8>| {
        let mut w = gcm_sa(kind, &SaInfo { replay_window: 0, ..sa_info(spi) });
        if let Some(dir) = dir {
            w.attribute(attr::SA_DIR, &[dir]);
        }
        w.finish()
    };
    for (spi, first) in [(0x100, None), (0x101, Some(1)), (0x102, Some(2))] {
        lab.ok(&sa(kind::NEWSA, spi, first));
        for later in [None, Some(1), Some(2)] {
            let expected = if later == first { 0 } else { libc::ESRCH };
            assert_eq!(lab.errno(&sa(kind::UPDSA, spi, later)), expected, "{first:?} {later:?}");
        }
    }
    // A reservation without a direction stays without one.
    lab.ok(&alloc_spi(0x200, 0x200).finish());
    assert_eq!(lab.errno(&sa(kind::UPDSA, 0x200, Some(2))), libc::ESRCH);
    lab.ok(&sa(kind::UPDSA, 0x200, None));
}

#[test]
fn marks_tell_sas_of_one_spi_apart() {
    let mut lab = Lab::new();
    for value in [1, 2] {
        let mut w = gcm_sa(kind::NEWSA, &sa_info(0x100));
        lab.ok(&w.field(attr::MARK, &MarkAttribute { value, mask: 0xff }).take());
    }
    assert_eq!(lab.db.backend().sas.len(), 2);
    let mut get = request(kind::GETSA, &sa_id(0x100));
    get.field(attr::MARK, &MarkAttribute { value: 2, mask: 0xff });
    let out = lab.ok(&get.finish());
    let answer = replies(&out).next().unwrap();
    let mark = attribute::<SaInfo>(answer, attr::MARK).unwrap();
    assert_eq!(MarkAttribute::decode(&mark).unwrap().value, 2);
    // Without a mark neither is meant.
    assert_eq!(lab.errno(&request(kind::GETSA, &sa_id(0x100)).finish()), libc::ESRCH);
}

#[test]
fn bits_of_a_mark_outside_its_mask_do_not_count() {
    let mut lab = Lab::new();
    let marked = |mut w: MessageWriter, value| {
        w.field(attr::MARK, &MarkAttribute { value, mask: 0x0f }).take()
    };
    let new = |kind| marked(gcm_sa(kind, &sa_info(0x100)), 0xff);
    lab.ok(&new(kind::NEWSA));
    let id = lab.db.backend().sas.keys().next().copied().unwrap();
    assert_eq!((id.mark.value, id.mark.mask), (0x0f, 0x0f));
    assert_eq!(lab.errno(&marked(gcm_sa(kind::NEWSA, &sa_info(0x100)), 0x3f)), libc::EEXIST);
    lab.ok(&new(kind::UPDSA));
    for value in [0x0f, 0xff] {
        let answer = lab.ok(&marked(request(kind::GETSA, &sa_id(0x100)), value));
        let mark = attribute::<SaInfo>(replies(&answer).next().unwrap(), attr::MARK).unwrap();
        assert_eq!(MarkAttribute::decode(&mark).unwrap().value, 0x0f);
    }
    assert_eq!(lab.errno(&marked(request(kind::GETSA, &sa_id(0x100)), 0xfe)), libc::ESRCH);
    lab.ok(&marked(request(kind::DELSA, &sa_id(0x100)), 0xff));
    assert!(lab.db.backend().sas.is_empty());
    // A reservation is answered by the SA of the same mark, however that is written.
    lab.ok(&marked(alloc_spi(0x300, 0x300), 0x1f));
    lab.ok(&marked(gcm_sa(kind::UPDSA, &sa_info(0x300)), 0xff));
    assert_eq!(lab.db.backend().sas.len(), 1);
}

#[test]
fn what_the_owner_sent_comes_back() {
    let mut lab = Lab::new();
    let encap = Encap { kind: 2, src_port: be16(4500), dst_port: be16(4501), ..Encap::default() };
    let info = SaInfo { flags: 4 | 16 | 128, replay_window: 0, ..sa_info(0x1234) };
    let mut w = request(kind::NEWSA, &info);
    w.attribute(attr::ALG_AUTH_TRUNC, &algorithm("hmac(sha256)", &[256, 128], &[1; 32]));
    w.attribute(attr::ALG_CRYPT, &algorithm("cbc(aes)", &[128], &[2; 16]));
    w.field(attr::ENCAP, &encap);
    w.field(attr::MARK, &MarkAttribute { value: 3, mask: 7 });
    w.field(attr::SET_MARK, &9u32);
    w.field(attr::IF_ID, &42u32);
    w.field(attr::SA_EXTRA_FLAGS, &1u32);
    w.field(attr::TFCPAD, &100u32);
    w.field(attr::MTIMER_THRESH, &5u32);
    let esn = EsnReplay { sent: 0, edge: 0, window: 64, bitmap: vec![0, 0] };
    w.attribute(attr::REPLAY_ESN_VAL, &esn.to_bytes());
    w.attribute(999, b"from the future");
    lab.ok(&w.finish());
    let mut get = request(kind::GETSA, &sa_id(0x1234));
    get.field(attr::MARK, &MarkAttribute { value: 3, mask: 7 });
    let out = lab.ok(&get.finish());
    let answer = replies(&out).next().unwrap();
    assert_eq!((header(answer).kind, header(answer).port_id), (kind::NEWSA, 4711));
    let back: SaInfo = fixed(answer);
    assert_eq!((back.flags, back.mode, back.selector.family), (148, 1, 2));
    let a = |kind| attribute::<SaInfo>(answer, kind);
    assert_eq!(a(attr::ENCAP).unwrap(), encap.to_bytes());
    assert_eq!(a(attr::SET_MARK_MASK).unwrap(), u32::MAX.to_ne_bytes());
    assert_eq!(a(attr::IF_ID).unwrap(), 42u32.to_ne_bytes());
    assert_eq!(a(attr::SA_EXTRA_FLAGS).unwrap(), 1u32.to_ne_bytes());
    assert_eq!(a(attr::TFCPAD).unwrap(), 100u32.to_ne_bytes());
    assert_eq!(a(attr::MTIMER_THRESH).unwrap(), 5u32.to_ne_bytes());
    assert_eq!(a(attr::REPLAY_ESN_VAL).unwrap(), esn.to_bytes());
    assert_eq!(a(attr::ALG_AUTH_TRUNC).unwrap(), algorithm("hmac(sha256)", &[256, 128], &[1; 32]));
    assert_eq!(a(attr::ALG_AUTH).unwrap(), algorithm("hmac(sha256)", &[256], &[1; 32]));
    assert!(a(attr::LASTUSED).is_none());
    let (config, ..) = lab.db.backend().sas.values().next().unwrap();
    assert!(config.params.esn && config.params.flags.no_pmtu_disc);
    assert!(config.params.flags.dont_encap_dscp && config.params.flags.icmp);
    assert_eq!((config.params.replay_window, config.params.tfc_pad_len), (64, 100));
    assert_eq!(config.if_id, 42);
}

#[test]
fn live_numbers_stand_in_every_answer() {
    let mut lab = Lab::new();
    lab.ok(&gcm_sa(kind::NEWSA, &sa_info(0x100)).finish());
    let live = lab.db.backend_mut().live.get_mut(&path_id(0x100)).unwrap();
    live.counters = Counters { bytes: 1000, packets: 10, first_use_s: 1_700_000_001 };
    live.last_use_s = 1_700_000_009;
    live.replay = Replay { sent: 12, edge: 34, received: vec![0b101] };
    (live.replays, live.too_old, live.integrity_failures) = (1, 2, 3);
    let out = lab.ok(&request(kind::GETSA, &sa_id(0x100)).finish());
    let answer = replies(&out).next().unwrap();
    let info: SaInfo = fixed(answer);
    let add_time_s = 1_700_000_000;
    let used = LifetimeCurrent { bytes: 1000, packets: 10, add_time_s, use_time_s: 1_700_000_001 };
    assert_eq!(info.current, used);
    let s = info.statistics;
    assert_eq!((s.replay, s.replay_window, s.integrity_failed), (1, 2, 3));
    let last = attribute::<SaInfo>(answer, attr::LASTUSED).unwrap();
    assert_eq!(last, 1_700_000_009u64.to_ne_bytes());
    let replay = ReplayState::decode(&attribute::<SaInfo>(answer, attr::REPLAY_VAL).unwrap());
    assert_eq!(replay.unwrap(), ReplayState { oseq: 12, seq: 34, bitmap: 0b101 });

    let id = AeventId { sa: sa_id(0x100), flags: 9, ..AeventId::default() };
    let out = lab.ok(&request(kind::GETAE, &id).finish());
    let answer = replies(&out).next().unwrap();
    let ltime = attribute::<AeventId>(answer, attr::LTIME_VAL).unwrap();
    assert_eq!(LifetimeCurrent::decode(&ltime).unwrap(), used);
    assert!(attribute::<AeventId>(answer, attr::REPLAY_THRESH).is_some());
    assert!(attribute::<AeventId>(answer, attr::ETIMER_THRESH).is_some());
}

#[test]
fn a_refusal_by_the_data_path_changes_nothing_and_says_why() {
    let mut lab = Lab::new();
    lab.ok(&alloc_spi(0x200, 0x200).finish());
    lab.db.backend_mut().refuse = Some(Refusal::new(libc::ENOSPC, "no room for more"));
    let before = lab.state();
    for (kind, spi) in [(kind::NEWSA, 0x100), (kind::UPDSA, 0x200)] {
        let out = lab.send(&gcm_sa(kind, &sa_info(spi)).finish());
        assert_eq!(errno(&out), libc::ENOSPC);
        assert_eq!(text(&out).unwrap(), "no room for more");
        assert!(events(&out).is_empty());
    }
    assert_eq!(lab.state(), before);
    lab.db.backend_mut().refuse = None;
    lab.ok(&gcm_sa(kind::UPDSA, &sa_info(0x200)).finish());
}

#[test]
fn the_way_of_an_inbound_sa() {
    let mut lab = Lab::new();
    let out = lab.ok(&alloc_spi(0xc000_0000, 0xcfff_ffff).finish());
    assert!(events(&out).is_empty());
    let answer: SaInfo = fixed(replies(&out).next().unwrap());
    let spi = answer.id.spi.0;
    assert!((0xc000_0000..=0xcfff_ffff).contains(&spi));
    assert_eq!(answer.limits.hard_add_s, 165);
    assert!(lab.db.backend().sas.is_empty());
    // NEWSA collides with the larval one, UPDSA takes its place.
    assert_eq!(lab.errno(&gcm_sa(kind::NEWSA, &sa_info(spi)).finish()), libc::EEXIST);
    let out = lab.ok(&gcm_sa(kind::UPDSA, &sa_info(spi)).finish());
    assert_eq!(event_kinds(&out), [(Group::Sa, kind::UPDSA)]);
    assert_eq!((lab.db.sa_count(), lab.db.backend().sas.len()), (1, 1));
    // The larval SA's end does not take the SA with it.
    assert!(lab.pass(400).is_empty());
    assert_eq!(lab.db.sa_count(), 1);
}

#[test]
fn a_reservation_that_nobody_uses_ends() {
    let mut lab = Lab::new();
    lab.ok(&alloc_spi(0x300, 0x300).finish());
    assert_eq!(lab.errno(&alloc_spi(0x300, 0x300).finish()), libc::ENOENT);
    assert!(lab.pass(164).is_empty());
    let out = lab.pass(1);
    assert_eq!(event_kinds(&out), [(Group::Expire, kind::EXPIRE)]);
    assert_eq!(lab.db.sa_count(), 0);
    lab.ok(&alloc_spi(0x300, 0x300).finish());
}

#[test]
fn spis_run_out_and_are_never_given_twice() {
    let mut lab = Lab::new();
    let mut seen = std::collections::HashSet::new();
    for _ in 0..100 {
        let out = lab.ok(&alloc_spi(1000, 1099).finish());
        let info: SaInfo = fixed(replies(&out).next().unwrap());
        assert!(seen.insert(info.id.spi.0));
    }
    assert_eq!(lab.errno(&alloc_spi(1000, 1099).finish()), libc::ENOENT);
    assert_eq!(lab.errno(&alloc_spi(0, 0).finish()), libc::ENOENT);
    assert_eq!(lab.errno(&alloc_spi(2, 1).finish()), libc::EINVAL);
    assert_eq!(lab.db.sa_count(), 100);
}

#[test]
fn an_update_changes_limits_and_ports_but_not_keys() {
    let mut lab = Lab::new();
    let encap =
        |port| Encap { kind: 2, src_port: be16(port), dst_port: be16(1), ..Encap::default() };
    assert_eq!(lab.errno(&gcm_sa(kind::UPDSA, &sa_info(5)).finish()), libc::ESRCH);
    let mut w = gcm_sa(kind::NEWSA, &sa_info(5));
    lab.ok(&w.field(attr::ENCAP, &encap(4500)).take());
    let mut info = sa_info(5);
    info.limits.hard_bytes = 12345;
    info.reqid = 1000;
    let mut w = request(kind::UPDSA, &info);
    w.attribute(attr::ALG_AEAD, &algorithm("rfc4106(gcm(aes))", &[160, 128], &[9; 20]));
    lab.ok(&w.field(attr::ENCAP, &encap(4600)).take());
    let (config, keys, _) = &lab.db.backend().sas[&path_id(5)];
    assert_eq!(config.limits.hard_bytes, 12345);
    assert_eq!(config.params.encap.unwrap().src_port, 4600);
    assert_eq!((config.reqid, keys.cipher[0]), (7, 0x5a));
    // Encapsulation neither comes nor goes.
    assert_eq!(lab.errno(&gcm_sa(kind::UPDSA, &info).finish()), libc::EINVAL);
}

#[test]
fn a_moved_sa_carries_its_numbers_on() {
    let mut lab = Lab::new();
    let mut w = gcm_sa(kind::NEWSA, &SaInfo { flags: 128, replay_window: 0, ..sa_info(5) });
    let mut esn = EsnReplay { sent: 1 << 33, edge: 70, window: 64, bitmap: vec![0, 0] };
    esn.set_received(&[0b111]);
    w.attribute(attr::REPLAY_ESN_VAL, &esn.to_bytes());
    let old = LifetimeCurrent { bytes: 5, packets: 6, add_time_s: 1_600_000_000, use_time_s: 7 };
    lab.ok(&w.field(attr::LTIME_VAL, &old).take());
    let (config, _, start) = &lab.db.backend().sas[&path_id(5)];
    assert_eq!(config.added_s, 1_600_000_000);
    let replay = Replay { sent: 1 << 33, edge: 70, received: vec![0b111] };
    let counters = Counters { bytes: 5, packets: 6, first_use_s: 7 };
    assert_eq!(*start, Start::At { replay, counters });
}

#[test]
fn deleting_tells_what_went() {
    let mut lab = Lab::new();
    lab.ok(&gcm_sa(kind::NEWSA, &sa_info(5)).finish());
    lab.db.backend_mut().live.get_mut(&path_id(5)).unwrap().counters.bytes = 99;
    let out = lab.ok(&request(kind::DELSA, &sa_id(5)).finish());
    assert_eq!(event_kinds(&out), [(Group::Sa, kind::DELSA)]);
    let (_, m) = events(&out)[0];
    assert_eq!(fixed::<SaId>(m), sa_id(5));
    let info = SaInfo::decode(&attribute::<SaId>(m, attr::SA).unwrap()).unwrap();
    assert_eq!(info.current.bytes, 99);
    assert!(attribute::<SaId>(m, attr::ALG_AEAD).is_some());
    assert!(lab.db.backend().sas.is_empty());
    assert_eq!(lab.errno(&request(kind::DELSA, &sa_id(5)).finish()), libc::ESRCH);
}

#[test]
fn flushing_is_announced_once_and_only_if_something_was_there() {
    let mut lab = Lab::new();
    for spi in 1..=3 {
        lab.ok(&gcm_sa(kind::NEWSA, &sa_info(spi)).finish());
    }
    let flush = |protocol| request(kind::FLUSHSA, &SaFlush { protocol, ..SaFlush::default() });
    assert!(events(&lab.ok(&flush(51).finish())).is_empty());
    let out = lab.ok(&flush(255).finish());
    assert_eq!(event_kinds(&out), [(Group::Sa, kind::FLUSHSA)]);
    assert_eq!(out.iter().filter(|o| matches!(o, Output::Change(_))).count(), 3);
    assert!(lab.db.backend().sas.is_empty());
    assert!(events(&lab.ok(&flush(0).finish())).is_empty());
}

#[test]
fn replay_state_is_set_absolutely_and_announced() {
    let mut lab = Lab::new();
    lab.ok(&gcm_sa(kind::NEWSA, &sa_info(5)).finish());
    let id = AeventId { sa: sa_id(5), ..AeventId::default() };
    let replace = |kind, id: &AeventId| {
        let flags = flag::REQUEST | flag::ACK | flag::REPLACE;
        let mut w = MessageWriter::new(kind, flags, 77, 55);
        w.fixed(id);
        w
    };
    let state = ReplayState { oseq: 100, seq: 50, bitmap: 3 };
    let mut w = request(kind::NEWAE, &id);
    w.field(attr::REPLAY_VAL, &state);
    assert_eq!(lab.errno(&w.finish()), libc::EINVAL, "NLM_F_REPLACE is missing");
    assert_eq!(lab.errno(&replace(kind::NEWAE, &id).finish()), libc::EINVAL, "nothing to set");
    let mut w = replace(kind::NEWAE, &id);
    w.field(attr::REPLAY_VAL, &state);
    let ltime = LifetimeCurrent { bytes: 1, packets: 2, add_time_s: 1_600_000_000, use_time_s: 3 };
    let out = lab.ok(&w.field(attr::LTIME_VAL, &ltime).take());
    let (group, m) = events(&out)[0];
    assert_eq!((group, fixed::<AeventId>(m).flags, header(m).port_id), (Group::Aevents, 64, 55));
    let live = &lab.db.backend().live[&path_id(5)];
    assert_eq!(live.replay, Replay { sent: 100, edge: 50, received: vec![3] });
    assert_eq!(live.counters, Counters { bytes: 1, packets: 2, first_use_s: 3 });

    // All or nothing: if the counters are refused, the replay state goes back.
    lab.db.backend_mut().refuse_counters = true;
    let mut w = replace(kind::NEWAE, &id);
    w.field(attr::REPLAY_VAL, &ReplayState { oseq: 200, ..ReplayState::default() });
    assert_eq!(lab.errno(&w.field(attr::LTIME_VAL, &ltime).take()), libc::EIO);
    assert_eq!(lab.db.backend().live[&path_id(5)].replay.sent, 100);

    let missing = AeventId { sa: sa_id(6), ..AeventId::default() };
    let mut w = replace(kind::NEWAE, &missing);
    assert_eq!(lab.errno(&w.field(attr::REPLAY_VAL, &state).take()), libc::ESRCH);
    assert_eq!(lab.errno(&request(kind::GETAE, &missing).finish()), libc::ESRCH);
}

#[test]
fn a_larval_sa_takes_no_replay_state_but_can_be_read() {
    let mut lab = Lab::new();
    lab.ok(&alloc_spi(5, 5).finish());
    let id = AeventId { sa: sa_id(5), ..AeventId::default() };
    let flags = flag::REQUEST | flag::ACK | flag::REPLACE;
    let mut w = MessageWriter::new(kind::NEWAE, flags, 1, 0);
    w.fixed(&id).field(attr::REPLAY_VAL, &ReplayState::default());
    assert_eq!(lab.errno(&w.finish()), libc::EINVAL);
    lab.ok(&request(kind::GETAE, &id).finish());
    lab.ok(&request(kind::GETSA, &sa_id(5)).finish());
    lab.ok(&request(kind::DELSA, &sa_id(5)).finish());
}

#[test]
fn transport_mode_ipv6_and_suites() {
    let mut lab = Lab::new();
    let mut info = sa_info(5);
    (info.mode, info.family) = (0, 10);
    info.id.dst = ip("2001:db8::2").into();
    info.src = ip("2001:db8::1").into();
    let mut w = request(kind::NEWSA, &info);
    w.attribute(attr::ALG_AUTH, &algorithm("hmac(sha512)", &[512], &[1; 64]));
    w.attribute(attr::ALG_CRYPT, &algorithm("ecb(cipher_null)", &[0], &[]));
    lab.ok(&w.finish());
    let (config, ..) = lab.db.backend().sas.values().next().unwrap();
    assert_eq!(config.params.mode, esp::Mode::Transport);
    assert_eq!(config.params.suite, Suite::integrity_only(Integrity::Sha512_256));
    assert_eq!(config.selector, None, "it carries whatever policy puts in");
}

#[test]
fn a_flush_of_many_takes_turns_and_ends_with_what_was_there() {
    let mut lab = Lab::new();
    for spi in 1..=2000 {
        lab.ok(&gcm_sa(kind::NEWSA, &sa_info(spi)).finish());
    }
    // In one datagram: what is behind the flush finds nothing any more.
    let mut datagram = request(kind::FLUSHSA, &SaFlush::default()).finish().to_vec();
    datagram.extend_from_slice(&request(kind::DELSA, &sa_id(1)).finish());
    let mut out = lab.send(&datagram);
    let mut turns = 1;
    while let Some(Output::Flush(_)) = out.last() {
        let Some(Output::Flush(flush)) = out.pop() else { unreachable!() };
        assert_eq!((replies(&out).count(), events(&out).len()), (0, 0), "before the end");
        match turns {
            // Removed by somebody else, and added: the one is not missed, the other stays.
            1 => drop(lab.ok(&request(kind::DELSA, &sa_id(2)).finish())),
            2 => drop(lab.ok(&gcm_sa(kind::NEWSA, &sa_info(3000)).finish())),
            _ => {}
        }
        lab.db.go_on(flush, lab.now, &mut out);
        turns += 1;
    }
    assert!(turns >= 4, "{turns}");
    let changes = out.iter().filter(|o| matches!(o, Output::Change(_))).count();
    assert_eq!(changes, 1999);
    assert_eq!(event_kinds(&out), [(Group::Sa, kind::FLUSHSA)]);
    let errnos: Vec<i32> = replies(&out)
        .map(|m| i32::from_ne_bytes(m[16..20].try_into().expect("four bytes")))
        .collect();
    assert_eq!(errnos, [0, -libc::ESRCH]);
    assert_eq!(lab.db.sa_count(), 1);
    lab.ok(&request(kind::DELSA, &sa_id(3000)).finish());
}
