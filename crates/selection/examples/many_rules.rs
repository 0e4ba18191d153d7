//! Cost of 50 000 paths for the control thread: time of a round, in which the paths of all rules are judged.
//!
//! `cargo run --release -p culvert-selection --example many_rules`

use std::collections::HashMap;
use std::time::{Duration, Instant};

use selection::{Bounds, Candidate, Fallback, MAX_CANDIDATES, Quality, Rule, Selector, Spread};

const PATHS: u16 = 50_000;
const ROUNDS: u64 = 100;

fn main() {
    let bounds = Bounds {
        delay: Some(Duration::from_millis(150)),
        jitter: Some(Duration::from_millis(30)),
        loss_ppm: Some(20_000),
    };
    let places: Vec<u16> = (0..PATHS).collect();
    let mut selectors: Vec<Selector> = places
        .chunks(MAX_CANDIDATES)
        .map(|paths| {
            Selector::new(Rule {
                candidates: paths
                    .iter()
                    .map(|path| Candidate { path: *path, lot: 0, weight: 1 })
                    .collect(),
                bounds,
                spread: Spread::Prefer,
                fallback: Fallback::LeastBad,
                return_after: Duration::from_secs(30),
            })
        })
        .collect();
    let mut measured: HashMap<u16, Quality> = places
        .iter()
        .map(|path| {
            let delay = Duration::from_millis(10 + u64::from(path % 100));
            (*path, Quality { is_alive: true, delay, ..Quality::default() })
        })
        .collect();
    let (mut spent, mut changed) = (Vec::new(), 0);
    for round in 0..ROUNDS {
        // As many as one round hears of, some of them beyond the bounds.
        for n in 0..64 {
            let path = ((round * 64 + n) % u64::from(PATHS)) as u16;
            if let Some(quality) = measured.get_mut(&path) {
                quality.loss_ppm = if n % 8 == 0 { 50_000 } else { 0 };
            }
        }
        let begun = Instant::now();
        for selector in &mut selectors {
            let now = Duration::from_millis(round * 100);
            changed += u32::from(selector.update(now, |path| measured.get(&path).copied()));
        }
        spent.push(begun.elapsed());
    }
    spent.sort_unstable();
    println!(
        "{PATHS} paths in {} rules, {ROUNDS} rounds: median {:?} a round, longest {:?}; {changed} changes",
        selectors.len(),
        spent[spent.len() / 2],
        spent[spent.len() - 1],
    );
}
