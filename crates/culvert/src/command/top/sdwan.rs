//! Measured paths, and the applications whose packets take them.

use std::collections::HashMap;

use report::units::rate;
use report::{App, AppOnPath, MeasuredPath, Steer, SteerCopies, SteerPath};

use super::sample::{Pair, index};
use super::sheet::{Cell, Sheet};

/// The column of applications that has their bits.
pub const APP_BITS: usize = 3;

/// Table of the paths, a line for each class.
pub fn paths(pair: &Pair<'_>) -> Sheet {
    let seen = pair.seen();
    let used = by_path(pair);
    let rows = seen.paths.paths.iter().map(|path| {
        let rate = used.get(path.name.as_str()).copied();
        vec![
            Cell::text(&path.name),
            Cell::count(path.dscp.into()),
            pair.state(path.state.name()),
            Cell::due(Some(path.since_s)),
            loss(path),
            time(path, path.delay_ms),
            time(path, path.delay_p99_ms),
            time(path, path.jitter_ms),
            rate.map_or_else(|| Cell::text("-"), Cell::bits),
            Cell::text(&flows(&seen.steers, &path.name)),
        ]
    });
    let head = [
        "PATH",
        ">DSCP",
        "STATE",
        ">FOR",
        ">LOSS",
        ">DELAY MS",
        ">P99 MS",
        ">JITTER MS",
        ">BIT/S",
        "FLOWS",
    ];
    Sheet { spare: &[3, 6], ..Sheet::new("paths", &head, rows) }
}

/// Table of the applications, with the paths that their packets take.
pub fn apps(pair: &Pair<'_>) -> Sheet {
    let old = index(&pair.before().apps.applications, |app| app.name.clone());
    let rows = pair.seen().apps.applications.iter().map(|app| {
        let old = old.get(&app.name).copied();
        let rate = |count: fn(&App) -> u64| pair.rate(old.map(count), count(app));
        vec![
            Cell::text(&app.name),
            Cell::count(app.flows),
            Cell::packets(rate(|app| app.packets)),
            Cell::bits(rate(|app| app.bytes)),
            Cell::text(&shares(&on_paths(pair, old, app))),
        ]
    });
    Sheet::new("applications", &["APPLICATION", ">FLOWS", ">PPS", ">BIT/S", "PATHS"], rows)
}

/// Bytes a second of an application on each of its paths.
fn on_paths<'a>(pair: &Pair<'_>, old: Option<&App>, app: &'a App) -> Vec<(&'a str, f64)> {
    let rate = |(name, now): (&'a String, &AppOnPath)| {
        let old = old.map(|old| old.paths.get(name).map_or(0, |old| old.bytes));
        (name.as_str(), pair.rate(old, now.bytes))
    };
    app.paths.iter().map(rate).collect()
}

/// Applications whose packets take a path, the busiest first, a line each.
pub fn on_path(pair: &Pair<'_>, path: &str) -> Vec<String> {
    let old = index(&pair.before().apps.applications, |app| app.name.clone());
    let applications = pair.seen().apps.applications.iter();
    let mut rates: Vec<(&str, f64)> = applications
        .filter_map(|app| {
            let on = on_paths(pair, old.get(&app.name).copied(), app);
            let (_, rate) = on.into_iter().find(|(name, _)| *name == path)?;
            Some((app.name.as_str(), rate))
        })
        .collect();
    rates.sort_by(|a, b| b.1.total_cmp(&a.1));
    match rates.is_empty() {
        true => vec!["  none that is known".into()],
        false => rates.iter().map(|(app, of)| format!("  {app} {}bit/s", rate(8.0 * of))).collect(),
    }
}

/// Bytes a second of all applications on each path that any has taken.
fn by_path<'a>(pair: &Pair<'a>) -> HashMap<&'a str, f64> {
    let old = index(&pair.before().apps.applications, |app| app.name.clone());
    let mut sums = HashMap::new();
    for app in &pair.seen().apps.applications {
        for (path, rate) in on_paths(pair, old.get(&app.name).copied(), app) {
            *sums.entry(path).or_default() += rate;
        }
    }
    sums
}

/// `fibre 80%, lte 20%`, the largest first; paths without packets are left out.
fn shares(rates: &[(&str, f64)]) -> String {
    let sum: f64 = rates.iter().map(|(_, rate)| rate).sum();
    let mut moving: Vec<_> = rates.iter().filter(|(_, rate)| *rate > 0.0).collect();
    moving.sort_by(|a, b| b.1.total_cmp(&a.1));
    let words: Vec<String> =
        moving.iter().map(|(name, rate)| format!("{name} {:.0}%", 100.0 * rate / sum)).collect();
    if words.is_empty() { "-".into() } else { words.join(", ") }
}

/// Rules whose flows take a path: `voice all, rest 4 of 5`.
fn flows(rules: &[Steer], path: &str) -> String {
    let words = rules.iter().filter_map(|rule| {
        let sum: u64 = rule.paths.iter().map(|path| u64::from(path.weight)).sum();
        let weight = |of: &SteerPath| (of.name == path).then_some(u64::from(of.weight));
        match rule.paths.iter().find_map(weight)? {
            0 if rule.copies == Some(SteerCopies::By(path.to_owned())) => {
                Some(format!("{} second copies", rule.rule))
            }
            0 => None,
            weight if weight == sum => Some(format!("{} all", rule.rule)),
            weight => Some(format!("{} {weight} of {sum}", rule.rule)),
        }
    });
    let words: Vec<String> = words.collect();
    if words.is_empty() { "-".into() } else { words.join(", ") }
}

/// Loss in the window, as a part.
fn loss(path: &MeasuredPath) -> Cell {
    match path.window {
        0 => Cell::text("-"),
        _ => Cell::number(format!("{:.1}%", path.loss_percent), path.loss_percent / 100.0),
    }
}

/// A time of the window; none where no probe of it was answered.
fn time(path: &MeasuredPath, ms: f64) -> Cell {
    match path.window == path.lost {
        true => Cell::text("-"),
        false => Cell::number(format!("{ms:.2}"), ms),
    }
}

#[cfg(test)]
mod tests {
    use report::{Apps, PathStanding};

    use super::*;
    use crate::command::top::sample::Look;
    use crate::command::top::sample::tests::looks;

    fn with_paths() -> (Look, Look) {
        let (mut before, mut now) = looks();
        let app = |bytes: [u64; 2]| {
            let on = |(name, bytes): (&str, u64)| {
                (name.to_owned(), AppOnPath { packets: bytes / 100, bytes })
            };
            let paths = ["fibre", "lte"].into_iter().zip(bytes).map(on).collect();
            let bytes = bytes.iter().sum();
            let app =
                App { name: "zoom".into(), packets: bytes / 100, bytes, paths, ..App::default() };
            Apps { enabled: true, applications: vec![app], ..Apps::default() }
        };
        (before.seen.apps, now.seen.apps) = (app([1000, 1000]), app([9000, 3000]));
        let path = MeasuredPath {
            name: "fibre".into(),
            dscp: 46,
            state: report::PathState::Good,
            since_s: 90,
            window: 200,
            lost: 1,
            loss_percent: 0.5,
            delay_ms: 31.25,
            ..MeasuredPath::default()
        };
        let dead = MeasuredPath {
            name: "lte".into(),
            window: 9,
            lost: 9,
            loss_percent: 100.0,
            ..path.clone()
        };
        now.seen.paths.paths = vec![path, dead];
        let steer = |weights: [u16; 2]| Steer {
            rule: format!("rule{}", weights[0]),
            paths: ["fibre", "lte"]
                .into_iter()
                .zip(weights)
                .map(|(name, weight)| SteerPath {
                    name: name.into(),
                    stands: PathStanding::Good,
                    well_s: None,
                    weight,
                })
                .collect(),
            return_after_s: 30,
            unasked: Vec::new(),
            copies: (weights[1] == 0).then(|| SteerCopies::By("lte".into())),
            parity: None,
        };
        now.seen.steers = vec![steer([4, 1]), steer([1, 0])];
        (before, now)
    }

    fn row(sheet: &Sheet, at: usize) -> Vec<&str> {
        sheet.rows[at].iter().map(|cell| cell.text.as_str()).collect()
    }

    #[test]
    fn a_path_has_its_quality_and_what_takes_it() {
        let (before, now) = with_paths();
        let sheet = paths(&Pair::new(&before, &now));
        // 8000 bytes in two seconds.
        let expected = ["fibre", "46", "good", "1m30s", "0.5%", "31.25", "0.00", "0.00", "32.0k"];
        assert_eq!(row(&sheet, 0)[..9], expected);
        assert_eq!(row(&sheet, 0)[9], "rule4 4 of 5, rule1 all");
        assert_eq!(
            row(&sheet, 1)[4..],
            ["100.0%", "-", "-", "-", "8000", "rule4 1 of 5, rule1 second copies"][..]
        );
        assert_eq!(sheet.rows[0][4].json(), 0.005);
    }

    #[test]
    fn an_application_has_the_paths_that_its_packets_take() {
        let (before, now) = with_paths();
        let sheet = apps(&Pair::new(&before, &now));
        assert_eq!(row(&sheet, 0), ["zoom", "0", "50", "40.0k", "fibre 80%, lte 20%"]);
        assert_eq!(on_path(&Pair::new(&before, &now), "fibre"), ["  zoom 32.0kbit/s"]);
        let sheet = apps(&Pair::new(&now, &now));
        assert_eq!(row(&sheet, 0)[4], "-", "nothing moves");
    }
}
