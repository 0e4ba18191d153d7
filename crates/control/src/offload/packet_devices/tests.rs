//! Policies that follow their SAs, tables that are full, and a device that goes.

use crypto::Keys;
use nic::{Cord, PacketNic, Sizes};
use offload::{Live, PacketSa};
use policy::{Direction, PolicyConfig};
use rustix::net::{AddressFamily, SocketType, socket};
use xfrm::codec::constant as c;

use super::*;
use crate::sources::testing::{HERE, THERE, config, policy};

/// A NIC at the loopback interface, whose index is 1 in each namespace.
fn devices(sizes: Sizes) -> (PacketDevices, Cord) {
    let nic = PacketNic::new("nic0", sizes).unwrap();
    let cord = nic.cord();
    let kind = DeviceKind::PacketNicModel;
    let config = toml::from_str(&format!("kind = '{}'\nport = 'lo'", kind.name())).unwrap();
    let attached = Attached::new("nic0", &config, Box::new(nic)).unwrap();
    let asking = socket(AddressFamily::INET, SocketType::DGRAM, None).ok();
    (PacketDevices { attached: vec![attached], asking, ..PacketDevices::default() }, cord)
}

const SMALL: Sizes = Sizes { sas: 2, policies: 2 };

fn wanted(flags: u8) -> Offload {
    Offload { ifindex: 1, flags: flags | c::OFFLOAD_PACKET, ..Offload::default() }
}

fn put_sa(devices: &mut PacketDevices, spi: u32, flags: u8) -> Result<(), Refusal> {
    let keys = Keys { cipher: vec![7; 16], salt: vec![1; 4], auth: Vec::new() };
    let ends = if flags == 0 { (HERE, THERE) } else { (THERE, HERE) };
    let config = config(spi, ends, 1);
    let session = devices.put_sa(&config, &keys, &wanted(flags), &Live::default())?;
    assert_eq!(PacketSa::of(&session).map(PacketSa::name), Some("nic0"));
    Ok(())
}

/// A policy of the tunnel, of its own network.
fn of_tunnel(index: u32, direction: Direction) -> PolicyConfig {
    let ends = if direction == Direction::Out { (HERE, THERE) } else { (THERE, HERE) };
    let mut policy = policy(index, direction, ends, &[1]);
    policy.selector.dst = policy::Prefix { addr: [10, 0, index as u8, 0].into(), len: 24 };
    policy.selector.src = policy::Prefix { addr: [10, 1, 0, 0].into(), len: 16 };
    policy
}

/// SAs out and in, policies out and in.
fn tables(devices: &PacketDevices) -> [usize; 4] {
    let row = devices.rows().remove(0);
    core::array::from_fn(|n| row.tables[n].used)
}

fn id(spi: u32) -> SaId {
    config(spi, (HERE, THERE), 1).id()
}

#[test]
fn policies_follow_their_sas() {
    let (mut devices, _cord) = devices(Sizes::default());
    for index in [1, 2] {
        assert_eq!(devices.put_policy(&of_tunnel(index, Direction::Out), &wanted(0)), Ok(0));
    }
    devices.put_policy(&of_tunnel(3, Direction::In), &wanted(0)).unwrap();
    assert_eq!(tables(&devices), [0, 0, 0, 1], "those without an SA are not in it");
    put_sa(&mut devices, 1, 0).unwrap();
    assert_eq!(tables(&devices), [1, 0, 2, 1]);
    // A younger one takes its place; the old one may go then.
    put_sa(&mut devices, 2, 0).unwrap();
    devices.remove_sa(&id(1)).unwrap();
    assert_eq!(tables(&devices), [1, 0, 2, 1]);
    // One of an SA that goes is led to the other.
    put_sa(&mut devices, 3, 0).unwrap();
    devices.remove_sa(&id(3)).unwrap();
    assert_eq!(tables(&devices), [1, 0, 2, 1]);
    devices.remove_policy(1);
    assert_eq!(tables(&devices), [1, 0, 1, 1]);
    let (direction, last) = devices.remove_sa(&id(2)).unwrap();
    assert_eq!((direction, last), (SaDirection::Outbound, Live::default()));
    assert_eq!(tables(&devices), [0, 0, 0, 1]);
    assert!(devices.remove_sa(&id(2)).is_none() && !devices.has_sas());
    put_sa(&mut devices, 4, 0).unwrap();
    assert_eq!(tables(&devices), [1, 0, 1, 1]);
}

#[test]
fn full_tables_and_what_no_device_does_are_refused() {
    let (mut devices, _cord) = devices(SMALL);
    let errno = |result: Result<u8, Refusal>| result.unwrap_err().errno;
    for index in [1, 2] {
        devices.put_policy(&of_tunnel(index, Direction::Out), &wanted(0)).unwrap();
    }
    // Those that wait for an SA count, too.
    let third = of_tunnel(3, Direction::Out);
    assert_eq!(errno(devices.put_policy(&third, &wanted(0))), errno::ENOSPC);
    for spi in [1, 2] {
        put_sa(&mut devices, spi, 0).unwrap();
        put_sa(&mut devices, spi, c::OFFLOAD_INBOUND).unwrap();
    }
    let full = put_sa(&mut devices, 3, 0).unwrap_err();
    assert_eq!(full.errno, errno::ENOSPC);
    assert!(full.message.contains("room for 2 SAs"), "{full}");
    // A policy in the place of another one, and one that is refused in its place.
    let first = PolicyConfig { priority: 7, ..of_tunnel(1, Direction::Out) };
    devices.put_policy(&first, &wanted(0)).unwrap();
    let twice = PolicyConfig { index: 1, ..of_tunnel(2, Direction::Out) };
    assert_eq!(errno(devices.put_policy(&twice, &wanted(0))), errno::EEXIST);
    assert_eq!(tables(&devices), [2, 2, 2, 0]);
    let mut marked = first.clone();
    marked.if_id = 5;
    let refused = devices.put_policy(&marked, &wanted(0)).unwrap_err();
    assert_eq!(refused.errno, errno::EOPNOTSUPP);
    assert!(refused.message.contains("interface id"), "{refused}");
    let nowhere = Offload { ifindex: 77, ..wanted(0) };
    assert_eq!(errno(devices.put_policy(&third, &nowhere)), errno::EINVAL);
}

#[test]
fn a_device_that_goes_takes_its_sas_and_their_numbers_along() {
    let (mut devices, cord) = devices(Sizes::default());
    devices.put_policy(&of_tunnel(1, Direction::Out), &wanted(0)).unwrap();
    put_sa(&mut devices, 1, 0).unwrap();
    assert_eq!(devices.events(), []);
    cord.pull();
    assert_eq!(devices.events(), [(id(1), SaEvent::Hard)]);
    let (_, last) = devices.remove_sa(&id(1)).unwrap();
    assert_eq!(last.number, u64::from(u32::MAX), "none may be used again");
    let refused = put_sa(&mut devices, 2, 0).unwrap_err();
    assert_eq!(refused.errno, errno::ENODEV);
}

#[test]
fn what_is_behind_a_port_that_is_down_is_told() {
    let (mut devices, _cord) = devices(SMALL);
    assert_eq!(devices.behind_ports_down(|_| false), (vec![], vec![]));
    devices.put_policy(&of_tunnel(1, Direction::In), &wanted(0)).unwrap();
    put_sa(&mut devices, 1, 0).unwrap();
    assert_eq!(devices.behind_ports_down(|port| port == "lo"), (vec![], vec![]));
    assert_eq!(devices.behind_ports_down(|port| port != "lo"), (vec![id(1)], vec![1]));
}
