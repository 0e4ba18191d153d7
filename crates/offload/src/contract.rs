//! Contract that every device must pass: the page of this crate as assertions.
//!
//! A device's crate calls [`check`] in a test, with a device that is empty. Packet offload is tried as a loop:
//! what the device has sealed goes back into it.

use core::net::{IpAddr, Ipv4Addr};
use std::collections::BTreeSet;

use crypto::{Keys, Suite};
use esp::{Mode, SaFlags, SaParams, UdpEncap};
use outcome::DropReason;
use policy::{
    Action, Direction, Mark, PolicyConfig, PolicyFlags, Prefix, SaConfig, Selector, Template,
};
use wire::Span;

use crate::attribute::Attribute;
use crate::capabilities::Placement;
use crate::device::{Device, Live, NewPolicy, NewSa};
use crate::error::{HandleError, Invalid, PutError};
use crate::event::Event;
use crate::handle::{PolicyHandle, SaDirection, SaHandle};
use crate::queue::{Burst, CryptoWork, Queue, Request, Status, Work};

/// The device under test.
type Tested<'d> = &'d mut dyn Device<Vec<u8>>;

/// Holds a device against the contract. It is empty at the end as it was at first.
///
/// # Panics
/// Where the device breaks the contract.
pub fn check(device: Tested<'_>) {
    let suites = device.capabilities().suites.clone();
    check_suites(device, &suites);
}

/// As [`check`], with packets of these suites alone, of those that the device has: for a simulated device,
/// to which each takes its time.
///
/// # Panics
/// As [`check`].
pub fn check_suites(device: Tested<'_>, suites: &[Suite]) {
    assert!(!device.name().is_empty());
    assert_ne!(device.capabilities().placement, Placement::Cpu, "a device is not the CPU");
    assert_eq!(device.check(), Ok(()));
    assert_eq!(device.event(), None, "nothing has happened");
    attributes_are_named(device);
    mistakes_are_told(device);
    tables_fill_and_empty(device);
    let mut queue = device.queue().unwrap();
    assert!(queue.depth() > 0);
    match device.capabilities().placement {
        Placement::Packet => {
            packets_go_round(device, &mut *queue, suites);
            numbers_go_on(device, &mut *queue);
            lifetimes_end(device, &mut *queue);
            numbers_end(device, &mut *queue);
        }
        Placement::Crypto | Placement::Cpu => ciphers_go_round(device, &mut *queue, suites),
    }
    queue_is_bounded(device, &mut *queue);
    assert_eq!(device.event(), None, "all events were taken");
}

/// Checks that the device takes all that the capabilities name, and refuses the rest by its
/// attribute, of which it leaves nothing behind.
fn attributes_are_named(device: Tested<'_>) {
    let capabilities = device.capabilities().clone();
    assert!(!capabilities.suites.is_empty() && capabilities.most_sas > 0);
    for direction in [SaDirection::Outbound, SaDirection::Inbound] {
        for suite in Suite::all() {
            let result = put(device, direction, &sa(suite, 1), &Live::default());
            if capabilities.suites.contains(&suite) {
                device.remove_sa(result.unwrap()).unwrap();
            } else {
                assert_eq!(result, Err(PutError::Unsupported(Attribute::Suite(suite))));
            }
        }
    }
    let plain = sa(capabilities.suites[0], 2);
    let changes: [&dyn Fn(&mut SaConfig); 12] = [
        &|sa| sa.params.mode = Mode::Tunnel,
        &|sa| sa.params.mode = Mode::Transport,
        &|sa| sa.params.esn = true,
        &|sa| sa.params.encap = Some(UdpEncap { src_port: 4500, dst_port: 4500 }),
        &|sa| sa.params.replay_window = 0,
        &|sa| sa.params.replay_window = 4096,
        &|sa| sa.params.tfc_pad_len = 256,
        &|sa| sa.params.flags = SaFlags { no_ecn: true, ..SaFlags::default() },
        &|sa| sa.if_id = 3,
        &|sa| sa.mark = Mark { value: 1, mask: 1 },
        &|sa| sa.reqid = u32::MAX,
        &|sa| sa.limits.hard_bytes = u64::MAX - 1,
    ];
    for change in changes {
        let mut config = plain.clone();
        change(&mut config);
        let result = put(device, SaDirection::Inbound, &config, &Live::default());
        match capabilities.check_sa(&config) {
            Ok(()) => {
                device.remove_sa(result.unwrap()).unwrap();
            }
            Err(lacked) => {
                assert_eq!(result, Err(PutError::Unsupported(lacked)));
                assert!(!lacked.to_string().is_empty());
            }
        }
    }
    let result = device.put_policy(NewPolicy { config: &policy(Direction::Out, 1), sa: None });
    match capabilities.placement {
        Placement::Packet => assert_eq!(result, Err(PutError::Invalid(Invalid::PolicySa))),
        _ => assert_eq!(result, Err(PutError::Unsupported(Attribute::Policy))),
    }
}

/// Mistakes of the caller change nothing and are told apart.
fn mistakes_are_told(device: Tested<'_>) {
    let config = sa(device.capabilities().suites[0], 3);
    let mut wrong = keys(config.params.suite);
    wrong.cipher.push(0);
    let start = &Live::default();
    let direction = SaDirection::Inbound;
    let result = device.put_sa(NewSa { direction, config: &config, keys: &wrong, start });
    assert_eq!(result, Err(PutError::Invalid(Invalid::Keys)));
    let there = put(device, direction, &config, start).unwrap();
    let again = put(device, direction, &config, start);
    assert_eq!(again, Err(PutError::Invalid(Invalid::Exists)));
    let other = put(device, direction, &sa(config.params.suite, 4), start).unwrap();
    assert_ne!(there, other);
    for handle in [there, other] {
        assert_eq!(
            device.live(handle),
            Ok(Live { received: words(device, handle), ..Live::default() })
        );
        device.remove_sa(handle).unwrap();
        assert_eq!(device.remove_sa(handle), Err(HandleError::Unknown));
        assert_eq!(device.live(handle), Err(HandleError::Unknown));
    }
    let never = PolicyHandle(u32::MAX);
    assert_eq!(device.remove_policy(never), Err(HandleError::Unknown));
    assert_eq!(device.switch_policy(never, there), Err(HandleError::Unknown));
}

/// The window of an SA that has received nothing is the device's own matter.
fn words(device: Tested<'_>, sa: SaHandle) -> Vec<u64> {
    device.live(sa).map(|live| live.received).unwrap_or_default()
}

/// As many SAs as the capabilities say, not one more, and a place that became free is used again.
///
/// Large tables are not filled: a simulated device would take minutes.
fn tables_fill_and_empty(device: Tested<'_>) {
    let (suite, most) = (device.capabilities().suites[0], device.capabilities().most_sas);
    let start = &Live::default();
    let count = most.min(MOST_FILLED);
    let mut handles: Vec<SaHandle> = (0..count as u32)
        .map(|n| put(device, SaDirection::Inbound, &sa(suite, 0x1_0000 + n), start).unwrap())
        .collect();
    assert_eq!(handles.iter().collect::<BTreeSet<_>>().len(), count, "each has its own handle");
    if count == most {
        let one_more = sa(suite, 0x8_0000);
        let full = put(device, SaDirection::Inbound, &one_more, start).unwrap_err();
        assert!(matches!(full, PutError::Full { most: told, .. } if told == most), "{full}");
        device.remove_sa(handles.swap_remove(count / 2)).unwrap();
        handles.push(put(device, SaDirection::Inbound, &one_more, start).unwrap());
    }
    for handle in handles {
        device.remove_sa(handle).unwrap();
    }
}

/// SAs that are put in at most.
const MOST_FILLED: usize = 32;

/// A pair of SAs and policies between which packets go round.
struct Loop {
    outbound: SaHandle,
    inbound: SaHandle,
    policies: [PolicyHandle; 2],
}

impl Loop {
    fn new(device: Tested<'_>, config: &SaConfig, starts: [&Live; 2]) -> Loop {
        let outbound = put(device, SaDirection::Outbound, config, starts[0]).unwrap();
        let inbound = put(device, SaDirection::Inbound, config, starts[1]).unwrap();
        let (out, back) = (policy(Direction::Out, 1), policy(Direction::In, 2));
        let policies = [
            device.put_policy(NewPolicy { config: &out, sa: Some(outbound) }).unwrap(),
            device.put_policy(NewPolicy { config: &back, sa: None }).unwrap(),
        ];
        Loop { outbound, inbound, policies }
    }

    /// Takes everything out; the last numbers of both SAs.
    fn remove(self, device: Tested<'_>) -> [Live; 2] {
        let leads = device.remove_sa(self.outbound);
        assert_eq!(leads, Err(HandleError::InUse(self.policies[0])));
        for policy in self.policies {
            device.remove_policy(policy).unwrap();
            assert_eq!(device.remove_policy(policy), Err(HandleError::Unknown));
        }
        [self.outbound, self.inbound].map(|sa| {
            let live = device.live(sa).unwrap();
            assert_eq!(device.remove_sa(sa).unwrap(), live, "nothing moves any more");
            live
        })
    }
}

/// Packets of each suite are sealed and opened; replays and forgeries are not; all is counted.
fn packets_go_round(device: Tested<'_>, queue: &mut dyn Queue<Vec<u8>>, suites: &[Suite]) {
    for (number, suite) in suites.iter().copied().enumerate() {
        let config = sa(suite, 0x100 + number as u32);
        let tunnel = Loop::new(device, &config, [&Live::default(); 2]);
        let plain: BTreeSet<Vec<u8>> = (0..20).map(|n| packet(28 + 70 * n)).collect();
        let sealed = done(exchange(queue, Work::Outbound, plain.clone()));
        assert_eq!(sealed.len(), plain.len());
        let spi = config.params.spi.to_be_bytes();
        assert!(sealed.iter().all(|esp| esp[20..24] == spi), "{suite}: an ESP packet of the SA");
        let seqs: BTreeSet<u32> = sealed.iter().map(|esp| seq(esp)).collect();
        assert_eq!(seqs, (1..=20).collect(), "{suite}: each number once");

        let mut forged = sealed[7].clone();
        *forged.last_mut().unwrap() ^= 1;
        let dropped = exchange(queue, Work::Inbound, [forged]);
        assert_eq!(dropped[0].1, Status::Dropped(DropReason::InIntegrity), "{suite}");
        let opened = exchange(queue, Work::Inbound, sealed.clone());
        let is_of_another = |status| matches!(status, Status::Opened(sa) if sa != tunnel.inbound);
        assert!(
            !opened.iter().any(|(_, status)| is_of_another(*status)),
            "{suite}: opened by that SA"
        );
        assert_eq!(done(opened).into_iter().collect::<BTreeSet<_>>(), plain, "{suite}");
        let dropped = exchange(queue, Work::Inbound, [sealed[3].clone()]);
        assert_eq!(dropped[0].1, Status::Dropped(DropReason::InReplayDuplicate), "{suite}");

        let [out, back] = tunnel.remove(device);
        assert_eq!((out.number, out.packets), (20, 20), "{suite}");
        assert_eq!((back.number, back.packets, back.bytes), (20, 20, out.bytes), "{suite}");
        assert_eq!(back.received[0] & 0xf_ffff, 0xf_ffff, "{suite}: all were received");
        let dropped = exchange(queue, Work::Inbound, [sealed[4].clone()]);
        assert_eq!(dropped[0].1, Status::Dropped(DropReason::InNoState), "{suite}");
        let dropped = exchange(queue, Work::Outbound, [packet(100)]);
        assert!(matches!(dropped[0].1, Status::Dropped(_)), "no policy: never in clear");
    }
}

/// An SA that comes from another place goes on from its numbers, its window and its counts.
fn numbers_go_on(device: Tested<'_>, queue: &mut dyn Queue<Vec<u8>>) {
    let config = sa(device.capabilities().suites[0], 0x200);
    let sent = Live { number: 989, bytes: 5000, packets: 900, ..Live::default() };
    // Everything up to 1000 was received, but for 990.
    let received = Live { number: 1000, received: vec![!(1 << 10)], bytes: 1, packets: 2 };
    let tunnel = Loop::new(device, &config, [&sent, &received]);
    let before = device.live(tunnel.inbound).unwrap();
    assert_eq!((before.number, before.bytes, before.packets), (1000, 1, 2));
    assert_eq!(before.received[0], !(1 << 10));
    // One after the other: their order matters here.
    let sealed: Vec<Vec<u8>> =
        (0..3).flat_map(|_| done(exchange(queue, Work::Outbound, [packet(100)]))).collect();
    assert_eq!(sealed.iter().map(|esp| seq(esp)).collect::<Vec<_>>(), [990, 991, 992]);
    let opened: Vec<Status> =
        sealed.into_iter().map(|esp| exchange(queue, Work::Inbound, [esp])[0].1).collect();
    let replay = Status::Dropped(DropReason::InReplayDuplicate);
    assert!(matches!(opened[0], Status::Done | Status::Opened(_)), "{:?}", opened[0]);
    assert_eq!(opened[1..], [replay, replay]);
    let [out, back] = tunnel.remove(device);
    assert_eq!((out.number, out.packets), (992, 903));
    assert!(out.bytes > 5000);
    assert_eq!((back.number, back.packets, back.received[0]), (1000, 3, u64::MAX));
}

/// Limits by volume are exact, and told once each.
fn lifetimes_end(device: Tested<'_>, queue: &mut dyn Queue<Vec<u8>>) {
    let mut config = sa(device.capabilities().suites[0], 0x300);
    config.limits.soft_packets = 2;
    config.limits.hard_packets = 3;
    let tunnel = Loop::new(device, &config, [&Live::default(); 2]);
    let statuses: Vec<Status> =
        (0..5).map(|_| exchange(queue, Work::Outbound, [packet(100)])[0].1).collect();
    let over = Status::Dropped(DropReason::OutStateExpired);
    assert_eq!(statuses, [Status::Done, Status::Done, Status::Done, over, over]);
    let sa = tunnel.outbound;
    let told: Vec<Event> = core::iter::from_fn(|| device.event()).collect();
    assert_eq!(told, [Event::SoftLimit(sa), Event::HardLimit(sa)]);
    assert_eq!(tunnel.remove(device)[0].number, 3);
}

/// Outbound numbers are told of near their end, and never wrap.
fn numbers_end(device: Tested<'_>, queue: &mut dyn Queue<Vec<u8>>) {
    let last = u64::from(u32::MAX);
    let mut events = |number: u64, packets: usize| {
        let config = sa(device.capabilities().suites[0], 0x400);
        let start = Live { number, ..Live::default() };
        let tunnel = Loop::new(device, &config, [&start, &Live::default()]);
        let statuses: Vec<Status> =
            (0..packets).map(|_| exchange(queue, Work::Outbound, [packet(100)])[0].1).collect();
        let events: Vec<Event> = core::iter::from_fn(|| device.event()).collect();
        let sa = tunnel.outbound;
        tunnel.remove(device);
        (statuses, events, sa)
    };
    let (statuses, told, sa) = events(last - last / 16 - 2, 4);
    assert_eq!(statuses, [Status::Done; 4]);
    assert_eq!(told, [Event::NumbersLow(sa)]);
    let (statuses, told, sa) = events(last - 2, 3);
    let over = Status::Dropped(DropReason::OutSequenceExhausted);
    assert_eq!(statuses, [Status::Done, Status::Done, over]);
    assert_eq!(told, [Event::NumbersLow(sa), Event::NumbersExhausted(sa)]);
}

/// Each suite's cipher alone: sealed, opened, forged.
fn ciphers_go_round(device: Tested<'_>, queue: &mut dyn Queue<Vec<u8>>, suites: &[Suite]) {
    for suite in suites.iter().copied() {
        let config = sa(suite, 0x500);
        let start = &Live::default();
        let outbound = put(device, SaDirection::Outbound, &config, start).unwrap();
        let inbound = put(device, SaDirection::Inbound, &config, start).unwrap();
        for seq_hi in [None, device.capabilities().has_esn.then_some(5)] {
            let len = 8 + suite.iv_len_bytes() + 64 + suite.icv_len_bytes();
            let plain = esp_packet(config.params.spi, len);
            let work = |sa| CryptoWork { sa, esp: Span { start: 20, len }, seq_hi };
            let sealed = done(exchange(queue, Work::Seal(work(outbound)), [plain.clone()]));
            let icv = 20 + len - suite.icv_len_bytes();
            assert_ne!(sealed[0][icv..], plain[icv..], "{suite}: an ICV is there");
            assert_eq!(sealed[0][..28], plain[..28], "{suite}: headers, SPI and number stay");
            let mut forged = sealed[0].clone();
            forged[icv] ^= 1;
            let dropped = exchange(queue, Work::Open(work(inbound)), [forged]);
            assert_eq!(dropped[0].1, Status::Dropped(DropReason::InIntegrity), "{suite}");
            let opened = done(exchange(queue, Work::Open(work(inbound)), sealed));
            assert_eq!(opened[0][..icv], plain[..icv], "{suite}");
            // A span that is not in the packet.
            let beyond = CryptoWork { esp: Span { start: 21, len }, ..work(outbound) };
            let dropped = exchange(queue, Work::Seal(beyond), [plain.clone()]);
            assert!(matches!(dropped[0].1, Status::Dropped(_)));
        }
        device.remove_sa(outbound).unwrap();
        device.remove_sa(inbound).unwrap();
        let gone = CryptoWork { sa: outbound, esp: Span { start: 0, len: 200 }, seq_hi: None };
        let dropped = exchange(queue, Work::Seal(gone), [vec![0; 200]]);
        assert!(matches!(dropped[0].1, Status::Dropped(_)), "the SA is gone");
    }
    let dropped = exchange(queue, Work::Outbound, [packet(100)]);
    assert!(matches!(dropped[0].1, Status::Dropped(_)), "another placement's work");
}

/// More than the queue holds is left with the caller, and every buffer comes back once.
fn queue_is_bounded(device: Tested<'_>, queue: &mut dyn Queue<Vec<u8>>) {
    assert_eq!(device.check(), Ok(()));
    let total = 3 * queue.depth() + 5;
    let (mut waiting, mut made, mut back) = (Burst::new(), 0, 0);
    let mut was_full = false;
    let mut rounds = 0;
    while back < total {
        while made < total && !waiting.is_full() {
            // Of no policy and no SA: only buffers matter here.
            waiting.push(Request { buffer: packet(60), work: Work::Outbound });
            made += 1;
        }
        let (before, inside) = (waiting.len(), queue.in_flight());
        let taken = queue.submit(&mut waiting);
        assert_eq!(waiting.len(), before - taken);
        assert_eq!(queue.in_flight(), inside + taken);
        assert!(queue.in_flight() <= queue.depth());
        was_full |= !waiting.is_empty();
        // Polled only when nothing goes in any more, so that the queue fills.
        if taken == 0 {
            let mut completions = Burst::new();
            let inside = queue.in_flight();
            let count = queue.poll(&mut completions);
            assert_eq!(completions.len(), count);
            assert_eq!(queue.in_flight(), inside - count);
            back += count;
        }
        rounds += 1;
        assert!(rounds < MOST_ROUNDS, "{back} of {total} buffers came back");
    }
    assert!(was_full, "a queue is bounded");
    assert_eq!((queue.in_flight(), back), (0, total));
}

/// Submits packets and waits until all buffers are back: contents and statuses.
fn exchange(
    queue: &mut dyn Queue<Vec<u8>>,
    work: Work,
    packets: impl IntoIterator<Item = Vec<u8>>,
) -> Vec<(Vec<u8>, Status)> {
    let mut requests: Burst<Request<Vec<u8>>> =
        packets.into_iter().map(|buffer| Request { buffer, work }).collect();
    let total = requests.len();
    let mut back = Vec::new();
    for _ in 0..MOST_ROUNDS {
        queue.submit(&mut requests);
        let mut completions = Burst::new();
        queue.poll(&mut completions);
        back.extend(completions.into_iter().map(|c| {
            assert_eq!(c.work, work);
            (c.buffer, c.status)
        }));
        if back.len() == total {
            assert_eq!(queue.in_flight(), 0);
            return back;
        }
    }
    panic!("{} of {total} packets came back", back.len());
}

/// Polls before a device is given up.
const MOST_ROUNDS: usize = 100_000;

/// The packets; each must be done.
fn done(completions: Vec<(Vec<u8>, Status)>) -> Vec<Vec<u8>> {
    let is_done = |status| matches!(status, Status::Done | Status::Opened(_));
    let packets = completions.into_iter();
    packets.map(|(packet, status)| is_done(status).then_some(packet).unwrap()).collect()
}

fn put(
    device: Tested<'_>,
    direction: SaDirection,
    config: &SaConfig,
    start: &Live,
) -> Result<SaHandle, PutError> {
    device.put_sa(NewSa { direction, config, keys: &keys(config.params.suite), start })
}

const SRC: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
const DST: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));
const REQID: u32 = 7;

/// A tunnel that asks for nothing special.
fn sa(suite: Suite, spi: u32) -> SaConfig {
    let params = SaParams { replay_window: 64, ..SaParams::tunnel(suite, spi, (SRC, DST)) };
    SaConfig { reqid: REQID, ..SaConfig::plain(params) }
}

/// Everything between the two networks through that tunnel.
fn policy(direction: Direction, index: u32) -> PolicyConfig {
    let net = |third| Prefix { addr: IpAddr::V4(Ipv4Addr::new(10, third, 0, 0)), len: 16 };
    let template = Template {
        src: SRC,
        dst: DST,
        spi: 0,
        protocol: 50,
        mode: Mode::Tunnel,
        reqid: REQID,
        optional: false,
    };
    PolicyConfig {
        index,
        direction,
        selector: Selector::between(net(1), net(2)),
        priority: 100,
        action: Action::Allow,
        flags: PolicyFlags::default(),
        templates: vec![template],
        mark: Mark::default(),
        if_id: 0,
    }
}

fn keys(suite: Suite) -> Keys {
    Keys {
        cipher: (1..).take(suite.cipher_key_len_bytes()).collect(),
        salt: vec![2; suite.salt_len_bytes()],
        auth: vec![3; suite.auth_key_len_bytes()],
    }
}

/// An IPv4 packet with UDP from the first network to the second, `len` bytes long, at least 28.
fn packet(len: usize) -> Vec<u8> {
    let mut packet = vec![0x42; len];
    packet[..20]
        .copy_from_slice(&[0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 10, 1, 0, 1, 10, 2, 0, 1]);
    packet[2..4].copy_from_slice(&(len as u16).to_be_bytes());
    packet[24..26].copy_from_slice(&(len as u16 - 20).to_be_bytes());
    packet[26..28].copy_from_slice(&[0, 0]);
    wire::ipv4::fill_checksum(&mut packet[..20]);
    packet
}

/// An ESP packet of `len` bytes for that tunnel, behind its outer header; padding that stands in clear.
fn esp_packet(spi: u32, len: usize) -> Vec<u8> {
    let mut packet = packet(20 + len);
    packet[9] = ESP;
    packet[12..20].copy_from_slice(&[192, 0, 2, 1, 192, 0, 2, 2]);
    packet[10..12].fill(0);
    wire::ipv4::fill_checksum(&mut packet[..20]);
    packet[20..24].copy_from_slice(&spi.to_be_bytes());
    packet[24..28].copy_from_slice(&1_u32.to_be_bytes());
    for (n, byte) in packet[28..].iter_mut().enumerate() {
        *byte = n as u8;
    }
    packet
}

const ESP: u8 = 50;

/// The sequence number of ESP behind an IPv4 header without options.
fn seq(packet: &[u8]) -> u32 {
    packet.get(24..28).map_or(0, |b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]))
}
