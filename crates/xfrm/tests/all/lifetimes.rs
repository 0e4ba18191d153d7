//! Limits by time and volume, acquires, mappings.

use crate::common::*;
use xfrm::codec::{
    Acquire, Encap, Expire, Mapping, PolicyExpire, PolicyInfo, SaInfo, Template, attr, kind,
};
use xfrm::{Acquired, Counters, Flow, Group, Output};

fn expiries(out: &[Output]) -> Vec<u8> {
    let expire = |(group, m): (Group, &xfrm::codec::Message)| {
        assert_eq!((group, header(m).kind), (Group::Expire, kind::EXPIRE));
        fixed::<Expire>(m).hard
    };
    events(out).into_iter().map(expire).collect()
}

fn timed(spi: u32, soft_add_s: u64, hard_add_s: u64) -> SaInfo {
    let mut info = sa_info(spi);
    (info.limits.soft_add_s, info.limits.hard_add_s) = (soft_add_s, hard_add_s);
    info
}

#[test]
fn soft_is_announced_once_and_hard_removes_without_a_delete() {
    let mut lab = Lab::new();
    lab.ok(&gcm_sa(kind::NEWSA, &timed(5, 10, 20)).finish());
    assert_eq!(lab.db.next_deadline_ms(), Some(lab.now.mono_ms + 10_000));
    assert!(lab.pass(9).is_empty());
    assert_eq!(expiries(&lab.pass(1)), [0]);
    assert!(lab.pass(9).is_empty());
    let out = lab.pass(1);
    assert_eq!(expiries(&out), [1]);
    assert!(out.iter().any(|o| matches!(o, Output::Change(c) if c.record.is_none())));
    assert!(lab.db.backend().sas.is_empty());
    assert_eq!(lab.db.next_deadline_ms(), None);
}

#[test]
fn huge_soft_limits_are_over_at_once() {
    let mut lab = Lab::new();
    lab.ok(&gcm_sa(kind::NEWSA, &timed(5, u64::MAX - 3, 3600)).finish());
    assert_eq!(expiries(&lab.pass(0)), [0]);
    assert!(lab.pass(3599).is_empty());
    assert_eq!(expiries(&lab.pass(1)), [1]);
}

#[test]
fn use_limits_count_from_the_first_use() {
    let mut lab = Lab::new();
    let mut info = sa_info(5);
    info.limits.hard_use_s = 30;
    lab.ok(&gcm_sa(kind::NEWSA, &info).finish());
    assert!(lab.pass(100).is_empty());
    let first_use_s = lab.now.wall_s + 5;
    lab.db.backend_mut().live.get_mut(&path_id(5)).unwrap().counters =
        Counters { first_use_s, ..Counters::default() };
    assert!(lab.pass(34).is_empty());
    assert_eq!(expiries(&lab.pass(1)), [1]);
}

#[test]
fn volume_and_time_share_one_soft_expiry() {
    let mut lab = Lab::new();
    lab.ok(&gcm_sa(kind::NEWSA, &timed(5, 10, 0)).finish());
    let mut out = Vec::new();
    lab.db.volume_expired(&path_id(5), false, &mut out);
    lab.db.volume_expired(&path_id(5), false, &mut out);
    assert_eq!(expiries(&out), [0]);
    assert!(lab.pass(10).is_empty());
    out.clear();
    lab.db.volume_expired(&path_id(5), true, &mut out);
    lab.db.volume_expired(&path_id(5), true, &mut out);
    assert_eq!(expiries(&out), [1]);
    assert_eq!(lab.db.sa_count(), 0);
}

#[test]
fn an_update_of_the_limits_starts_over() {
    let mut lab = Lab::new();
    lab.ok(&gcm_sa(kind::NEWSA, &timed(5, 10, 20)).finish());
    assert_eq!(expiries(&lab.pass(10)), [0]);
    lab.ok(&gcm_sa(kind::UPDSA, &timed(5, 50, 60)).finish());
    assert!(lab.pass(39).is_empty());
    assert_eq!(expiries(&lab.pass(1)), [0]);
    assert_eq!(expiries(&lab.pass(10)), [1]);
}

#[test]
fn the_owner_can_expire_an_sa() {
    let mut lab = Lab::new();
    let mut e = Expire { sa: sa_info(5), ..Expire::default() };
    assert_eq!(lab.errno(&request(kind::EXPIRE, &e).finish()), libc::ENOENT);
    lab.ok(&alloc_spi(5, 5).finish());
    assert_eq!(lab.errno(&request(kind::EXPIRE, &e).finish()), libc::EINVAL);
    lab.ok(&gcm_sa(kind::UPDSA, &sa_info(5)).finish());
    assert_eq!(expiries(&lab.ok(&request(kind::EXPIRE, &e).finish())), [0]);
    assert_eq!(lab.db.sa_count(), 1);
    e.hard = 1;
    assert_eq!(expiries(&lab.ok(&request(kind::EXPIRE, &e).finish())), [1]);
    assert!(lab.db.backend().sas.is_empty());
}

#[test]
fn policies_expire_too() {
    let mut lab = Lab::new();
    let mut info = policy_info(1);
    (info.limits.soft_add_s, info.limits.hard_add_s) = (10, 100);
    lab.ok(&policy(kind::NEWPOLICY, &info, &[]).finish());
    let hard = |out: &[Output]| {
        let kinds = events(out).into_iter().map(|(_, m)| fixed::<PolicyExpire>(m).hard);
        kinds.collect::<Vec<_>>()
    };
    assert_eq!(hard(&lab.pass(10)), [0]);
    assert!(lab.pass(29).is_empty());
    assert_eq!(hard(&lab.pass(1)), [0], "again after half a minute");
    assert_eq!(hard(&lab.pass(60)), [1]);
    assert!(lab.db.backend().policies.is_empty());
}

const FLOW: (&str, &str) = ("10.2.0.9", "10.1.0.9");

fn flow() -> Flow {
    Flow {
        src: ip(FLOW.0),
        dst: ip(FLOW.1),
        protocol: 17,
        src_port: 1000,
        dst_port: 53,
        ifindex: 3,
    }
}

fn acquire(lab: &mut Lab, index: u32, flow: &Flow) -> (Acquired, Vec<Output>) {
    let mut out = Vec::new();
    let result = lab.db.acquire(index, (0, None), flow, true, lab.now, &mut out);
    (result, out)
}

#[test]
fn a_packet_without_an_sa_asks_once_until_the_time_is_over() {
    let mut lab = Lab::new();
    lab.ok(&policy(kind::NEWPOLICY, &policy_info(1), &[template()]).finish());
    let mut quiet = Vec::new();
    let nobody = lab.db.acquire(1, (0, None), &flow(), false, lab.now, &mut quiet);
    assert_eq!((nobody, quiet.len()), (Acquired::NobodyListens, 0));
    let (result, out) = acquire(&mut lab, 1, &flow());
    assert_eq!(
        (result, event_kinds(&out)),
        (Acquired::Asked, vec![(Group::Acquire, kind::ACQUIRE)])
    );
    let (_, m) = events(&out)[0];
    let a: Acquire = fixed(m);
    assert_eq!((a.policy.index, a.policy.dir, a.seq, a.id.protocol), (1, 1, 1, 50));
    assert_eq!((a.id.dst.ip(2), a.src.ip(2)), (Some(ip(DST)), Some(ip(SRC))));
    let s = &a.selector;
    assert_eq!((s.src.ip(2), s.dst.ip(2)), (Some(ip(FLOW.0)), Some(ip(FLOW.1))));
    assert_eq!((s.dst_port, s.dst_port_mask, s.src_prefix_len), (be16(53), be16(0xffff), 32));
    assert!(attribute::<Acquire>(m, attr::TMPL).is_some());
    let other = Flow { src: ip("10.2.0.77"), ..flow() };
    assert_eq!(acquire(&mut lab, 1, &other).0, Acquired::Pending);
    assert!(lab.pass(164).is_empty());
    assert_eq!(expiries(&lab.pass(1)), [1]);
    let (result, out) = acquire(&mut lab, 1, &flow());
    assert_eq!(result, Acquired::Asked);
    assert_eq!(fixed::<Acquire>(events(&out)[0].1).seq, 2);
    assert_eq!(acquire(&mut lab, 99, &flow()).0, Acquired::NoPolicy);
}

#[test]
fn the_answer_takes_the_larval_sa_s_place() {
    for by_seq in [true, false] {
        let mut lab = Lab::new();
        lab.ok(&policy(kind::NEWPOLICY, &policy_info(1), &[template()]).finish());
        acquire(&mut lab, 1, &flow());
        // By the number: whatever the reqid. Without it: the same reqid, mode and addresses.
        let (seq, reqid) = if by_seq { (1, 1234) } else { (0, 7) };
        let answer = SaInfo { seq, reqid, ..sa_info(0x999) };
        lab.ok(&gcm_sa(kind::NEWSA, &answer).finish());
        assert_eq!((lab.db.sa_count(), lab.db.backend().sas.len()), (1, 1));
        assert!(lab.pass(1000).is_empty());
        assert_eq!(acquire(&mut lab, 1, &flow()).0, Acquired::Asked, "nothing waits any more");
    }
}

#[test]
fn an_answer_to_something_else_does_not() {
    let mut lab = Lab::new();
    lab.ok(&policy(kind::NEWPOLICY, &policy_info(1), &[template()]).finish());
    acquire(&mut lab, 1, &flow());
    lab.ok(&gcm_sa(kind::NEWSA, &SaInfo { reqid: 8, ..sa_info(0x999) }).finish());
    assert_eq!(lab.db.sa_count(), 2);
    assert_eq!(acquire(&mut lab, 1, &flow()).0, Acquired::Pending);
}

#[test]
fn a_transport_template_takes_the_packet_s_addresses() {
    let mut lab = Lab::new();
    let t = Template { mode: 0, id: Default::default(), src: Default::default(), ..template() };
    let t = Template { id: xfrm::codec::Id { protocol: 50, ..t.id.clone() }, ..t };
    lab.ok(&policy(kind::NEWPOLICY, &policy_info(1), &[t]).finish());
    let (_, out) = acquire(&mut lab, 1, &flow());
    let a: Acquire = fixed(events(&out)[0].1);
    assert_eq!((a.src.ip(2), a.id.dst.ip(2)), (Some(ip(FLOW.0)), Some(ip(FLOW.1))));
    // Another pair of hosts is another question.
    let other = Flow { dst: ip("10.1.0.10"), ..flow() };
    assert_eq!(acquire(&mut lab, 1, &other).0, Acquired::Asked);
}

#[test]
fn an_acquire_and_its_spi() {
    let mut lab = Lab::new();
    lab.ok(&policy(kind::NEWPOLICY, &policy_info(1), &[template()]).finish());
    acquire(&mut lab, 1, &flow());
    // The reservation finds the larval SA by its number and gives it the SPI.
    let info = SaInfo { seq: 1, ..sa_info(0) };
    let spi = xfrm::codec::SpiInfo { info, min: 500, max: 500 };
    let out = lab.ok(&request(kind::ALLOCSPI, &spi).finish());
    let got: SaInfo = fixed(replies(&out).next().unwrap());
    assert_eq!((got.id.spi.0, got.seq, lab.db.sa_count()), (500, 1, 1));
    lab.ok(&gcm_sa(kind::UPDSA, &SaInfo { seq: 1, ..sa_info(500) }).finish());
    assert_eq!((lab.db.sa_count(), lab.db.backend().sas.len()), (1, 1));
}

#[test]
fn a_peer_that_moves_is_announced_when_that_is_news() {
    let mut lab = Lab::new();
    let encap = Encap { kind: 2, src_port: be16(4500), dst_port: be16(4500), ..Encap::default() };
    let mut w = gcm_sa(kind::NEWSA, &sa_info(5));
    lab.ok(&w.field(attr::ENCAP, &encap).take());
    let moved = |lab: &mut Lab, addr, port| {
        let mut out = Vec::new();
        lab.db.mapping_changed(&path_id(5), ip(addr), port, lab.now, &mut out);
        out
    };
    assert!(moved(&mut lab, SRC, 4500).is_empty());
    let out = moved(&mut lab, "198.51.100.1", 1024);
    let (group, m) = events(&out)[0];
    let map: Mapping = fixed(m);
    assert_eq!((group, map.reqid, map.id.spi.0), (Group::Mapping, 7, 5));
    assert_eq!((map.old_src.ip(2), map.new_src.ip(2)), (Some(ip(SRC)), Some(ip("198.51.100.1"))));
    assert_eq!((map.old_src_port, map.new_src_port), (be16(4500), be16(1024)));
    assert!(moved(&mut lab, "198.51.100.1", 1024).is_empty(), "no news");
    assert_eq!(moved(&mut lab, "198.51.100.1", 1025).len(), 1);
    lab.pass(10);
    assert_eq!(moved(&mut lab, "198.51.100.1", 1025).len(), 1, "still so after a while");
    let mut out = Vec::new();
    lab.db.mapping_changed(&path_id(6), ip(SRC), 1, lab.now, &mut out);
    assert!(out.is_empty());
}

#[test]
fn acquires_from_user_space_reach_the_group() {
    let mut lab = Lab::new();
    let a = Acquire { policy: PolicyInfo { index: 0, ..policy_info(1) }, ..Acquire::default() };
    let mut w = request(kind::ACQUIRE, &a);
    let out = lab.ok(&w.attribute(attr::TMPL, &xfrm::codec::Field::to_bytes(&template())).take());
    assert_eq!(event_kinds(&out), [(Group::Acquire, kind::ACQUIRE)]);
    assert_eq!(fixed::<Acquire>(events(&out)[0].1).id.dst.ip(2), Some(ip(DST)));
}
