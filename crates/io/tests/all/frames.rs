//! One region and several workers: each frame is with one of them at a time, none is lost.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;

use io::{Burst, ChunkSize, Frame, FramePool, POOL_LEN, Packet, Parcel, Umem, UmemConfig};
use proptest::prelude::*;
use wire::Span;

fn region(chunks: u32) -> (Umem, FramePool) {
    Umem::new(UmemConfig { chunks, chunk_size: ChunkSize::Bytes2048, populate: false })
        .expect("memory")
}

fn packet(frame: Frame) -> Packet {
    Packet { frame, span: Span { start: 256, len: 60 } }
}

#[test]
fn a_pool_keeps_its_limit_and_the_depot_the_rest() {
    let (umem, mut pool) = region(2000);
    let now = umem.accounting(&pool, 0, 0);
    assert_eq!((now.in_pool, now.returned), (POOL_LEN, 2000 - POOL_LEN));
    let frames: Vec<Frame> = std::iter::from_fn(|| pool.take()).collect();
    assert_eq!(frames.len(), 2000);
    // Another worker frees them all.
    let mut other = umem.pool();
    assert_eq!(other.available(), 0);
    for frame in frames {
        other.put(frame);
        assert!(other.available() <= POOL_LEN);
    }
    assert!(umem.accounting(&other, 0, 0).balances());
    assert!(pool.take().is_some(), "what the other freed is there for this one");
    drop(other);
    let now = umem.accounting(&pool, 0, 0);
    assert_eq!((now.in_pool, now.returned), (63, 2000 - 63), "one of a batch was dropped");
}

#[test]
fn the_memory_lives_as_long_as_a_packet_of_it() {
    let (umem, mut pool) = region(100);
    let mut packet = packet(pool.take().expect("frame"));
    packet.data_mut().fill(7);
    drop((umem, pool));
    assert_eq!(packet.data(), [7; 60]);
}

/// Work of four workers on a region between them.
struct Shared<'a> {
    umem: &'a Umem,
    /// By chunk: the worker that holds it, and one; zero for none.
    holders: Vec<AtomicU32>,
}

impl Shared<'_> {
    /// A worker has got a frame: nobody else has it, and what is written to it stays.
    fn got(&self, frame: &mut Frame, worker: u32) {
        let before = self.holders[frame.index() as usize].swap(worker + 1, Ordering::Relaxed);
        assert_eq!(before, 0, "chunk {} is with worker {}", frame.index(), before - 1);
        // Plain memory, that only the hand-over orders.
        frame.bytes_mut()[..4].copy_from_slice(&worker.to_ne_bytes());
    }

    fn goes(&self, frame: &Frame, worker: u32) {
        assert_eq!(frame.bytes()[..4], worker.to_ne_bytes(), "chunk {}", frame.index());
        let holder = &self.holders[frame.index() as usize];
        assert_eq!(holder.swap(0, Ordering::Relaxed), worker + 1);
    }
}

/// One worker: takes frames, hands bursts and parcels to the next, frees what it gets.
fn work(
    shared: &Shared<'_>,
    worker: u32,
    to: &mpsc::SyncSender<(Burst, Parcel)>,
    from: &mpsc::Receiver<(Burst, Parcel)>,
    rounds: u32,
) -> (usize, usize) {
    let mut pool = shared.umem.pool();
    let mut dice = 0x9e37_79b9 + worker;
    let mut roll = |sides: u32| {
        dice ^= dice << 13;
        dice ^= dice >> 17;
        dice ^= dice << 5;
        dice % sides
    };
    let (mut handed, mut dry) = (0, 0);
    for _ in 0..rounds {
        let mut burst = Burst::new();
        let mut parcel = pool.parcel();
        for _ in 0..roll(60) {
            let Some(mut frame) = pool.take() else {
                dry += 1;
                break;
            };
            shared.got(&mut frame, worker);
            let what = roll(20);
            shared.goes(&frame, worker);
            match what {
                0 => drop(frame),
                1..4 => pool.put(frame),
                4..12 => burst.push(packet(frame)),
                _ => parcel.push(packet(frame), 0).expect("room"),
            }
        }
        handed += burst.len() + parcel.len();
        // One that finds no room drops all of it.
        drop(to.try_send((burst, parcel)));
        for (mut burst, mut parcel) in from.try_iter() {
            for mut packet in burst.drain(..) {
                shared.got(&mut packet.frame, worker);
                shared.goes(&packet.frame, worker);
                pool.put_packet(packet);
            }
            parcel.unpack(|mut packet, _| {
                shared.got(&mut packet.frame, worker);
                shared.goes(&packet.frame, worker);
                pool.put_packet(packet);
            });
        }
        if roll(64) == 0 {
            pool = shared.umem.pool();
        }
    }
    (handed, dry)
}

#[test]
fn four_workers_lose_no_frame_and_double_none() {
    const WORKERS: u32 = 4;
    // Neither a multiple of a batch, nor enough for all pools: they meet in the depot.
    let (umem, pool) = region(1111);
    drop(pool);
    let shared = Shared { umem: &umem, holders: (0..1111).map(|_| AtomicU32::new(0)).collect() };
    let done = AtomicBool::new(false);
    let mut senders = Vec::new();
    let mut receivers = Vec::new();
    for _ in 0..WORKERS {
        let (sender, receiver) = mpsc::sync_channel(4);
        senders.push(sender);
        receivers.push(receiver);
    }
    senders.rotate_left(1);
    let (handed, dry) = thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS)
            .zip(senders.into_iter().zip(receivers))
            .map(|(worker, (to, from))| {
                let shared = &shared;
                scope.spawn(move || work(shared, worker, &to, &from, 20_000))
            })
            .collect();
        // Somebody shows the figures meanwhile.
        let watch = scope.spawn(|| {
            let pool = umem.pool();
            while !done.load(Ordering::Relaxed) {
                assert!(umem.accounting(&pool, 0, 0).returned <= 1111 + 4 * 64);
                thread::yield_now();
            }
        });
        let ended: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        done.store(true, Ordering::Relaxed);
        watch.join().unwrap();
        let sum = ended.into_iter().map(Result::unwrap);
        sum.fold((0, 0), |(a, b), (c, d)| (a + c, b + d))
    });
    assert!(handed > 100_000, "{handed} handed over, {dry} times dry");
    let mut pool = umem.pool();
    let now = umem.accounting(&pool, 0, 0);
    assert!(now.balances() && now.returned == 1111, "{now:?}");
    let frames: Vec<Frame> = std::iter::from_fn(|| pool.take()).collect();
    let mut chunks: Vec<u32> = frames.iter().map(Frame::index).collect();
    chunks.sort_unstable();
    assert!(chunks.into_iter().eq(0..1111));
}

/// A step of a worker that has two pools.
#[derive(Clone, Debug)]
enum Step {
    Take(bool, usize),
    Put(bool, usize),
    Drop(usize),
    Renew(bool),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (any::<bool>(), 0..400_usize).prop_map(|(pool, count)| Step::Take(pool, count)),
        (any::<bool>(), 0..400_usize).prop_map(|(pool, count)| Step::Put(pool, count)),
        (0..100_usize).prop_map(Step::Drop),
        any::<bool>().prop_map(Step::Renew),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_sequence_keeps_the_books(chunks in 1..1500_u32, steps in prop::collection::vec(step(), 1..40)) {
        let (umem, first) = region(chunks);
        let mut pools = [first, umem.pool()];
        let mut held: Vec<Frame> = Vec::new();
        for step in steps {
            match step {
                Step::Take(pool, count) => {
                    let pools_before = pools[usize::from(!pool)].available();
                    let pool = &mut pools[usize::from(pool)];
                    let before = held.len();
                    held.extend(std::iter::from_fn(|| pool.take()).take(count));
                    // A pool is dry only if all is elsewhere.
                    let all_held = held.len() + pools_before == chunks as usize;
                    prop_assert!(held.len() - before == count || all_held);
                }
                Step::Put(pool, count) => {
                    let from = held.len() - count.min(held.len());
                    held.drain(from..).for_each(|frame| pools[usize::from(pool)].put(frame));
                }
                Step::Drop(count) => held.truncate(held.len() - count.min(held.len())),
                Step::Renew(pool) => pools[usize::from(pool)] = umem.pool(),
            }
            let in_packets = held.len() + pools[1].available();
            let now = umem.accounting(&pools[0], 0, in_packets);
            prop_assert!(now.balances(), "{:?}", now);
            let mut chunks: Vec<u32> = held.iter().map(Frame::index).collect();
            chunks.sort_unstable();
            chunks.dedup();
            prop_assert_eq!(chunks.len(), held.len());
        }
    }
}
