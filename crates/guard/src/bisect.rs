//! Which classes of barriers `nft` refuses.
//!
//! nft carries out a ruleset or none of it, so one rule that it refuses keeps all others out. The rules are then
//! checked by halves, without being carried out. What that costs is bounded: what is not cleared of suspicion by then
//! counts as refused, and is replaced by what blocks more.

use std::collections::HashSet;

use crate::barrier::Barrier;
use crate::classes::Classes;
use crate::netfilter::{Failure, Netfilter};
use crate::nft::NftError;

/// Checks for one transaction that failed.
const CHECKS: usize = 48;

impl Netfilter {
    /// The classes among these rules that are refused, with what was said; all of them if each by itself is taken. None
    /// if the transaction was carried out now: somebody else was at work before.
    ///
    /// 1. Nothing but the table's frame: if that is refused, nothing can be installed.
    /// 2. What is new, if the rest has stood before.
    /// 3. Everything, by halves.
    /// 4. The transaction once more.
    ///
    /// # Errors
    /// Nothing can be installed.
    pub(crate) fn refused(
        &mut self,
        rules: &[&Barrier],
        was_known: bool,
        text: &str,
        said: NftError,
    ) -> Result<Option<Vec<(Barrier, String)>>, Failure> {
        if matches!(said, NftError::Missing(_)) {
            return Err(Failure::Unusable(said));
        }
        self.check(&[]).map_err(Failure::Unusable)?;
        let mut left = CHECKS;
        if was_known {
            let new = classes(self.new_ones());
            let found = self.halve(&new, &mut left);
            if !found.is_empty() {
                return Ok(Some(found));
            }
        }
        let all = classes(rules.iter().map(|b| **b));
        let found = self.halve(&all, &mut left);
        if !found.is_empty() {
            return Ok(Some(found));
        }
        match self.nft().apply(text) {
            Ok(()) => Ok(None),
            Err(_) if all.is_empty() => Err(Failure::Unusable(said)),
            Err(error) => Ok(Some(all.into_iter().map(|c| (c, error.to_string())).collect())),
        }
    }

    /// The refused among some classes.
    fn halve(&mut self, classes: &[Barrier], left: &mut usize) -> Vec<(Barrier, String)> {
        if classes.is_empty() {
            return Vec::new();
        }
        let result = match left.checked_sub(1) {
            Some(less) => {
                *left = less;
                self.check(classes).map_err(|error| error.to_string())
            }
            None => Err("nft refused what it is part of".into()),
        };
        match (result, classes) {
            (Ok(()), _) => Vec::new(),
            (Err(said), [class]) => vec![(*class, said)],
            (Err(said), _) if *left == 0 => classes.iter().map(|c| (*c, said.clone())).collect(),
            (Err(_), _) => {
                let (first, second) = classes.split_at(classes.len() / 2);
                let mut found = self.halve(first, left);
                found.extend(self.halve(second, left));
                found
            }
        }
    }

    /// Checks that a table with a rule of each of these classes could be installed.
    pub(crate) fn check(&mut self, classes: &[Barrier]) -> Result<(), NftError> {
        let mut rules: Vec<&Barrier> = classes.iter().collect();
        rules.sort_by_key(|b| b.rank());
        let text = self.frame(&rules, &Classes::new(&rules));
        self.nft().check(&text)
    }
}

/// The classes of some barriers, each once.
fn classes(barriers: impl Iterator<Item = Barrier>) -> Vec<Barrier> {
    let mut seen = HashSet::new();
    barriers.map(|b| b.class()).filter(|class| seen.insert(*class)).collect()
}
