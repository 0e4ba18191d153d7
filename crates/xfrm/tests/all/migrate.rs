//! `MIGRATE`: templates and SAs get other ends, and nothing else changes.

use crate::common::migrating::{NEW, lab, only_sa};
use crate::common::*;
use xfrm::codec::{
    AF_INET, AF_INET6, Encap, Field, MessageWriter, MigrateEntry, PolicyId, PolicyInfo, SaInfo,
    attr, kind,
};
use xfrm::{Group, Output, Refusal};

/// From the usual ends to those with another source.
fn entry() -> MigrateEntry {
    MigrateEntry {
        old_dst: ip(DST).into(),
        old_src: ip(SRC).into(),
        new_dst: ip(DST).into(),
        new_src: ip(NEW).into(),
        protocol: 50,
        mode: 1,
        reqid: 7,
        old_family: AF_INET,
        new_family: AF_INET,
        ..MigrateEntry::default()
    }
}

fn migrate(entries: &[MigrateEntry]) -> MessageWriter {
    let mut w = request(kind::MIGRATE, &policy_id(1, 0));
    let bytes: Vec<u8> = entries.iter().flat_map(MigrateEntry::to_bytes).collect();
    w.attribute(attr::MIGRATE, &bytes);
    w
}

#[test]
fn an_sa_and_its_template_move_and_numbers_go_on() {
    let mut lab = lab();
    let (before, live) = only_sa(&lab);
    let keys = lab.db.keys_of(&before.id()).unwrap();
    let out = lab.ok(&migrate(&[entry()]).finish());
    let (config, moved) = only_sa(&lab);
    assert_eq!((config.params.src, config.params.dst), (ip(NEW), ip(DST)));
    assert_eq!((config.params.spi, config.reqid, config.added_s), (0x100, 7, before.added_s));
    assert_eq!(lab.db.keys_of(&config.id()).unwrap(), keys);
    assert_eq!((&moved.replay, moved.counters), (&live.replay, live.counters));
    let policy = &lab.db.backend().policies[&1];
    assert_eq!((policy.templates[0].src, policy.templates[0].dst), (ip(NEW), ip(DST)));
    // Those who listen hear of it, as it was asked for.
    let (group, message) = events(&out)[0];
    assert_eq!(
        (group, header(message).kind, events(&out).len()),
        (Group::Migrate, kind::MIGRATE, 1)
    );
    let told = attribute::<PolicyId>(message, attr::MIGRATE).unwrap();
    assert_eq!(told, entry().to_bytes());
    // The journal too: one gone, one there, and the policy.
    assert_eq!(out.iter().filter(|o| matches!(o, Output::Change(_))).count(), 3);
    // It is found and deleted under its new name.
    lab.ok(&request(kind::DELSA, &sa_id(0x100)).finish());
    assert!(lab.db.backend().sas.is_empty());
}

#[test]
fn a_tunnel_moves_to_another_family_and_behind_a_nat() {
    let mut lab = lab();
    let [src, dst] = ["2001:db8::1", "2001:db8::2"].map(ip);
    let to =
        MigrateEntry { new_src: src.into(), new_dst: dst.into(), new_family: AF_INET6, ..entry() };
    let mut w = migrate(&[to]);
    let encap = Encap { kind: 2, src_port: be16(4500), dst_port: be16(1024), ..Encap::default() };
    lab.ok(&w.field(attr::ENCAP, &encap).take());
    let (config, _) = only_sa(&lab);
    assert_eq!((config.params.src, config.params.dst), (src, dst));
    assert_eq!(config.params.encap.unwrap().dst_port, 1024);
    assert_eq!(lab.db.backend().policies[&1].templates[0].src, src);
}

#[test]
fn what_cannot_be_moved_changes_nothing() {
    let mut lab = lab();
    let before = lab.state();
    let none = "0.0.0.0";
    let mut refused = |entries: &[MigrateEntry], errno| {
        assert_eq!(lab.errno(&migrate(entries).finish()), errno, "{entries:?}");
        assert_eq!(lab.state(), before);
    };
    refused(&[], libc::ERANGE);
    refused(&[MigrateEntry { new_src: ip(none).into(), ..entry() }], libc::EINVAL);
    refused(&[MigrateEntry { new_family: 0, ..entry() }], libc::EINVAL);
    refused(&[entry(), MigrateEntry { new_src: ip(DST).into(), ..entry() }], libc::EINVAL);
    let many: Vec<_> = (1..8).map(|reqid| MigrateEntry { reqid, ..entry() }).collect();
    refused(&many, libc::EINVAL);
    // The policy is there, and none of its templates is meant.
    refused(&[MigrateEntry { reqid: 8, ..entry() }], libc::ENODATA);
    refused(&[MigrateEntry { old_src: ip(NEW).into(), ..entry() }], libc::ENODATA);
    let mut w = migrate(&[entry()]);
    assert_eq!(lab.errno(&w.field(attr::IF_ID, &5u32).take()), libc::ENOENT);
    let other = PolicyId { dir: 0, ..policy_id(1, 0) };
    let mut w = request(kind::MIGRATE, &other);
    assert_eq!(lab.errno(&w.attribute(attr::MIGRATE, &entry().to_bytes()).take()), libc::ENOENT);
    assert_eq!(lab.errno(&request(kind::MIGRATE, &policy_id(1, 0)).finish()), libc::EINVAL);
    assert_eq!(lab.state(), before);
    // Another SA has the place.
    let mut info = SaInfo { mode: 1, reqid: 9, ..sa_info(0x100) };
    info.id.dst = ip(NEW).into();
    lab.ok(&gcm_sa(kind::NEWSA, &info).finish());
    let before = lab.state();
    let to = MigrateEntry { new_src: ip(SRC).into(), new_dst: ip(NEW).into(), ..entry() };
    assert_eq!(lab.errno(&migrate(&[to]).finish()), libc::EEXIST);
    assert_eq!(lab.state(), before);
}

#[test]
fn an_sa_that_the_data_path_refuses_is_as_it_was() {
    let mut lab = lab();
    lab.db.backend_mut().refuse_src = Some((ip(NEW), Refusal::new(libc::ENOMEM, "no room")));
    let (before, live) = only_sa(&lab);
    assert_eq!(lab.errno(&migrate(&[entry()]).finish()), libc::ENOMEM);
    let (after, same) = only_sa(&lab);
    assert_eq!((after.params, same.replay), (before.params, live.replay));
    assert_eq!(lab.db.backend().policies[&1].templates[0].src, ip(SRC));
    // Without an SA the template moves alone.
    lab.ok(&request(kind::DELSA, &sa_id(0x100)).finish());
    lab.ok(&migrate(&[entry()]).finish());
    assert_eq!(lab.db.backend().policies[&1].templates[0].src, ip(NEW));
    let info: PolicyInfo = fixed(
        replies(&lab.ok(&request(kind::GETPOLICY, &policy_id(1, 0)).finish())).next().unwrap(),
    );
    assert_eq!(info.index, 1);
}
