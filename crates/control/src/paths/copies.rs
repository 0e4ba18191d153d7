//! Second copies of a rule's packets, and their parity: by which path, or why there are none.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use dataplane::{Beside, CopyWay, ParityPlan, PathExit, Replication, Streams};
use paths::Removal;

/// Streams that are kept of far ends which no rule takes: their numbers go on when one is taken again.
const KEPT: usize = 256;

/// The path of second copies, or of parity, and the consent of its far end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Second {
    pub(super) path: u16,
    pub(super) removal: Removal,
}

/// Reason that a rule's packets have no second copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// The rule stops its packets.
    Stopped,
    /// The far end of the path, by its place, does not remove copies.
    NotRemoved(u16),
    /// The far end of the path, by its place, does not recover packets by parity.
    NotRecovered(u16),
    /// There is no other path.
    Alone,
    /// The far ends of the first path and of the next best one are two machines.
    Elsewhere(u16, u16),
}

/// Its paths by their names.
pub(super) struct Told<'a, N>(pub(super) Refused, pub(super) &'a N);

impl<'n, N: Fn(u16) -> &'n str> fmt::Display for Told<'_, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Told(refused, name) = self;
        match refused {
            Refused::Stopped => f.write_str("no path is good, and packets are stopped"),
            Refused::NotRemoved(path) => {
                write!(f, "the far end of {} does not remove copies", name(*path))
            }
            Refused::NotRecovered(path) => {
                write!(f, "the far end of {} does not recover packets by parity", name(*path))
            }
            Refused::Alone => f.write_str("there is no other path"),
            Refused::Elsewhere(one, other) => {
                write!(f, "{} and {} end at two machines", name(*one), name(*other))
            }
        }
    }
}

/// The second path beside the first. `best` chooses among those that it is asked about; `consent` is of a path's far end.
pub(super) fn second(
    first: Option<u16>,
    best: impl Fn(&dyn Fn(u16) -> bool) -> Option<u16>,
    consent: impl Fn(u16) -> Option<Removal>,
) -> Result<Second, Refused> {
    let first = first.ok_or(Refused::Stopped)?;
    let removal = consent(first).ok_or(Refused::NotRemoved(first))?;
    if let Some(path) = best(&|path| consent(path) == Some(removal)) {
        return Ok(Second { path, removal });
    }
    let other = best(&|_| true).ok_or(Refused::Alone)?;
    Err(match consent(other) {
        Some(_) => Refused::Elsewhere(first, other),
        None => Refused::NotRemoved(other),
    })
}

/// The path of parity, which is the first.
pub(super) fn parity(
    first: Option<u16>,
    consent: impl Fn(u16) -> Option<Removal>,
) -> Result<Second, Refused> {
    let path = first.ok_or(Refused::Stopped)?;
    let removal = consent(path).filter(|removal| removal.recovers);
    removal.map(|removal| Second { path, removal }).ok_or(Refused::NotRecovered(path))
}

/// Streams of all far ends, each with the turn in which it was taken last.
#[derive(Default)]
pub(super) struct AllStreams {
    known: HashMap<Removal, (Arc<Streams>, u64)>,
    turn: u64,
}

impl AllStreams {
    /// The streams of a far end: those that there are, or new ones.
    pub(super) fn of(&mut self, removal: Removal) -> Arc<Streams> {
        self.turn += 1;
        if !self.known.contains_key(&removal) {
            self.make_room();
        }
        let new = || (Arc::new(Streams::new(removal)), 0);
        let (streams, turn) = self.known.entry(removal).or_insert_with(new);
        *turn = self.turn;
        Arc::clone(streams)
    }

    /// Forgets those taken the longest ago of what no rule takes. Workers count with the numbers of the others.
    fn make_room(&mut self) {
        let idle = self.known.iter().filter(|(_, (streams, _))| Arc::strong_count(streams) == 1);
        let mut idle: Vec<(u64, Removal)> =
            idle.map(|(removal, (_, turn))| (*turn, *removal)).collect();
        idle.sort_unstable_by_key(|(turn, _)| *turn);
        let surplus = (idle.len() + 1).saturating_sub(KEPT);
        for (_, removal) in idle.into_iter().take(surplus) {
            self.known.remove(&removal);
        }
    }
}

/// The way of a rule's packets and what they have beside it, as workers read them.
pub(super) fn replication(
    streams: Arc<Streams>,
    rule: &config::SteerConfig,
    [first, second]: [(&PathExit, &config::PathConfig); 2],
) -> Replication {
    let way = |(exit, path): (&PathExit, &config::PathConfig)| CopyWay {
        name: Arc::clone(&exit.name),
        ifindex: exit.ifindex,
        src: path.source,
        dst: path.to,
    };
    let beside = match rule.parity {
        0 => Beside::Copy(way(second)),
        of => {
            let wait_ns = u64::from(rule.parity_ms) * 1_000_000;
            Beside::Parity(ParityPlan { of, wait_ns })
        }
    };
    Replication { streams, way: way(first), beside }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Removal = Removal { by: 7, label: 16, recovers: false };

    fn found(first: Option<u16>, consents: [Option<Removal>; 3]) -> Result<u16, String> {
        let best = |may: &dyn Fn(u16) -> bool| [1, 2].into_iter().find(|path| may(*path));
        let second = second(first, best, |path| consents[usize::from(path)]);
        let names = ["fibre", "cable", "lte"];
        let name = |path: u16| names[usize::from(path)];
        second.map(|second| second.path).map_err(|refused| Told(refused, &name).to_string())
    }

    #[test]
    fn copies_take_a_path_to_the_same_far_end_or_say_why_not() {
        let other = Some(Removal { by: 8, ..HERE });
        let here = Some(HERE);
        let refused = |why: &str| Err(why.to_owned());
        assert_eq!(found(Some(0), [here, here, here]), Ok(1));
        assert_eq!(found(Some(0), [here, None, here]), Ok(2));
        assert_eq!(found(Some(0), [here, other, here]), Ok(2));
        assert_eq!(
            found(Some(0), [here, None, None]),
            refused("the far end of cable does not remove copies")
        );
        assert_eq!(
            found(Some(0), [None, here, here]),
            refused("the far end of fibre does not remove copies")
        );
        assert_eq!(
            found(Some(0), [here, other, None]),
            refused("fibre and cable end at two machines")
        );
        assert_eq!(
            found(None, [here, here, here]),
            refused("no path is good, and packets are stopped")
        );
        assert_eq!(second(Some(0), |_: &dyn Fn(u16) -> bool| None, |_| here), Err(Refused::Alone));
    }

    #[test]
    fn parity_goes_by_the_path_of_its_packets_or_says_why_not() {
        let able = Removal { recovers: true, ..HERE };
        let consent = |path| [Some(able), Some(HERE), None].get(usize::from(path)).copied()?;
        assert_eq!(parity(Some(0), consent), Ok(Second { path: 0, removal: able }));
        assert_eq!(parity(None, consent), Err(Refused::Stopped));
        let name = |_| "fibre";
        for path in [1, 2] {
            let refused = parity(Some(path), consent).expect_err("not able");
            assert_eq!(
                Told(refused, &name).to_string(),
                "the far end of fibre does not recover packets by parity"
            );
        }
    }

    #[test]
    fn numbers_go_on_when_a_far_end_is_taken_again() {
        let mut all = AllStreams::default();
        let first = Arc::downgrade(&all.of(HERE));
        for label in 0..KEPT as u32 - 1 {
            all.of(Removal { by: 9, label: 16 * label, recovers: true });
        }
        assert_eq!(first.as_ptr(), Arc::as_ptr(&all.of(HERE)));
        for label in 0..KEPT as u32 {
            all.of(Removal { by: 10, label: 16 * label, recovers: true });
        }
        assert!(first.upgrade().is_none());
        assert_eq!(all.known.len(), KEPT);
    }

    #[test]
    fn numbers_of_far_ends_in_use_go_on_however_many_there_are() {
        let mut all = AllStreams::default();
        let far_end = |n| Removal { by: 9, label: 16 * n, recovers: true };
        let count = 2 * KEPT as u32;
        let used: Vec<_> = (0..count).map(|n| all.of(far_end(n))).collect();
        let again = (0..count).map(|n| all.of(far_end(n)));
        assert!(used.iter().zip(again).all(|(before, now)| Arc::ptr_eq(before, &now)));
        drop(used);
        all.of(far_end(count));
        assert_eq!(all.known.len(), KEPT);
    }
}
