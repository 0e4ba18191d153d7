//! VLAN tags that lie beside frames: a bridge takes them out of what it forwards, and veths hand them on.

use std::net::IpAddr;

use crate::common::{Raw, again, ifindex, in_namespace, ip, veth, wait_for};
use io::{
    Burst, ChunkSize, FramePool, Port, Umem, UmemConfig, XskConfig, XskMode, XskQueue, XskRegion,
};
use steer::device::Device;
use steer::{Attached, Mode, Prefix, Steer, SteerConfig, StrippedTags, Verdict};
use wire::{EtherType, VlanTags};

/// Frames of x0 come in by a0, by way of a bridge, and with their outer tag beside them. False, saying so, where this
/// kernel does not tell such tags.
fn frames_with_tags_beside() -> bool {
    veth("a0", "a1", 1);
    veth("x0", "x1", 1);
    ip("link add br0 type bridge mcast_snooping 0");
    ip("link set br0 addrgenmode none");
    for name in ["a1", "x1"] {
        ip(&format!("link set {name} master br0"));
    }
    ip("link set br0 up");
    // It forwards a moment later.
    let (outside, inside) = (Raw::open("x0"), Raw::open("a0"));
    let mut probe = frame(&[], 0);
    probe[12..14].copy_from_slice(&[0x88, 0xb5]);
    wait_for("the bridge to forward", || {
        outside.send(&probe);
        inside.receive()
    });
    let device = Device::look("a0").expect("exists");
    assert!(device.strips_vlan_tags());
    if !device.tells_vlan_tags {
        eprintln!("skipped: before Linux 6.8, or without BTF, nobody is told the tags");
    }
    device.tells_vlan_tags
}

/// The program on a0, which takes VLAN 7, what lies on that as VLAN 100, and what is of no VLAN.
fn attach(config: &SteerConfig, port: &XskQueue) -> (Steer, Attached) {
    let (mut steer, attached) = again(|| Steer::load_and_attach("a0", config));
    steer
        .set_protected([Prefix::new(IpAddr::from([10, 0, 0, 0]), 8).expect("valid")])
        .expect("set");
    let outer = VlanTags::NONE.with(EtherType::SERVICE_VLAN, 7).expect("a VLAN");
    let stacked = outer.with(EtherType::VLAN, 100).expect("a VLAN");
    let one = VlanTags::NONE.with(EtherType::VLAN, 7).expect("a VLAN");
    steer.set_vlans([one, stacked]).expect("set");
    steer.set_socket(0, port.socket()).expect("set");
    (steer, attached)
}

fn open() -> (XskQueue, FramePool) {
    let config = UmemConfig { chunks: 256, chunk_size: ChunkSize::Bytes2048, populate: false };
    let (umem, mut pool) = Umem::new(config).expect("memory");
    let rings = XskConfig { fill: 64, ready: 64, rx: 64, tx: 64, mode: XskMode::Auto };
    let region = XskRegion::new(&umem);
    let (mut port, _) = again(|| XskQueue::new(&region, ifindex("a0"), 0, &rings));
    assert_eq!(port.rx(&mut pool, &mut Burst::new()).expect("rx"), 0);
    (port, pool)
}

/// A UDP datagram to a protected address, with these tags.
fn frame(tags: &[u8], number: u8) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    frame.extend(tags);
    // With the right checksum, as the bridge lets netfilter look.
    frame.extend([8, 0, 0x45, 0, 0, 86, 0, 1, 0, 0, 64, 17, 0x32, 0x8b]);
    frame.extend([203, 0, 113, 7, 10, 1, 2, 3]);
    frame.extend([0, 9, 0, 9, 0, 66, 0, 0]);
    frame.extend([number; 58]);
    frame
}

fn next(what: &str, port: &mut XskQueue, pool: &mut FramePool) -> Vec<u8> {
    let mut burst = Burst::new();
    wait_for(what, || {
        port.rx(pool, &mut burst).expect("rx");
        burst.first().map(|packet| packet.data().to_vec())
    })
}

#[test]
fn what_is_taken_gets_its_tag_back() {
    in_namespace(|| {
        if !frames_with_tags_beside() {
            return;
        }
        let (mut port, mut pool) = open();
        for frags in [false, true] {
            let native = SteerConfig { mode: Mode::Native, frags, ..SteerConfig::default() };
            let (steer, attached) = attach(&native, &port);
            assert_eq!(
                (attached, steer.stripped_tags()),
                (Attached::Native, &StrippedTags::PutBack)
            );
            let (outside, stack) = (Raw::open("x0"), Raw::open("a0"));
            // Without a tag; with one; with two, of which the bridge takes out the outer one; with a priority alone.
            let taken: [&[u8]; 4] = [
                &[],
                &[0x81, 0, 0xb0, 7],
                &[0x88, 0xa8, 0xa0, 7, 0x81, 0, 0x20, 100],
                &[0x81, 0, 0xe0, 0],
            ];
            for (number, tags) in (1..).zip(taken) {
                let sent = frame(tags, number);
                outside.send(&sent);
                let what = format!("the frame with tags {tags:x?}");
                assert_eq!(next(&what, &mut port, &mut pool), sent, "{what}");
            }
            // Another VLAN's go to Linux, which has the tag beside the frame as it came.
            outside.send(&frame(&[0x81, 0, 0, 9], 9));
            let bare = frame(&[], 9);
            stack.expect("the passed frame", |frame| frame == bare);
            let stats = steer.stats().expect("counters");
            let counts = [Verdict::TakeTransit, Verdict::PassVlan].map(|v| stats.count(v));
            assert_eq!(counts, [4, 1]);
        }
    });
}

/// A queue without a socket: the frame goes to Linux as it came.
#[test]
fn what_no_socket_takes_stays_as_it_came() {
    in_namespace(|| {
        if !frames_with_tags_beside() {
            return;
        }
        let (port, _pool) = open();
        let (mut steer, _) = attach(&SteerConfig::default(), &port);
        assert_eq!(steer.stripped_tags(), &StrippedTags::PutBack);
        steer.clear_socket(0).expect("cleared");
        let (outside, stack) = (Raw::open("x0"), Raw::open("a0"));
        outside.send(&frame(&[0x81, 0, 0, 7], 1));
        let bare = frame(&[], 1);
        stack.expect("the passed frame", |frame| frame == bare);
        let stats = steer.stats().expect("counters");
        assert_eq!([Verdict::TakeTransit, Verdict::NoSocket].map(|v| stats.count(v)), [1, 1]);
    });
}

/// The plain program takes the place of the other, and says what is lost with it.
#[test]
fn in_generic_mode_tags_are_lost() {
    in_namespace(|| {
        if !frames_with_tags_beside() {
            return;
        }
        let (mut port, mut pool) = open();
        for asked in [Mode::Auto, Mode::Generic] {
            // Loaded before it is known that the other has to do.
            let config = SteerConfig { mode: asked, ..SteerConfig::default() };
            let mut steer = Steer::load(&steer::Loader::new(), "a0", &config).expect("loads");
            assert_eq!(*steer.stripped_tags() == StrippedTags::PutBack, asked == Mode::Auto);
            assert_eq!(steer.attach(Mode::Generic).expect("attaches"), Attached::Generic);
            let StrippedTags::Lost(why) = steer.stripped_tags() else { panic!("not lost") };
            assert!(why.contains("generic"), "{why}");
            let ten = Prefix::new(IpAddr::from([10, 0, 0, 0]), 8).expect("valid");
            steer.set_protected([ten]).expect("set");
            steer.set_socket(0, port.socket()).expect("set");
            Raw::open("x0").send(&frame(&[0x81, 0, 0, 9], 1));
            assert_eq!(
                next("the frame", &mut port, &mut pool),
                frame(&[], 1),
                "taken for the port's own"
            );
        }
    });
}

/// One for another interface is not attached, and a driver that leaves tags in needs none.
#[test]
fn a_program_serves_one_interface() {
    in_namespace(|| {
        if !frames_with_tags_beside() {
            return;
        }
        let loader = steer::Loader::new();
        let mut steer = Steer::load(&loader, "a0", &SteerConfig::default()).expect("loads");
        assert!(steer.is_for(ifindex("a0")) && !steer.is_for(ifindex("x0")));
        ip("link del a0");
        veth("a0", "a1", 1);
        assert!(!steer.is_for(ifindex("a0")), "another of the same name");
        assert_eq!(steer.attach(Mode::Native).expect("the plain one"), Attached::Native);
        assert!(
            matches!(steer.stripped_tags(), StrippedTags::Lost(why) if why.contains("attached"))
        );
        drop(steer);
        let lo = Steer::load(&loader, "lo", &SteerConfig::default()).expect("loads");
        assert_eq!(lo.stripped_tags(), &StrippedTags::None);
    });
}
