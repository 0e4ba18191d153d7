//! Limiters that one worker has at a time: real threads, and the other way to share before or after.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use limit::{LimitPath, Limiter, Place, Settings, Sharing};

fn atomic(rate: u64, burst: u64) -> Settings {
    Settings { sharing: Sharing::Atomic, ..Settings::single(rate, burst) }
}

/// Packets of 100 bytes that pass, of so many that a worker has.
fn passed(limiter: &Limiter, worker: usize, packets: usize, now_ns: u64) -> usize {
    let path = LimitPath::new(limiter, worker);
    let one = || match path.come() {
        None | Some(Place::Here) => path.pass(None, (100, 0), now_ns).is_ok(),
        Some(Place::Held(hold)) => {
            let passed = path.pass(None, (100, 0), now_ns).is_ok();
            drop(hold);
            passed
        }
        Some(Place::There(_, visit)) => visit.pass((100, 0), now_ns).is_ok(),
    };
    (0..packets).filter(|_| one()).count()
}

/// Four threads, each with a hold for a while, and what they count while they have it: nothing gets lost, though a lane is
/// no atomic counter.
#[test]
fn one_thread_at_a_time_has_the_buckets() {
    let root = Arc::new(Limiter::new("root", atomic(8, 1_000_000), None, (4, 0)));
    let leaves =
        [0, 1].map(|_| Limiter::new("leaf", atomic(8, 800_000), Some(root.clone()), (4, 0)));
    let sum = AtomicU64::new(0);
    thread::scope(|scope| {
        for worker in 0..4 {
            let (leaves, sum) = (&leaves, &sum);
            scope.spawn(move || {
                let paths = leaves.each_ref().map(|leaf| LimitPath::new(leaf, worker));
                for n in 0..20_000_usize {
                    let path = &paths[n % 2];
                    match path.come().unwrap() {
                        Place::Held(_hold) => {
                            for _ in 0..3 {
                                let passed = path.pass(None, (100, 0), 0).is_ok();
                                sum.fetch_add(u64::from(passed), Relaxed);
                            }
                        }
                        Place::Here => unreachable!("each hold has ended"),
                        // As a packet that finds no room on its way.
                        Place::There(..) => {}
                    }
                }
            });
        }
    });
    let counted = root.counts();
    assert_eq!(counted.packets[0], sum.load(Relaxed));
    assert_eq!(leaves.iter().map(|leaf| leaf.counts().packets[0]).sum::<u64>(), counted.packets[0]);
    assert_eq!(counted.packets[0] * 100, 1_000_000, "the root's burst, to the packet");
}

#[test]
fn the_other_way_to_share_keeps_tokens_and_counters() {
    let leased = Settings::single(800_000_000, 100_000);
    let before = Limiter::new("l", leased, None, (4, 0));
    // Each of them has leased more than it used.
    assert!(before.quantum() > 0);
    (0..4).for_each(|worker| assert_eq!(passed(&before, worker, 50, 0), 50));
    let home = before.changed(atomic(800_000_000, 100_000), None, (4, 0));
    // An eighth is set apart for what workers lease.
    let left = 87_500 - 4 * 50 * 100;
    let is_about = |limiter: &Limiter| {
        let bytes = limiter.levels(0)[0] / 8_000_000_000;
        assert!((left - 500..=left).contains(&bytes), "{bytes}");
    };
    is_about(&home);
    // A worker that has not heard of it counts where it did, and in no lane of the home's.
    assert_eq!((passed(&before, 0, 1, 0), passed(&home, 3, 7, 0)), (1, 7));
    assert_eq!(home.counts().packets, [208, 0, 0]);
    let back = home.changed(leased, None, (2, 0));
    assert_eq!((passed(&home, 0, 1, 0), back.counts().packets), (1, [209, 0, 0]));
    let bytes = back.levels(0)[0] / 8_000_000_000;
    assert!((left - 2000..=left).contains(&bytes), "{bytes}");
}

#[test]
fn a_home_outlives_other_rates_and_other_workers() {
    let before = Arc::new(Limiter::new("root", atomic(8, 10_000), None, (4, 0)));
    let leaf = Limiter::new("leaf", atomic(8, 10_000), Some(before.clone()), (4, 0));
    let path = LimitPath::new(&leaf, 3);
    let Some(Place::Held(_hold)) = path.come() else { panic!("nobody has it") };
    let after = Arc::new(before.changed(atomic(16, 20_000), None, (4, 0)));
    let below = leaf.changed(atomic(8, 10_000), Some(after.clone()), (4, 0));
    assert!(below.shares_state(&leaf) && !below.is_same(&leaf));
    assert!(matches!(LimitPath::new(&below, 1).come(), Some(Place::There(3, _))));
    // Workers come and go, and the buckets are as they were.
    assert!(after.changed(atomic(16, 20_000), None, (2, 0)).shares_state(&after));
    // Under another hierarchy it has another home, and its own lane there.
    let other = Arc::new(Limiter::new("other", atomic(8, 10_000), None, (4, 0)));
    let moved = leaf.changed(atomic(8, 10_000), Some(other), (4, 0));
    assert!(!moved.shares_state(&leaf));
    assert!(matches!(LimitPath::new(&moved, 1).come(), Some(Place::Held(_))));
    let alone = leaf.changed(atomic(8, 10_000), None, (4, 0));
    assert!(!alone.shares_state(&leaf) && alone.home().is_none());
}

fn limiter(parent: Option<&Arc<Limiter>>) -> Arc<Limiter> {
    Arc::new(Limiter::new("l", atomic(8, 1500), parent.cloned(), (3, 0)))
}

fn come(limiter: &Limiter, worker: usize) -> Place {
    LimitPath::new(limiter, worker).come().unwrap()
}

#[test]
fn it_moves_when_it_is_neither_held_nor_under_way_to() {
    let limiter = limiter(None);
    assert_eq!(limiter.home(), None);
    let Place::Held(hold) = come(&limiter, 2) else { panic!("nobody has it") };
    assert!(matches!(come(&limiter, 2), Place::Here));
    assert_eq!(limiter.home(), Some(2));
    let Place::There(2, first) = come(&limiter, 1) else { panic!("it is held") };
    drop(hold);
    let Place::There(2, second) = come(&limiter, 0) else { panic!("a packet is under way") };
    assert!(matches!(come(&limiter, 2), Place::Held(_)), "the home holds it again");
    drop(first);
    assert!(matches!(come(&limiter, 1), Place::There(2, _)), "one more is under way");
    drop(second);
    assert!(matches!(come(&limiter, 1), Place::Held(_)));
    assert_eq!(limiter.home(), Some(1));
    assert!(matches!(come(&limiter, 0), Place::Held(_)));
}

#[test]
fn a_hierarchy_has_one_home() {
    let root = limiter(None);
    let [one, two] = [(); 2].map(|()| limiter(Some(&root)));
    let Place::Held(_hold) = come(&one, 1) else { panic!("nobody has it") };
    assert_eq!((root.home(), two.home()), (Some(1), Some(1)));
    assert!(matches!(come(&two, 0), Place::There(1, _)));
    let leased = Limiter::new("m", Settings::single(8, 1500), None, (3, 0));
    assert!(LimitPath::new(&leased, 0).come().is_none());
}
