//! Default actions that block: what happens to packets that no policy is about.

use core::fmt;

use policy::Direction;

/// Directions in which packets that no policy is about are blocked (`ip xfrm policy setdefault`).
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Defaults {
    /// In the order of [`DIRECTIONS`].
    blocked: [bool; 3],
}

const DIRECTIONS: [Direction; 3] = [Direction::In, Direction::Out, Direction::Forward];

impl Defaults {
    /// The directions of which `blocks` says so.
    pub fn of(blocks: impl Fn(Direction) -> bool) -> Defaults {
        Defaults { blocked: DIRECTIONS.map(blocks) }
    }

    /// True if any direction blocks.
    pub fn is_any(self) -> bool {
        self.blocked.contains(&true)
    }

    /// The directions that block.
    pub fn directions(self) -> impl Iterator<Item = Direction> {
        DIRECTIONS.into_iter().zip(self.blocked).filter_map(|(way, blocked)| blocked.then_some(way))
    }
}

impl fmt::Debug for Defaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.directions()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::cases::{leaves, protecting, two_ways_out};
    use crate::testing::{in_namespace, run};
    use crate::{Barrier, Guard};
    use policy::PolicyConfig;

    const OUT: Defaults = Defaults { blocked: [false, true, false] };

    fn bypass(src: &str, dst: &str) -> PolicyConfig {
        PolicyConfig { templates: Vec::new(), ..protecting(src, dst, Direction::Out) }
    }

    #[test]
    fn only_what_a_policy_lets_pass_leaves() {
        in_namespace(|| {
            two_ways_out();
            let directory = tempfile::tempdir().unwrap();
            let mut guard = Guard::open("test", "culvert0", directory.path()).unwrap();
            let policies = [bypass("10.1.0.0/16", "10.9.0.0/16"), bypass("::/0", "fd09::/16")];
            guard.set(&policies, &[], Instant::now()).unwrap();
            guard.set_defaults(OUT);
            assert!(leaves("10.3.0.1", "out0") && leaves("fd03::1", "out0"), "not settled yet");
            guard.settle(Instant::now()).unwrap();
            let holds = || {
                assert!(!leaves("10.3.0.1", "out0"), "IPv4 leaked");
                assert!(!leaves("fd03::1", "out0"), "IPv6 leaked");
                assert!(leaves("10.9.0.1", "out0"), "a policy that lets pass was not asked");
                assert!(leaves("fd09::1", "out0"), "a policy that lets pass was not asked");
                assert!(leaves("10.2.1.1", "culvert0"), "the private interface was blocked");
                assert!(leaves("fd02:0:0:1::1", "culvert0"), "the private interface was blocked");
            };
            holds();
            // As a whole, and once more.
            guard.set(&policies, &[], Instant::now()).unwrap();
            guard.set_defaults(OUT);
            guard.settle(Instant::now()).unwrap();
            holds();
            let of_default = guard.standing().filter(|barrier| barrier.is_default()).count();
            assert_eq!(of_default, 2, "one for each family");
            // It outlives its owner, and policies that come and go.
            drop(guard);
            holds();
            let mut guard = Guard::open("test", "culvert0", directory.path()).unwrap();
            guard.set_defaults(OUT);
            guard.set(&policies, &[], Instant::now()).unwrap();
            let [v4, v6] = [("0.0.0.0/0", "0.0.0.0/0"), ("::/0", "::/0")]
                .map(|(src, dst)| protecting(src, dst, Direction::Out));
            for policy in [&v4, &v6] {
                guard.change(None, Some(policy));
                guard.settle(Instant::now()).unwrap();
                guard.change(Some(policy), None);
                guard.settle(Instant::now()).unwrap();
                holds();
            }
            guard.set_defaults(Defaults::default());
            guard.settle(Instant::now()).unwrap();
            assert!(leaves("10.3.0.1", "out0") && leaves("fd03::1", "out0"), "it is still there");
            guard.set_defaults(OUT);
            guard.settle(Instant::now()).unwrap();
            holds();
            guard.clear(Instant::now()).unwrap();
            assert!(leaves("10.3.0.1", "out0") && leaves("fd03::1", "out0"), "it is still there");
            assert_eq!(run("ip xfrm policy").1, "");
        });
    }

    #[test]
    fn each_direction_has_its_own() {
        let all = Defaults::of(|_| true);
        assert_eq!(all.directions().flat_map(Barrier::of_default).count(), 6);
        assert_eq!(OUT.directions().collect::<Vec<_>>(), [Direction::Out]);
        assert!(OUT.is_any() && !Defaults::default().is_any());
        assert!(all.directions().flat_map(Barrier::of_default).all(|b| b.is_default()));
        let prefix = policy::Prefix { addr: [10, 2, 0, 0].into(), len: 16 };
        assert!(!Barrier::of_prefix(prefix).iter().any(Barrier::is_default));
    }
}
