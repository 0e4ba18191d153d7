//! Sessions as a worker tells of them, by events and by reports.

use std::path::Path;

use config::Config;
use dataplane::{PathReport, PathState};
use paths::{Quality, Refusals};
use report::Occurrence;

use super::Paths;
use crate::clock::Now;

const TEXT: &str = "[[path]]\nname = \"a\"\nsource = \"10.0.0.1\"\nto = \"10.0.0.2\"\n";

/// Paths with one session, whose identity is 1.
fn one() -> Paths {
    let config = Config::parse(TEXT, Path::new("culvert.toml")).expect("right");
    let mut paths = Paths::default();
    paths
        .follow(Now::read(), (&config.path_options, 0), &config.paths, &[])
        .expect("random numbers");
    paths
}

fn report(state: PathState) -> PathReport {
    let (quality, refusals) = (Quality::default(), Refusals::default());
    PathReport { id: 1, state, quality, sent: 9, answered: 0, refusals, removal: None }
}

#[test]
fn a_state_whose_event_is_lost_counts_when_it_is_reported_again() {
    let (mut paths, now) = (one(), Now::read());
    assert_eq!(paths.take(now, &report(PathState::Dead)), None);
    assert_eq!(paths.warnings().count(), 0);
    let told = paths.take(now, &report(PathState::Dead));
    assert!(matches!(told, Some(Occurrence::PathState { .. })), "{told:?}");
    assert_eq!(paths.warnings().count(), 1);
    // Known by now, however it is told.
    assert_eq!(paths.take(now, &report(PathState::Dead)), None);
    assert_eq!(paths.note(now, 1, PathState::Untried, PathState::Dead), None);
}

#[test]
fn a_report_from_before_an_event_changes_nothing() {
    let (mut paths, now) = (one(), Now::read());
    assert_eq!(paths.take(now, &report(PathState::Good)), None);
    assert!(paths.note(now, 1, PathState::Untried, PathState::Good).is_some());
    assert!(paths.note(now, 1, PathState::Good, PathState::Dead).is_some());
    assert_eq!(paths.take(now, &report(PathState::Dead)), None);
    assert_eq!(paths.warnings().count(), 1);
}
