//! The prefix lengths from which on the kernel hashes policies.
//!
//! Linux keeps policies whose two prefixes are long enough in a hash table, and all others in trees
//! that it walks as a whole when one of them is replaced or goes: with n of those, n changes cost n².
//! The threshold can be set for a network namespace (`XFRMA_SPD_IPV4_HTHRESH`); a fresh one
//! hashes single addresses alone. It decides nothing but what a change and a look-up cost.
//!
//! Two things are expensive: a policy that is not hashed, and many policies in one hash bucket,
//! because they have the same prefixes up to the threshold. So the lengths depend on the policies that
//! there are. They are chosen anew when the number of policies has doubled, so that the cost for each
//! of them stays the same.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv4Addr};

use crate::barrier::Barrier;

/// The least lengths, in bits, of the prefixes on this host's side and on the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Threshold {
    pub local: u8,
    pub remote: u8,
}

/// Thresholds of a fresh network namespace.
pub(crate) const FRESH: Threshold = Threshold { local: 32, remote: 32 };

/// For how many policies the choice was last made. Reset when the kernel's own threshold is restored.
#[derive(Debug, Default)]
pub(crate) struct Chooser {
    chosen_for: usize,
}

impl Chooser {
    /// True if the choice should be made again, now that there are so many policies.
    pub fn is_due(&mut self, count: usize) -> bool {
        if count < FEW || count < 2 * self.chosen_for {
            return false;
        }
        self.chosen_for = count;
        true
    }
}

/// Below so many policies the threshold does not matter.
const FEW: usize = 256;

/// The lengths that serve these policies best, or the present ones if none are much better: after a
/// change the kernel rehashes all of its policies.
pub(crate) fn choose<'a>(
    barriers: impl Iterator<Item = &'a Barrier>,
    holds: Threshold,
) -> Threshold {
    let sides: Vec<Sides> = barriers.filter_map(Sides::of).collect();
    let now = cost(&sides, holds);
    if now <= 4 * sides.len() as u64 {
        return holds;
    }
    let locals = most_frequent(sides.iter().map(|sides| sides.local.1));
    let remotes = most_frequent(sides.iter().map(|sides| sides.remote.1));
    let candidates = locals.iter().flat_map(|local| {
        remotes.iter().map(|remote| Threshold { local: *local, remote: *remote })
    });
    // Of those that cost the same the longest: fewer policies to come share a bucket.
    let best = candidates
        .map(|t| (cost(&sides, t), t))
        .min_by_key(|(cost, t)| (*cost, u16::MAX - u16::from(t.local) - u16::from(t.remote)));
    match best {
        Some((best, threshold)) if best < now / 2 => threshold,
        _ => holds,
    }
}

/// The two prefixes of a policy, as the kernel's hash sees them.
#[derive(Clone, Copy, Debug)]
struct Sides {
    direction: u8,
    local: (u32, u8),
    remote: (u32, u8),
}

impl Sides {
    fn of(barrier: &Barrier) -> Option<Sides> {
        let selector = barrier.selector();
        let side = |prefix: policy::Prefix| match prefix.addr {
            IpAddr::V4(addr) => Some((Ipv4Addr::to_bits(addr), prefix.len)),
            IpAddr::V6(_) => None,
        };
        let (src, dst) = (side(selector.src)?, side(selector.dst)?);
        let direction = barrier.direction();
        // The kernel's hash treats forward policies as inbound ones.
        let (local, remote) = if direction == OUT { (src, dst) } else { (dst, src) };
        Some(Sides { direction, local, remote })
    }
}

/// Direction of a policy (`XFRM_POLICY_OUT`).
const OUT: u8 = 1;

/// About how many policies are walked if each of them changes once.
fn cost(sides: &[Sides], threshold: Threshold) -> u64 {
    let mut trees = [0u64; 3];
    let mut places: HashMap<(u8, u32, u32), u64> = HashMap::new();
    for sides in sides {
        if sides.local.1 < threshold.local || sides.remote.1 < threshold.remote {
            if let Some(count) = trees.get_mut(usize::from(sides.direction)) {
                *count += 1;
            }
            continue;
        }
        let local = masked(sides.local.0, threshold.local);
        let remote = masked(sides.remote.0, threshold.remote);
        *places.entry((sides.direction, local, remote)).or_default() += 1;
    }
    trees.into_iter().chain(places.into_values()).map(|count| count * count).sum()
}

fn masked(bits: u32, len: u8) -> u32 {
    bits & u32::MAX.checked_shl(32 - u32::from(len.min(32))).unwrap_or(0)
}

/// The lengths that most policies have, a few of them.
fn most_frequent(lens: impl Iterator<Item = u8>) -> Vec<u8> {
    let mut counts: BTreeMap<u8, usize> = BTreeMap::new();
    for len in lens {
        *counts.entry(len).or_default() += 1;
    }
    let mut lens: Vec<(usize, u8)> = counts.into_iter().map(|(len, count)| (count, len)).collect();
    lens.sort_unstable_by(|a, b| b.cmp(a));
    // The shortest of all has everything in the hash table.
    let shortest = lens.iter().map(|(_, len)| *len).min();
    lens.truncate(CANDIDATES);
    lens.into_iter().map(|(_, len)| len).chain(shortest).collect()
}

/// Lengths that are tried for each side.
const CANDIDATES: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use policy::Prefix;

    /// Barriers for so many prefixes of this length below 10.0.0.0/8, to and from anywhere.
    fn prefixes(count: u32, len: u8) -> Vec<Barrier> {
        let addr = |n: u32| Ipv4Addr::from_bits(0x0a00_0000 + (n << (32 - len)));
        let prefix = |n| Prefix { addr: addr(n).into(), len };
        (0..count).flat_map(|n| Barrier::of_prefix(prefix(n))).collect()
    }

    fn chosen(barriers: &[Barrier]) -> Threshold {
        choose(barriers.iter(), FRESH)
    }

    #[test]
    fn what_most_policies_have_is_hashed() {
        assert_eq!(chosen(&prefixes(300, 24)), Threshold { local: 0, remote: 24 });
        let mut few_short = prefixes(300, 24);
        few_short.extend(prefixes(3, 9));
        assert_eq!(chosen(&few_short), Threshold { local: 0, remote: 24 });
        let mut mixed = prefixes(300, 24);
        mixed.extend(prefixes(300, 20));
        assert_eq!(chosen(&mixed), Threshold { local: 0, remote: 20 });
    }

    #[test]
    fn it_stays_where_little_would_be_won() {
        let barriers = prefixes(300, 24);
        let near = Threshold { local: 0, remote: 23 };
        assert_eq!(choose(barriers.iter(), near), near);
        let far = Threshold { local: 0, remote: 16 };
        assert_eq!(choose(barriers.iter(), far), Threshold { local: 0, remote: 24 });
        let good = Threshold { local: 0, remote: 24 };
        assert_eq!(choose(prefixes(300, 32).iter(), Threshold { local: 0, remote: 32 }).remote, 32);
        assert_eq!(choose(barriers.iter(), good), good);
        assert_eq!(choose([].iter(), good), good);
        assert_eq!(choose(prefixes(300, 16).iter(), FRESH).remote, 16);
    }

    #[test]
    fn it_is_chosen_a_few_times_however_many_come() {
        let mut chooser = Chooser::default();
        let times = (0..100_000).filter(|count| chooser.is_due(*count)).count();
        assert_eq!(times, 9);
    }
}
