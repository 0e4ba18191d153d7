//! Items a second through the queues, and through the channels that a Rust program would else use.
//!
//! `cargo bench -p culvert-dispatch`, or with `-- 1-to-1` for one arrangement. An item has 32 bytes; all
//! queues hold 1024; threads that find nothing to do yield. The channels have no way to move several
//! items at once: with them a batch is a loop. On a machine with fewer cores than threads the scheduler is
//! part of what is measured.

use std::hint::black_box;
use std::sync::mpsc;
use std::thread::{self, yield_now};
use std::time::{Duration, Instant};

use arrayvec::ArrayVec;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use dispatch::ordered::Released;
use dispatch::{atomic, directed, ordered};

/// An item of the queues.
type Item = [u64; 4];
type Burst = ArrayVec<Item, 32>;

const CAPACITY: usize = 1024;

/// The end that puts.
trait Put: Send {
    /// Puts what there is room for, from the front.
    fn put(&mut self, burst: &mut Burst);
}

/// The end that takes.
trait Take: Send {
    /// Takes up to `most` items and says how many; none at the end.
    fn take(&mut self, most: usize) -> Option<usize>;
}

/// Takes with the out-burst filled up to leave room for `most`.
macro_rules! queue_ends {
    ($producer:ty, $consumer:ty) => {
        impl Put for $producer {
            fn put(&mut self, burst: &mut Burst) {
                self.put_many(burst);
            }
        }
        impl Take for $consumer {
            fn take(&mut self, most: usize) -> Option<usize> {
                let count = match most {
                    1 => take_some::<1>(|out| self.take_many(out)),
                    8 => take_some::<8>(|out| self.take_many(out)),
                    _ => take_some::<32>(|out| self.take_many(out)),
                };
                (count > 0 || !self.is_closed()).then_some(count)
            }
        }
    };
}

fn take_some<const N: usize>(take: impl FnOnce(&mut ArrayVec<Item, N>) -> usize) -> usize {
    let mut out = ArrayVec::new();
    let count = take(&mut out);
    black_box(&out);
    count
}

queue_ends!(directed::Producer<Item>, directed::Consumer<Item>);
/// Puts items one by one until one is refused.
macro_rules! channel_ends {
    ($sender:ty, $receiver:ty, $disconnected:path) => {
        impl Put for $sender {
            fn put(&mut self, burst: &mut Burst) {
                let sent = burst.iter().take_while(|item| self.try_send(**item).is_ok()).count();
                burst.drain(..sent);
            }
        }
        impl Take for $receiver {
            fn take(&mut self, most: usize) -> Option<usize> {
                let mut out = Burst::new();
                while out.len() < most {
                    match self.try_recv() {
                        Ok(item) => out.push(item),
                        Err($disconnected) if out.is_empty() => return None,
                        Err(_) => break,
                    }
                }
                black_box(&out);
                Some(out.len())
            }
        }
    };
}

channel_ends!(
    crossbeam_channel::Sender<Item>,
    crossbeam_channel::Receiver<Item>,
    crossbeam_channel::TryRecvError::Disconnected
);
channel_ends!(mpsc::SyncSender<Item>, mpsc::Receiver<Item>, mpsc::TryRecvError::Disconnected);

/// Sends `items` from each producer, and waits until all consumers have seen the end.
fn pass(puts: Vec<impl Put>, takes: Vec<impl Take>, items: u64, batch: usize) -> Duration {
    let begin = Instant::now();
    thread::scope(|scope| {
        for mut put in puts {
            scope.spawn(move || {
                let mut burst = Burst::new();
                let mut next = 0;
                while next < items || !burst.is_empty() {
                    while burst.len() < batch && next < items {
                        burst.push([next; 4]);
                        next += 1;
                    }
                    let before = burst.len();
                    put.put(&mut burst);
                    if burst.len() == before {
                        yield_now();
                    }
                }
            });
        }
        for mut take in takes {
            scope.spawn(move || {
                while let Some(count) = take.take(batch) {
                    if count == 0 {
                        yield_now();
                    }
                }
            });
        }
    });
    begin.elapsed()
}

/// An owner submits, one worker works, the owner releases.
fn ordered_pass(items: u64, batch: usize) -> Duration {
    let (mut submitter, worker, mut releaser) = ordered::queue::<Item>(CAPACITY);
    let begin = Instant::now();
    thread::scope(|scope| {
        scope.spawn(move || {
            while !worker.is_closed() {
                match worker.take(batch) {
                    Some(mut work) => {
                        work.iter_mut().for_each(|item| item[0] += 1);
                        work.finish();
                    }
                    None => yield_now(),
                }
            }
        });
        let (mut next, mut released) = (0, 0);
        let mut burst = Burst::new();
        while released < items {
            while burst.len() < batch && next < items {
                burst.push([next; 4]);
                next += 1;
            }
            let put = submitter.put_many(&mut burst);
            let mut out: ArrayVec<Released<Item>, 32> = ArrayVec::new();
            let count = releaser.release_many(&mut out);
            black_box(&out);
            released += count as u64;
            if put + count == 0 {
                yield_now();
            }
        }
        drop(submitter);
    });
    begin.elapsed()
}

/// One producer with 64 flows, in runs as long as a batch; so many consumers. (Lanes that are longer than
/// a batch: 64 of 64 items.)
fn atomic_pass(items: u64, batch: usize, consumers: usize) -> Duration {
    let (producer, consumer) = atomic::queue::<Item>(64, 64);
    let begin = Instant::now();
    thread::scope(|scope| {
        for _ in 0..consumers {
            let consumer = consumer.clone();
            scope.spawn(move || {
                loop {
                    match consumer.hold() {
                        Some(mut lane) => {
                            let mut out = Burst::new();
                            lane.take_many(&mut out);
                            black_box(&out);
                        }
                        None if consumer.is_closed() => break,
                        None => yield_now(),
                    }
                }
            });
        }
        let mut burst: ArrayVec<(u64, Item), 32> = ArrayVec::new();
        let mut next = 0;
        while next < items || !burst.is_empty() {
            while burst.len() < batch && next < items {
                burst.push((next / batch as u64 % 64, [next; 4]));
                next += 1;
            }
            if producer.put_many(&mut burst) == 0 {
                yield_now();
            }
        }
        drop(producer);
    });
    begin.elapsed()
}

fn bench(criterion: &mut Criterion) {
    for (name, producers, consumers) in [("1-to-1", 1, 1), ("2-to-1", 2, 1), ("1-to-2", 1, 2)] {
        let mut group = criterion.benchmark_group(name);
        group
            .throughput(Throughput::Elements(1))
            .sample_size(10)
            .warm_up_time(Duration::from_millis(200))
            .measurement_time(Duration::from_secs(1));
        for batch in [1, 8, 32] {
            let mut case = |name: &str, run: &dyn Fn(u64) -> Duration| {
                group.bench_function(BenchmarkId::new(name, batch), |bencher| {
                    // Each producer sends its part; a few thousand items at least, so that
                    // the threads' making does not count.
                    bencher.iter_custom(|items| {
                        let each = items.div_ceil(producers as u64).max(4096);
                        let scale = items as f64 / (each * producers as u64) as f64;
                        run(each).mul_f64(scale)
                    });
                });
            };
            if (producers, consumers) == (1, 1) {
                case("directed", &|items| {
                    let (put, take) = directed::queue(CAPACITY);
                    pass(vec![put], vec![take], items, batch)
                });
                case("ordered", &|items| ordered_pass(items, batch));
            }
            if consumers == 1 {
                case("std-mpsc", &|items| {
                    let (put, take) = mpsc::sync_channel(CAPACITY);
                    pass(vec![put; producers], vec![take], items, batch)
                });
            }
            if producers == 1 {
                case("atomic", &|items| atomic_pass(items, batch, consumers));
            }
            case("crossbeam", &|items| {
                let (put, take) = crossbeam_channel::bounded(CAPACITY);
                pass(vec![put; producers], vec![take; consumers], items, batch)
            });
        }
        group.finish();
    }
}

criterion_group!(benches, bench);
criterion_main!(benches);
