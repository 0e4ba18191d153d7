//! Which policy and which SA a packet that leaves gets (Linux's `xfrm_state_find`).

use std::net::IpAddr;

use crate::common::{TCP, UDP, any4, everything, headers, hosts, policy, sa, template, v4, v6};
use esp::{Mode, Protocol};
use policy::{
    Action, Databases, Direction, Flow, Mark, Outbound, PolicyConfig, PortMask, Reader, SaConfig,
    SaState, Selector, Template,
};

/// The SPI that a packet 10.0.0.1 → `dst` is protected with.
fn protected_to(reader: &mut Reader<()>, dst: IpAddr) -> Option<u32> {
    reader.refresh();
    let h = headers(v4(1), dst, UDP, 1, 2);
    match reader.outbound(&Flow::new(&h, 3)) {
        Outbound::Protect(_, sa) => reader.sa(sa).map(|sa| sa.config.params.spi),
        Outbound::NoState(..) => None,
        other => panic!("{other:?}"),
    }
}

fn with_template(template: Template) -> (Databases<()>, Reader<()>) {
    let mut databases = Databases::new();
    let protect = PolicyConfig { templates: vec![template], ..policy(1, Direction::Out, 5) };
    databases.put_policy(protect);
    let reader = databases.reader();
    (databases, reader)
}

#[test]
fn policies_of_devices_come_before_all_others() {
    let mut databases = Databases::<()>::new();
    let mut reader = databases.reader();
    let h = headers(v4(1), v4(2), UDP, 1, 2);
    let mut put = |index, priority, device, selector| {
        let mut config = PolicyConfig { selector, ..policy(index, Direction::Out, priority) };
        config.flags.device = device;
        databases.put_policy(config);
        reader.refresh();
        reader.outbound(&Flow::new(&h, 3)).policy().map(|policy| policy.config.index)
    };
    let (wide, narrow) = (everything(), hosts(v4(1), v4(2)));
    assert_eq!(put(1, 0, None, narrow), Some(1));
    assert_eq!(put(2, u32::MAX, Some(0), wide), Some(2));
    assert_eq!(put(3, 7, Some(1), narrow), Some(3), "by priority among themselves");
    assert_eq!(put(4, 7, Some(0), wide), Some(3), "the older one");
    // A replacement of the same priority keeps its place; another one does not.
    assert_eq!(put(3, 7, Some(1), wide), Some(3));
    assert_eq!(put(3, 8, Some(1), narrow), Some(4));
    assert_eq!(put(4, 1, None, wide), Some(3));
    assert_eq!(put(3, 1, None, wide), Some(2));
    assert_eq!(put(2, 1, None, wide), Some(1));
}

#[test]
fn every_verdict() {
    let mut databases = Databases::<()>::new();
    let mut reader = databases.reader();
    let h = headers(v4(1), v4(2), UDP, 1, 2);
    let flow = Flow::new(&h, 3);
    assert!(matches!(reader.outbound(&flow), Outbound::NoPolicy));
    databases.set_default(Direction::Out, Action::Block);
    assert!(matches!(reader.outbound(&flow), Outbound::NoPolicy), "not before the refresh");
    assert!(reader.refresh());
    assert!(!reader.refresh());
    assert!(matches!(reader.outbound(&flow), Outbound::DefaultBlock));

    let esp = template(v4(9));
    let ah = Template { protocol: 51, ..esp };
    let ipcomp = Template { protocol: 108, optional: true, ..esp };
    let mut put = |action, templates: &[Template]| {
        let config = policy(1, Direction::Out, 5);
        let entry =
            databases.put_policy(PolicyConfig { action, templates: templates.to_vec(), ..config });
        reader.refresh();
        let verdict = match reader.outbound(&flow) {
            Outbound::Bypass(_) => "bypass",
            Outbound::Block(_) => "block",
            Outbound::Leave(_) => "leave",
            Outbound::Unsupported(_) => "unsupported",
            Outbound::NoState(..) => "no state",
            other => panic!("{other:?}"),
        };
        assert_eq!(entry.is_unsupported(), verdict == "unsupported");
        verdict
    };
    assert_eq!(put(Action::Allow, &[]), "bypass");
    assert_eq!(put(Action::Block, &[]), "block");
    assert_eq!(put(Action::Block, &[esp]), "block");
    assert_eq!(put(Action::Leave, &[]), "leave");
    assert_eq!(put(Action::Leave, &[esp]), "leave");
    assert_eq!(put(Action::Leave, &[esp, esp, ah, ah]), "leave");
    assert_eq!(put(Action::Allow, &[esp]), "no state");
    assert_eq!(put(Action::Allow, &[Template { optional: true, ..esp }]), "no state");
    assert_eq!(put(Action::Allow, &[ah]), "no state");
    assert_eq!(put(Action::Allow, &[esp, ah]), "no state");
    assert_eq!(put(Action::Allow, &[esp, esp, ah]), "no state");
    assert_eq!(put(Action::Allow, &[esp, esp, ah, ah]), "unsupported");
    assert_eq!(put(Action::Allow, &[ipcomp]), "unsupported");
    assert_eq!(put(Action::Allow, &[ipcomp, esp]), "no state");
    assert_eq!(put(Action::Allow, &[ipcomp, esp, ah]), "no state");
    assert_eq!(put(Action::Allow, &[ipcomp, ipcomp, esp]), "unsupported");
    assert_eq!(put(Action::Allow, &[esp, ipcomp]), "unsupported");
}

/// Compression that is not insisted on, and has no SA, is left out; protection never is.
#[test]
fn optional_compression_is_left_out() {
    for (optional, expected) in [(true, Some(1)), (false, None)] {
        let mut databases = Databases::new();
        let transport =
            Template { mode: Mode::Transport, src: any4(), dst: any4(), ..template(v4(2)) };
        let ipcomp = Template { protocol: 108, optional, reqid: 7, ..transport };
        databases.put_policy(PolicyConfig {
            templates: vec![ipcomp, transport],
            ..policy(1, Direction::Out, 5)
        });
        let mut reader = databases.reader();
        let h = headers(v4(1), v4(2), UDP, 1, 2);
        let flow = Flow::new(&h, 3);
        reader.refresh();
        assert!(matches!(reader.outbound(&flow), Outbound::NoState(..)));
        let mut esp = sa(v4(2), 5);
        (esp.params.mode, esp.params.src) = (Mode::Transport, v4(1));
        databases.add_sa(esp, ()).unwrap();
        reader.refresh();
        let found = match reader.outbound(&flow) {
            Outbound::ProtectAll(_, bundle) => Some(bundle.as_slice().len()),
            Outbound::NoState(_, template) => {
                assert_eq!(template.protocol, 108);
                None
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(found, expected);
    }
}

#[test]
fn every_template_has_its_sa() {
    let (mut databases, mut reader) = (Databases::new(), None);
    let outer = Template {
        protocol: 51,
        mode: Mode::Transport,
        reqid: 2,
        src: any4(),
        dst: any4(),
        ..template(v4(9))
    };
    databases.put_policy(PolicyConfig {
        templates: vec![template(v4(9)), outer],
        ..policy(1, Direction::Out, 5)
    });
    let h = headers(v4(1), v4(2), UDP, 1, 2);
    let flow = Flow::new(&h, 3);
    let mut ask = |databases: &Databases<()>| {
        let reader: &mut policy::Reader<()> = reader.get_or_insert_with(|| databases.reader());
        reader.refresh();
        match reader.outbound(&flow) {
            Outbound::NoState(_, template) => Err(template.protocol),
            Outbound::ProtectAll(_, bundle) => {
                let spi = |sa| reader.sa(sa).map(|sa| sa.config.params.spi);
                Ok(bundle.as_slice().iter().filter_map(|sa| spi(*sa)).collect::<Vec<_>>())
            }
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(ask(&databases), Err(50));
    databases.add_sa(sa(v4(9), 5), ()).unwrap();
    assert_eq!(ask(&databases), Err(51));
    // Between the tunnel's ends, not the packet's own.
    let ah = |dst, protocol, reqid| {
        let mut config = sa(dst, 6);
        config.params.protocol = protocol;
        config.params.mode = Mode::Transport;
        config.reqid = reqid;
        config
    };
    for wrong in
        [ah(v4(2), Protocol::Ah, 2), ah(v4(9), Protocol::Esp, 2), ah(v4(9), Protocol::Ah, 1)]
    {
        let id = databases.add_sa(wrong, ()).unwrap().config.id();
        assert_eq!(ask(&databases), Err(51));
        databases.remove_sa(&id);
    }
    databases.add_sa(ah(v4(9), Protocol::Ah, 2), ()).unwrap();
    assert_eq!(ask(&databases), Ok(vec![5, 6]));
}

#[test]
fn each_field_of_the_sa_is_compared() {
    type Edit = fn(&mut SaConfig);
    let cases: &[(&str, Edit, bool)] = &[
        ("as is", |_| (), true),
        ("other reqid", |c| c.reqid = 2, false),
        ("no reqid", |c| c.reqid = 0, false),
        ("other destination", |c| c.params.dst = v4(8), false),
        ("other source", |c| c.params.src = v4(8), false),
        ("any source", |c| c.params.src = any4(), true),
        ("transport", |c| c.params.mode = Mode::Transport, false),
        ("XFRM interface", |c| c.if_id = 1, false),
        ("mark that the policy lacks", |c| c.mark = Mark { value: 1, mask: 1 }, false),
        ("mark 0 of mask 1", |c| c.mark = Mark { value: 0, mask: 1 }, true),
        ("selector that fits", |c| c.selector = Some(hosts(v4(1), v4(2))), true),
        ("selector that does not", |c| c.selector = Some(hosts(v4(1), v4(3))), false),
        ("selector of the other family", |c| c.selector = Some(hosts(v6(1), v6(2))), false),
    ];
    for (name, edit, found) in cases {
        let (mut databases, mut reader) = with_template(template(v4(9)));
        let mut config = sa(v4(9), 5);
        edit(&mut config);
        databases.add_sa(config, ()).unwrap();
        assert_eq!(protected_to(&mut reader, v4(2)), found.then_some(5), "{name}");
    }
}

#[test]
fn template_spi_and_unspecified_source() {
    let named = Template { spi: 6, ..template(v4(9)) };
    let (mut databases, mut reader) = with_template(named);
    databases.add_sa(sa(v4(9), 7), ()).unwrap();
    assert_eq!(protected_to(&mut reader, v4(2)), None);
    databases.add_sa(sa(v4(9), 6), ()).unwrap();
    assert_eq!(protected_to(&mut reader, v4(2)), Some(6));

    let (mut databases, mut reader) = with_template(Template { src: any4(), ..template(v4(9)) });
    databases.add_sa(sa(v4(9), 7), ()).unwrap();
    assert_eq!(protected_to(&mut reader, v4(2)), Some(7));
}

#[test]
fn the_very_source_beats_any_source_even_when_dying() {
    let (mut databases, mut reader) = with_template(template(v4(9)));
    let exact = databases.add_sa(sa(v4(9), 5), ()).unwrap();
    let mut any = sa(v4(9), 6);
    any.params.src = any4();
    databases.add_sa(any, ()).unwrap();
    assert_eq!(protected_to(&mut reader, v4(2)), Some(5));
    exact.advance(SaState::Dying);
    assert_eq!(protected_to(&mut reader, v4(2)), Some(5));
    exact.advance(SaState::Expired);
    assert_eq!(protected_to(&mut reader, v4(2)), Some(6));
}

#[test]
fn transport_mode_goes_by_the_packets_own_addresses() {
    let transport =
        Template { src: any4(), dst: any4(), mode: Mode::Transport, ..template(any4()) };
    let (mut databases, mut reader) = with_template(transport);
    for n in 2..5 {
        let mut config = sa(v4(n), u32::from(n));
        config.params.mode = Mode::Transport;
        databases.add_sa(config, ()).unwrap();
    }
    let mut foreign = sa(v4(5), 5);
    foreign.params.mode = Mode::Transport;
    foreign.params.src = v4(200);
    databases.add_sa(foreign, ()).unwrap();
    for n in 2..5 {
        assert_eq!(protected_to(&mut reader, v4(n)), Some(u32::from(n)));
    }
    assert_eq!(protected_to(&mut reader, v4(5)), None, "from another source");
    assert_eq!(protected_to(&mut reader, v4(6)), None);
}

#[test]
fn a_policys_mark_and_interface_choose_among_sas() {
    let mut databases = Databases::<()>::new();
    for n in 1..=3u32 {
        databases.put_policy(PolicyConfig {
            templates: vec![template(v4(9))],
            mark: Mark { value: n, mask: 0xff },
            ..policy(n, Direction::Out, 5)
        });
        let mut config = sa(v4(9), n);
        config.mark = Mark { value: n, mask: u32::MAX };
        databases.add_sa(config, ()).unwrap();
        databases.put_policy(PolicyConfig {
            templates: vec![template(v4(9))],
            if_id: n,
            ..policy(10 + n, Direction::Out, 5)
        });
        let mut config = sa(v4(9), 10 + n);
        config.if_id = n;
        databases.add_sa(config, ()).unwrap();
    }
    let reader = databases.reader();
    let h = headers(v4(1), v4(2), UDP, 1, 2);
    let spi = |flow: Flow<'_>| match reader.outbound(&flow) {
        Outbound::Protect(_, sa) => reader.sa(sa).map(|sa| sa.config.params.spi),
        Outbound::NoPolicy => None,
        other => panic!("{other:?}"),
    };
    for n in 1..=3 {
        assert_eq!(spi(Flow { mark: 0xab00 | n, ..Flow::new(&h, 3) }), Some(n));
        assert_eq!(spi(Flow { if_id: n, ..Flow::new(&h, 3) }), Some(10 + n));
    }
    assert_eq!(spi(Flow::new(&h, 3)), None);
    assert_eq!(spi(Flow { if_id: 4, ..Flow::new(&h, 3) }), None);
}

#[test]
fn rekeying_prefers_the_younger_and_leaves_no_gap() {
    let (mut databases, mut reader) = with_template(template(v4(9)));
    let mut old = sa(v4(9), 1);
    old.added_s = 100;
    let old_id = old.id();
    databases.add_sa(old, ()).unwrap();
    assert_eq!(protected_to(&mut reader, v4(2)), Some(1));
    let mut new = sa(v4(9), 2);
    new.added_s = 200;
    databases.add_sa(new, ()).unwrap();
    assert_eq!(protected_to(&mut reader, v4(2)), Some(2));
    // The old inbound SA lives until its owner deletes it.
    assert!(reader.inbound_sa(v4(9), 1, crate::common::ESP, 0).is_some());
    let gone = databases.remove_sa(&old_id).unwrap();
    assert!(gone.is_removed());
    assert_eq!(protected_to(&mut reader, v4(2)), Some(2));
    assert!(reader.inbound_sa(v4(9), 1, crate::common::ESP, 0).is_none());
}

#[test]
fn of_one_second_the_later_generation_and_valid_before_dying() {
    let (mut databases, mut reader) = with_template(template(v4(9)));
    // Installed in an order that is not their age.
    for spi in [2, 3, 1] {
        databases.add_sa(sa(v4(9), spi), ()).unwrap();
    }
    assert_eq!(protected_to(&mut reader, v4(2)), Some(3));
    let id = |spi| sa(v4(9), spi).id();
    databases.sa(&id(3)).unwrap().advance(SaState::Dying);
    assert_eq!(protected_to(&mut reader, v4(2)), Some(2));
    databases.sa(&id(2)).unwrap().advance(SaState::Dying);
    assert_eq!(protected_to(&mut reader, v4(2)), Some(1));
    databases.sa(&id(1)).unwrap().advance(SaState::Dying);
    assert_eq!(protected_to(&mut reader, v4(2)), Some(3), "all dying: the youngest");
    for spi in 1..=3 {
        databases.sa(&id(spi)).unwrap().advance(SaState::Expired);
    }
    assert_eq!(protected_to(&mut reader, v4(2)), None);
}

#[test]
fn inbound_sas_are_told_apart_by_mark_and_only_added_once() {
    let mut databases = Databases::new();
    let mut config = sa(v4(9), 5);
    databases.add_sa(config.clone(), 'a').unwrap();
    assert!(databases.add_sa(config.clone(), 'b').is_err());
    config.mark = Mark { value: 4, mask: 0xff };
    config.generation += 1;
    databases.add_sa(config.clone(), 'c').unwrap();
    assert_eq!(databases.sa_count(), 2);
    let reader = databases.reader();
    let found = |dst, protocol, mark| {
        reader.inbound_sa(dst, 5, protocol, mark).and_then(|sa| reader.sa(sa)).map(|sa| sa.esp)
    };
    let esp = |mark| found(v4(9), crate::common::ESP, mark);
    assert_eq!(esp(0), Some('a'));
    assert_eq!(esp(4), Some('c'), "the younger of two that match");
    assert_eq!(esp(0x104), Some('c'));
    assert_eq!(found(v4(9), 51, 0), None);
    assert_eq!(found(v4(8), crate::common::ESP, 0), None);
    assert_eq!(databases.remove_sa(&config.id()).unwrap().esp, 'c');
    assert!(databases.remove_sa(&config.id()).is_none());
    assert_eq!(databases.sas().map(|sa| sa.esp).collect::<Vec<_>>(), ['a']);
}

#[test]
fn replacing_an_sa_moves_it_between_reqids() {
    let (mut databases, mut reader) = with_template(template(v4(9)));
    let mut config = sa(v4(9), 5);
    let first = databases.add_sa(config.clone(), ()).unwrap();
    config.reqid = 2;
    databases.replace_sa(config.clone(), ());
    assert_eq!(protected_to(&mut reader, v4(2)), None);
    config.reqid = 1;
    databases.replace_sa(config.clone(), ());
    assert_eq!(protected_to(&mut reader, v4(2)), Some(5));
    assert!(!first.is_removed(), "replaced, not deleted");
    assert_eq!(databases.sa_count(), 1);
    databases.remove_sa(&config.id());
    assert_eq!(protected_to(&mut reader, v4(2)), None);
    assert_eq!(databases.sa_count(), 0);
}

#[test]
fn a_refresh_frees_what_was_deleted() {
    let (mut databases, mut reader) = with_template(template(v4(9)));
    let weak = std::sync::Arc::downgrade(&databases.add_sa(sa(v4(9), 5), ()).unwrap());
    reader.refresh();
    databases.remove_sa(&sa(v4(9), 5).id());
    assert!(weak.upgrade().is_some(), "the view stands still");
    reader.refresh();
    assert!(weak.upgrade().is_none());
}

#[test]
fn policy_order_is_priority_then_age() {
    let mut databases = Databases::<()>::new();
    let mut reader = databases.reader();
    let h = headers(v4(1), v4(2), TCP, 1, 2);
    let mut decides = |databases: &mut Databases<()>, config: PolicyConfig| {
        databases.put_policy(config);
        reader.refresh();
        reader.policy(Direction::Out, &Flow::new(&h, 3)).unwrap().config.index
    };
    let narrow = hosts(v4(1), v4(2));
    assert_eq!(decides(&mut databases, policy(1, Direction::Out, 10)), 1);
    // Same priority, more specific, but younger: the older decides.
    let same = PolicyConfig { selector: narrow, ..policy(2, Direction::Out, 10) };
    assert_eq!(decides(&mut databases, same.clone()), 1);
    assert_eq!(decides(&mut databases, policy(3, Direction::Out, 9)), 3);
    assert_eq!(decides(&mut databases, policy(3, Direction::Out, 10)), 1, "3 is the youngest now");
    // A replacement of the same priority keeps the place.
    assert_eq!(
        decides(&mut databases, PolicyConfig { if_id: 0, ..policy(1, Direction::Out, 10) }),
        1
    );
    assert_eq!(decides(&mut databases, policy(1, Direction::Out, 11)), 2);
    assert_eq!(decides(&mut databases, policy(1, Direction::Out, 10)), 2);
}

#[test]
fn icmp_type_and_code_and_port_masks_select() {
    let mut databases = Databases::<()>::new();
    let port = |value| PortMask { value, mask: u16::MAX };
    let echo = Selector { protocol: 1, src_port: port(8), dst_port: port(0), ..everything() };
    databases.put_policy(PolicyConfig { selector: echo, ..policy(1, Direction::Out, 1) });
    let high = PortMask { value: 0x8000, mask: 0x8000 };
    let high = Selector { protocol: UDP, dst_port: high, ..everything() };
    databases.put_policy(PolicyConfig { selector: high, ..policy(2, Direction::Out, 1) });
    let reader = databases.reader();
    let index = |protocol, src_port, dst_port| {
        let h = headers(v4(1), v4(2), protocol, src_port, dst_port);
        reader.policy(Direction::Out, &Flow::new(&h, 0)).map(|p| p.config.index)
    };
    assert_eq!(index(1, 8, 0), Some(1));
    assert_eq!(index(1, 0, 0), None);
    assert_eq!(index(1, 8, 1), None);
    assert_eq!(index(UDP, 8, 0x8000), Some(2));
    assert_eq!(index(UDP, 8, 0xffff), Some(2));
    assert_eq!(index(UDP, 8, 0x7fff), None);
}

#[test]
fn later_fragments_do_not_slip_past_policies_that_name_ports() {
    let port = |value| PortMask { value, mask: u16::MAX };
    let web = Selector { protocol: TCP, dst_port: port(443), ..everything() };
    let decides = |template: Vec<Template>, action| {
        let mut databases = Databases::<()>::new();
        let named = PolicyConfig {
            selector: web,
            action,
            templates: template,
            ..policy(1, Direction::Out, 1)
        };
        databases.put_policy(named);
        let reader = databases.reader();
        let mut h = headers(v4(1), v4(2), TCP, 0, 0);
        h.fragment = wire::Fragment::Later;
        reader.policy(Direction::Out, &Flow::new(&h, 0)).is_some()
    };
    assert!(decides(vec![template(v4(9))], Action::Allow), "left in clear");
    assert!(decides(Vec::new(), Action::Block), "left past a block");
    // What a bypass names lets no more pass than it names.
    assert!(!decides(Vec::new(), Action::Allow));
}
