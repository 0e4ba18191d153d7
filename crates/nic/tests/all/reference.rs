//! The model against a plain one: lists instead of tables, and every packet decided by looking at all of them.

use core::net::{IpAddr, Ipv4Addr};
use std::collections::HashSet;

use crypto::{AesKey, IcvLen, Keys, Suite};
use esp::{Mode, SaParams};
use nic::{PacketNic, Policies, Sizes};
use offload::{
    Burst, Device, Event, Live, NewPolicy, NewSa, PolicyHandle, Queue, Request, SaDirection,
    SaHandle, Status, Work,
};
use outcome::DropReason;
use policy::{
    Action, Direction, Mark, PolicyConfig, PolicyFlags, PortMask, Prefix, SaConfig, Selector,
    Template, VolumeLimits,
};
use proptest::prelude::*;
use wire::parse_ip;

const SUITE: Suite = Suite::AesGcm { key: AesKey::Aes128, icv: IcvLen::Icv16 };

fn addr(third: u8, last: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, third, last))
}

fn sa(spi: u32, hard_packets: u64) -> SaConfig {
    let params =
        SaParams { replay_window: 64, ..SaParams::tunnel(SUITE, spi, (addr(9, 1), addr(9, 2))) };
    let limits =
        VolumeLimits { hard_packets, soft_packets: hard_packets - 1, ..VolumeLimits::NONE };
    SaConfig { reqid: spi % 2 + 1, limits, ..SaConfig::plain(params) }
}

fn policy(direction: Direction, selector: Selector, priority: u32, reqid: u32) -> PolicyConfig {
    let template = Template {
        src: addr(9, 1),
        dst: addr(9, 2),
        spi: 0,
        protocol: 50,
        mode: Mode::Tunnel,
        reqid,
        optional: false,
    };
    PolicyConfig {
        index: 1,
        direction,
        selector,
        priority,
        action: Action::Allow,
        templates: vec![template],
        flags: PolicyFlags::default(),
        mark: Mark::default(),
        if_id: 0,
    }
}

fn packet(src: IpAddr, dst: IpAddr, port: u16) -> Vec<u8> {
    let (IpAddr::V4(src), IpAddr::V4(dst)) = (src, dst) else { unreachable!() };
    let mut packet = vec![0x45, 0, 0, 40, 0, 0, 0, 0, 64, 17, 0, 0];
    packet.extend(src.octets());
    packet.extend(dst.octets());
    wire::ipv4::fill_checksum(&mut packet);
    packet.extend([port.to_be_bytes(), [0, 9], [0, 20], [0, 0]].concat());
    packet.extend([7; 12]);
    packet
}

fn selectors() -> impl Strategy<Value = Selector> {
    let prefix = || (0..4_u8, 0..4_u8, prop_oneof![Just(8_u8), Just(24), Just(30), Just(32)]);
    let port = prop_oneof![3 => Just(None), 1 => (0..3_u16).prop_map(Some)];
    (prefix(), prefix(), port, any::<bool>()).prop_map(|(src, dst, port, names_udp)| {
        let net = |(third, last, len)| Prefix { addr: addr(third, last), len };
        let mut selector = Selector::between(net(src), net(dst));
        selector.protocol = if names_udp { 17 } else { 0 };
        if let Some(value) = port {
            selector.src_port = PortMask { value, mask: 0xffff };
        }
        selector
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The look-up by shapes finds what a look at all policies finds, whatever came and went.
    #[test]
    fn policies_are_found_as_in_a_list(
        steps in prop::collection::vec((selectors(), 0..3_u32, any::<bool>(), any::<prop::sample::Index>()), 1..60),
        packets in prop::collection::vec((0..4_u8, 0..4_u8, 0..4_u8, 0..4_u8, 0..3_u16), 30),
    ) {
        let mut policies = Policies::default();
        let mut list: Vec<(PolicyHandle, PolicyConfig)> = Vec::new();
        for (number, (selector, priority, is_out, which)) in steps.into_iter().enumerate() {
            if number % 4 == 3 && !list.is_empty() {
                let (handle, config) = list.remove(which.index(list.len()));
                policies.remove(handle, &config);
            }
            let direction = if is_out { Direction::Out } else { Direction::In };
            let handle = PolicyHandle(number as u32);
            let config = policy(direction, selector, priority, 1);
            policies.add(handle, &config);
            list.push((handle, config));
        }
        for (s3, s4, d3, d4, port) in packets {
            let h = parse_ip(&packet(addr(s3, s4), addr(d3, d4), port)).unwrap();
            for direction in [Direction::Out, Direction::In] {
                let mut of = list.iter().filter(|(_, config)| {
                    config.direction == direction && config.selector.matches(&h)
                });
                let first = of.next();
                // The oldest of the lowest priority.
                let best = of.fold(first, |best, other| match best {
                    Some(b) if b.1.priority <= other.1.priority => best,
                    _ => Some(other),
                });
                prop_assert_eq!(policies.find(direction, &h), best.map(|(handle, _)| *handle));
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    PutSa { inbound: bool, spi: u32, hard: u64 },
    RemoveSa { inbound: bool, spi: u32 },
    PutPolicy { inbound: bool, selector: Selector, priority: u32, spi: u32 },
    RemovePolicy(prop::sample::Index),
    Switch(prop::sample::Index, u32),
    Send { src: (u8, u8), dst: (u8, u8) },
    Receive(prop::sample::Index),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let spi = || 1..4_u32;
    let place = || (0..4_u8, 0..4_u8);
    let step = prop_oneof![
        3 => (any::<bool>(), spi(), 2..12_u64)
            .prop_map(|(inbound, spi, hard)| Step::PutSa { inbound, spi, hard }),
        1 => (any::<bool>(), spi()).prop_map(|(inbound, spi)| Step::RemoveSa { inbound, spi }),
        3 => (any::<bool>(), selectors(), 0..3_u32, spi()).prop_map(
            |(inbound, selector, priority, spi)| {
                Step::PutPolicy { inbound, selector, priority, spi }
            }
        ),
        1 => any::<prop::sample::Index>().prop_map(Step::RemovePolicy),
        1 => (any::<prop::sample::Index>(), spi()).prop_map(|(at, spi)| Step::Switch(at, spi)),
        6 => (place(), place()).prop_map(|(src, dst)| Step::Send { src, dst }),
        4 => any::<prop::sample::Index>().prop_map(Step::Receive),
    ];
    prop::collection::vec(step, 1..80)
}

/// An SA of the plain model.
struct PlainSa {
    handle: SaHandle,
    inbound: bool,
    spi: u32,
    hard: u64,
    packets: u64,
    number: u64,
    seen: Vec<u64>,
}

/// A policy of the plain model.
struct PlainPolicy {
    handle: PolicyHandle,
    config: PolicyConfig,
    sa: Option<SaHandle>,
}

#[derive(Default)]
struct Plain {
    sas: Vec<PlainSa>,
    policies: Vec<PlainPolicy>,
    /// Sealed packets: the packet, its cleartext, SPI and number.
    sealed: Vec<(Vec<u8>, Vec<u8>, u32, u64)>,
    events: Vec<Event>,
}

impl Plain {
    fn sa(&mut self, inbound: bool, spi: u32) -> Option<&mut PlainSa> {
        self.sas.iter_mut().find(|sa| (sa.inbound, sa.spi) == (inbound, spi))
    }

    fn policy(&self, direction: Direction, packet: &[u8]) -> Option<&PlainPolicy> {
        let h = parse_ip(packet).unwrap();
        let of = self.policies.iter().filter(|policy| {
            policy.config.direction == direction && policy.config.selector.matches(&h)
        });
        // The first of the lowest: the oldest.
        of.min_by_key(|policy| policy.config.priority)
    }

    /// Counts a packet, and tells of limits.
    fn count(&mut self, handle: SaHandle) {
        let sa = self.sas.iter_mut().find(|sa| sa.handle == handle).unwrap();
        sa.packets += 1;
        let soft = (sa.packets == sa.hard - 1).then_some(Event::SoftLimit(handle));
        let hard = (sa.packets == sa.hard).then_some(Event::HardLimit(handle));
        self.events.extend(soft.into_iter().chain(hard));
    }

    fn send(&mut self, packet: &[u8]) -> Result<(u32, u64), DropReason> {
        let policy = self.policy(Direction::Out, packet).ok_or(DropReason::OutPolicyBlock)?;
        let handle = policy.sa.unwrap();
        let sa = self.sas.iter_mut().find(|sa| sa.handle == handle).unwrap();
        if sa.packets >= sa.hard {
            return Err(DropReason::OutStateExpired);
        }
        sa.number += 1;
        let done = (sa.spi, sa.number);
        self.count(handle);
        Ok(done)
    }

    fn receive(&mut self, clear: &[u8], spi: u32, number: u64) -> Result<SaHandle, DropReason> {
        let sa = self.sa(true, spi).ok_or(DropReason::InNoState)?;
        if sa.packets >= sa.hard {
            return Err(DropReason::InStateExpired);
        }
        if sa.seen.contains(&number) {
            return Err(DropReason::InReplayDuplicate);
        }
        sa.seen.push(number);
        let handle = sa.handle;
        self.count(handle);
        match self.policy(Direction::In, clear) {
            Some(policy) if policy.config.templates[0].reqid == spi % 2 + 1 => Ok(handle),
            _ => Err(DropReason::InPolicy),
        }
    }
}

fn exchange(queue: &mut dyn Queue<Vec<u8>>, work: Work, packet: &[u8]) -> (Vec<u8>, Status) {
    let mut requests = Burst::new();
    requests.push(Request { buffer: packet.to_vec(), work });
    assert_eq!(queue.submit(&mut requests), 1);
    let mut done = Burst::new();
    assert_eq!(queue.poll(&mut done), 1);
    let done = done.pop().unwrap();
    (done.buffer, done.status)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Everything that comes out, and every event, count and number, is as the plain model has it.
    #[test]
    fn the_hardware_does_what_a_plain_model_does(steps in steps()) {
        let mut nic = PacketNic::new("nic0", Sizes { sas: 8, policies: 64 }).unwrap();
        let device: &mut dyn Device<Vec<u8>> = &mut nic;
        let mut queue = device.queue().unwrap();
        let mut plain = Plain::default();
        // One key for all SAs, also for those that come again and begin at number 1.
        let keys = Keys { cipher: vec![3; 16], salt: vec![4; 4], auth: Vec::new() };
        let mut ivs = HashSet::new();
        for step in steps {
            match step {
                Step::PutSa { inbound, spi, hard } => {
                    // Two outbound SAs of one SPI are allowed, but hard to tell apart here.
                    if plain.sa(inbound, spi).is_some() {
                        continue;
                    }
                    let direction = match inbound {
                        true => SaDirection::Inbound,
                        false => SaDirection::Outbound,
                    };
                    let (config, start) = (sa(spi, hard), Live::default());
                    let new = NewSa { direction, config: &config, keys: &keys, start: &start };
                    let handle = device.put_sa(new).unwrap();
                    let (packets, number, seen) = (0, 0, Vec::new());
                    plain.sas.push(PlainSa { handle, inbound, spi, hard, packets, number, seen });
                }
                Step::RemoveSa { inbound, spi } => {
                    let Some(sa) = plain.sa(inbound, spi) else { continue };
                    let (handle, packets, number) = (sa.handle, sa.packets, sa.number);
                    let is_used = plain.policies.iter().any(|policy| policy.sa == Some(handle));
                    let removed = device.remove_sa(handle);
                    prop_assert_eq!(removed.is_err(), is_used);
                    if let Ok(live) = removed {
                        prop_assert_eq!(live.packets, packets);
                        prop_assert!(inbound || live.number == number);
                        plain.sas.retain(|sa| sa.handle != handle);
                    }
                }
                Step::PutPolicy { inbound, selector, priority, spi } => {
                    let direction = if inbound { Direction::In } else { Direction::Out };
                    let config = policy(direction, selector, priority, spi % 2 + 1);
                    let sa = plain.sa(false, spi).map(|sa| sa.handle).filter(|_| !inbound);
                    if !inbound && sa.is_none() {
                        continue;
                    }
                    // One whose host bits differ is the same.
                    match device.put_policy(NewPolicy { config: &config, sa }) {
                        Ok(handle) => plain.policies.push(PlainPolicy { handle, config, sa }),
                        Err(error) => prop_assert_eq!(error, offload::Invalid::Exists.into()),
                    }
                }
                Step::RemovePolicy(at) if !plain.policies.is_empty() => {
                    let policy = plain.policies.remove(at.index(plain.policies.len()));
                    device.remove_policy(policy.handle).unwrap();
                }
                Step::Switch(at, spi) if !plain.policies.is_empty() => {
                    let to = plain.sa(false, spi).map(|sa| sa.handle);
                    let at = at.index(plain.policies.len());
                    let policy = &mut plain.policies[at];
                    let Some(to) = to.filter(|_| policy.sa.is_some()) else { continue };
                    device.switch_policy(policy.handle, to).unwrap();
                    policy.sa = Some(to);
                }
                Step::Send { src, dst } => {
                    let clear = packet(addr(src.0, src.1), addr(dst.0, dst.1), 1);
                    let (out, status) = exchange(&mut *queue, Work::Outbound, &clear);
                    match plain.send(&clear) {
                        Ok((spi, number)) => {
                            prop_assert_eq!(status, Status::Done);
                            let field = |at: usize| {
                                u32::from_be_bytes(out[at..at + 4].try_into().unwrap())
                            };
                            prop_assert_eq!((field(20), u64::from(field(24))), (spi, number));
                            prop_assert!(ivs.insert(out[28..36].to_vec()), "IV twice");
                            plain.sealed.push((out, clear, spi, number));
                        }
                        Err(reason) => prop_assert_eq!(status, Status::Dropped(reason)),
                    }
                }
                Step::Receive(at) if !plain.sealed.is_empty() => {
                    let (esp, clear, spi, number) =
                        plain.sealed[at.index(plain.sealed.len())].clone();
                    let (out, status) = exchange(&mut *queue, Work::Inbound, &esp);
                    match plain.receive(&clear, spi, number) {
                        Ok(handle) => {
                            prop_assert_eq!(status, Status::Opened(handle));
                            prop_assert_eq!(out, clear);
                        }
                        Err(reason) => prop_assert_eq!(status, Status::Dropped(reason)),
                    }
                }
                Step::RemovePolicy(_) | Step::Switch(..) | Step::Receive(_) => {}
            }
            let told: Vec<Event> = core::iter::from_fn(|| device.event()).collect();
            prop_assert_eq!(told, core::mem::take(&mut plain.events));
        }
    }
}
