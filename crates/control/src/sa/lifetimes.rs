//! Rest of an SA's limits.

use xfrm::codec::LifetimeConfig;

use report::{self, Left};

/// Value of `XFRM_INF`: no limit by volume.
const UNLIMITED: u64 = u64::MAX;

/// Writes what is left into an SA's row, by its age and its counters. Limits that count from the first use, which IKE
/// daemons do not set, are not told of.
pub fn tell(row: &mut report::Sa, limits: &LifetimeConfig) {
    let volume = |limit: u64, used: u64| (limit != UNLIMITED).then(|| limit.saturating_sub(used));
    // 0 is none.
    let time = |limit: u64, age: u64| (limit != 0).then(|| limit.saturating_sub(age));
    row.until_rekey = Left {
        s: time(limits.soft_add_s, row.age_s),
        bytes: volume(limits.soft_bytes, row.bytes),
        packets: volume(limits.soft_packets, row.packets),
    };
    row.until_expiry = Left {
        s: time(limits.hard_add_s, row.age_s),
        bytes: volume(limits.hard_bytes, row.bytes),
        packets: volume(limits.hard_packets, row.packets),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_shrinks_with_age_and_use() {
        let limits = LifetimeConfig {
            soft_add_s: 3000,
            hard_add_s: 3600,
            soft_packets: 100,
            hard_bytes: 10,
            ..LifetimeConfig::unlimited()
        };
        let mut row = report::Sa { age_s: 3100, bytes: 4, packets: 7, ..report::Sa::default() };
        tell(&mut row, &limits);
        assert_eq!(row.until_rekey, Left { s: Some(0), bytes: None, packets: Some(93) });
        assert_eq!(row.until_expiry, Left { s: Some(500), bytes: Some(6), packets: None });
        tell(&mut row, &LifetimeConfig::unlimited());
        assert_eq!((row.until_rekey, row.until_expiry), (Left::default(), Left::default()));
    }
}
