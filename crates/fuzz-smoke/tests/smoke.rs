//! Each target with its committed inputs, then with mutations of them, for a short time.
//!
//! `CULVERT_FUZZ_SEED` and `CULVERT_FUZZ_MS` (per target) change what is tried and for how long.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fuzz_smoke::{Mutator, TARGETS, Target};

/// Most mutations tried per target: enough to notice a broken parser, and a bound for fast ones.
const MUTATIONS: usize = 20_000;
/// Fewest, however slow the machine.
const LEAST: usize = 100;

fn fuzz_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

fn corpus(target: &Target) -> PathBuf {
    fuzz_dir().join("corpus").join(target.name)
}

fn number(variable: &str, default: u64) -> u64 {
    env::var(variable).map_or(default, |v| v.parse().expect("a number"))
}

/// The files of a folder, in order; none if there is no folder.
fn inputs(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<_> = entries
        .map(|e| e.expect("a readable folder").path())
        .map(|path| (path.clone(), fs::read(path).expect("a readable input")))
        .collect();
    files.sort();
    files
}

/// Runs one input; says how to repeat it if it crashes.
fn attempt(target: &Target, bytes: &[u8], origin: &str) {
    if catch_unwind(AssertUnwindSafe(|| (target.run)(bytes))).is_err() {
        let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
        panic!(
            "{} crashed on {origin}; keep it as a file in fuzz/corpus/{}/:\n{hex}",
            target.name, target.name
        );
    }
}

#[test]
fn committed_inputs_and_former_crashes() {
    for target in TARGETS {
        for (path, bytes) in inputs(&corpus(target)) {
            attempt(target, &bytes, &path.display().to_string());
        }
        attempt(target, &[], "the empty input");
    }
}

#[test]
fn mutations() {
    let seed = number("CULVERT_FUZZ_SEED", 0x0c01_fe27);
    let limit = Duration::from_millis(number("CULVERT_FUZZ_MS", 800));
    for target in TARGETS {
        let known: Vec<_> = inputs(&corpus(target)).into_iter().map(|file| file.1).collect();
        let mut mutator = Mutator::new(seed);
        let start = Instant::now();
        let mut tried = 0;
        while tried < LEAST || tried < MUTATIONS && start.elapsed() < limit {
            let bytes = mutator.input(&known);
            attempt(target, &bytes, &format!("mutation {tried} of seed {seed:#x}"));
            tried += 1;
        }
        println!("{}: {tried} mutations of {} inputs", target.name, known.len());
    }
}

#[test]
fn every_target_of_libfuzzer_is_here_and_has_inputs() {
    let here: BTreeSet<&str> = TARGETS.iter().map(|t| t.name).collect();
    assert_eq!(here.len(), TARGETS.len(), "two targets of one name");
    let manifest = fs::read_to_string(fuzz_dir().join("Cargo.toml")).expect("a manifest");
    let there: BTreeSet<&str> = manifest
        .lines()
        .filter_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'))
        .filter(|name| name.starts_with("fuzz_"))
        .collect();
    assert_eq!(here, there);
    for target in TARGETS {
        assert!(!inputs(&corpus(target)).is_empty(), "{} has no inputs", target.name);
    }
}
