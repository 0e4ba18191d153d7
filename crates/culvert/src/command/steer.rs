//! `culvert steer`: rules of path selection, and where their flows go.

use std::error::Error;

use report::client::ask;
use report::{PathStanding, Request, Steer, SteerCopies, SteerParity, SteerPath, SteerUnasked};

use crate::table::table;

/// Shows the rules.
///
/// # Errors
/// No daemon answers.
pub fn steer(name: &str, json: bool) -> Result<String, Box<dyn Error>> {
    let rules: Vec<Steer> = ask(name, Request::Steer)?;
    match json {
        true => Ok(serde_json::to_string(&rules)?),
        false => Ok(text(&rules)),
    }
}

fn text(rules: &[Steer]) -> String {
    if rules.is_empty() {
        return "no rules; [[steer]] of the configuration says which traffic takes which path"
            .into();
    }
    let rows = rules.iter().flat_map(|rule| rule.paths.iter().map(|path| row(rule, path)));
    let mut text = table(&["RULE", "PATH", "STANDS", "FLOWS"], rows);
    for rule in rules {
        if let Some(SteerCopies::Refused(why)) = &rule.copies {
            text.push_str(&format!("\n{}: no copies: {why}", rule.rule));
        }
        match &rule.parity {
            Some(SteerParity::Of(count)) => {
                text.push_str(&format!("\n{}: parity for each {count} packets", rule.rule));
            }
            Some(SteerParity::Refused(why)) => {
                text.push_str(&format!("\n{}: no parity: {why}", rule.rule));
            }
            None => {}
        }
    }
    // The same of all rules.
    let unasked = rules.first().map_or(&[][..], |rule| &rule.unasked);
    for SteerUnasked { interface, route, more } in unasked {
        let more = if *more > 0 { format!(" and {more} more") } else { String::new() };
        text.push_str(&format!(
            "\nroutes lead to {interface} ({route}{more}), which no path has: no rule is asked about its packets"
        ));
    }
    text
}

fn row(rule: &Steer, path: &SteerPath) -> Vec<String> {
    let all: u32 = rule.paths.iter().map(|path| u32::from(path.weight)).sum();
    let flows = match u32::from(path.weight) {
        0 if all == 0 => "stopped".into(),
        0 if rule.copies == Some(SteerCopies::By(path.name.clone())) => "second copies".into(),
        0 => "-".into(),
        weight if weight == all => "all".into(),
        weight => format!("{weight} of {all}"),
    };
    let stands = match (path.stands, path.well_s) {
        (PathStanding::Bad, Some(well)) => {
            format!("bad, well for {well} s of {} s", rule.return_after_s)
        }
        (stands, _) => stands.name().into(),
    };
    vec![rule.rule.clone(), path.name.clone(), stands, flows]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(paths: &[(PathStanding, Option<u64>, u16)]) -> Steer {
        let paths = paths.iter().zip(["fibre", "lte"]).map(|((stands, well_s, weight), name)| {
            SteerPath { name: name.into(), stands: *stands, well_s: *well_s, weight: *weight }
        });
        Steer {
            rule: "voice".into(),
            paths: paths.collect(),
            return_after_s: 30,
            copies: None,
            parity: None,
            unasked: Vec::new(),
        }
    }

    fn shown(rule: Steer) -> Vec<String> {
        let squeeze = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        text(&[rule]).lines().skip(1).map(squeeze).collect()
    }

    #[test]
    fn tells_where_flows_go_and_why() {
        use PathStanding::{Bad, Dead, Good};
        let seen = shown(rule(&[(Bad, Some(12), 0), (Good, None, 1)]));
        assert_eq!(seen, ["voice fibre bad, well for 12 s of 30 s -", "voice lte good all"]);
        let seen = shown(rule(&[(Good, None, 4), (Good, None, 1)]));
        assert_eq!(seen, ["voice fibre good 4 of 5", "voice lte good 1 of 5"]);
        let seen = shown(rule(&[(Dead, None, 0), (Bad, None, 0)]));
        assert_eq!(seen, ["voice fibre dead stopped", "voice lte bad stopped"]);
        assert!(text(&[]).contains("[[steer]]"));
        let twice =
            |copies| Steer { copies: Some(copies), ..rule(&[(Good, None, 1), (Bad, None, 0)]) };
        let seen = shown(twice(SteerCopies::By("lte".into())));
        assert_eq!(seen, ["voice fibre good all", "voice lte bad second copies"]);
        let seen = shown(twice(SteerCopies::Refused("nobody takes them".into())));
        assert_eq!(seen[1..], ["voice lte bad -", "voice: no copies: nobody takes them"]);
        let with =
            |parity| shown(Steer { parity: Some(parity), ..rule(&[(Good, None, 1)]) }).remove(1);
        assert_eq!(with(SteerParity::Of(10)), "voice: parity for each 10 packets");
        assert_eq!(with(SteerParity::Refused("nobody".into())), "voice: no parity: nobody");
        let led = |more| {
            let to = SteerUnasked { interface: "cable0".into(), route: "10.2.0.0/16".into(), more };
            shown(Steer { unasked: vec![to], ..rule(&[(Good, None, 1)]) }).remove(1)
        };
        assert!(led(0).starts_with("routes lead to cable0 (10.2.0.0/16), which no path has:"));
        assert!(led(3).starts_with("routes lead to cable0 (10.2.0.0/16 and 3 more), which"));
    }
}
