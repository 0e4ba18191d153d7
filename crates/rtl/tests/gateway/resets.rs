//! A reset of the gateway must not begin an SA's numbers anew.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex};

use crypto::{AesKey, IcvLen, Keys, Suite};
use esp::Mode;
use offload::{
    Burst, Device, Live, NewPolicy, NewSa, Queue, Request, SaDirection, SaHandle, Status, Work,
};
use outcome::DropReason;
use policy::{
    Action, Direction, Mark, PolicyConfig, PolicyFlags, Prefix, SaConfig, Selector, Template,
    VolumeLimits,
};
use rtl::registers::{REG_COMMAND, REG_RECORD, REG_STATUS, STATUS_LOCKED, Table};
use rtl::{Counters, Drop, GatewayDevice, Policy, Registers, SaIndex, SaUse, Side, Simulation};

use crate::packets;
use crate::software;
use crate::world::{World, here, reqid, there};

const GCM: Suite = Suite::AesGcm { key: AesKey::Aes128, icv: IcvLen::Icv16 };

fn udp() -> Vec<u8> {
    packets::ip(here(0, false), there(0, false), 0, 17, &[0; 40])
}

/// The number of an ESP packet behind an IPv4 header.
fn number(esp: &[u8]) -> u32 {
    u32::from_be_bytes(esp[24..28].try_into().unwrap())
}

/// A driver that puts SAs in again and not their states.
struct Forgetful<'g>(&'g mut Simulation);

impl Registers for Forgetful<'_> {
    fn read(&mut self, address: u16) -> u32 {
        self.0.read(address)
    }

    fn write(&mut self, address: u16, value: u32) {
        if address != REG_COMMAND || value & 7 != Table::SaStates as u32 {
            self.0.write(address, value);
        }
    }
}

/// With a driver that forgets the states no packet leaves after a reset, with one that does not the numbers go on.
#[test]
fn the_hardware_seals_nothing_without_a_restored_state() {
    let mut world = World::new(4);
    let tunnel = world.add_tunnel(GCM, Mode::Tunnel, false, false);
    let (out, back) = (world.tunnels[tunnel].out, world.tunnels[tunnel].back);
    let selector = rtl::Selector::between((here(0, false), 0), (there(0, false), 24));
    let action = rtl::Action::Protect(out);
    let policy = Policy { selector, action, priority: 7, is_low_class: false };
    world.tables.add_policy(&mut world.gateway, rtl::Direction::Outbound, policy).unwrap();
    let send = |gateway: &mut Simulation| {
        gateway.push(Side::Protected, &udp());
        gateway.tick(1500);
        gateway.pull(Side::Unprotected).map(|esp| number(&esp))
    };
    assert_eq!([(); 3].map(|()| send(&mut world.gateway)), [Some(1), Some(2), Some(3)]);
    let mut used = BTreeMap::from([((rtl::Direction::Inbound, back), SaUse::at(0))]);
    let outbound = (rtl::Direction::Outbound, out);
    let sa_use = |world: &mut World, SaIndex(index): SaIndex| {
        world.tables.sa_use(&mut world.gateway, outbound.0, SaIndex(index)).unwrap()
    };
    used.insert(outbound, sa_use(&mut world, out));

    world.gateway.reset();
    assert_ne!(world.gateway.read(REG_STATUS) & STATUS_LOCKED, 0);
    world.gateway.write(REG_RECORD, !0);
    assert_eq!(world.gateway.read(REG_RECORD), 0, "what it holds would go into every record");
    world.tables.restore(&mut Forgetful(&mut world.gateway), &used).unwrap();
    assert_eq!([(); 2].map(|()| send(&mut world.gateway)), [None, None]);
    assert_eq!(Counters::read(&mut world.gateway, false).dropped(Drop::NoSa), 2);
    assert_eq!(sa_use(&mut world, out).packets, 0);

    world.gateway.reset();
    world.tables.restore(&mut world.gateway, &used).unwrap();
    assert_eq!([(); 2].map(|()| send(&mut world.gateway)), [Some(4), Some(5)]);
}

/// With packets one by one each queue has its own back, with the SA that opened it, or the reason.
#[test]
fn a_queue_of_one_packet_knows_what_became_of_it() {
    let gateway = Arc::new(Mutex::new(Simulation::new()));
    let device = GatewayDevice::new(gateway, |_| false).unwrap().one_by_one();
    let mut device: Box<dyn Device<Vec<u8>>> = Box::new(device);
    let mut queues = [device.queue().unwrap(), device.queue().unwrap()];
    let [_, inbound] = tunnel(&mut *device);
    let other = packets::ip(there(0, false), here(0, false), 0, 17, &[0; 8]);
    let mut numbers = Vec::new();
    for queue in [0, 1, 1, 0] {
        let (esp, status) = exchange(&mut *queues[queue], Work::Outbound, udp());
        assert_eq!(status, Status::Done);
        numbers.push(number(&esp));
        let dropped = exchange(&mut *queues[1 - queue], Work::Outbound, other.clone()).1;
        assert_eq!(dropped, Status::Dropped(DropReason::OutPolicyBlock));
        let mut forged = esp.clone();
        *forged.last_mut().unwrap() ^= 1;
        let dropped = exchange(&mut *queues[queue], Work::Inbound, forged).1;
        assert_eq!(dropped, Status::Dropped(DropReason::InIntegrity));
        let opened = exchange(&mut *queues[queue], Work::Inbound, esp);
        assert_eq!(opened, (udp(), Status::Opened(inbound)));
        device.reset().unwrap();
    }
    assert_eq!(numbers, [1, 2, 3, 4]);
}

/// The same keys twice, as after a reboot, and a reset in between: the numbers come again, and no IV does.
#[test]
fn the_same_keys_give_no_iv_twice() {
    let mut ivs = HashSet::new();
    for _ in 0..2 {
        let gateway = Arc::new(Mutex::new(Simulation::new()));
        let device = GatewayDevice::new(gateway, |_| false).unwrap();
        let mut device: Box<dyn Device<Vec<u8>>> = Box::new(device);
        let mut queue = device.queue().unwrap();
        tunnel(&mut *device);
        for due in 1..=4 {
            let (esp, status) = exchange(&mut *queue, Work::Outbound, udp());
            assert_eq!((status, number(&esp)), (Status::Done, due));
            assert!(ivs.insert(esp[28..36].to_vec()), "the IV of number {due}");
            if due == 2 {
                device.reset().unwrap();
            }
        }
    }
}

/// A device with an SA that opens what its other one seals, reset between packets: numbers and window go on.
#[test]
fn a_device_goes_on_after_a_reset() {
    let gateway = Arc::new(Mutex::new(Simulation::new()));
    let device = GatewayDevice::new(gateway, |_| false).unwrap().named("rtl0");
    let mut device: Box<dyn Device<Vec<u8>>> = Box::new(device);
    let mut queue = device.queue().unwrap();
    let [outbound, _] = tunnel(&mut *device);
    let seal = |queue: &mut Box<dyn Queue<Vec<u8>>>| {
        let (esp, status) = exchange(&mut **queue, Work::Outbound, udp());
        assert_eq!(status, Status::Done);
        esp
    };
    let first = seal(&mut queue);
    assert_eq!((number(&first), number(&seal(&mut queue))), (1, 2));
    let opened = exchange(&mut *queue, Work::Inbound, first.clone());
    assert_eq!(opened, (udp(), Status::Done));

    device.reset().unwrap();
    assert_eq!(number(&seal(&mut queue)), 3);
    let replayed = exchange(&mut *queue, Work::Inbound, first).1;
    assert_eq!(replayed, Status::Dropped(DropReason::InReplayDuplicate));
    let mut forged = seal(&mut queue);
    *forged.last_mut().unwrap() ^= 1;
    let dropped = exchange(&mut *queue, Work::Inbound, forged).1;
    assert_eq!(dropped, Status::Dropped(DropReason::InIntegrity));
    let other = packets::ip(there(0, false), here(0, false), 0, 17, &[0; 8]);
    let dropped = exchange(&mut *queue, Work::Outbound, other).1;
    assert_eq!(dropped, Status::Dropped(DropReason::OutPolicyBlock), "of no policy");
    let counted = device.counters();
    assert_eq!((counted.sealed, counted.opened, counted.resets), (4, 1, 1));
    assert_eq!((counted.wrong_icv, counted.refused), (1, 2));
    assert!(device.tables().iter().all(|table| table.used == 1));
    assert_eq!(device.live(outbound).unwrap().packets, 4);
}

/// A tunnel whose inbound SA opens what its outbound one seals; both.
fn tunnel(device: &mut dyn Device<Vec<u8>>) -> [SaHandle; 2] {
    let params =
        software::params(GCM, Mode::Tunnel, [192, 0, 2, 1].into(), [192, 0, 2, 2].into(), 0x77);
    let keys = Keys { cipher: vec![7; 16], salt: vec![1; 4], auth: Vec::new() };
    let mut config = SaConfig {
        params,
        mark: Mark::default(),
        if_id: 0,
        reqid: reqid(0).into(),
        selector: None,
        iptfs: None,
        set_mark: Mark::default(),
        cpu: None,
        limits: VolumeLimits::NONE,
        added_s: 0,
        generation: 0,
    };
    let sas = [SaDirection::Outbound, SaDirection::Inbound].map(|direction| {
        // strongSwan's outbound SAs have no window.
        config.params.replay_window = if direction == SaDirection::Outbound { 0 } else { 32 };
        let start = &Live::default();
        device.put_sa(NewSa { direction, config: &config, keys: &keys, start }).unwrap()
    });
    for (direction, sa) in [(Direction::Out, Some(sas[0])), (Direction::In, None)] {
        let config = policy(direction, 375_423);
        device.put_policy(NewPolicy { config: &config, sa }).unwrap();
    }
    sas
}

/// Sends one packet through a queue.
fn exchange(queue: &mut dyn Queue<Vec<u8>>, work: Work, buffer: Vec<u8>) -> (Vec<u8>, Status) {
    let mut requests = Burst::from_iter([Request { buffer, work }]);
    assert_eq!(queue.submit(&mut requests), 1);
    let mut done = Burst::new();
    let done = (0..1000).find_map(|_| {
        queue.poll(&mut done);
        done.pop()
    });
    let done = done.expect("each buffer comes back");
    (done.buffer, done.status)
}

/// Everything in one direction.
fn policy(direction: Direction, priority: u32) -> PolicyConfig {
    let any = Prefix { addr: [0, 0, 0, 0].into(), len: 0 };
    // Towards the peer's network alone; what an SA of it opens is from anywhere.
    let dst = Prefix { addr: there(0, false), len: 24 };
    let selector = match direction {
        Direction::Out => Selector::between(any, dst),
        _ => Selector::between(any, any),
    };
    PolicyConfig {
        index: direction as u32 + 1,
        direction,
        selector,
        priority,
        action: Action::Allow,
        flags: PolicyFlags::default(),
        templates: vec![Template {
            src: [192, 0, 2, 1].into(),
            dst: [192, 0, 2, 2].into(),
            spi: 0,
            protocol: 50,
            mode: Mode::Tunnel,
            reqid: reqid(0).into(),
            optional: false,
        }],
        mark: Mark::default(),
        if_id: 0,
    }
}
