//! Barriers that nft or the kernel refuses, and what stands in their place.
//!
//! Nothing less may be blocked because one barrier cannot be put up. In its place comes one that blocks more
//! ([`Barrier::wider`]), at the same place in order: its addresses alone, whatever the protocol, ports, interface and
//! mark; then its family. Of IPv6, where nftables cannot be used at all, the same as a kernel policy. It is wanted as the
//! barrier of a policy is, so it is listed, counted and removed like one. A barrier that lets pass is left out.
//!
//! A refused barrier is tried again every now and then. What stands in its place goes when it, or its policy, has.

use core::fmt;
use std::collections::{HashMap, HashSet};

use crate::barrier::{Barrier, Effect};

/// A barrier that is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The barrier that is refused.
    pub barrier: Barrier,
    /// Answer of nft or the kernel.
    pub why: String,
    /// Barrier in its place, which blocks more. `None` for one that lets pass, and where there is
    /// nothing.
    pub instead: Option<Barrier>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "barrier `{}` is refused: {}; ", self.barrier, self.why)?;
        match self.instead {
            Some(instead) => write!(f, "`{instead}` stands in its place, and blocks more"),
            None if self.leaves_a_gap() => f.write_str("nothing stands in its place"),
            None => f.write_str("what it would let pass meets the barriers after it"),
        }
    }
}

impl Refusal {
    /// True if something is not blocked that should be.
    pub fn leaves_a_gap(&self) -> bool {
        self.instead.is_none() && self.barrier.effect() == Effect::Block
    }
}

/// Refused barriers by identity.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    by_identity: HashMap<Barrier, Refusal>,
}

impl Refusals {
    pub(crate) fn get(&self, identity: &Barrier) -> Option<&Refusal> {
        self.by_identity.get(identity)
    }

    pub(crate) fn insert(&mut self, refusal: Refusal) {
        self.by_identity.insert(refusal.barrier.identity(), refusal);
    }

    /// Why it is refused now.
    pub(crate) fn say(&mut self, identity: &Barrier, why: &str) {
        if let Some(refusal) = self.by_identity.get_mut(identity) {
            refusal.why = why.into();
        }
    }

    pub(crate) fn remove(&mut self, identity: &Barrier) -> Option<Refusal> {
        self.by_identity.remove(identity)
    }

    /// True if exactly this one is refused.
    pub(crate) fn has(&self, barrier: &Barrier) -> bool {
        self.get(&barrier.identity()).is_some_and(|refusal| refusal.barrier == *barrier)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_identity.is_empty()
    }

    /// True if something is not blocked that should be.
    pub(crate) fn leave_a_gap(&self) -> bool {
        self.all().any(Refusal::leaves_a_gap)
    }

    /// True if kernel policies block IPv6 in the place of rules.
    pub(crate) fn is_by_policy(&self) -> bool {
        self.all().filter_map(|refusal| refusal.instead).any(|barrier| barrier.is_by_policy())
    }

    /// All of them, those of stand-ins too.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Refusal> {
        self.by_identity.values()
    }

    /// Refusals of policies and prefixes, each with the barrier in its place in the end.
    pub(crate) fn named(&self) -> Vec<Refusal> {
        let stand_ins: HashSet<Barrier> =
            self.all().filter_map(|refusal| refusal.instead).collect();
        let ends = |refusal: &Refusal| {
            let next =
                |barrier: &Barrier| self.get(&barrier.identity()).filter(|r| r.barrier == *barrier);
            let mut instead = refusal.instead;
            // The steps to wider ones are few.
            while let Some(refused) = instead.as_ref().and_then(next) {
                instead = refused.instead;
            }
            Refusal { instead, ..refusal.clone() }
        };
        let of_policies = self.all().filter(|refusal| !stand_ins.contains(&refusal.barrier));
        let mut named: Vec<Refusal> = of_policies.map(ends).collect();
        named.sort_by_cached_key(|refusal| (refusal.barrier.rank(), refusal.barrier.to_string()));
        named
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy::Prefix;

    #[test]
    fn what_stands_in_the_end_is_named() {
        let prefix = Prefix { addr: "fd02::".parse().unwrap(), len: 32 };
        let [barrier, ..] = Barrier::of_prefix(prefix);
        let family = barrier.wider().unwrap();
        let policy = family.as_policy().unwrap();
        let mut refusals = Refusals::default();
        refusals.insert(Refusal { barrier, why: "first".into(), instead: Some(family) });
        refusals.insert(Refusal { barrier: family, why: "second".into(), instead: Some(policy) });
        let named = refusals.named();
        assert_eq!(named, [Refusal { barrier, why: "first".into(), instead: Some(policy) }]);
        assert!(!named[0].leaves_a_gap());
        refusals.insert(Refusal { barrier: policy, why: "third".into(), instead: None });
        assert!(refusals.named()[0].leaves_a_gap());
    }
}
