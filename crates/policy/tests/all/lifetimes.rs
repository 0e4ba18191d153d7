//! Volume limits and the states of an SA.

use crate::common::{sa, v4};
use policy::{Databases, SaState, Volume, VolumeLimits, WorkerIndex};

fn entry(limits: VolumeLimits) -> std::sync::Arc<policy::SaEntry<()>> {
    let mut databases = Databases::new();
    let mut config = sa(v4(2), 1);
    config.limits = limits;
    databases.add_sa(config, ()).unwrap()
}

#[test]
fn packets_soft_once_then_hard_once() {
    let sa = entry(VolumeLimits { soft_packets: 3, hard_packets: 5, ..VolumeLimits::NONE });
    let seen: Vec<_> = (0..8).map(|carried| sa.check_volume(carried * 100, carried)).collect();
    use Volume::{HardReached, SoftReached, Unusable, Within};
    assert_eq!(
        seen,
        [Within, Within, Within, SoftReached, Within, HardReached, Unusable, Unusable],
        "five packets pass: those with 0 to 4 carried before"
    );
    assert_eq!(sa.state(), SaState::Expired);
}

#[test]
fn bytes_count_as_well() {
    let sa = entry(VolumeLimits { soft_bytes: 1000, hard_bytes: 2000, ..VolumeLimits::NONE });
    assert_eq!(sa.check_volume(999, 1), Volume::Within);
    assert_eq!(sa.check_volume(1000, 2), Volume::SoftReached);
    assert_eq!(sa.state(), SaState::Dying);
    assert_eq!(sa.check_volume(1999, 3), Volume::Within);
    assert_eq!(sa.check_volume(2000, 4), Volume::HardReached);
    assert_eq!(sa.check_volume(2000, 4), Volume::Unusable);
}

#[test]
fn a_jump_over_both_limits_is_hard() {
    let sa = entry(VolumeLimits { soft_bytes: 10, hard_bytes: 20, ..VolumeLimits::NONE });
    assert_eq!(sa.check_volume(50, 1), Volume::HardReached);
}

#[test]
fn a_hard_limit_below_the_soft_one_holds() {
    let sa = entry(VolumeLimits { soft_packets: 9, hard_packets: 2, ..VolumeLimits::NONE });
    assert_eq!(sa.check_volume(0, 1), Volume::Within);
    assert_eq!(sa.check_volume(0, 2), Volume::HardReached);
}

#[test]
fn no_limit_is_never_reached() {
    let sa = entry(VolumeLimits::NONE);
    assert_eq!(sa.check_volume(u64::MAX, u64::MAX), Volume::Within);
}

#[test]
fn the_owner_moves_states_forward_only() {
    let sa = entry(VolumeLimits { soft_packets: 1, ..VolumeLimits::NONE });
    assert!(sa.advance(SaState::Dying), "soft limit by time");
    assert_eq!(sa.check_volume(0, 1), Volume::Within, "soft was told already");
    assert!(sa.advance(SaState::Expired));
    assert!(!sa.advance(SaState::Expired));
    assert!(!sa.advance(SaState::Valid));
    assert_eq!(sa.state(), SaState::Expired);
    assert_eq!(sa.check_volume(0, 0), Volume::Unusable);
}

#[test]
fn a_replacement_inherits_the_home() {
    let mut databases = Databases::new();
    let config = sa(v4(2), 1);
    let old = databases.add_sa(config.clone(), ()).unwrap();
    assert_eq!(old.home().claim(3), 3);
    let new = databases.replace_sa(config.clone(), ());
    assert_eq!((old.home().at(), new.home().at()), (3, 3));
    // Nobody had met it: workers with the old entry and with the new one agree all the same.
    new.home().vacate();
    let newest = databases.replace_sa(config.clone(), ());
    assert_eq!(new.home().claim(2), newest.home().claim(5));
    databases.remove_sa(&config.id());
    assert_eq!(databases.add_sa(config, ()).unwrap().home().claim(5), 5);
}

#[test]
fn a_replacement_inherits_the_state() {
    let mut databases = Databases::new();
    let mut config = sa(v4(2), 1);
    config.limits = VolumeLimits { soft_packets: 1, ..VolumeLimits::NONE };
    let old = databases.add_sa(config.clone(), ()).unwrap();
    assert_eq!(old.check_volume(0, 1), Volume::SoftReached);
    let new = databases.replace_sa(config.clone(), ());
    assert_eq!(new.state(), SaState::Dying);
    assert_eq!(new.check_volume(0, 1), Volume::Within, "soft was told already");
    databases.remove_sa(&config.id());
    assert_eq!(databases.add_sa(config, ()).unwrap().state(), SaState::Valid);
}

#[test]
fn each_crossing_is_told_to_exactly_one_of_many_threads() {
    for _ in 0..50 {
        let sa = entry(VolumeLimits { soft_packets: 1, hard_packets: 2, ..VolumeLimits::NONE });
        let told: Vec<Volume> = std::thread::scope(|scope| {
            let ask = || [sa.check_volume(0, 1), sa.check_volume(0, 2)];
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
            threads.into_iter().flat_map(|t| t.join().unwrap()).collect()
        });
        let hard = told.iter().filter(|v| **v == Volume::HardReached).count();
        let soft = told.iter().filter(|v| **v == Volume::SoftReached).count();
        assert_eq!((soft, hard), (1, 1));
    }
}

#[test]
fn a_policy_counts() {
    let mut databases = Databases::<()>::new();
    let entry = databases.put_policy(crate::common::policy(1, policy::Direction::Out, 0));
    assert_eq!(entry.last_use_s(), 0);
    let [first, second] = [0, 1].map(|n| WorkerIndex::new(n).unwrap());
    entry.count(second, 2, 300, 1000);
    entry.count(second, 1, 50, 1005);
    entry.count(first, 1, 1, 1004);
    assert_eq!((entry.packets(), entry.bytes()), (4, 351));
    assert_eq!(entry.last_use_s(), 1005);
    entry.count(first, 1, 0, 999);
    assert_eq!((entry.packets(), entry.bytes()), (5, 351));
    assert_eq!(entry.last_use_s(), 1005, "a clock that went back");
}

#[test]
fn workers_count_without_losing_any() {
    let entry =
        Databases::<()>::new().put_policy(crate::common::policy(1, policy::Direction::Out, 0));
    assert_eq!(WorkerIndex::new(WorkerIndex::MAX), None);
    std::thread::scope(|scope| {
        for index in [0, 1, 2, WorkerIndex::MAX - 1] {
            let entry = &entry;
            let worker = WorkerIndex::new(index).unwrap();
            scope.spawn(move || {
                for second in 1..=20_000 {
                    entry.count(worker, 1, 10, index as u64 + second);
                }
            });
        }
    });
    assert_eq!((entry.packets(), entry.bytes()), (80_000, 800_000));
    assert_eq!(entry.last_use_s(), 20_000 + WorkerIndex::MAX as u64 - 1);
}
