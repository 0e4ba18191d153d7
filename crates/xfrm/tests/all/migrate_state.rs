//! `MIGRATE_STATE`: one SA gets other ends, and its policies stay as they are.

use crate::common::migrating::{NEW, lab, only_sa};
use crate::common::*;
use xfrm::codec::{
    AF_INET, AF_INET6, Encap, MarkAttribute, Message, MessageWriter, MigrateState, SaInfo,
    SelectorInfo, attr, kind,
};
use xfrm::{Group, Output, Refusal};

/// Flag `XFRM_MIGRATE_STATE_UPDATE_H2H_SEL` of a request.
const BY_HOST: u32 = 2;

/// The usual SA gets another source and reqid.
fn to_new() -> MigrateState {
    MigrateState {
        id: sa_id(0x100),
        new_dst: ip(DST).into(),
        new_src: ip(NEW).into(),
        selector: SelectorInfo { family: AF_INET, ..SelectorInfo::default() },
        reqid: 9,
        new_family: AF_INET,
        ..MigrateState::default()
    }
}

fn migrate(request_for: &MigrateState) -> MessageWriter {
    request(kind::MIGRATE_STATE, request_for)
}

fn encap(kind: u16) -> Encap {
    Encap { kind, src_port: be16(4500), dst_port: be16(1024), ..Encap::default() }
}

#[test]
fn one_sa_moves_and_its_numbers_go_on() {
    let mut lab = lab();
    let (before, live) = only_sa(&lab);
    let keys = lab.db.keys_of(&before.id()).unwrap();
    let out = lab.ok(&migrate(&to_new()).finish());
    let (config, moved) = only_sa(&lab);
    assert_eq!((config.params.src, config.params.dst), (ip(NEW), ip(DST)));
    assert_eq!((config.params.spi, config.reqid, config.added_s), (0x100, 9, before.added_s));
    assert_eq!(lab.db.keys_of(&config.id()).unwrap(), keys);
    assert_eq!((&moved.replay, moved.counters), (&live.replay, live.counters));
    // The policy is its owner's business.
    assert_eq!(lab.db.backend().policies[&1].templates[0].src, ip(SRC));
    let told = events(&out);
    assert_eq!(told.len(), 1);
    let (group, message) = told[0];
    assert_eq!((group, header(message).kind), (Group::Migrate, kind::MIGRATE_STATE));
    assert_eq!(fixed::<MigrateState>(message), to_new());
    // The journal: one gone, one there.
    assert_eq!(out.iter().filter(|o| matches!(o, Output::Change(_))).count(), 2);
}

#[test]
fn it_goes_behind_a_nat_to_another_family_and_back() {
    let mut lab = lab();
    let [src, dst] = ["2001:db8::1", "2001:db8::2"].map(ip);
    let there =
        MigrateState { new_src: src.into(), new_dst: dst.into(), new_family: AF_INET6, ..to_new() };
    let mut w = migrate(&there);
    w.field(attr::ENCAP, &encap(2));
    w.field(attr::MTIMER_THRESH, &30u32);
    let out = lab.ok(&w.field(attr::SET_MARK, &5u32).take());
    let (config, _) = only_sa(&lab);
    assert_eq!((config.params.src, config.params.dst), (src, dst));
    assert_eq!(config.params.encap.unwrap().dst_port, 1024);
    assert_eq!((config.set_mark.value, config.set_mark.mask), (5, u32::MAX));
    let told = |out: &[Output], kind| attribute::<MigrateState>(events(out)[0].1, kind);
    assert_eq!(told(&out, attr::MTIMER_THRESH), Some(30u32.to_ne_bytes().into()));
    assert!(told(&out, attr::ENCAP).is_some() && told(&out, attr::SET_MARK_MASK).is_some());
    // Back, without saying what else: it is inherited, but for what is taken away.
    let mut id = sa_id(0x100);
    (id.dst, id.family) = (dst.into(), AF_INET6);
    let mut w = migrate(&MigrateState { id, ..to_new() });
    let out = lab.ok(&w.field(attr::ENCAP, &encap(0)).take());
    let (config, _) = only_sa(&lab);
    assert_eq!((config.params.src, config.params.encap), (ip(NEW), None));
    assert_eq!(config.set_mark.value, 5);
    assert_eq!(told(&out, attr::MTIMER_THRESH), None, "there is no encapsulation any more");
}

#[test]
fn it_is_found_by_its_mark_and_may_get_another() {
    let mut lab = Lab::new();
    for value in [1, 2] {
        let info = SaInfo { mode: 1, ..sa_info(0x100) };
        let mut w = gcm_sa(kind::NEWSA, &info);
        lab.ok(&w.field(attr::MARK, &MarkAttribute { value, mask: 3 }).take());
    }
    let of = |value| MigrateState { old_mark: MarkAttribute { value, mask: 3 }, ..to_new() };
    lab.ok(&migrate(&of(2)).finish());
    let from = |lab: &Lab, value| {
        let id = policy::SaId { mark: policy::Mark { value, mask: 3 }, ..path_id(0x100) };
        lab.db.backend().sas.get(&id).map(|(config, ..)| config.params.src)
    };
    assert_eq!((from(&lab, 1), from(&lab, 2)), (Some(ip(SRC)), Some(ip(NEW))));
    let mut w = migrate(&of(2));
    lab.ok(&w.field(attr::MARK, &MarkAttribute { value: 3, mask: 3 }).take());
    assert_eq!((from(&lab, 2), from(&lab, 3)), (None, Some(ip(NEW))));
    // Bits outside the mask do not count, in the old one and in the new one.
    let of_more = MigrateState { old_mark: MarkAttribute { value: 0x13, mask: 3 }, ..to_new() };
    let mut w = migrate(&of_more);
    lab.ok(&w.field(attr::MARK, &MarkAttribute { value: 0x10, mask: 3 }).take());
    assert_eq!((from(&lab, 3), from(&lab, 0)), (None, Some(ip(NEW))));
    let mut w = migrate(&of(0));
    lab.ok(&w.field(attr::MARK, &MarkAttribute { value: 3, mask: 3 }).take());
    // That of the other one is taken.
    let mut w = migrate(&of(3));
    let taken = w.field(attr::MARK, &MarkAttribute { value: 1, mask: 3 }).take();
    assert_eq!(lab.errno(&taken), libc::EEXIST);
}

#[test]
fn a_selector_between_hosts_follows() {
    let mut lab = Lab::new();
    let [src, dst] = [SRC, DST].map(|addr| ip(addr).into());
    let (src_prefix_len, dst_prefix_len, family) = (32, 32, AF_INET);
    let selector = SelectorInfo {
        src,
        dst,
        src_prefix_len,
        dst_prefix_len,
        family,
        protocol: 17,
        ..SelectorInfo::default()
    };
    let info = SaInfo { mode: 0, selector, ..sa_info(0x100) };
    lab.ok(&gcm_sa(kind::NEWSA, &info).finish());
    let follow = MigrateState { flags: BY_HOST, ..to_new() };
    let out = lab.ok(&migrate(&follow).finish());
    let (config, _) = only_sa(&lab);
    let selector = config.selector.unwrap();
    assert_eq!((selector.src.addr, selector.src.len, selector.protocol), (ip(NEW), 32, 17));
    let told: MigrateState = fixed(events(&out)[0].1);
    assert_eq!(told.selector.src.ip(AF_INET), Some(ip(NEW)));
    // One that is for networks does not.
    let mut lab = self::lab();
    assert_eq!(lab.errno(&migrate(&follow).finish()), libc::EINVAL);
}

#[test]
fn what_cannot_be_moved_changes_nothing() {
    let mut lab = lab();
    lab.ok(&alloc_spi(0x500, 0x500).finish());
    let before = lab.state();
    let mut refused = |m: Message, errno, word: &str| {
        let out = lab.send(&m);
        assert_eq!(crate::common::errno(&out), errno, "{word}");
        assert!(text(&out).is_some_and(|t| t.contains(word)), "{word}: {:?}", text(&out));
        assert_eq!(lab.state(), before, "{word}");
    };
    let plain = |m: MigrateState| migrate(&m).finish();
    refused(plain(MigrateState { id: sa_id(0), ..to_new() }), libc::EINVAL, "SPI 0");
    refused(plain(MigrateState { reserved: 1, ..to_new() }), libc::EINVAL, "reserved");
    refused(plain(MigrateState { flags: 4, ..to_new() }), libc::EINVAL, "flag");
    refused(plain(MigrateState { new_family: 0, ..to_new() }), libc::EINVAL, "family");
    let wide = SelectorInfo { family: AF_INET, src_prefix_len: 33, ..SelectorInfo::default() };
    refused(plain(MigrateState { selector: wide, ..to_new() }), libc::EINVAL, "prefix");
    refused(plain(MigrateState { id: sa_id(0x999), ..to_new() }), libc::ESRCH, "no such SA");
    // One that has no keys yet is none to move.
    refused(plain(MigrateState { id: sa_id(0x500), ..to_new() }), libc::ESRCH, "no such SA");
    let with = |kind: u16, value: &[u8]| migrate(&to_new()).attribute(kind, value).take();
    let bytes = |kind| xfrm::codec::Field::to_bytes(&encap(kind));
    refused(with(attr::ENCAP, &bytes(7)), libc::EINVAL, "ESP in UDP");
    refused(with(attr::MTIMER_THRESH, &[1; 4]), libc::EINVAL, "mapping threshold");
    refused(with(attr::NAT_KEEPALIVE_INTERVAL, &[1; 4]), libc::EINVAL, "keepalive");
    let mut keepalive = migrate(&to_new());
    keepalive.attribute(attr::ENCAP, &bytes(2));
    keepalive.attribute(attr::NAT_KEEPALIVE_INTERVAL, &[1; 4]);
    refused(keepalive.finish(), libc::EOPNOTSUPP, "keepalive");
}

/// Linux loses both SAs where the new place is taken after all, or has no room.
#[test]
fn an_sa_that_the_data_path_refuses_is_as_it_was() {
    let mut lab = lab();
    lab.db.backend_mut().refuse_src = Some((ip(NEW), Refusal::new(libc::ENOMEM, "no room")));
    let (before, live) = only_sa(&lab);
    let out = lab.send(&migrate(&to_new()).finish());
    assert_eq!((errno(&out), events(&out).len()), (libc::ENOMEM, 0));
    let (after, same) = only_sa(&lab);
    assert_eq!((after.params, same.replay), (before.params, live.replay));
    // Another SA has the place.
    let mut info = SaInfo { mode: 1, ..sa_info(0x100) };
    info.id.dst = ip(NEW).into();
    lab.ok(&gcm_sa(kind::NEWSA, &info).finish());
    let to = MigrateState { new_src: ip(SRC).into(), new_dst: ip(NEW).into(), ..to_new() };
    assert_eq!(lab.errno(&migrate(&to).finish()), libc::EEXIST);
    assert_eq!(lab.db.sa_count(), 2);
}
