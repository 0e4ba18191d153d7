//! The policy database against a plain list that is scanned.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::common::{headers, template, v4};
use policy::{
    Action, Databases, Direction, Flow, Mark, PolicyConfig, PolicyFlags, PortMask, Prefix, Selector,
};
use proptest::collection::vec;
use proptest::prelude::*;
use wire::{Fragment, Headers};

/// The database as Linux describes it: a list in order, the first match decides.
#[derive(Default)]
struct List(Vec<PolicyConfig>);

impl List {
    fn put(&mut self, new: PolicyConfig) {
        let old = self.0.iter().position(|p| p.index == new.index);
        if let Some(at) = old {
            if self.0[at].priority == new.priority {
                self.0[at] = new;
                return;
            }
            self.0.remove(at);
        }
        let at = self.0.iter().position(|p| p.priority > new.priority).unwrap_or(self.0.len());
        self.0.insert(at, new);
    }

    fn remove(&mut self, index: u32) -> bool {
        let before = self.0.len();
        self.0.retain(|p| p.index != index);
        self.0.len() < before
    }

    fn find(&self, direction: Direction, flow: &Flow<'_>) -> Option<&PolicyConfig> {
        self.0.iter().find(|p| {
            let s = &p.selector;
            let is_bypass = p.action == Action::Allow && p.templates.is_empty();
            p.direction == direction
                && p.if_id == flow.if_id
                && flow.mark & p.mark.mask == p.mark.value
                && (s.ifindex == 0 || s.ifindex == flow.ifindex || flow.ifindex == 0 && !is_bypass)
                && (s.matches(flow.headers)
                    // A fragment without ports does not slip past a policy that names some.
                    || flow.headers.fragment == Fragment::Later
                        && !is_bypass
                        && Selector {
                            src_port: PortMask::default(),
                            dst_port: PortMask::default(),
                            ..*s
                        }
                        .matches(flow.headers))
        })
    }
}

#[derive(Clone, Debug)]
enum Step {
    Put(Box<PolicyConfig>),
    Remove(u32),
    Look(Box<Packet>),
}

#[derive(Clone, Debug)]
struct Packet {
    headers: Headers,
    direction: Direction,
    ifindex: u32,
    mark: u32,
    if_id: u32,
}

/// Few distinct values, so that selectors overlap and packets meet them.
fn addr(is_v6: bool) -> impl Strategy<Value = IpAddr> {
    (0..3u8, 0..3u8).prop_map(move |(net, host)| {
        if is_v6 {
            Ipv6Addr::new(0x2001, 0xdb8, net.into(), 0, 0, 0, 0, host.into()).into()
        } else {
            Ipv4Addr::new(10, net, 0, host).into()
        }
    })
}

fn prefix(is_v6: bool) -> impl Strategy<Value = Prefix> {
    // Most match everything: policies have to meet under one key as well.
    let lens: &[u8] = match is_v6 {
        true => &[0, 0, 0, 0, 0, 0, 32, 48, 127, 128, 255],
        false => &[0, 0, 0, 0, 0, 0, 8, 16, 31, 32, 255],
    };
    (addr(is_v6), prop::sample::select(lens)).prop_map(|(addr, len)| Prefix { addr, len })
}

fn port() -> impl Strategy<Value = PortMask> {
    (0..4u16, prop::sample::select(&[0u16, 0, 0xffff, 0xfffe][..]))
        .prop_map(|(value, mask)| PortMask { value, mask })
}

fn direction() -> impl Strategy<Value = Direction> {
    prop::sample::select(&[Direction::In, Direction::Out, Direction::Forward][..])
}

prop_compose! {
    fn selector()(is_v6 in any::<bool>())(
        src in prefix(is_v6),
        dst in prefix(is_v6),
        protocol in prop::sample::select(&[0u8, 0, 1, 6, 17][..]),
        src_port in port(),
        dst_port in port(),
        ifindex in prop::sample::select(&[0u32, 0, 0, 1, 2][..]),
    ) -> Selector {
        Selector { src, dst, protocol, src_port, dst_port, ifindex, user: 0 }
    }
}

prop_compose! {
    fn config()(
        index in 1..60u32,
        direction in direction(),
        selector in selector(),
        priority in prop::sample::select(&[0u32, 1, 2, 3, u32::MAX][..]),
        block in any::<bool>(),
        protects in any::<bool>(),
        mark in prop::sample::select(&[(0, 0), (0, 0), (0, 0), (0, 0), (1, 1), (1, 3), (0, 3), (5, 3)][..]),
        if_id in prop::sample::select(&[0u32, 0, 0, 0, 1][..]),
    ) -> PolicyConfig {
        PolicyConfig {
            index,
            direction,
            selector,
            priority,
            action: if block { Action::Block } else { Action::Allow },
            flags: PolicyFlags::default(),
            templates: if protects { vec![template(v4(9))] } else { Vec::new() },
            mark: Mark { value: mark.0, mask: mark.1 },
            if_id,
        }
    }
}

prop_compose! {
    fn packet()(is_v6 in any::<bool>())(
        src in addr(is_v6),
        dst in addr(is_v6),
        protocol in prop::sample::select(&[1u8, 6, 17][..]),
        src_port in 0..4u16,
        dst_port in 0..4u16,
        fragment in prop::sample::select(&[Fragment::Whole, Fragment::First, Fragment::Later][..]),
        direction in direction(),
        ifindex in 0..4u32,
        mark in 0..8u32,
        if_id in 0..2u32,
    ) -> Packet {
        let mut headers = headers(src, dst, protocol, src_port, dst_port);
        headers.fragment = fragment;
        Packet { headers, direction, ifindex, mark, if_id }
    }
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => config().prop_map(|c| Step::Put(Box::new(c))),
        1 => (1..60u32).prop_map(Step::Remove),
        6 => packet().prop_map(|p| Step::Look(Box::new(p))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_a_linear_scan(steps in vec(step(), 1..250)) {
        let mut list = List::default();
        let mut databases = Databases::<()>::new();
        let mut reader = databases.reader();
        for step in steps {
            match step {
                Step::Put(config) => {
                    list.put((*config).clone());
                    databases.put_policy(*config);
                }
                Step::Remove(index) => {
                    prop_assert_eq!(databases.remove_policy(index).is_some(), list.remove(index));
                }
                Step::Look(p) => {
                    reader.refresh();
                    let flow = Flow {
                        headers: &p.headers,
                        ifindex: p.ifindex,
                        mark: p.mark,
                        if_id: p.if_id,
                        worker: None,
                    };
                    let named = list.0.iter().any(|p| p.selector.ifindex != 0);
                    prop_assert_eq!(reader.names_interfaces(), named);
                    let names = |s: &Selector| s.src_port.mask != 0 || s.dst_port.mask != 0;
                    let named = list.0.iter().any(|p| names(&p.selector));
                    prop_assert_eq!(reader.names_ports(), named);
                    let found = reader.policy(p.direction, &flow).map(|e| &e.config);
                    prop_assert_eq!(found, list.find(p.direction, &flow));
                }
            }
        }
        prop_assert_eq!(databases.policies().len(), list.0.len());
    }
}

/// Host pairs, networks and wildcards by the thousand, then most of them removed again.
#[test]
fn ten_thousand_policies_are_found_and_forgotten() {
    let mut databases = Databases::<()>::new();
    let mut reader = databases.reader();
    let host = |i: u32| IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + i));
    for i in 1..=10_000 {
        let mut config = crate::common::policy(i, Direction::Out, 100 + i % 7);
        config.selector = crate::common::hosts(host(i), host(i + 1));
        databases.put_policy(config);
    }
    let mut catch_all = crate::common::policy(20_000, Direction::Out, 1000);
    catch_all.action = Action::Block;
    databases.put_policy(catch_all);
    reader.refresh();
    let find = |reader: &policy::Reader<()>, i| {
        let h = headers(host(i), host(i + 1), 17, 1, 2);
        reader.policy(Direction::Out, &Flow::new(&h, 0)).unwrap().config.index
    };
    for i in 1..=10_000 {
        assert_eq!(find(&reader, i), i);
    }
    for i in (1..=10_000).filter(|i| i % 10 != 0) {
        databases.remove_policy(i).unwrap();
    }
    while reader.is_behind() {
        assert!(reader.refresh());
    }
    assert!(!reader.refresh());
    for i in 1..=10_000 {
        assert_eq!(find(&reader, i), if i % 10 == 0 { i } else { 20_000 });
    }
}

/// Route-based VPNs: all policies have the same selector and differ in the XFRM interface only.
#[test]
fn policies_that_differ_in_the_interface_only() {
    let mut databases = Databases::<()>::new();
    for i in 1..=3000 {
        databases
            .put_policy(PolicyConfig { if_id: i, ..crate::common::policy(i, Direction::Out, 1) });
    }
    let reader = databases.reader();
    let h = headers(v4(1), v4(2), 17, 1, 2);
    for i in 1..=3000 {
        let flow = Flow { if_id: i, ..Flow::new(&h, 0) };
        assert_eq!(reader.policy(Direction::Out, &flow).unwrap().config.index, i);
    }
    assert!(reader.policy(Direction::Out, &Flow::new(&h, 0)).is_none());
}
