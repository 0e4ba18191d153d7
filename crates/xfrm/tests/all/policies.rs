//! Policies by request, default actions, and the information about both databases.

use crate::common::*;
use policy::{Action, Direction};
use xfrm::codec::{
    Field, MarkAttribute, MessageWriter, PolicyDefault, PolicyExpire, PolicyId, PolicyInfo,
    SelectorInfo, SpdInfo, Template, attr, kind,
};
use xfrm::{Group, Output, PolicyLive, RecordKey, Refusal};

fn index_of(lab: &mut Lab, id: &PolicyId) -> u32 {
    let out = lab.ok(&request(kind::GETPOLICY, id).finish());
    fixed::<PolicyInfo>(replies(&out).next().unwrap()).index
}

#[test]
fn indexes_come_as_linux_gives_them() {
    let mut lab = Lab::new();
    for dir in [1, 0, 2] {
        lab.ok(&policy(kind::NEWPOLICY, &policy_info(dir), &[]).finish());
    }
    let indexes = [1, 0, 2].map(|dir| index_of(&mut lab, &policy_id(dir, 0)));
    assert_eq!(indexes, [1, 8, 0x12]);
    // A wish is met if it can be.
    let mut info = PolicyInfo { index: 0x101, priority: 9, ..policy_info(1) };
    info.selector.dst_prefix_len = 16;
    lab.ok(&policy(kind::NEWPOLICY, &info, &[]).finish());
    info.selector.dst_prefix_len = 17;
    lab.ok(&policy(kind::NEWPOLICY, &info, &[]).finish());
    let mut all: Vec<u32> = lab.db.backend().policies.keys().copied().collect();
    all.sort_unstable();
    assert_eq!(all, [1, 8, 0x12, 0x19, 0x101]);
}

#[test]
fn the_data_path_gets_the_policy_as_it_is() {
    let mut lab = Lab::new();
    let mut info = PolicyInfo { priority: 77, flags: 2, ..policy_info(1) };
    info.selector.protocol = 17;
    info.selector.dst_port = be16(53);
    info.selector.dst_port_mask = be16(0xffff);
    let mut w = policy(kind::NEWPOLICY, &info, &[template()]);
    w.field(attr::MARK, &MarkAttribute { value: 1, mask: 3 }).field(attr::IF_ID, &5u32);
    let out = lab.ok(&w.finish());
    assert_eq!(event_kinds(&out), [(Group::Policy, kind::NEWPOLICY)]);
    let p = &lab.db.backend().policies[&1];
    assert_eq!((p.direction, p.action, p.priority), (Direction::Out, Action::Allow, 77));
    assert_eq!((p.selector.dst_port.value, p.selector.protocol), (53, 17));
    assert_eq!((p.mark.value, p.mark.mask, p.if_id), (1, 3, 5));
    assert!(p.flags.icmp && !p.flags.per_cpu);
    assert_eq!((p.templates[0].reqid, p.templates[0].dst), (7, ip(DST)));
}

#[test]
fn adding_twice_fails_and_updating_replaces_under_the_same_index() {
    let mut lab = Lab::new();
    lab.ok(&policy(kind::NEWPOLICY, &policy_info(1), &[template()]).finish());
    let before = lab.state();
    let other = PolicyInfo { priority: 6, ..policy_info(1) };
    assert_eq!(lab.errno(&policy(kind::NEWPOLICY, &other, &[]).finish()), libc::EEXIST);
    assert_eq!(lab.state(), before);
    let out = lab.ok(&policy(kind::UPDPOLICY, &other, &[]).finish());
    assert_eq!(event_kinds(&out), [(Group::Policy, kind::UPDPOLICY)]);
    assert_eq!(lab.db.policy_counts(), [0, 1, 0]);
    let p = &lab.db.backend().policies[&1];
    assert_eq!((p.priority, p.templates.len()), (6, 0));
    // An update of what is not there adds, as Linux does.
    let mut w = policy(kind::UPDPOLICY, &other, &[]);
    lab.ok(&w.field(attr::IF_ID, &3u32).take());
    assert_eq!(lab.db.policy_counts(), [0, 2, 0]);
}

#[test]
fn a_policy_is_named_by_index_or_by_selector_mark_and_interface() {
    let mut lab = Lab::new();
    let mut w = policy(kind::NEWPOLICY, &policy_info(0), &[]);
    lab.ok(&w.field(attr::IF_ID, &3u32).take());
    let get = |id: &PolicyId, if_id: u32| {
        let mut w = request(kind::GETPOLICY, id);
        w.field(attr::IF_ID, &if_id).take()
    };
    lab.ok(&get(&policy_id(0, 0), 3));
    lab.ok(&get(&policy_id(0, 8), 3));
    for (id, if_id) in [
        (policy_id(0, 0), 0),
        (policy_id(0, 8), 0),
        (policy_id(1, 0), 3),
        (policy_id(1, 8), 3),
        (policy_id(0, 16), 3),
        (PolicyId { selector: SelectorInfo { user: 1, ..selector() }, ..policy_id(0, 0) }, 3),
    ] {
        assert_eq!(lab.errno(&get(&id, if_id)), libc::ENOENT, "{id:?} {if_id}");
    }
    assert_eq!(lab.errno(&get(&policy_id(3, 0), 3)), libc::EINVAL);
}

#[test]
fn bits_of_a_mark_outside_its_mask_do_not_count() {
    let mut lab = Lab::new();
    let marked = |mut w: MessageWriter, value, mask| {
        w.field(attr::MARK, &MarkAttribute { value, mask }).take()
    };
    let put = |value, mask| marked(policy(kind::NEWPOLICY, &policy_info(1), &[]), value, mask);
    let out = lab.ok(&put(0xff, 0x0f));
    // Told and given to the data path as it counts.
    let (_, told) = events(&out)[0];
    let told = MarkAttribute::decode(&attribute::<PolicyInfo>(told, attr::MARK).unwrap()).unwrap();
    assert_eq!((told.value, told.mask), (0x0f, 0x0f));
    let mark = lab.db.backend().policies[&1].mark;
    assert!(mark.matches(15) && mark.matches(0xff) && !mark.matches(14), "{mark:?}");
    // It is one policy, by whichever of its words it is named.
    assert_eq!(lab.errno(&put(0x1f, 0x0f)), libc::EEXIST);
    for index in [0, 1] {
        let named = |kind, value| marked(request(kind, &policy_id(1, index)), value, 0x0f);
        lab.ok(&named(kind::GETPOLICY, 0x0f));
        lab.ok(&named(kind::GETPOLICY, 0xff));
        assert_eq!(lab.errno(&named(kind::GETPOLICY, 0xfe)), libc::ENOENT);
        lab.ok(&named(kind::DELPOLICY, 0xff));
        assert!(lab.db.backend().policies.is_empty());
        lab.ok(&put(0xff, 0x0f));
        let index = lab.db.backend().policies.keys().next().copied().unwrap();
        lab.ok(&marked(request(kind::DELPOLICY, &policy_id(1, index)), 0x0f, 0x0f));
        let wish = PolicyInfo { index: 1, ..policy_info(1) };
        lab.ok(&marked(policy(kind::NEWPOLICY, &wish, &[]), 0xff, 0x0f));
    }
    // By none of its mask no bit counts: it is a policy without a mark.
    lab.ok(&put(5, 0));
    lab.ok(&request(kind::DELPOLICY, &policy_id(1, 0)).finish());
}

#[test]
fn deleting_names_the_policy_as_the_request_did() {
    let mut lab = Lab::new();
    for by_index in [false, true] {
        lab.ok(&policy(kind::NEWPOLICY, &policy_info(1), &[template()]).finish());
        let index = if by_index { index_of(&mut lab, &policy_id(1, 0)) } else { 0 };
        let out = lab.ok(&request(kind::DELPOLICY, &policy_id(1, index)).finish());
        let (group, m) = events(&out)[0];
        assert_eq!((group, header(m).kind), (Group::Policy, kind::DELPOLICY));
        let id: PolicyId = fixed(m);
        assert_eq!(id.index, index);
        assert_eq!(id.selector == selector(), !by_index);
        let info = PolicyInfo::decode(&attribute::<PolicyId>(m, attr::POLICY).unwrap()).unwrap();
        assert_eq!(info.selector, selector());
        assert_eq!(attribute::<PolicyId>(m, attr::TMPL).unwrap(), template().to_bytes());
    }
    assert!(lab.db.backend().policies.is_empty());
}

#[test]
fn live_use_stands_in_answers() {
    let mut lab = Lab::new();
    lab.ok(&policy(kind::NEWPOLICY, &policy_info(1), &[]).finish());
    let live = PolicyLive { bytes: 10, packets: 2, last_use_s: 1_700_000_005 };
    lab.db.backend_mut().policy_live.insert(1, live);
    let out = lab.ok(&request(kind::GETPOLICY, &policy_id(1, 0)).finish());
    let info: PolicyInfo = fixed(replies(&out).next().unwrap());
    assert_eq!((info.current.use_time_s, info.current.packets), (1_700_000_005, 2));
    assert_eq!(info.current.add_time_s, 1_700_000_000);
}

#[test]
fn a_refusal_leaves_the_old_policy() {
    let mut lab = Lab::new();
    lab.ok(&policy(kind::NEWPOLICY, &policy_info(1), &[template()]).finish());
    let before = lab.state();
    lab.db.backend_mut().refuse = Some(Refusal::new(libc::ENOSPC, "full"));
    let other = PolicyInfo { priority: 6, ..policy_info(1) };
    assert_eq!(lab.errno(&policy(kind::UPDPOLICY, &other, &[]).finish()), libc::ENOSPC);
    assert_eq!(lab.errno(&policy(kind::NEWPOLICY, &policy_info(0), &[]).finish()), libc::ENOSPC);
    assert_eq!(lab.state(), before);
    // The index that the refused one would have had is still free.
    lab.db.backend_mut().refuse = None;
    lab.ok(&policy(kind::NEWPOLICY, &policy_info(0), &[]).finish());
    assert_eq!(index_of(&mut lab, &policy_id(0, 0)), 8);
}

#[test]
fn templates_are_checked() {
    let mut lab = Lab::new();
    let t = template();
    let bad = [
        vec![Template { mode: 9, ..t.clone() }],
        vec![Template { optional: 1, ..t.clone() }],
        vec![Template { mode: 0, family: 10, ..t.clone() }],
        vec![Template { family: 7, ..t.clone() }],
        vec![t.clone(); 7],
        vec![{
            let mut t = t.clone();
            t.id.protocol = 17;
            t
        }],
    ];
    for templates in bad {
        let request = policy(kind::NEWPOLICY, &policy_info(1), &templates).finish();
        assert_eq!(lab.errno(&request), libc::EINVAL, "{templates:?}");
    }
    let beet = [Template { mode: 4, ..t.clone() }];
    let out = lab.send(&policy(kind::NEWPOLICY, &policy_info(1), &beet).finish());
    assert_eq!(errno(&out), libc::EPROTONOSUPPORT);
    assert!(text(&out).unwrap().contains("tunnel, transport"));
    assert_eq!(lab.db.policy_counts(), [0; 3]);
    // A template without family has the policy's; inbound ones may be optional.
    let open = [Template { family: 0, optional: 1, ..t }];
    lab.ok(&policy(kind::NEWPOLICY, &policy_info(0), &open).finish());
    let out = lab.ok(&request(kind::GETPOLICY, &policy_id(0, 0)).finish());
    let back = attribute::<PolicyInfo>(replies(&out).next().unwrap(), attr::TMPL).unwrap();
    assert_eq!(Template::decode(&back).unwrap().family, 2);
}

#[test]
fn flushing_and_expiring() {
    let mut lab = Lab::new();
    let flush = xfrm::codec::MessageWriter::new(kind::FLUSHPOLICY, 5, 1, 0).finish();
    assert!(events(&lab.ok(&flush)).is_empty());
    for dir in 0..3 {
        lab.ok(&policy(kind::NEWPOLICY, &policy_info(dir), &[]).finish());
    }
    let soft = PolicyExpire { policy: policy_info(1), ..PolicyExpire::default() };
    let out = lab.ok(&request(kind::POLEXPIRE, &soft).finish());
    assert_eq!(event_kinds(&out), [(Group::Expire, kind::POLEXPIRE)]);
    assert_eq!(lab.db.policy_counts(), [1, 1, 1]);
    let hard = PolicyExpire { hard: 1, ..soft };
    let out = lab.ok(&request(kind::POLEXPIRE, &hard).finish());
    assert_eq!(fixed::<PolicyExpire>(events(&out)[0].1).hard, 1);
    assert_eq!(lab.db.policy_counts(), [1, 0, 1]);
    assert_eq!(lab.errno(&request(kind::POLEXPIRE, &hard).finish()), libc::ENOENT);
    let out = lab.ok(&flush);
    assert_eq!(event_kinds(&out), [(Group::Policy, kind::FLUSHPOLICY)]);
    assert_eq!(out.iter().filter(|o| matches!(o, Output::Change(_))).count(), 2);
    assert!(lab.db.backend().policies.is_empty());
}

#[test]
fn a_flush_of_many_policies_takes_turns() {
    let mut lab = Lab::new();
    let numbered = |n: u32| {
        let mut info = policy_info(0);
        info.selector.src_port = xfrm::codec::Be16(n as u16);
        info.selector.src_port_mask = xfrm::codec::Be16(u16::MAX);
        info
    };
    for n in 1..=1200 {
        lab.ok(&policy(kind::NEWPOLICY, &numbered(n), &[]).finish());
    }
    let flush = xfrm::codec::MessageWriter::new(kind::FLUSHPOLICY, 5, 1, 0).finish();
    let mut out = lab.send(&flush);
    let mut turns = 1;
    while let Some(Output::Flush(_)) = out.last() {
        let Some(Output::Flush(rest)) = out.pop() else { unreachable!() };
        assert_eq!((replies(&out).count(), events(&out).len()), (0, 0), "before the end");
        if turns == 1 {
            // One that has its turn still to come is replaced, and so is young; and a new one.
            lab.ok(&policy(kind::UPDPOLICY, &numbered(5), &[]).finish());
            lab.ok(&policy(kind::NEWPOLICY, &numbered(2000), &[]).finish());
        }
        lab.db.go_on(rest, lab.now, &mut out);
        turns += 1;
    }
    assert!(turns >= 3, "{turns}");
    assert_eq!(event_kinds(&out), [(Group::Policy, kind::FLUSHPOLICY)]);
    assert_eq!(replies(&out).count(), 1);
    assert_eq!(out.iter().filter(|o| matches!(o, Output::Change(_))).count(), 1199);
    assert_eq!((lab.db.policy_counts(), lab.db.backend().policies.len()), ([2, 0, 0], 2));
}

#[test]
fn default_actions() {
    let mut lab = Lab::new();
    let get = || request(kind::GETDEFAULT, &PolicyDefault::default()).finish();
    let read = |lab: &mut Lab| {
        let out = lab.ok(&get());
        fixed::<PolicyDefault>(replies(&out).next().unwrap())
    };
    let all = |n| PolicyDefault { input: n, forward: n, output: n };
    assert_eq!(read(&mut lab), all(2));
    let wanted = PolicyDefault { input: 0, forward: 1, output: 7 };
    let out = lab.ok(&request(kind::SETDEFAULT, &wanted).finish());
    assert_eq!(event_kinds(&out), [(Group::Policy, kind::GETDEFAULT)]);
    let changed = |o: &Output| matches!(o, Output::Change(c) if c.key == RecordKey::Defaults);
    assert!(out.iter().any(changed));
    assert_eq!(read(&mut lab), PolicyDefault { input: 2, forward: 1, output: 2 });
    let defaults = &lab.db.backend().defaults;
    assert_eq!(defaults.get(&(Direction::Forward as u8)), Some(&Action::Block));
    assert_eq!(defaults.len(), 1);
}

#[test]
fn information_about_the_databases() {
    let mut lab = Lab::new();
    for dir in [0, 1, 1] {
        let mut info = policy_info(dir);
        info.selector.user = u32::from(dir) + u32::try_from(lab.state().0.len()).unwrap();
        lab.ok(&policy(kind::NEWPOLICY, &info, &[]).finish());
    }
    lab.ok(&gcm_sa(kind::NEWSA, &sa_info(1)).finish());
    let out = lab.ok(&request(kind::GETSPDINFO, &u32::MAX).finish());
    let m = replies(&out).next().unwrap();
    assert_eq!((header(m).kind, fixed::<u32>(m)), (kind::NEWSPDINFO, u32::MAX));
    // These attributes have numbers of their own: read them by their places.
    let info = SpdInfo::decode(&m[24..]).unwrap();
    assert_eq!((info.input, info.output, info.forward), (1, 2, 0));
    let out = lab.ok(&request(kind::GETSADINFO, &0u32).finish());
    let m = replies(&out).next().unwrap();
    assert_eq!(m[24..28], 1u32.to_ne_bytes());

    let set = |v4: [u8; 2]| {
        let mut w = request(kind::NEWSPDINFO, &0u32);
        w.attribute(attr::SPD_IPV4_HTHRESH, &v4).take()
    };
    assert_eq!(lab.errno(&set([33, 0])), libc::EINVAL);
    lab.ok(&set([24, 16]));
    let out = lab.ok(&request(kind::GETSPDINFO, &0u32).finish());
    let m = replies(&out).next().unwrap();
    assert_eq!(m[16 + 4 + 28 + 12 + 4..][..2], [24, 16]);
}
