//! `culvert limit`: rate limits, shown and set.

use std::collections::HashSet;
use std::error::Error;

use report::client::ask;
use report::units::si;
use report::{Limit, LimitBy, LimitColour, LimitSet, LimitTreatment, Refused, Request};

use crate::cli::LimitCommand;
use crate::table::table;

/// Shows limits, or sets one.
///
/// # Errors
/// No daemon answers, there is no such limit, or it cannot be so.
pub fn limit(name: &str, json: bool, command: &LimitCommand) -> Result<String, Box<dyn Error>> {
    match command {
        LimitCommand::Show(args) => {
            let mut limits: Vec<Limit> = ask(name, Request::Limits)?;
            if let Some(wanted) = &args.limit {
                limits = of_name(limits, wanted)?;
            }
            match json {
                true => Ok(serde_json::to_string(&limits)?),
                false => Ok(text(&limits)),
            }
        }
        LimitCommand::Set(args) => {
            let set = LimitSet {
                name: args.limit.clone(),
                rate: args.rate.clone(),
                burst: args.burst.clone(),
                peak: args.peak.clone(),
                peak_burst: args.peak_burst.clone(),
                excess: args.excess.clone(),
                excess_burst: args.excess_burst.clone(),
                queue: args.queue.clone(),
                queue_packets: args.queue_packets,
            };
            let refused: Option<Refused> = ask(name, Request::LimitSet(set))?;
            match refused {
                Some(refused) => Err(refused.error.into()),
                None if json => Ok(serde_json::json!({ "set": args.limit }).to_string()),
                None => Ok(format!("{}: set, until the configuration is loaded again", args.limit)),
            }
        }
    }
}

/// A limit, and those below it.
fn of_name(limits: Vec<Limit>, wanted: &str) -> Result<Vec<Limit>, String> {
    let mut names: HashSet<String> =
        limits.iter().filter(|l| l.name == wanted).map(|l| l.name.clone()).collect();
    if names.is_empty() {
        return Err(format!("{wanted}: no such limit; culvert limit show lists them"));
    }
    loop {
        let below = limits.iter().filter(|l| l.parent.as_ref().is_some_and(|p| names.contains(p)));
        let below: Vec<String> = below.map(|l| l.name.clone()).collect();
        let before = names.len();
        names.extend(below);
        if names.len() == before {
            break;
        }
    }
    Ok(limits.into_iter().filter(|limit| names.contains(&limit.name)).collect())
}

fn text(limits: &[Limit]) -> String {
    if limits.is_empty() {
        return "no rate limits; [[limit]] of the configuration names them".into();
    }
    let head = [
        "LIMIT",
        "PARENT",
        "KIND",
        "WAY",
        "ABOUT",
        "EACH",
        ">HOME",
        ">RATE",
        ">BURST",
        ">LEFT",
        ">GREEN",
        ">YELLOW",
        ">RED",
        ">RED BYTES",
    ];
    let rows = limits.iter().map(|l| {
        let both = |of: fn(&report::LimitBucket) -> Option<&str>| {
            l.buckets.iter().filter_map(of).collect::<Vec<_>>().join(" / ")
        };
        let count = |colour: &LimitColour| match &colour.becomes {
            LimitTreatment::Pass | LimitTreatment::Drop => si(colour.packets),
            other @ LimitTreatment::Other(_) => format!("{} ({other})", si(colour.packets)),
        };
        vec![
            l.name.clone(),
            l.parent.clone().unwrap_or_default(),
            kind(l),
            l.direction.to_string(),
            l.about.clone(),
            l.each.as_ref().map(ToString::to_string).unwrap_or_default(),
            l.home.map(|worker| worker.to_string()).unwrap_or_default(),
            both(|bucket| Some(&bucket.rate)),
            both(|bucket| Some(&bucket.burst)),
            both(|bucket| bucket.left.as_deref()),
            count(&l.green),
            count(&l.yellow),
            count(&l.red),
            si(l.red.bytes),
        ]
    });
    let mut text = table(&head, rows);
    if limits.iter().any(|limit| !limit.waiting.is_empty()) {
        text += "\n\n";
        text += &waiting(limits);
    }
    text
}

fn kind(limit: &Limit) -> String {
    let mut kind = limit.algorithm.to_string();
    if limit.aware {
        kind += ", aware";
    }
    if let (Some(bytes), Some(packets)) = (&limit.queue, limit.queue_packets) {
        kind += &format!(", shape {bytes} {packets}packets");
    }
    if limit.by == LimitBy::Atomic {
        kind += ", atomic";
    }
    kind
}

/// Packets that wait for tokens, by limit and class.
fn waiting(limits: &[Limit]) -> String {
    let head = ["LIMIT", "CLASS", ">WAITING", ">HAVE WAITED", ">DROPPED", ">DELAY", ">LONGEST"];
    let ms = |us: u64| format!("{}.{:03} ms", us / 1000, us % 1000);
    let rows = limits.iter().flat_map(|l| l.waiting.iter().map(move |of| (l, of)));
    let rows = rows.map(|(l, of)| {
        let (now, gone, dropped) = (si(of.now), si(of.gone), si(of.dropped));
        let (mean, longest) = (ms(of.mean_us), ms(of.longest_us));
        vec![l.name.clone(), of.class.to_string(), now, gone, dropped, mean, longest]
    });
    table(&head, rows)
}

#[cfg(test)]
mod tests {
    use report::{LimitBucket, LimitWaiting};

    use super::*;

    fn limit(name: &str, parent: Option<&str>) -> Limit {
        let bucket = |rate: &str, left: Option<&str>| LimitBucket {
            rate: rate.into(),
            burst: "64kB".into(),
            left: left.map(str::to_owned),
        };
        Limit {
            name: name.into(),
            parent: parent.map(str::to_owned),
            algorithm: "rfc2698".into(),
            direction: "out".into(),
            about: "dst 10.1.0.0/16".into(),
            buckets: vec![bucket("100Mbit", Some("12kB")), bucket("200Mbit", Some("3kB"))],
            yellow: LimitColour { packets: 7, bytes: 700, becomes: "dscp 12".into() },
            red: LimitColour { packets: 2000, bytes: 9, becomes: "drop".into() },
            ..Limit::default()
        }
    }

    #[test]
    fn a_limit_is_told_with_those_below_it() {
        let mut limits = vec![limit("total", None), limit("a", Some("total")), limit("b", None)];
        let class = "urgent".into();
        let of = LimitWaiting { class, now: 3, gone: 9, mean_us: 12_345, ..Default::default() };
        limits[1].waiting = vec![of];
        (limits[1].queue, limits[1].queue_packets) = (Some("500kB".into()), Some(400));
        (limits[2].by, limits[2].home) = ("atomic".into(), Some(17));
        let text = text(&limits);
        for piece in [
            "100Mbit / 200Mbit",
            "12kB / 3kB",
            "7 (dscp 12)",
            "2000",
            "dst 10.1",
            "shape 500kB 400packets",
            "atomic",
            "17",
            "urgent",
            "12.345 ms",
        ] {
            assert!(text.contains(piece), "{piece}: {text}");
        }
        let found = of_name(limits.clone(), "total").unwrap();
        assert_eq!(found.iter().map(|l| l.name.as_str()).collect::<Vec<_>>(), ["total", "a"]);
        assert!(of_name(limits, "c").is_err_and(|error| error.contains("culvert limit show")));
    }
}
