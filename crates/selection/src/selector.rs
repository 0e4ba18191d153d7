//! The state of one rule.

use core::time::Duration;

use crate::choice::Choice;
use crate::quality::Quality;
use crate::rule::{Candidate, Fallback, Rule, Spread};
use crate::standing::Standing;

/// Another bad path takes over if its excess is below this part of the present one's.
const BETTER: (u64, u64) = (9, 10);

/// A rule with what is known of its paths.
#[derive(Clone, Debug)]
pub struct Selector {
    rule: Rule,
    standings: Vec<Standing>,
    /// Place of the path that has the flows while none is good.
    least_bad: usize,
    choice: Choice,
}

impl Selector {
    /// All paths are good until a measurement says otherwise.
    pub fn new(rule: Rule) -> Selector {
        let standings = vec![Standing::Good; rule.candidates.len()];
        let mut selector = Selector { rule, standings, least_bad: 0, choice: Choice::default() };
        selector.choice = selector.choose(&[]);
        selector
    }

    /// Another form of the rule of `old`, with what is known of the paths that stay. `before` answers with the index that a
    /// path had there, and `None` for one that is another. By other bounds nothing is known.
    pub fn in_place_of(
        old: &Selector,
        rule: Rule,
        before: impl Fn(u16) -> Option<u16>,
    ) -> Selector {
        let mut selector = Selector::new(rule);
        if selector.rule.bounds != old.rule.bounds {
            return selector;
        }
        let known = |path: u16| old.standings().find(|(of, _)| Some(*of) == before(path));
        let Selector { rule, standings, .. } = &mut selector;
        for (candidate, standing) in rule.candidates.iter().zip(standings) {
            *standing = known(candidate.path).map_or(*standing, |(_, standing)| standing);
        }
        let taker = old.rule.candidates.get(old.least_bad).map(|taker| taker.path);
        let stays =
            |candidate: &Candidate| before(candidate.path).is_some_and(|of| Some(of) == taker);
        selector.least_bad = selector.rule.candidates.iter().position(stays).unwrap_or(0);
        selector.choice = selector.choose(&[]);
        selector
    }

    /// The rule, as it was given.
    pub fn rule(&self) -> &Rule {
        &self.rule
    }

    /// Each path of the rule with its standing, in the rule's order.
    pub fn standings(&self) -> impl Iterator<Item = (u16, Standing)> + '_ {
        self.rule
            .candidates
            .iter()
            .map(|candidate| candidate.path)
            .zip(self.standings.iter().copied())
    }

    /// The present choice.
    pub fn choice(&self) -> &Choice {
        &self.choice
    }

    /// Judges the paths by their present quality; true if the choice has changed. `quality` answers for a path by
    /// its index, and `None` for one that nobody measures.
    pub fn update(&mut self, now: Duration, quality: impl Fn(u16) -> Option<Quality>) -> bool {
        let measured: Vec<_> = self.rule.candidates.iter().map(|c| quality(c.path)).collect();
        let Rule { bounds, return_after, .. } = &self.rule;
        for (standing, quality) in self.standings.iter_mut().zip(&measured) {
            *standing = standing.after(now, quality.as_ref(), bounds, *return_after);
        }
        let choice = self.choose(&measured);
        let is_new = choice != self.choice;
        self.choice = choice;
        is_new
    }

    /// The best path beside the one that all flows take, of those that `may` carry the same: a good one in the rule's
    /// order, else the least bad one. Among bad ones `present` stays until another is better by 10 %, and dead ones are the
    /// worst: one that loses half of its packets may seem dead. `None` if there is none, or flows take several paths.
    pub fn runner_up(
        &self,
        present: Option<u16>,
        quality: impl Fn(u16) -> Option<Quality>,
        may: impl Fn(u16) -> bool,
    ) -> Option<u16> {
        let [taken] = self.choice.takers() else { return None };
        let others = || self.standings().filter(|(path, _)| *path != taken.path && may(*path));
        if let Some((good, _)) = others().find(|(_, standing)| *standing == Standing::Good) {
            return Some(good);
        }
        let excess = |path: u16| quality(path).map_or(0, |q| self.rule.bounds.excess(&q));
        let (least, _) = others().min_by_key(|(path, _)| excess(*path))?;
        let present = present.filter(|present| others().any(|(path, _)| path == *present));
        let (better, of) = BETTER;
        Some(match present {
            Some(present) if excess(least) >= excess(present) / of * better => present,
            _ => least,
        })
    }

    /// The choice by the standings.
    fn choose(&mut self, measured: &[Option<Quality>]) -> Choice {
        let good: Vec<Candidate> = self
            .standings
            .iter()
            .zip(&self.rule.candidates)
            .filter(|(standing, _)| **standing == Standing::Good)
            .map(|(_, candidate)| *candidate)
            .collect();
        let Some(first) = good.first().copied() else { return self.choose_bad(measured) };
        // Flows that must move where none is good begin there again.
        self.least_bad = self.place_of(first.path);
        match self.rule.spread {
            Spread::Share => Choice::new(good),
            Spread::Prefer => Choice::new([first]),
        }
    }

    /// The choice where no path is good.
    fn choose_bad(&mut self, measured: &[Option<Quality>]) -> Choice {
        if self.rule.fallback == Fallback::Block {
            return Choice::default();
        }
        let bounds = self.rule.bounds;
        let excess =
            |at: usize| measured.get(at).copied().flatten().map_or(0, |q| bounds.excess(&q));
        let least = (0..self.rule.candidates.len()).min_by_key(|at| excess(*at)).unwrap_or(0);
        let (better, of) = BETTER;
        // Divided first: an excess may be as large as the type.
        if excess(least) < excess(self.least_bad) / of * better {
            self.least_bad = least;
        }
        let taker = self.rule.candidates.get(self.least_bad);
        Choice::new(taker.copied().into_iter().collect::<Vec<_>>())
    }

    /// Place of a path in the rule.
    fn place_of(&self, path: u16) -> usize {
        self.rule.candidates.iter().position(|candidate| candidate.path == path).unwrap_or(0)
    }
}
