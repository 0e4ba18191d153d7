//! Packet offload: gateways whose SAs and policies a device has, against gateways that do all in software.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use dataplane::{DevicePacket, Event};
use esp::{LiveNumbers, Mode, Sa};
use nic::{PacketNic, Sizes};
use offload::{
    Burst, Completion, Device, Live, NewPolicy, NewSa, PacketSa, Queue, Request, SaDirection,
    SaHandle, Status,
};
use outcome::DropReason;
use policy::{Direction, PolicyConfig, SaState, Selector};
use wire::protocol;

use crate::packets::{Ip, cut};
use crate::support::{Gateway, SIZES, Side, Spec, keys, policy, sa_config, template};

type Nic<'n> = &'n mut dyn Device<DevicePacket>;

/// A gateway with a device, and what is in it.
pub struct Offloading {
    pub gateway: Gateway,
    pub nic: PacketNic,
    pub out: SaHandle,
}

impl Offloading {
    /// One whose device has SAs and policies; those for forwarded packets are software's.
    pub fn new(side: Side, spec: &Spec) -> Offloading {
        Offloading::in_gateway(Gateway::new(side), spec, |queue| queue)
    }

    fn in_gateway(
        gateway: Gateway,
        spec: &Spec,
        wrap: impl FnOnce(Box<dyn Queue<DevicePacket>>) -> Box<dyn Queue<DevicePacket>>,
    ) -> Offloading {
        let mut nic = PacketNic::new("nic0", Sizes::default()).expect("openssl");
        let device: Nic = &mut nic;
        let queue = device.queue().expect("queue");
        let mut all = Offloading { gateway, nic, out: SaHandle(0) };
        all.gateway.worker.add_device(0, wrap(queue));
        all.add_sas(spec);
        all.add_policies(spec);
        all
    }

    pub fn device(&mut self) -> Nic<'_> {
        &mut self.nic
    }

    pub fn add_sas(&mut self, spec: &Spec) {
        for from in [Side::A, Side::B] {
            let config = sa_config(spec, from);
            let direction = match from == self.gateway.side {
                true => SaDirection::Outbound,
                false => SaDirection::Inbound,
            };
            let (keys, start) = (keys(spec.suite), Live::default());
            let new = NewSa { direction, config: &config, keys: &keys, start: &start };
            let handle = self.device().put_sa(new).expect("it fits");
            if direction == SaDirection::Outbound {
                self.out = handle;
            }
            let session = PacketSa::session(0, "nic0".into(), handle, spec.suite);
            let live = LiveNumbers::on_heap(spec.replay_window);
            let sa = Sa::new(config.params.clone(), session, live).expect("sa");
            self.gateway.db.add_sa_of_device(config, sa).expect("new");
        }
    }

    fn add_policies(&mut self, spec: &Spec) {
        for config in policies(self.gateway.side, spec) {
            let sa = (config.direction == Direction::Out).then_some(self.out);
            if config.flags.device.is_some() {
                self.device().put_policy(NewPolicy { config: &config, sa }).expect("it fits");
            }
            self.gateway.db.put_policy(config);
        }
    }
}

/// The policies of a side: out and in are the device's.
fn policies(here: Side, spec: &Spec) -> Vec<PolicyConfig> {
    let there = here.other();
    let (out, back) = match spec.mode {
        Mode::Tunnel | Mode::Iptfs => {
            let (local, remote) = (here.net(false), there.net(false));
            (Selector::between(local, remote), Selector::between(remote, local))
        }
        Mode::Transport => {
            let host = |addr| policy::Prefix { addr, len: 32 };
            let (local, remote) = (host(here.wan(false)), host(there.wan(false)));
            (Selector::between(local, remote), Selector::between(remote, local))
        }
    };
    let mut all = vec![
        policy(11, Direction::Out, out, vec![template(spec, here)]),
        policy(12, Direction::In, back, vec![template(spec, there)]),
        policy(13, Direction::Forward, back, vec![template(spec, there)]),
    ];
    all[0].flags.device = Some(0);
    all[1].flags.device = Some(0);
    all
}

fn host(side: Side) -> IpAddr {
    side.lan(false, 10)
}

/// Packets of a flow from behind one side to behind the other.
fn flow(from: Side, count: usize) -> Vec<Vec<u8>> {
    (0..count).map(|n| Ip::new(host(from), host(from.other())).sized(100 + n, 1)).collect()
}

/// With the TTL of another hop.
fn hop_further(mut packet: Vec<u8>) -> Vec<u8> {
    let h = wire::parse_ip(&packet).expect("packet");
    assert!(wire::decrement_ttl(&mut packet, &h));
    packet
}

fn forwarded(packets: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    packets.into_iter().map(hop_further).map(hop_further).collect()
}

/// A flow each way between a gateway with a device, at A, and one without.
fn exchange(a: &mut Gateway, b: &mut Gateway, count: usize) {
    flow(Side::A, count).iter().for_each(|packet| a.put_lan(packet));
    a.run();
    let sealed = a.wan_out();
    assert_eq!(sealed.len(), count, "{:?}", a.drops());
    sealed.iter().for_each(|packet| {
        assert_eq!(wire::parse_ip(packet).expect("packet").protocol, protocol::ESP);
        b.put_wan(packet);
    });
    flow(Side::B, count).iter().for_each(|packet| b.put_lan(packet));
    b.run();
    assert_eq!(b.lan_out(), forwarded(flow(Side::A, count)));
    b.wan_out().iter().for_each(|packet| a.put_wan(packet));
    a.run();
    assert_eq!(a.lan_out(), forwarded(flow(Side::B, count)), "{:?}", a.drops());
}

#[test]
fn the_device_protects_both_ways_and_flows_have_plans() {
    let spec = Spec::default();
    let mut a = Offloading::new(Side::A, &spec);
    let mut b = Gateway::new(Side::B);
    b.protect(&spec);
    exchange(&mut a.gateway, &mut b, 40);
    let before = a.gateway.counters.work.flow_hits.value();
    exchange(&mut a.gateway, &mut b, 40);
    assert_eq!(a.gateway.counters.work.flow_hits.value() - before, 80);
    assert_eq!(a.gateway.counters.work.encrypted.value(), 80);
    assert_eq!(a.gateway.counters.work.decrypted.value(), 80);
    let counters = a.device().counters();
    assert_eq!((counters.sealed, counters.opened, counters.refused), (80, 80, 0));
    let out = a.out;
    assert_eq!(a.device().live(out).expect("there").packets, 80);
    assert_eq!(a.gateway.drops(), []);
}

#[test]
fn the_device_protects_between_hosts_and_with_extended_numbers() {
    for (mode, esn) in [(Mode::Transport, false), (Mode::Transport, true), (Mode::Tunnel, true)] {
        let spec = Spec { mode, esn, ..Spec::default() };
        let mut a = Offloading::new(Side::A, &spec);
        let mut b = Gateway::new(Side::B);
        b.protect(&spec);
        if mode == Mode::Tunnel {
            exchange(&mut a.gateway, &mut b, 5);
            continue;
        }
        let packet = |from: Side, n: u8| {
            Ip::new(from.wan(false), from.other().wan(false)).udp(1000, 2000, &[n; 50])
        };
        for n in 0..5 {
            a.gateway.put_linux(&packet(Side::A, n));
            a.gateway.run();
            a.gateway.wan_out().iter().for_each(|packet| b.put_wan(packet));
            b.put_linux(&packet(Side::B, n));
            b.run();
            assert_eq!(b.linux_out(), [packet(Side::A, n)], "{:?}", b.drops());
            b.wan_out().iter().for_each(|packet| a.gateway.put_wan(packet));
            a.gateway.run();
            assert_eq!(a.gateway.linux_out(), [packet(Side::B, n)], "{:?}", a.gateway.drops());
        }
        let counters = a.device().counters();
        assert_eq!((counters.sealed, counters.opened), (5, 5));
    }
}

#[test]
fn a_device_that_does_not_say_which_sa_opened_a_packet_is_believed_by_its_policy() {
    /// As a device of which only the packets come back.
    struct Silent(Box<dyn Queue<DevicePacket>>);
    impl Queue<DevicePacket> for Silent {
        fn submit(&mut self, requests: &mut Burst<Request<DevicePacket>>) -> usize {
            self.0.submit(requests)
        }
        fn poll(&mut self, completions: &mut Burst<Completion<DevicePacket>>) -> usize {
            let count = self.0.poll(completions);
            for completion in completions {
                if matches!(completion.status, Status::Opened(_)) {
                    completion.status = Status::Done;
                }
            }
            count
        }
        fn in_flight(&self) -> usize {
            self.0.in_flight()
        }
        fn depth(&self) -> usize {
            self.0.depth()
        }
    }
    let spec = Spec::default();
    let gateway = Gateway::new(Side::A);
    let mut a = Offloading::in_gateway(gateway, &spec, |queue| Box::new(Silent(queue)));
    let mut b = Gateway::new(Side::B);
    b.protect(&spec);
    exchange(&mut a.gateway, &mut b, 10);
}

#[test]
fn other_workers_hand_packets_to_the_one_with_the_queue() {
    let spec = Spec::default();
    let gateway = Gateway::with_workers(Side::A, SIZES, dataplane::DEFAULT_FLOWS, 3);
    let mut a = Offloading::in_gateway(gateway, &spec, |queue| queue);
    let mut b = Gateway::new(Side::B);
    b.protect(&spec);
    let packets = |from: Side| {
        (0..60).map(move |n| {
            let from_host = from.lan(false, 10 + n % 2);
            Ip::new(from_host, host(from.other())).udp(1000 + n, 2000, &[n as u8; 40])
        })
    };
    for round in 1..=2 {
        packets(Side::A).for_each(|packet| a.gateway.put_lan(&packet));
        a.gateway.run();
        let sealed = a.gateway.wan_out();
        assert_eq!(sealed.len(), 60, "{:?}", a.gateway.drops());
        sealed.iter().for_each(|packet| b.put_wan(packet));
        packets(Side::B).for_each(|packet| b.put_lan(&packet));
        b.run();
        assert_eq!(b.lan_out().len(), 60);
        b.wan_out().iter().for_each(|packet| a.gateway.put_wan(packet));
        a.gateway.run();
        assert_eq!(a.gateway.lan_out().len(), 60, "{:?}", a.gateway.drops());
        assert_eq!(a.device().counters().opened, 60 * round);
    }
    assert!(a.gateway.all_counters().any(|counters| counters.handed_over.value() > 0));
    a.gateway.set_workers(1);
    flow(Side::A, 5).iter().for_each(|packet| a.gateway.put_lan(packet));
    a.gateway.run();
    assert_eq!(a.gateway.wan_out().len(), 5, "its SAs stay the device's");
}

/// Gives nothing back while it is shut, as hardware that takes its time.
struct Shut(Box<dyn Queue<DevicePacket>>, Arc<AtomicBool>);

impl Queue<DevicePacket> for Shut {
    fn submit(&mut self, requests: &mut Burst<Request<DevicePacket>>) -> usize {
        self.0.submit(requests)
    }
    fn poll(&mut self, completions: &mut Burst<Completion<DevicePacket>>) -> usize {
        if self.1.load(Relaxed) { 0 } else { self.0.poll(completions) }
    }
    fn in_flight(&self) -> usize {
        self.0.in_flight()
    }
    fn depth(&self) -> usize {
        self.0.depth()
    }
}

#[test]
fn workers_with_queues_of_their_own_hand_nothing_over_and_leave_nothing_behind() {
    let spec = Spec::default();
    let gateway = Gateway::with_workers(Side::A, SIZES, dataplane::DEFAULT_FLOWS, 3);
    let mut a = Offloading::in_gateway(gateway, &spec, |queue| queue);
    let is_shut = Arc::new(AtomicBool::new(false));
    for other in &mut a.gateway.others {
        let device: Nic = &mut a.nic;
        let queue = Shut(device.queue().expect("queue"), Arc::clone(&is_shut));
        other.worker.add_device(0, Box::new(queue));
    }
    let mut b = Gateway::new(Side::B);
    b.protect(&spec);
    let packets = |from: Side| {
        (0..60).map(move |n| {
            Ip::new(host(from), host(from.other())).udp(1000 + n, 2000, &[n as u8; 40])
        })
    };
    packets(Side::A).for_each(|packet| a.gateway.put_lan(&packet));
    a.gateway.run();
    let sealed = a.gateway.wan_out();
    assert_eq!(sealed.len(), 60, "{:?}", a.gateway.drops());
    sealed.iter().for_each(|packet| b.put_wan(packet));
    packets(Side::B).for_each(|packet| b.put_lan(&packet));
    b.run();
    assert_eq!(b.lan_out().len(), 60);
    b.wan_out().iter().for_each(|packet| a.gateway.put_wan(packet));
    a.gateway.run();
    assert_eq!(a.gateway.lan_out().len(), 60, "{:?}", a.gateway.drops());
    assert!(a.gateway.all_counters().all(|counters| counters.handed_over.value() == 0));
    // What is in the device when its worker goes comes out at the one that stays.
    is_shut.store(true, Relaxed);
    packets(Side::A).for_each(|packet| a.gateway.put_lan(&packet));
    for other in &mut a.gateway.others {
        assert!(other.worker.round() > 0);
    }
    a.gateway.set_workers(1);
    is_shut.store(false, Relaxed);
    a.gateway.run();
    assert_eq!(a.gateway.wan_out().len(), 60, "{:?}", a.gateway.drops());
    assert_eq!(a.gateway.drops(), []);
}

#[test]
fn a_packet_too_long_for_the_path_is_told_before_the_device_has_it() {
    let spec = Spec::default();
    let mut a = Offloading::new(Side::A, &spec);
    let long = Ip { dont_fragment: true, ..Ip::new(host(Side::A), host(Side::B)) }.sized(1480, 1);
    a.gateway.put_lan(&long);
    a.gateway.run();
    let told = a.gateway.lan_out();
    assert_eq!(told.len(), 1, "{:?}", a.gateway.drops());
    assert_eq!((told[0][20], told[0][21]), (3, 4), "fragmentation needed");
    let mtu = u16::from_be_bytes([told[0][26], told[0][27]]);
    assert_eq!(a.gateway.drops(), [(DropReason::OutTooBig, 1)]);
    assert_eq!(a.device().counters(), Default::default());
    let fits = Ip { dont_fragment: true, ..Ip::new(host(Side::A), host(Side::B)) };
    a.gateway.put_lan(&fits.sized(mtu.into(), 1));
    a.gateway.run();
    assert_eq!(a.gateway.wan_out().len(), 1);
}

#[test]
fn a_packet_without_an_sa_waits_for_it() {
    let spec = Spec::default();
    let mut a = Offloading::new(Side::A, &spec);
    // Without SAs the outbound policy is not in the device.
    let mut none = Gateway::new(Side::A);
    policies(Side::A, &spec).into_iter().for_each(|config| drop(none.db.put_policy(config)));
    none.put_lan(&flow(Side::A, 1)[0]);
    none.run();
    assert!(matches!(none.events()[..], [Event::Acquire { policy: 11, .. }]));
    let device: Nic = &mut a.nic;
    none.worker.add_device(0, device.queue().expect("queue"));
    let config = sa_config(&spec, Side::A);
    let session = PacketSa::session(0, "nic0".into(), a.out, spec.suite);
    let live = LiveNumbers::on_heap(spec.replay_window);
    let sa = Sa::new(config.params.clone(), session, live).expect("sa");
    none.db.add_sa_of_device(config, sa).expect("new");
    none.run();
    assert_eq!(none.wan_out().len(), 1, "{:?}", none.drops());
}

#[test]
fn an_sa_at_its_end_sends_nothing() {
    let spec = Spec::default();
    let mut a = Offloading::new(Side::A, &spec);
    a.gateway.put_lan(&flow(Side::A, 1)[0]);
    a.gateway.run();
    assert_eq!(a.gateway.wan_out().len(), 1);
    a.gateway.sa(Side::A, &spec).advance(SaState::Expired);
    a.gateway.put_lan(&flow(Side::A, 1)[0]);
    a.gateway.run();
    assert_eq!(a.gateway.wan_out().len(), 0);
}

/// A device that takes nothing for a while, and then loses all.
struct Broken {
    /// Calls until then.
    left: usize,
    inside: Vec<Request<DevicePacket>>,
}

impl Queue<DevicePacket> for Broken {
    fn submit(&mut self, requests: &mut Burst<Request<DevicePacket>>) -> usize {
        self.left = self.left.saturating_sub(1);
        if self.left > 0 {
            return 0;
        }
        let count = requests.len();
        self.inside.extend(requests.drain(..));
        count
    }

    fn poll(&mut self, completions: &mut Burst<Completion<DevicePacket>>) -> usize {
        let count = self.inside.len().min(completions.remaining_capacity());
        for Request { buffer, work } in self.inside.drain(..count) {
            completions.push(Completion { buffer, work, status: Status::Lost });
        }
        count
    }

    fn in_flight(&self) -> usize {
        self.inside.len()
    }

    fn depth(&self) -> usize {
        64
    }
}

/// Makes gateway B drop one packet at least for this reason.
pub fn produce(reason: DropReason) -> Gateway {
    let spec = Spec::default();
    let mut b = Offloading::new(Side::B, &spec).gateway;
    match reason {
        DropReason::OutDeviceMismatch => {
            let mut out = policies(Side::B, &spec).remove(0);
            out.flags.device = None;
            b.db.put_policy(out);
            b.put_lan(&flow(Side::B, 1)[0]);
        }
        DropReason::OutDeviceFragment => {
            let pieces = cut(&flow(Side::B, 80)[79], 60, 1);
            pieces.iter().for_each(|piece| b.put_lan(piece));
            b.run();
            assert_eq!(b.dropped(reason), pieces.len() as u64);
            // One that would have to be cut.
            b.put_lan(&Ip::new(host(Side::B), host(Side::A)).sized(1500, 1));
            b.run();
            assert_eq!(b.dropped(reason), pieces.len() as u64 + 1);
        }
        DropReason::InDeviceFragment => {
            let mut a = Gateway::new(Side::A);
            a.protect(&spec);
            a.put_lan(&flow(Side::A, 1)[0]);
            a.run();
            cut(&a.wan_out()[0], 60, 1).iter().for_each(|piece| b.put_wan(piece));
            b.run();
            assert_eq!(b.drops(), [(reason, 1)]);
            // What is inside may be none, too.
            cut(&flow(Side::A, 1)[0], 60, 1).iter().for_each(|piece| a.put_lan(piece));
            a.run();
            a.wan_out().iter().for_each(|packet| b.put_wan(packet));
            b.run();
            assert!(b.dropped(reason) > 1);
        }
        DropReason::DeviceFull | DropReason::DeviceLost => {
            let broken = |_| -> Box<dyn Queue<DevicePacket>> {
                Box::new(Broken { left: 4, inside: Vec::new() })
            };
            b = Offloading::in_gateway(Gateway::new(Side::B), &spec, broken).gateway;
            for packet in flow(Side::B, 64) {
                b.put_lan(&packet);
                b.put_linux(&packet);
            }
        }
        _ => unreachable!("{reason:?} is not of devices"),
    }
    b.run();
    b
}
