//! The engine with devices, over queues that are full, silent or late.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crypto::{AesKey, Engine, IcvLen, Job, JobStatus, Keys, Op, Provider, Session, Suite};
use engine_openssl::OpensslProvider;
use esp::SaParams;
use offload::{
    Bounce, Buffer, Burst, Capabilities, Completion, Lane, OffloadEngine, Offloaded, Queue,
    Request, SaHandle, Status, Trouble, Watch,
};

const SUITE: Suite = Suite::AesGcm { key: AesKey::Aes128, icv: IcvLen::Icv16 };
const LEN: usize = 96;

/// A device with one answer to all packets.
struct Writes {
    /// The ESP packet that it gives back; nothing for that of software.
    answer: Vec<u8>,
    /// Another answer after so many packets.
    then: Option<(usize, Vec<u8>)>,
    inside: VecDeque<Request<Bounce>>,
    depth: usize,
    /// Polls until it answers.
    silent: u32,
    status: Status,
}

impl Queue<Bounce> for Writes {
    fn submit(&mut self, requests: &mut Burst<Request<Bounce>>) -> usize {
        let count = requests.len().min(self.depth - self.inside.len());
        self.inside.extend(requests.drain(..count));
        count
    }

    fn poll(&mut self, completions: &mut Burst<Completion<Bounce>>) -> usize {
        if self.silent > 0 {
            self.silent -= 1;
            return 0;
        }
        let count = completions.remaining_capacity().min(self.inside.len());
        for Request { mut buffer, work } in self.inside.drain(..count) {
            assert_eq!(buffer.packet().len(), 20 + LEN, "an outer header is in front");
            match &mut self.then {
                Some((0, answer)) => self.answer.clone_from(answer),
                Some((left, _)) => *left -= 1,
                None => {}
            }
            buffer.packet_mut()[20..].copy_from_slice(&self.answer);
            completions.push(Completion { buffer, work, status: self.status });
        }
        count
    }

    fn in_flight(&self) -> usize {
        self.inside.len()
    }

    fn depth(&self) -> usize {
        self.depth
    }
}

fn capabilities(most_packet_len: usize) -> Capabilities {
    Capabilities {
        most_sas: 1,
        most_addresses: 1,
        most_packet_len,
        ..Capabilities::crypto(vec![SUITE])
    }
}

struct Bench {
    engine: OffloadEngine,
    offloaded: Session,
    watch: Arc<Watch>,
    /// The packet as software seals it.
    by_software: Vec<u8>,
}

impl Bench {
    fn new(mut queue: Writes, most_packet_len: usize) -> Bench {
        let provider = OpensslProvider::new().unwrap();
        let keys = Keys { cipher: vec![7; 16], salt: vec![1; 4], auth: Vec::new() };
        let software = provider.session(SUITE, &keys).unwrap();
        let mut by_software = vec![5; LEN];
        provider.engine().unwrap().run(&mut [Job::esp(
            &software,
            Op::Seal,
            &mut by_software,
            None,
        )]);
        let end = |last| IpAddr::V4(Ipv4Addr::new(192, 0, 2, last));
        let params = SaParams::tunnel(SUITE, 1, (end(1), end(2)));
        let offloaded = Offloaded::session((0, "nic0".into()), SaHandle(1), software, &params);
        if queue.answer.is_empty() {
            queue.answer.clone_from(&by_software);
        }
        let watch = Arc::new(Watch::default());
        let lane = Lane::new(Box::new(queue), capabilities(most_packet_len), watch.clone());
        let is_used = Arc::new(AtomicBool::new(true));
        let engine = OffloadEngine::new(provider.engine().unwrap(), vec![lane], is_used);
        Bench { engine, offloaded, watch, by_software }
    }

    /// Seals so many packets, all as software does; how many the device did.
    fn seal(&mut self, count: usize) -> usize {
        let before = self.watch.in_software();
        let mut packets = vec![vec![5; LEN]; count];
        let mut jobs: Vec<Job<'_>> = packets
            .iter_mut()
            .map(|packet| Job::esp(&self.offloaded, Op::Seal, packet, None))
            .collect();
        self.engine.run(&mut jobs);
        assert!(jobs.iter().all(|job| job.status == JobStatus::Done));
        assert!(packets.iter().all(|packet| *packet == self.by_software));
        count - (self.watch.in_software() - before) as usize
    }
}

fn writes(depth: usize) -> Writes {
    Writes {
        answer: Vec::new(),
        then: None,
        inside: VecDeque::new(),
        depth,
        silent: 0,
        status: Status::Done,
    }
}

#[test]
fn what_a_full_queue_leaves_is_software_s() {
    let mut bench = Bench::new(writes(10), 2000);
    assert_eq!(bench.seal(3), 3);
    // Of a burst of 64 and one of 6.
    assert_eq!(bench.seal(70), 16);
    assert_eq!(bench.watch.in_software(), 54);
}

#[test]
fn a_packet_that_is_too_long_is_software_s() {
    let mut bench = Bench::new(writes(100), 20 + LEN - 1);
    assert_eq!(bench.seal(5), 0);
    assert_eq!(bench.watch.in_software(), 5);
}

#[test]
fn a_device_that_answers_too_late_changes_no_other_packet() {
    let mut bench = Bench::new(Writes { silent: 100_000, ..writes(100) }, 2000);
    assert_eq!(bench.seal(20), 0);
    // Now the first ones come back, and are nobody's.
    assert_eq!(bench.seal(7), 7);
    assert_eq!(bench.seal(64), 64);
    assert_eq!(bench.watch.in_software(), 20);
}

#[test]
fn what_is_dropped_or_lost_is_sealed_by_software() {
    for status in [Status::Lost, Status::Dropped(outcome::DropReason::OutCrypto)] {
        let mut bench = Bench::new(Writes { status, ..writes(100) }, 2000);
        assert_eq!(bench.seal(9), 0);
        assert_eq!(bench.watch.in_software(), 9);
    }
}

#[test]
fn a_device_that_is_late_twice_is_given_nothing_more_until_it_is_resumed() {
    let mut bench = Bench::new(Writes { silent: 200_002, ..writes(100) }, 2000);
    assert_eq!((bench.seal(3), bench.watch.trouble()), (0, None));
    assert_eq!((bench.seal(3), bench.watch.trouble()), (0, Some(Trouble::Silent)));
    assert_eq!(bench.seal(70), 0);
    bench.watch.resume();
    assert_eq!((bench.seal(70), bench.watch.trouble()), (70, None));
}

#[test]
fn a_wrong_answer_is_never_sent_while_an_sa_is_new() {
    let mut bench = Bench::new(Writes { answer: vec![0xdd; LEN], ..writes(100) }, 2000);
    assert_eq!(bench.watch.trouble(), None);
    bench.seal(5);
    assert_eq!((bench.watch.compared(), bench.watch.trouble()), (5, Some(Trouble::Wrong)));
    assert_eq!(bench.seal(5), 0);
}

#[test]
fn what_is_in_clear_or_under_another_number_is_never_sent() {
    let right = Bench::new(writes(1), 2000).by_software;
    let clear = vec![5; LEN];
    let mut half_clear = right.clone();
    half_clear[64..].fill(5);
    let mut renumbered = right.clone();
    renumbered[7] ^= 1;
    for answer in [clear, half_clear, renumbered] {
        // It is right for long enough.
        let mut bench = Bench::new(Writes { then: Some((20, answer)), ..writes(100) }, 2000);
        assert_eq!((bench.seal(20), bench.watch.trouble()), (20, None));
        bench.seal(60);
        assert_eq!(bench.watch.trouble(), Some(Trouble::Wrong));
    }
}
