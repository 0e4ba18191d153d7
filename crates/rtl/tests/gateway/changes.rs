//! Tables that change while packets flow, lifetimes, and what a program has to be told.

use core::sync::atomic::Ordering::Relaxed;

use crypto::{AesKey, IcvLen, Suite};
use esp::Mode;
use rtl::{
    Action, Counters, Direction, Drop, Event, EventKind, Policy, Selector, Side, TableError,
};

use crate::packets;
use crate::world::{self, World, here, there};

const GCM: Suite = Suite::AesGcm { key: AesKey::Aes128, icv: IcvLen::Icv16 };

fn udp(number: u8, len: usize) -> Vec<u8> {
    let mut upper = vec![0; 8 + len];
    upper[5] = 8 + len as u8;
    packets::ip(here(number, false), there(number, false), 0, 17, &upper)
}

fn protect(world: &World, number: usize) -> Policy {
    Policy {
        selector: Selector::between((here(0, false), 0), (there(number as u8, false), 24)),
        action: Action::Protect(world.tunnels[number].out),
        priority: 7,
        is_low_class: false,
    }
}

/// Sends a packet and returns what comes out.
fn send(world: &mut World, packet: &[u8]) -> Option<Vec<u8>> {
    world.gateway.push(Side::Protected, packet);
    world.gateway.tick(1500);
    world.gateway.pull(Side::Unprotected)
}

/// Hundreds of policies and SAs are put in and taken out, in any order, while packets of one tunnel
/// flow: none of those is lost, and what was taken out is gone.
#[test]
fn others_come_and_go() {
    let mut world = World::new(3);
    let number = world.add_tunnel(GCM, Mode::Tunnel, false, false);
    let policy = protect(&world, number);
    world.tables.add_policy(&mut world.gateway, Direction::Outbound, policy).unwrap();
    let mut entries = Vec::new();
    let mut came_out = 0;
    for round in 0..600u16 {
        let is_leaving = entries.len() > 120 || (!entries.is_empty() && world.random.one_in(3));
        if is_leaving {
            let (policy, out, back) = entries.swap_remove(world.random.below(entries.len()));
            let (tables, gateway) = (&mut world.tables, &mut world.gateway);
            assert!(matches!(
                tables.remove_sa(gateway, Direction::Outbound, out),
                Err(TableError::InUse(_))
            ));
            tables.remove_policy(gateway, Direction::Outbound, policy).unwrap();
            tables.remove_sa(gateway, Direction::Outbound, out).unwrap();
            tables.remove_sa(gateway, Direction::Inbound, back).unwrap();
        } else {
            let sa = |world: &World, spi| {
                let (_, sa) = world.tables.sas(Direction::Outbound).next().unwrap();
                rtl::Sa { spi, ..sa.clone() }
            };
            let (one, two) = (sa(&world, 0x2_0000 + u32::from(round)), sa(&world, round.into()));
            let (tables, gateway) = (&mut world.tables, &mut world.gateway);
            let out = tables.add_sa(gateway, Direction::Outbound, one, 0).unwrap();
            let back = tables.add_sa(gateway, Direction::Inbound, two, 0).unwrap();
            let net = [10, 99, (round >> 8) as u8, round as u8];
            let selector = Selector::between((here(0, false), 0), (net.into(), 32));
            let action = Action::Protect(out);
            let policy = Policy { selector, action, priority: 9, is_low_class: true };
            let policy = tables.add_policy(gateway, Direction::Outbound, policy).unwrap();
            entries.push((policy, out, back));
        }
        world.gateway.push(Side::Protected, &udp(0, usize::from(round % 90)));
        world.gateway.tick(40);
        came_out += core::iter::from_fn(|| world.gateway.pull(Side::Unprotected)).count();
    }
    world.gateway.tick(5000);
    came_out += core::iter::from_fn(|| world.gateway.pull(Side::Unprotected)).count();
    assert_eq!(came_out, 600);
    // What is there is found, and what went is not.
    for (_, out, _) in &entries {
        let policies: Vec<Policy> =
            world.tables.policies(Direction::Outbound).map(|(_, p)| *p).collect();
        let policy = policies.iter().find(|p| p.action == Action::Protect(*out)).unwrap();
        let packet = packets::ip(here(0, false), policy.selector.dst.0, 0, 17, &[0; 8]);
        let spi = world.tables.sas(Direction::Outbound).find(|(i, _)| i == out).unwrap().1.spi;
        let sealed = send(&mut world, &packet).expect("a policy that is there");
        assert_eq!(sealed[20..24], spi.to_be_bytes());
    }
    let before = Counters::read(&mut world.gateway, false).dropped(Drop::NoPolicy);
    let gone = packets::ip(here(0, false), [10, 99, 200, 200].into(), 0, 17, &[0; 8]);
    assert_eq!(send(&mut world, &gone), None);
    assert_eq!(Counters::read(&mut world.gateway, false).dropped(Drop::NoPolicy), before + 1);
}

/// An SA is replaced as IKE does it: the new pair is there before the old one goes. Every packet that
/// either side sealed meanwhile passes.
#[test]
fn a_rekey_loses_nothing() {
    let mut world = World::new(6);
    let old = world.add_tunnel(GCM, Mode::Tunnel, false, false);
    let policy = protect(&world, old);
    let policy = world.tables.add_policy(&mut world.gateway, Direction::Outbound, policy).unwrap();
    let inbound = Policy {
        selector: Selector::between((there(0, false), 24), (here(0, false), 0)),
        action: Action::Require(world::reqid(0)),
        priority: 7,
        is_low_class: false,
    };
    world.tables.add_policy(&mut world.gateway, Direction::Inbound, inbound).unwrap();
    let back = |n: u8| packets::ip(there(0, false), here(0, false), 0, 17, &[n; 30]);
    let late: Vec<Vec<u8>> =
        (0..20).map(|n| world.software.seal(&world.tunnels[old].sender, &back(n))).collect();

    let new = world.add_tunnel(GCM, Mode::Tunnel, false, false);
    let (_, sa) = world.tables.sas(Direction::Inbound).nth(1).unwrap();
    let sa = rtl::Sa { reqid: world::reqid(0), ..sa.clone() };
    let new_back = world.tunnels[new].back;
    world.tables.remove_sa(&mut world.gateway, Direction::Inbound, new_back).unwrap();
    world.tables.add_sa(&mut world.gateway, Direction::Inbound, sa, 0).unwrap();
    world.gateway.push(Side::Protected, &udp(0, 11));
    world.tables.change_sa(&mut world.gateway, policy, world.tunnels[new].out).unwrap();
    world.gateway.push(Side::Protected, &udp(0, 12));
    for sealed in &late {
        world.gateway.push(Side::Unprotected, sealed);
    }
    let fresh = world.software.seal(&world.tunnels[new].sender, &back(99));
    world.gateway.push(Side::Unprotected, &fresh);
    world.gateway.tick(20_000);
    let there: Vec<Vec<u8>> =
        core::iter::from_fn(|| world.gateway.pull(Side::Unprotected)).collect();
    let opened = |world: &mut World, number: usize, sealed: &[u8]| {
        world.software.open(&world.tunnels[number].receiver, sealed)
    };
    assert_eq!(opened(&mut world, old, &there[0]), Ok(Some(udp(0, 11))));
    assert_eq!(opened(&mut world, new, &there[1]), Ok(Some(udp(0, 12))));
    let mut came = core::iter::from_fn(|| world.gateway.pull(Side::Protected)).collect::<Vec<_>>();
    came.sort_unstable();
    let mut wanted: Vec<Vec<u8>> = (0..20).map(back).chain([back(99)]).collect();
    wanted.sort_unstable();
    assert_eq!(came, wanted);
    // Then the old ones go.
    let (out, back) = (world.tunnels[old].out, world.tunnels[old].back);
    world.tables.remove_sa(&mut world.gateway, Direction::Outbound, out).unwrap();
    world.tables.remove_sa(&mut world.gateway, Direction::Inbound, back).unwrap();
}

#[test]
fn lifetimes_end_exactly_and_are_told() {
    let mut world = World::new(4);
    let number = world.add_tunnel(GCM, Mode::Tunnel, false, false);
    let (_, sa) = world.tables.sas(Direction::Outbound).next().unwrap();
    let mut sa = rtl::Sa { spi: 77, ..sa.clone() };
    sa.limits.soft_packets = 3;
    sa.limits.hard_packets = 5;
    let index = world.tables.add_sa(&mut world.gateway, Direction::Outbound, sa, 0).unwrap();
    let policy = Policy { action: Action::Protect(index), ..protect(&world, number) };
    world.tables.add_policy(&mut world.gateway, Direction::Outbound, policy).unwrap();
    let out = (0..8).filter(|_| send(&mut world, &udp(0, 20)).is_some()).count();
    assert_eq!(out, 5);
    assert_eq!(Counters::read(&mut world.gateway, false).dropped(Drop::HardLimit), 3);
    assert!(world.gateway.interrupts());
    let event = |kind| Some(Event { kind, inbound: false, sa: index.0 });
    assert_eq!(Event::take(&mut world.gateway), event(EventKind::Soft));
    assert_eq!(Event::take(&mut world.gateway), event(EventKind::Hard));
    assert_eq!(Event::take(&mut world.gateway), None);
    let used = world.tables.sa_use(&mut world.gateway, Direction::Outbound, index).unwrap();
    assert_eq!((used.packets, used.number), (5, 5));
    assert_eq!(used.bytes, 5 * 48);
}

/// An SA counts as the software path's does, in either mode and version.
#[test]
fn bytes_are_counted_as_in_software() {
    let mut world = World::new(8);
    for (mode, v6) in [
        (Mode::Tunnel, false),
        (Mode::Tunnel, true),
        (Mode::Transport, false),
        (Mode::Transport, true),
    ] {
        let number = world.add_tunnel(GCM, mode, v6, false);
        let net = (there(number as u8, v6), if v6 { 64 } else { 24 });
        let selector = Selector::between((here(number as u8, v6), 0), net);
        let action = Action::Protect(world.tunnels[number].out);
        let policy = Policy { selector, action, priority: 7, is_low_class: false };
        world.tables.add_policy(&mut world.gateway, Direction::Outbound, policy).unwrap();
        let mut bytes = 0;
        for len in [8, 9, 61, 700] {
            let (from, to) = (here(number as u8, v6), there(number as u8, v6));
            let packet = packets::ip(from, to, 0, 253, &vec![1; len]);
            let headers = wire::parse_ip(&packet).unwrap();
            let sender = &world.tunnels[number].receiver;
            bytes += sender.payload_len(&packet, &headers).unwrap() as u64;
            assert!(send(&mut world, &packet).is_some());
        }
        let out = world.tunnels[number].out;
        let used = world.tables.sa_use(&mut world.gateway, Direction::Outbound, out).unwrap();
        assert_eq!((used.packets, used.bytes), (4, bytes), "{mode:?}, IPv6 {v6}");

        for len in [8, 9, 61, 700] {
            let (from, to) = (there(number as u8, v6), here(number as u8, v6));
            let packet = packets::ip(from, to, 0, 253, &vec![2; len]);
            let World { software, tunnels, gateway, .. } = &mut world;
            let sealed = software.seal(&tunnels[number].sender, &packet);
            software.open(&tunnels[number].twin, &sealed).unwrap().unwrap();
            gateway.push(Side::Unprotected, &sealed);
            gateway.tick(1500);
        }
        let tunnel = &world.tunnels[number];
        let counted = tunnel.twin.live().bytes().load(Relaxed);
        let used =
            world.tables.sa_use(&mut world.gateway, Direction::Inbound, tunnel.back).unwrap();
        assert_eq!((used.packets, used.bytes), (4, counted), "inbound, {mode:?}, IPv6 {v6}");
    }
}

#[test]
fn what_does_not_fit_is_named() {
    let mut world = World::new(5);
    let number = world.add_tunnel(GCM, Mode::Tunnel, false, false);
    let policy = protect(&world, number);
    let World { tables, gateway, .. } = &mut world;
    let index = tables.add_policy(gateway, Direction::Outbound, policy).unwrap();
    let again = tables.add_policy(gateway, Direction::Outbound, policy).unwrap_err();
    assert_eq!(again, TableError::SelectorTaken(index));
    let mixed = Selector { src: (there(0, true), 64), ..policy.selector };
    let mixed =
        tables.add_policy(gateway, Direction::Outbound, Policy { selector: mixed, ..policy });
    assert_eq!(mixed.unwrap_err(), TableError::Selector);
    for len in 1..8 {
        let selector = Selector { src: (here(0, false), len), ..policy.selector };
        tables.add_policy(gateway, Direction::Outbound, Policy { selector, ..policy }).unwrap();
    }
    let selector = Selector { src: (here(0, false), 9), ..policy.selector };
    let full = tables.add_policy(gateway, Direction::Outbound, Policy { selector, ..policy });
    assert_eq!(full.unwrap_err(), TableError::Full { what: "kinds of selectors", most: 8 });
    let (_, sa) = tables.sas(Direction::Inbound).next().unwrap();
    let sa = sa.clone();
    let taken = tables.add_sa(gateway, Direction::Inbound, sa, 0).unwrap_err();
    assert!(matches!(taken, TableError::SpiTaken(_)));
}
