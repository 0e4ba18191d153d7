//! Leases and homes under the model checker: workers of one limiter, in all interleavings up to a number of preemptions.
//!
//! The time stands still, so tokens come from nowhere: what has passed and what is left are together what there was.
//!
//! `make models`, or `RUSTFLAGS='--cfg loom' LOOM_MAX_PREEMPTIONS=3 cargo test --release -p culvert-limit
//! --target-dir target/loom --test all`

use limit::{Algorithm, Fill, LimitPath, Limiter, Place, Settings, Sharing};
use loom::thread;

/// Has two workers do something each; returns what they say.
fn both<T: 'static>(
    limiters: [&Limiter; 2],
    work: [fn(&Limiter, LimitPath, usize) -> T; 2],
) -> [T; 2] {
    let threads = [0, 1].map(|worker| {
        let (limiter, work) = (limiters[worker].clone(), work[worker]);
        thread::spawn(move || {
            let path = LimitPath::new(&limiter, worker);
            work(&limiter, path, worker)
        })
    });
    threads.map(|thread| thread.join().unwrap())
}

/// Packets of so many bytes that pass.
fn passed(path: &LimitPath, packets: usize, len: usize) -> u64 {
    (0..packets).filter(|_| path.pass(None, (len, 0), 0).is_ok()).count() as u64
}

fn all(limiter: &Limiter) -> u64 {
    limiter.levels(0).iter().sum()
}

#[test]
fn leased_tokens_are_neither_lost_nor_given_twice() {
    loom::model(|| {
        // Each leases more than a packet at a time.
        let settings = Settings::single(100_000_000, 100_000);
        let limiter = Limiter::new("l", settings, None, (2, 0));
        assert!(limiter.quantum() > 0);
        let before = all(&limiter);
        let sums = both(
            [&limiter, &limiter],
            [
                |limiter, path, worker| {
                    let sum = passed(&path, 1, 1500);
                    limiter.give_back(worker);
                    sum + passed(&path, 1, 1500)
                },
                |_, path, _| passed(&path, 2, 1500),
            ],
        );
        assert_eq!(sums, [2, 2]);
        assert_eq!(all(&limiter) + 4 * settings.cost(1500), before);
        assert_eq!(limiter.counts().packets, [4, 0, 0]);
    });
}

#[test]
fn of_two_packets_the_tokens_of_one_let_one_pass() {
    loom::model(|| {
        // So small that each packet draws from the pool.
        let settings = Settings::single(8_000_000_000, 1500);
        let limiter = Limiter::new("l", settings, None, (2, 0));
        assert_eq!(limiter.quantum(), 0);
        let one = |_: &Limiter, path: LimitPath, _| passed(&path, 1, 1000);
        let sums = both([&limiter, &limiter], [one, one]);
        assert_eq!(sums.iter().sum::<u64>(), 1);
        assert_eq!(limiter.counts().packets, [1, 0, 1]);
    });
}

#[test]
fn a_packet_that_a_parent_stops_leaves_its_own_tokens() {
    loom::model(|| {
        let parent = Settings::single(8_000_000_000, 1500);
        let parent = std::sync::Arc::new(Limiter::new("p", parent, None, (2, 0)));
        let of = |name| {
            let settings = Settings::single(8_000_000_000, 3000);
            Limiter::new(name, settings, Some(parent.clone()), (2, 0))
        };
        let leaves = [of("a"), of("b")];
        let cost = leaves[0].settings().cost(1000);
        let before = leaves.each_ref().map(all);
        let one = |_: &Limiter, path: LimitPath, _| passed(&path, 1, 1000);
        let sums = both(leaves.each_ref(), [one, one]);
        assert_eq!(sums.iter().sum::<u64>(), 1);
        for ((leaf, before), passed) in leaves.iter().zip(before).zip(sums) {
            assert_eq!(all(leaf) + passed * cost, before);
        }
    });
}

#[test]
fn overflow_is_given_away_once() {
    loom::model(|| {
        let committed = Fill { rate: 8_000_000_000, burst: 12_000 };
        let settings = Settings {
            algorithm: Algorithm::OneRate { committed, excess_burst: 12_000 },
            ..Settings::single(1, 1500)
        };
        let limiter = Limiter::new("l", settings, None, (2, 0));
        let before = all(&limiter);
        let some = |_: &Limiter, path: LimitPath, _| passed(&path, 2, 1000);
        let sums = both([&limiter, &limiter], [some, some]);
        // Two buckets of one packet each.
        assert_eq!(sums.iter().sum::<u64>(), 2);
        assert_eq!(all(&limiter) + 2 * settings.cost(1000), before);
    });
}

/// A lane is no atomic counter: with two workers that have it at a time packets would be lost.
#[test]
fn one_worker_at_a_time_has_what_is_by_atomic_queues() {
    loom::model(|| {
        let settings = Settings { sharing: Sharing::Atomic, ..Settings::single(8, 5000) };
        let limiter = Limiter::new("l", settings, None, (2, 0));
        let before = all(&limiter);
        let mail = loom::sync::Arc::new(loom::sync::Mutex::new(None));
        let threads = [0, 1].map(|worker| {
            let (limiter, mail) = (limiter.clone(), mail.clone());
            thread::spawn(move || {
                let path = LimitPath::new(&limiter, worker);
                let mut sum = 0;
                match path.come() {
                    Some(Place::Held(hold)) => {
                        sum += passed(&path, 1, 1000);
                        drop(hold);
                    }
                    // Its home has it at the latest when both have ended.
                    Some(Place::There(home, visit)) => {
                        assert_ne!(home, worker);
                        *mail.lock().unwrap() = Some((home, visit));
                    }
                    _ => unreachable!(),
                }
                let mine = mail.lock().unwrap().take_if(|(home, _)| *home == worker);
                if let Some((_, visit)) = mine {
                    sum += u64::from(visit.pass((1000, 0), 0).is_ok());
                }
                sum
            })
        });
        let mut sum: u64 = threads.map(|thread| thread.join().unwrap()).iter().sum();
        if let Some((_, visit)) = mail.lock().unwrap().take() {
            sum += u64::from(visit.pass((1000, 0), 0).is_ok());
        }
        assert_eq!((sum, limiter.counts().packets), (2, [2, 0, 0]));
        assert_eq!(all(&limiter) + 2 * settings.cost(1000), before);
    });
}
