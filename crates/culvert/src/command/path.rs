//! `culvert path`: paths that are measured, with their quality and state.

use std::collections::BTreeMap;
use std::error::Error;

use config::instead;
use report::client::ask;
use report::units::si;
use report::{MeasuredPath, MeasuredPaths, ReflectorCounts, Request, TrafficLoss};

use crate::cli::PathArgs;
use crate::table::{table_within, terminal_width};

/// Shows the paths.
///
/// # Errors
/// No daemon answers, or there is no such path.
pub fn path(name: &str, json: bool, args: &PathArgs) -> Result<String, Box<dyn Error>> {
    let mut measured: MeasuredPaths = ask(name, Request::Path)?;
    if let Some(wanted) = &args.path {
        let all = std::mem::take(&mut measured.paths);
        let names: Vec<&str> = all.iter().map(|path| path.name.as_str()).collect();
        if !names.contains(&wanted.as_str()) {
            return Err(no_such_path(wanted, &names).into());
        }
        measured.paths = all.into_iter().filter(|path| path.name == *wanted).collect();
        (measured.reflector, measured.clear_reflector) = (None, None);
    }
    match json {
        true => Ok(serde_json::to_string(&measured)?),
        false => Ok(text(&measured)),
    }
}

/// The error of a name that is no path's.
pub fn no_such_path(wanted: &str, names: &[&str]) -> String {
    let mut names = names.to_vec();
    names.dedup();
    match names.is_empty() {
        true => format!("{wanted}: no such path; [[path]] of the configuration names them"),
        false => format!("{wanted}: no such path; {}", instead(wanted, &names)),
    }
}

fn text(measured: &MeasuredPaths) -> String {
    text_within(measured, terminal_width())
}

fn text_within(measured: &MeasuredPaths, width: Option<usize>) -> String {
    let mut parts = Vec::new();
    if !measured.paths.is_empty() {
        let head = [
            "PATH",
            ">DSCP",
            "STATE",
            ">FOR",
            ">LOSS",
            ">TRAFFIC",
            ">DELAY",
            ">P99",
            ">JITTER",
            ">PENALTY",
            ">SENT",
            ">ANSWERED",
            "PROBES",
            "BY",
            "TO",
        ];
        let rows = measured.paths.iter().map(row);
        let spare = ["PROBES", "ANSWERED", "SENT", "TO", "BY", "PENALTY", "P99", "FOR"];
        parts.push(table_within(width, &head, rows, &spare, "culvert path | cat"));
        let mut troubles: Vec<String> = measured
            .paths
            .iter()
            .filter_map(|path| Some(format!("{}: {}", path.name, path.trouble.as_ref()?)))
            .collect();
        troubles.dedup();
        if !troubles.is_empty() {
            parts.push(troubles.join("\n"));
        }
        let refused: Vec<_> = measured.paths.iter().filter_map(refused_of_path).collect();
        if !refused.is_empty() {
            parts.push(refused.join("\n"));
        }
    }
    let reflectors = [("", &measured.reflector), (" in clear", &measured.clear_reflector)];
    let reflectors = reflectors.map(|(kind, counts)| Some(reflector(kind, counts.as_ref()?)));
    let reflectors: Vec<_> = reflectors.into_iter().flatten().collect();
    if !reflectors.is_empty() {
        parts.push(reflectors.join("\n"));
    }
    match parts.is_empty() {
        true => "no paths; [[path]] of the configuration names them".into(),
        false => parts.join("\n\n"),
    }
}

/// A reflector's line.
fn reflector(kind: &str, counted: &ReflectorCounts) -> String {
    let ReflectorCounts { port, reflected, refused } = counted;
    let mut line = format!("reflector{kind}: port {port}, {reflected} sent back");
    if !refused.is_empty() {
        line += &format!("; {}", counts(refused));
    }
    line
}

fn row(path: &MeasuredPath) -> Vec<String> {
    // Nothing is known without probes in the window.
    let known = |text: String| if path.window == 0 { "-".into() } else { text };
    let delay = |ms: f64| match path.window == path.lost {
        true => "-".into(),
        false => format!("{ms:.2} ms"),
    };
    vec![
        path.name.clone(),
        path.dscp.to_string(),
        path.state.name().to_owned(),
        format!("{} s", path.since_s),
        known(format!("{:.1} %", path.loss_percent)),
        traffic(path),
        delay(path.delay_ms),
        delay(path.delay_p99_ms),
        delay(path.jitter_ms),
        path.penalty.to_string(),
        si(path.sent),
        si(path.answered),
        format!("{}{} {} ms", path.mode, if path.keyed { ", key," } else { "" }, path.interval_ms),
        match &path.uplink {
            Some(uplink) => format!("{uplink}, clear"),
            None => path.tunnel.clone().unwrap_or_default(),
        },
        path.to.map(|to| to.to_string()).unwrap_or_default(),
    ]
}

/// Loss of the path's own packets, away and back.
fn traffic(path: &MeasuredPath) -> String {
    let loss = |way: Option<TrafficLoss>| match way {
        Some(loss) if loss.sent > 0 => format!("{:.1}", loss.loss_percent),
        _ => "-".into(),
    };
    match (loss(path.away), loss(path.back)) {
        (away, back) if away == "-" && back == "-" => away,
        (away, back) => format!("{away} / {back} %"),
    }
}

/// Replies of a path that measured nothing, if there were any.
fn refused_of_path(path: &MeasuredPath) -> Option<String> {
    let counts = counts(&path.refused);
    (!counts.is_empty()).then(|| format!("{} (dscp {}): {counts}", path.name, path.dscp))
}

fn counts(of: &BTreeMap<String, u64>) -> String {
    let counts: Vec<_> = of.iter().map(|(name, count)| format!("{name} {count}")).collect();
    counts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured() -> MeasuredPaths {
        let path = MeasuredPath {
            name: "hq".into(),
            mode: "stamp".into(),
            state: report::PathState::Degraded,
            dscp: 46,
            interval_ms: 50,
            penalty: 500_010,
            ..MeasuredPath::default()
        };
        let refused = [("late".to_owned(), 2)].into();
        let seen = MeasuredPath {
            name: "lte".into(),
            keyed: true,
            window: 100,
            lost: 5,
            loss_percent: 5.0,
            away: Some(TrafficLoss { sent: 500, lost: 26, loss_percent: 5.2 }),
            back: Some(TrafficLoss { sent: 480, lost: 0, loss_percent: 0.0 }),
            delay_ms: 31.25,
            delay_p99_ms: 60.5,
            jitter_ms: 4.0,
            refused,
            ..path.clone()
        };
        let refused = [("unauthentic".to_owned(), 7)].into();
        let reflector = Some(ReflectorCounts { port: 862, reflected: 12, refused });
        let refused = [("unnamed".to_owned(), 3)].into();
        let clear_reflector = Some(ReflectorCounts { port: 862, reflected: 5, refused });
        MeasuredPaths { paths: vec![path, seen], reflector, clear_reflector }
    }

    #[test]
    fn tells_quality_and_what_was_refused() {
        let text = text(&measured());
        let line = |name: &str| text.lines().find(|line| line.starts_with(name)).expect(name);
        let words = |name| line(name).split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(words("hq "), "hq 46 degraded 0 s - - - - - 500010 0 0 stamp 50 ms");
        assert_eq!(
            words("lte "),
            "lte 46 degraded 0 s 5.0 % 5.2 / 0.0 % 31.25 ms 60.50 ms 4.00 ms 500010 0 0 stamp, key, 50 ms"
        );
        assert!(text.contains("\nlte (dscp 46): late 2\n"), "{text}");
        let end = "reflector: port 862, 12 sent back; unauthentic 7\nreflector in clear: port 862, 5 sent back; unnamed 3";
        assert!(text.ends_with(end), "{text}");
        assert!(super::text(&MeasuredPaths::default()).contains("[[path]]"));
        let narrow = text_within(&measured(), Some(80));
        let widest = narrow.lines().take(3).map(|line| line.chars().count()).max();
        assert!(
            widest <= Some(80) && narrow.contains("not shown for want of width: PROBES"),
            "{narrow}"
        );
    }

    #[test]
    fn reasons_and_names_are_told() {
        let mut measured = measured();
        let sat = MeasuredPath {
            name: "sat".into(),
            trouble: Some("there is no interface satt".into()),
            ..MeasuredPath::default()
        };
        let other = MeasuredPath { dscp: 46, ..sat.clone() };
        measured.paths.extend([sat, other]);
        let text = text(&measured);
        assert_eq!(text.matches("\nsat: there is no interface satt\n").count(), 1, "{text}");
        assert_eq!(
            no_such_path("ht", &["hq", "hq", "lte"]),
            "ht: no such path; did you mean hq? There is hq, lte"
        );
        assert!(no_such_path("hq", &[]).contains("[[path]]"));
    }
}
