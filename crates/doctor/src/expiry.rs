//! SAs that are to be rekeyed all at once, as their lifetimes have no jitter.

use std::collections::BTreeMap;

use report::{Direction, Sa};

use super::facts::Facts;
use super::finding::Finding;

/// From so many outbound SAs of a peer on their rekeyings are felt ...
const MANY: usize = 8;

/// ... if this share of them comes within a second.
const SHARE: usize = 2;

/// A finding for each peer.
pub fn check(facts: &Facts) -> Vec<Finding> {
    let Some(Ok(running)) = &facts.instance.daemon else { return Vec::new() };
    let mut by_peer: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    // Those inbound are rekeyed with these.
    for sa in running.sas.iter().filter(|sa| sa.direction == Some(Direction::Out)) {
        by_peer.entry(&sa.dst).or_default().extend(due(sa));
    }
    let found = by_peer.into_iter().filter_map(|(dst, times)| {
        let (at, count) = most_within_a_second(times.clone())?;
        let is_felt = count >= MANY && count * SHARE >= times.len();
        is_felt.then(|| {
            Finding::warning(
                "lifetimes",
                format!("{dst}: {count} of {} SAs are due within one second, in {at} s", times.len()),
                "their rekeyings, or their ends, come at once: the IKE daemons work on them one after the \
                 other, and what takes longer than the time that is left is lost",
                "leave rand_time out of the children in swanctl.conf, or set it to a tenth of rekey_time, \
                 at both ends; then: swanctl --load-all, and swanctl --rekey --child CHILD for each",
            )
        })
    });
    found.collect()
}

/// Seconds until an SA is to be rekeyed, else until it ends.
fn due(sa: &Sa) -> Option<u64> {
    sa.until_rekey.s.or(sa.until_expiry.s)
}

/// When most come within a second of each other, and how many; ages are cut to whole seconds.
fn most_within_a_second(mut times: Vec<u64>) -> Option<(u64, usize)> {
    times.sort_unstable();
    let within = |at: u64| times.iter().filter(|time| (at..=at + 1).contains(*time)).count();
    let mut distinct = times.clone();
    distinct.dedup();
    // Of several the first.
    distinct.into_iter().rev().map(|at| (at, within(at))).max_by_key(|(_, count)| *count)
}

#[cfg(test)]
mod tests {
    use report::Left;

    use super::super::facts::{healthy, healthy_daemon, sa};
    use super::super::finding::Outcome;
    use super::*;

    /// Findings about SAs of one peer that are due in so many seconds.
    fn said(times: &[u64]) -> Vec<Finding> {
        let of = |s: &u64| Sa {
            direction: Some("out".into()),
            dst: "192.0.2.2".into(),
            until_rekey: Left { s: Some(*s), ..Left::default() },
            ..sa(None)
        };
        let mut facts = healthy();
        let mut running = healthy_daemon();
        running.sas = times.iter().map(of).collect();
        facts.instance.daemon = Some(Ok(running));
        check(&facts)
    }

    #[test]
    fn many_at_once() {
        let found = said(&[100, 100, 100, 100, 101, 101, 101, 101, 500]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].result, Outcome::Warning);
        let text = format!("{found:?}");
        assert!(text.contains("192.0.2.2: 8 of 9 SAs") && text.contains("in 100 s"), "{text}");
        assert!(text.contains("rand_time"), "{text}");
    }

    #[test]
    fn few_or_spread_is_as_it_should_be() {
        assert!(said(&[100; 7]).is_empty(), "few");
        let spread: Vec<u64> = (0..40).map(|n| 100 + 3 * n).collect();
        assert!(said(&spread).is_empty(), "spread");
        let some: Vec<u64> = spread.iter().copied().chain([100; 8]).collect();
        assert!(said(&some).is_empty(), "a few of many");
    }

    #[test]
    fn each_peer_and_direction_is_its_own() {
        let mut facts = healthy();
        let mut running = healthy_daemon();
        let of = |n: usize, direction: &str| Sa {
            direction: Some(direction.into()),
            dst: format!("192.0.2.{n}"),
            until_rekey: Left { s: Some(100), ..Left::default() },
            ..sa(None)
        };
        running.sas = (0..16).map(|n| of(n, "out")).chain((0..16).map(|_| of(1, "in"))).collect();
        facts.instance.daemon = Some(Ok(running));
        assert!(check(&facts).is_empty());
    }

    #[test]
    fn the_end_counts_where_nothing_is_rekeyed() {
        let ends = Sa { until_expiry: Left { s: Some(7), ..Left::default() }, ..sa(None) };
        assert_eq!(due(&ends), Some(7));
        assert_eq!(due(&sa(None)), None);
        assert_eq!(most_within_a_second(vec![]), None);
        assert_eq!(most_within_a_second(vec![9, 5, 6, 5]), Some((5, 3)));
    }
}
