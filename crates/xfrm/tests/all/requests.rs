//! Requests as such: errnos, acknowledgements, dumps, records, and hostile bytes.

use crate::common::*;
use proptest::prelude::*;
use xfrm::codec::{
    AddressFilter, Encap, EsnReplay, Field, MarkAttribute, MessageWriter, Offload, SaInfo,
    SelectorInfo, attr, flag, kind,
};
use xfrm::{Database, Failure, Output, Replay, Settings, Start};

/// One request for an SA: what it changes of a good one, and the errno that Linux gives.
type Case = (&'static str, fn(&mut SaInfo), &'static [Value], i32);

/// An attribute and its bytes.
type Value = (u16, fn() -> Vec<u8>);

const GCM: Value = (attr::ALG_AEAD, gcm);

const COMP: Value = (attr::ALG_COMP, || algorithm("deflate", &[0], &[]));

const SHA1: Value = (attr::ALG_AUTH, || algorithm("hmac(sha1)", &[160], &[7; 20]));

fn word() -> Vec<u8> {
    vec![0; 4]
}

fn encap() -> Vec<u8> {
    Encap { kind: 2, ..Encap::default() }.to_bytes()
}

fn esn(words: u32, window: u32) -> Vec<u8> {
    let bitmap = vec![0; words as usize];
    EsnReplay { sent: 0, edge: 0, window, bitmap }.to_bytes()
}

const CASES: &[Case] = &[
    ("family", |i| i.family = 3, &[GCM], libc::EINVAL),
    ("selector family", |i| i.selector.family = 9, &[GCM], libc::EINVAL),
    ("prefix", |i| (i.selector.family, i.selector.dst_prefix_len) = (2, 33), &[GCM], libc::EINVAL),
    ("protocol", |i| i.id.protocol = 17, &[GCM], libc::EINVAL),
    ("AH without algorithm", |i| i.id.protocol = 51, &[], libc::EINVAL),
    ("AH with a cipher", |i| i.id.protocol = 51, &[GCM], libc::EINVAL),
    ("AH with padding", |i| i.id.protocol = 51, &[SHA1, (attr::TFCPAD, word)], libc::EINVAL),
    ("AH in UDP", |i| i.id.protocol = 51, &[SHA1, (attr::ENCAP, encap)], libc::EINVAL),
    ("IPComp without algorithm", |i| i.id.protocol = 108, &[], libc::EINVAL),
    ("IPComp with a cipher", |i| i.id.protocol = 108, &[COMP, GCM], libc::EINVAL),
    ("IPComp with padding", |i| i.id.protocol = 108, &[COMP, (attr::TFCPAD, word)], libc::EINVAL),
    ("IPComp in UDP", |i| i.id.protocol = 108, &[COMP, (attr::ENCAP, encap)], libc::EINVAL),
    ("a long CPI", |i| (i.id.protocol, i.id.spi.0) = (108, 0x1_0000), &[COMP], libc::EINVAL),
    ("IPComp in BEET", |i| (i.id.protocol, i.mode) = (108, 4), &[COMP], libc::EPROTONOSUPPORT),
    (
        "LZS",
        |i| i.id.protocol = 108,
        &[(attr::ALG_COMP, || algorithm("lzs", &[0], &[]))],
        libc::ENOSYS,
    ),
    (
        "LZJH",
        |i| i.id.protocol = 108,
        &[(attr::ALG_COMP, || algorithm("lzjh", &[0], &[]))],
        libc::ENOSYS,
    ),
    ("IP in IP", |i| i.id.protocol = 4, &[COMP], libc::EINVAL),
    ("no algorithm", |_| {}, &[], libc::EINVAL),
    ("both kinds", |_| {}, &[GCM, (attr::ALG_AUTH, || algorithm("sha1", &[0], &[]))], libc::EINVAL),
    (
        "compression",
        |_| {},
        &[GCM, (attr::ALG_COMP, || algorithm("deflate", &[0], &[]))],
        libc::EINVAL,
    ),
    ("short attribute", |_| {}, &[GCM, (attr::MARK, || vec![0; 4])], libc::ERANGE),
    (
        "short key",
        |_| {},
        &[(attr::ALG_AEAD, || algorithm("x", &[168, 128], &[0; 20]))],
        libc::EINVAL,
    ),
    (
        "unknown",
        |_| {},
        &[(attr::ALG_AEAD, || algorithm("x", &[160, 128], &[0; 20]))],
        libc::ENOSYS,
    ),
    (
        "encryption alone",
        |_| {},
        &[(attr::ALG_CRYPT, || algorithm("aes", &[128], &[0; 16]))],
        libc::EPROTONOSUPPORT,
    ),
    (
        "authentication alone",
        |_| {},
        &[(attr::ALG_AUTH, || algorithm("sha1", &[160], &[0; 20]))],
        libc::EINVAL,
    ),
    ("ESN without state", |i| i.flags = 128, &[GCM], libc::EINVAL),
    ("two windows", |_| {}, &[GCM, (attr::REPLAY_ESN_VAL, || esn(1, 32))], libc::EINVAL),
    (
        "large window",
        |i| i.replay_window = 0,
        &[GCM, (attr::REPLAY_ESN_VAL, || esn(1, 33))],
        libc::EINVAL,
    ),
    (
        "huge bitmap",
        |i| i.replay_window = 0,
        &[GCM, (attr::REPLAY_ESN_VAL, || esn(2049, 32))],
        libc::EINVAL,
    ),
    (
        "ESN window 0",
        |i| (i.replay_window, i.flags) = (0, 128),
        &[GCM, (attr::REPLAY_ESN_VAL, || esn(1, 0))],
        libc::EINVAL,
    ),
    ("mode", |i| i.mode = 9, &[GCM], libc::EINVAL),
    ("BEET", |i| i.mode = 4, &[GCM], libc::EPROTONOSUPPORT),
    ("TFC in transport", |i| i.mode = 0, &[GCM, (attr::TFCPAD, || vec![0; 4])], libc::EINVAL),
    ("SPI 0", |i| i.id.spi.0 = 0, &[GCM], libc::EINVAL),
    ("family change", |i| (i.mode, i.selector.family) = (0, 10), &[GCM], libc::EINVAL),
    (
        "encap kind",
        |_| {},
        &[GCM, (attr::ENCAP, || Encap { kind: 7, ..Encap::default() }.to_bytes())],
        libc::EPROTONOSUPPORT,
    ),
    ("mapping threshold", |_| {}, &[GCM, (attr::MTIMER_THRESH, || vec![0; 4])], libc::EINVAL),
    (
        "packet offload",
        |_| {},
        &[GCM, (attr::OFFLOAD_DEV, || Offload { flags: 4, ..Offload::default() }.to_bytes())],
        libc::EINVAL,
    ),
    ("keepalive", |_| {}, &[GCM, (attr::NAT_KEEPALIVE_INTERVAL, || vec![1; 4])], libc::EOPNOTSUPP),
    ("CPU", |_| {}, &[GCM, (attr::SA_PCPU, || vec![0; 4])], libc::EINVAL),
    (
        "CPU beyond",
        |_| {},
        &[GCM, (attr::SA_DIR, || vec![1]), (attr::SA_PCPU, || vec![255; 4])],
        libc::ERANGE,
    ),
    ("direction", |_| {}, &[GCM, (attr::SA_DIR, || vec![3])], libc::ERANGE),
    ("security context", |_| {}, &[GCM, (attr::SEC_CTX, || vec![9; 8])], libc::EINVAL),
];

#[test]
fn errnos_of_sas() {
    let mut lab = Lab::new();
    lab.ok(&gcm_sa(kind::NEWSA, &sa_info(1)).finish());
    let before = lab.state();
    for (name, change, attributes, errno) in CASES {
        let mut info = sa_info(0x100);
        change(&mut info);
        let mut w = request(kind::NEWSA, &info);
        for (kind, value) in *attributes {
            w.attribute(*kind, &value());
        }
        let out = lab.send(&w.finish());
        assert_eq!(crate::common::errno(&out), *errno, "{name}: {:?}", text(&out));
        assert!(text(&out).is_some_and(|t| !t.is_empty()), "{name}");
        assert_eq!(lab.state(), before, "{name}");
    }
}

/// Attributes that do not go with a direction, and a word that the refusal says.
type Directed = (u8, fn(&mut SaInfo), &'static [Value], &'static str);

const DIRECTED: &[Directed] = &[
    (2, |i| i.replay_window = 32, &[], "no replay window"),
    (2, |i| i.flags = 2, &[], "decap-dscp"),
    (2, |i| i.flags = 8, &[], "wildrecv"),
    (2, |i| i.flags = 16, &[], "flag icmp"),
    (2, |_| {}, &[(attr::REPLAY_ESN_VAL, || esn(1, 1))], "no replay window"),
    (2, |i| i.flags = 128, &[(attr::REPLAY_ESN_VAL, || esn(1, 0))], "no replay bitmap"),
    (2, |_| {}, &[(attr::REPLAY_VAL, || [0, 7, 0].map(u32::to_ne_bytes).concat())], "received no"),
    (
        2,
        |_| {},
        &[
            (attr::MTIMER_THRESH, || vec![1; 4]),
            (attr::ENCAP, || Encap { kind: 2, ..Encap::default() }.to_bytes()),
        ],
        "mapping threshold",
    ),
    (1, |i| i.flags = 4, &[], "nopmtudisc"),
    (1, |_| {}, &[(attr::SA_EXTRA_FLAGS, || 1u32.to_ne_bytes().into())], "dont-encap-dscp"),
    (1, |_| {}, &[(attr::SA_EXTRA_FLAGS, || 2u32.to_ne_bytes().into())], "oseq-may-wrap"),
];

#[test]
fn refusals_say_what_does_not_go_with_a_direction() {
    let mut lab = Lab::new();
    for (dir, change, attributes, word) in DIRECTED {
        let mut info = SaInfo { replay_window: 0, ..sa_info(0x100) };
        change(&mut info);
        let send = |lab: &mut Lab, dir: Option<u8>| {
            let mut w = gcm_sa(kind::NEWSA, &info);
            for (kind, value) in *attributes {
                w.attribute(*kind, &value());
            }
            if let Some(dir) = dir {
                w.attribute(attr::SA_DIR, &[dir]);
            }
            lab.send(&w.finish())
        };
        let out = send(&mut lab, Some(*dir));
        assert_eq!(errno(&out), libc::EINVAL, "{word}");
        assert!(text(&out).is_some_and(|t| t.contains(word)), "{word}: {:?}", text(&out));
        assert_eq!(lab.db.sa_count(), 0, "{word}");
        // The other direction has no objection to it, unless ESN asks for a window.
        if info.flags & 128 == 0 {
            let out = send(&mut lab, Some(3 - dir));
            assert_eq!(errno(&out), 0, "{word}: {:?}", text(&out));
            lab.ok(&request(kind::FLUSHSA, &0u32).finish());
        }
    }
}

#[test]
fn errnos_of_messages() {
    let mut lab = Lab::new();
    let bare = |kind| MessageWriter::new(kind, flag::REQUEST | flag::ACK, 1, 0).finish();
    for k in [
        kind::NEWSA,
        kind::UPDSA,
        kind::DELSA,
        kind::GETSA,
        kind::NEWPOLICY,
        kind::DELPOLICY,
        kind::GETPOLICY,
        kind::ALLOCSPI,
        kind::ACQUIRE,
        kind::EXPIRE,
        kind::POLEXPIRE,
        kind::FLUSHSA,
        kind::NEWAE,
        kind::GETAE,
        kind::REPORT,
        kind::NEWSADINFO,
        kind::GETSADINFO,
        kind::NEWSPDINFO,
        kind::GETSPDINFO,
        kind::MAPPING,
        kind::SETDEFAULT,
        kind::GETDEFAULT,
        kind::MAX + 1,
        u16::MAX,
    ] {
        assert_eq!(lab.errno(&bare(k)), libc::EINVAL, "{k:#x}");
    }
    assert_eq!(lab.errno(&bare(kind::MIGRATE)), libc::EINVAL);
    assert_eq!(lab.errno(&bare(kind::NOOP)), 0);
}

#[test]
fn acknowledgements_come_when_asked_for_or_on_errors() {
    let mut lab = Lab::new();
    let body = [sa_id(1).to_bytes()].concat();
    let message = |kind, flags| {
        let mut w = MessageWriter::new(kind, flags, 5, 6);
        w.raw(&body);
        w.finish()
    };
    // An error always; it repeats the request.
    let out = lab.send(&message(kind::DELSA, flag::REQUEST));
    assert_eq!(errno(&out), libc::ESRCH);
    let m = replies(&out).next().unwrap();
    assert_eq!((header(m).seq, header(m).port_id), (5, 4711));
    assert_eq!(m[20..60], message(kind::DELSA, flag::REQUEST)[..]);
    // Without the options, no text and no echo.
    lab.sender.ext_ack = false;
    lab.sender.cap_ack = true;
    let m = lab.send(&message(kind::DELSA, flag::REQUEST));
    let m = replies(&m).next().unwrap();
    assert_eq!((header(m).flags, m.len()), (flag::CAPPED, 36));
    // What is no request is not looked at.
    assert!(lab.send(&message(kind::DELSA, 0)).is_empty());
    assert_eq!(lab.errno(&message(kind::DELSA, flag::ACK)), 0);
    // Success says nothing unless asked.
    lab.ok(&gcm_sa(kind::NEWSA, &sa_info(1)).finish());
    assert_eq!(replies(&lab.send(&message(kind::DELSA, flag::REQUEST))).count(), 0);
}

#[test]
fn a_bad_attribute_is_pointed_at() {
    let mut lab = Lab::new();
    let mut w = request(kind::DELSA, &sa_id(1));
    let m = w.attribute(attr::IF_ID, &[0; 4]).attribute(attr::MARK, &[1]).take();
    let out = lab.send(&m);
    assert_eq!(errno(&out), libc::ERANGE);
    let reply = replies(&out).next().unwrap();
    // 16 of header, 24 of struct, 8 of the attribute before it.
    assert!(reply.ends_with(&[8, 0, 2, 0, 48, 0, 0, 0]), "{reply:?}");
}

#[test]
fn several_requests_in_one_datagram() {
    let mut lab = Lab::new();
    let mut datagram = gcm_sa(kind::NEWSA, &sa_info(1)).finish().to_vec();
    datagram.extend_from_slice(&gcm_sa(kind::NEWSA, &sa_info(1)).finish());
    datagram.extend_from_slice(&gcm_sa(kind::NEWSA, &sa_info(2)).finish());
    let out = lab.send(&datagram);
    let errnos: Vec<i32> =
        replies(&out).map(|m| -i32::from_ne_bytes(m[16..20].try_into().unwrap())).collect();
    assert_eq!(errnos, [0, libc::EEXIST, 0]);
}

fn dump_request(kind: u16) -> MessageWriter {
    MessageWriter::new(kind, flag::REQUEST | flag::DUMP, 9, 0)
}

#[test]
fn dumps_of_any_size_come_whole_and_youngest_first() {
    let mut lab = Lab::new();
    for count in [0, 1, 7, 8, 9, 500] {
        let flush = request(kind::FLUSHSA, &0u32).finish();
        lab.ok(&flush);
        for spi in 1..=count {
            lab.ok(&gcm_sa(kind::NEWSA, &sa_info(spi)).finish());
        }
        let chunks = lab.dump(&dump_request(kind::GETSA).finish());
        assert!(chunks.iter().all(|c| c.len() <= 3776));
        let spis: Vec<u32> =
            entries(&chunks).iter().map(|(_, m)| fixed::<SaInfo>(m).id.spi.0).collect();
        assert_eq!(spis, (1..=count).rev().collect::<Vec<_>>());
    }
}

#[test]
fn what_goes_or_comes_during_a_dump() {
    let mut lab = Lab::new();
    for spi in 1..=100 {
        lab.ok(&gcm_sa(kind::NEWSA, &sa_info(spi)).finish());
    }
    let mut out = lab.send(&dump_request(kind::GETSA).finish());
    let Some(Output::Dump(mut dump)) = out.pop() else { panic!() };
    let mut chunks = vec![lab.db.dump_chunk(&mut dump, 3776).unwrap()];
    for spi in (1..=50).step_by(2) {
        lab.ok(&request(kind::DELSA, &sa_id(spi)).finish());
    }
    lab.ok(&gcm_sa(kind::NEWSA, &sa_info(1000)).finish());
    chunks.extend(lab.drain(&mut dump));
    let spis: Vec<u32> =
        entries(&chunks).iter().map(|(_, m)| fixed::<SaInfo>(m).id.spi.0).collect();
    let expected: Vec<u32> = (1..=100).rev().filter(|s| *s > 50 || s % 2 == 0).collect();
    assert_eq!(spis, expected);
}

#[test]
fn dumps_are_narrowed_by_protocol_and_addresses() {
    let mut lab = Lab::new();
    for last in 1..=4 {
        let mut info = sa_info(last);
        info.id.dst = ip(&format!("192.0.2.{last}")).into();
        lab.ok(&gcm_sa(kind::NEWSA, &info).finish());
    }
    let count = |lab: &mut Lab, w: &mut MessageWriter| entries(&lab.dump(&w.take())).len();
    let all = &mut dump_request(kind::GETSA);
    assert_eq!(count(&mut lab, all), 4);
    assert_eq!(count(&mut lab, dump_request(kind::GETSA).field(attr::PROTO, &51u8)), 0);
    assert_eq!(count(&mut lab, dump_request(kind::GETSA).field(attr::PROTO, &50u8)), 4);
    let mut f = AddressFilter {
        dst: ip("192.0.2.2").into(),
        family: 2,
        dst_prefix_len: 31,
        ..AddressFilter::default()
    };
    let filtered = |f: &AddressFilter| {
        let mut w = dump_request(kind::GETSA);
        w.field(attr::ADDRESS_FILTER, f);
        w
    };
    assert_eq!(count(&mut lab, &mut filtered(&f)), 2);
    f.family = 10;
    assert_eq!(count(&mut lab, &mut filtered(&f)), 0);
    // A filter that is wrong ends the dump with its errno.
    f.dst_prefix_len = 129;
    let chunks = lab.dump(&filtered(&f).take());
    let errno = i32::from_ne_bytes(chunks[0][16..20].try_into().unwrap());
    assert_eq!((chunks.len(), errno), (1, -libc::EINVAL));
}

#[test]
fn dumps_of_policies() {
    let mut lab = Lab::new();
    for dir in 0..3 {
        lab.ok(&policy(kind::NEWPOLICY, &policy_info(dir), &[]).finish());
    }
    let chunks = lab.dump(&dump_request(kind::GETPOLICY).finish());
    let dirs: Vec<u8> =
        entries(&chunks).iter().map(|(_, m)| fixed::<xfrm::codec::PolicyInfo>(m).dir).collect();
    assert_eq!(dirs, [2, 1, 0]);
}

#[test]
fn records_bring_everything_back() {
    let mut lab = Lab::new();
    let mut info = sa_info(5);
    (info.limits.soft_add_s, info.limits.hard_add_s) = (10, 100);
    let mut w = gcm_sa(kind::NEWSA, &info);
    w.field(attr::MARK, &MarkAttribute { value: 1, mask: 1 }).field(attr::IF_ID, &4u32);
    lab.ok(&w.finish());
    lab.ok(&alloc_spi(6, 6).finish());
    lab.ok(&policy(kind::NEWPOLICY, &policy_info(0), &[template()]).finish());
    lab.ok(&policy(kind::NEWPOLICY, &policy_info(2), &[]).finish());
    let block = xfrm::codec::PolicyDefault { input: 1, ..Default::default() };
    lab.ok(&request(kind::SETDEFAULT, &block).finish());
    lab.pass(10);
    let id = policy::SaId { mark: policy::Mark { value: 1, mask: 1 }, ..path_id(5) };
    lab.db.backend_mut().live.get_mut(&id).unwrap().replay =
        Replay { sent: 1000, ..Replay::default() };
    let records: Vec<_> = lab.db.records().collect();
    assert_eq!(records.len(), 4, "defaults, two policies, one SA; the larval one is not kept");

    let mut again = Lab::new();
    again.now = lab.now;
    again.now.mono_ms = 77;
    for r in &records {
        again.db.restore(r.record.as_ref().unwrap(), again.now).unwrap();
    }
    let (config, keys, start) = &again.db.backend().sas[&id];
    let (old_config, old_keys, _) = &lab.db.backend().sas[&id];
    assert_eq!((config, keys, start), (old_config, old_keys, &Start::Kept));
    assert_eq!(again.db.backend().policies, lab.db.backend().policies);
    assert_eq!(again.db.backend().defaults, lab.db.backend().defaults);
    // Indexes go on where they were; times too; the soft expiry does not come twice.
    let mut other = policy_info(0);
    other.selector.dst_prefix_len = 8;
    again.ok(&policy(kind::NEWPOLICY, &other, &[]).finish());
    assert!(again.db.backend().policies.contains_key(&16));
    assert!(again.pass(89).is_empty());
    assert_eq!(events(&again.pass(1)).len(), 1);
    // Twice is refused, damaged too.
    let sa = records.last().unwrap().record.as_ref().unwrap();
    let mut db = Database::new(Recorder::default(), Settings::default());
    db.restore(sa, lab.now).unwrap();
    assert_eq!(db.restore(sa, lab.now), Err(Failure::SaExists));
    for len in 0..sa.len() {
        let mut db = Database::new(Recorder::default(), Settings::default());
        assert!(db.restore(&sa[..len], lab.now).is_err(), "{len}");
    }
}

#[test]
fn keys_of_records_are_distinct() {
    let mut lab = Lab::new();
    for spi in 1..=3 {
        lab.ok(&gcm_sa(kind::NEWSA, &sa_info(spi)).finish());
    }
    for dir in 0..3 {
        lab.ok(&policy(kind::NEWPOLICY, &policy_info(dir), &[]).finish());
    }
    let keys: std::collections::HashSet<_> = lab.db.records().map(|c| c.key.to_bytes()).collect();
    assert_eq!(keys.len(), 7);
}

/// Requests that a hostile or broken program might start from.
fn seeds() -> Vec<Vec<u8>> {
    let mut long = gcm_sa(kind::NEWSA, &SaInfo { replay_window: 0, flags: 128, ..sa_info(3) });
    long.attribute(attr::REPLAY_ESN_VAL, &esn(2, 64));
    long.field(attr::ENCAP, &Encap { kind: 2, ..Encap::default() });
    let mut ae = MessageWriter::new(kind::NEWAE, 0x105, 1, 0);
    ae.fixed(&xfrm::codec::AeventId { sa: sa_id(1), ..Default::default() });
    ae.field(attr::REPLAY_VAL, &xfrm::codec::ReplayState::default());
    let selector = SelectorInfo { user: 5, ..selector() };
    let other = xfrm::codec::PolicyInfo { selector, ..policy_info(1) };
    let expire = xfrm::codec::Expire { sa: sa_info(1), hard: 1, ..Default::default() };
    [
        gcm_sa(kind::NEWSA, &sa_info(2)).finish(),
        gcm_sa(kind::UPDSA, &sa_info(1)).finish(),
        long.finish(),
        ae.finish(),
        request(kind::DELSA, &sa_id(1)).finish(),
        request(kind::GETSA, &sa_id(1)).finish(),
        request(kind::EXPIRE, &expire).finish(),
        alloc_spi(100, 200).finish(),
        policy(kind::NEWPOLICY, &other, &[template(), template()]).finish(),
        policy(kind::UPDPOLICY, &policy_info(1), &[template()]).finish(),
        request(kind::DELPOLICY, &policy_id(1, 0)).finish(),
        request(kind::FLUSHSA, &0u32).finish(),
        request(kind::NEWSPDINFO, &0u32).finish(),
        dump_request(kind::GETSA).field(attr::PROTO, &50u8).take(),
        dump_request(kind::GETPOLICY).finish(),
    ]
    .map(|m| m.to_vec())
    .to_vec()
}

/// A database with something in it.
fn populated() -> Lab {
    let mut lab = Lab::new();
    lab.ok(&gcm_sa(kind::NEWSA, &sa_info(1)).finish());
    lab.ok(&alloc_spi(3, 3).finish());
    lab.ok(&policy(kind::NEWPOLICY, &policy_info(1), &[template()]).finish());
    lab
}

/// Invariants that hold after every request.
fn invariants(lab: &Lab) {
    let backend = lab.db.backend();
    let records = lab.db.records().count();
    assert_eq!(records, 1 + backend.sas.len() + backend.policies.len());
    assert!(lab.db.sa_count() >= backend.sas.len());
    let policies: u32 = lab.db.policy_counts().iter().sum();
    assert_eq!(policies as usize, backend.policies.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn mutated_requests_keep_the_databases_whole(
        seed in 0usize..15,
        flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in proptest::option::of(any::<prop::sample::Index>()),
        seconds in 0u64..400,
    ) {
        let mut lab = populated();
        let mut datagram = seeds()[seed].clone();
        for (at, value) in flips {
            let at = at.index(datagram.len());
            datagram[at] = value;
        }
        if let Some(cut) = cut {
            let len = cut.index(datagram.len() + 1);
            datagram.truncate(len);
        }
        let before = lab.state();
        let mut out = lab.send(&datagram);
        invariants(&lab);
        let failed = replies(&out).any(|m| header(m).kind == kind::ERROR && m[16..20] != [0; 4]);
        if failed && replies(&out).count() == 1 && out.len() == 1 {
            prop_assert_eq!(lab.state(), before);
        }
        if failed {
            // A failing request has neither notification nor record.
            let single = xfrm::codec::Messages::new(&datagram).count() == 1;
            prop_assert!(!single || out.len() == 1);
        }
        while let Some(Output::Dump(mut dump)) = out.pop() {
            lab.drain(&mut dump);
        }
        lab.pass(seconds);
        invariants(&lab);
    }

    #[test]
    fn noise_keeps_the_databases_whole(noise in proptest::collection::vec(any::<u8>(), 0..600)) {
        let mut lab = populated();
        lab.send(&noise);
        let _ = lab.db.restore(&noise, lab.now);
        invariants(&lab);
    }
}

/// An SPI that is given back without an SA says that a peer has answered IKE, and was refused or has refused.
#[test]
fn reservations_tell_of_negotiations() {
    let mut lab = Lab::new();
    let peer = sa_info(0).src.ip(2);
    assert_eq!((lab.db.oldest_reservation(), lab.db.given_back().count), (None, 0));
    lab.ok(&alloc_spi(5, 5).finish());
    assert_eq!(lab.db.oldest_reservation().map(|(peer, _)| peer), peer);
    // The SA has come: its deletion later is none of a negotiation.
    lab.ok(&gcm_sa(kind::UPDSA, &sa_info(5)).finish());
    assert_eq!(lab.db.oldest_reservation(), None);
    lab.ok(&request(kind::DELSA, &sa_id(5)).finish());
    assert_eq!(lab.db.given_back().count, 0);
    lab.ok(&alloc_spi(6, 6).finish());
    lab.ok(&request(kind::DELSA, &sa_id(6)).finish());
    let given_back = lab.db.given_back();
    assert_eq!((given_back.count, given_back.peer, lab.db.oldest_reservation()), (1, peer, None));
    // One that nobody answers runs out.
    lab.ok(&alloc_spi(7, 7).finish());
    lab.pass(165);
    assert_eq!((lab.db.given_back().count, lab.db.oldest_reservation()), (1, None));
}
