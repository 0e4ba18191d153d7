//! `culvert limit`: rate limits of the running daemon.

use config::{Burst, Config, LimitConfig, Rate};
use limit::units;
use report::LimitSet;

/// An entry with other rates, bursts or bounds of its queue.
fn changed(entry: &LimitConfig, set: &LimitSet) -> Result<LimitConfig, String> {
    let mut next = entry.clone();
    let rate = |text: &str| {
        let (rate, unit) = units::rate(text).map_err(|error| error.to_string())?;
        Ok::<_, String>(Rate(rate, unit))
    };
    let burst = |text: &str| {
        let (burst, unit) = units::burst(text).map_err(|error| error.to_string())?;
        Ok::<_, String>(Burst(burst, unit))
    };
    if let Some(text) = &set.rate {
        next.rate = rate(text)?;
    }
    for (text, to) in [(&set.peak, &mut next.peak), (&set.excess, &mut next.excess)] {
        if let Some(text) = text {
            *to = Some(rate(text)?);
        }
    }
    for (text, to) in [
        (&set.burst, &mut next.burst),
        (&set.peak_burst, &mut next.peak_burst),
        (&set.excess_burst, &mut next.excess_burst),
        (&set.queue, &mut next.queue),
    ] {
        if let Some(text) = text {
            *to = Some(burst(text)?);
        }
    }
    next.queue_packets = set.queue_packets.or(next.queue_packets);
    Ok(next)
}

/// `culvert limit set`: until the next reload.
///
/// # Errors
/// The value that cannot be, and what would be right. Nothing is changed then.
pub(crate) fn set(config: &mut Config, set: &LimitSet) -> Result<(), String> {
    let mut entries = config.limits.clone();
    let Some(entry) = entries.iter_mut().find(|entry| entry.name == set.name) else {
        let mut names: Vec<&str> =
            config.limits.iter().take(20).map(|entry| entry.name.as_str()).collect();
        if names.is_empty() {
            names.push("none; [[limit]] of the configuration names them");
        }
        return Err(format!("{}: no such limit; there is {}", set.name, names.join(", ")));
    };
    *entry = changed(entry, set)?;
    if let Some(problem) = config.limit_problems(&entries).next() {
        return Err(format!("{}: {problem}", set.name));
    }
    config.limits = entries;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use config::Config;
    use limit::Bounds;

    use super::*;

    /// The bounds of a limit that shapes once it is set, or why it cannot be so.
    fn bounds_after(set: LimitSet, mode: &str) -> Result<Option<Bounds>, String> {
        let text =
            format!("[[limit]]\nname = \"a\"\nall = true\nrate = \"80Mbit\"\nmode = \"{mode}\"");
        let config = Config::parse(&text, Path::new("culvert.toml")).expect("right");
        let next = vec![changed(&config.limits[0], &set)?];
        match config.limit_problems(&next).next() {
            Some(problem) => Err(problem.to_string()),
            None => Ok(next[0].settings().queue),
        }
    }

    #[test]
    fn a_queue_gets_other_bounds() {
        let queue = |text: &str| LimitSet { queue: Some(text.into()), ..LimitSet::default() };
        let packets = |n| LimitSet { queue_packets: Some(n), ..LimitSet::default() };
        for (set, packets, bytes) in [
            (LimitSet::default(), 1000, 1_000_000),
            (queue("500kB"), 1000, 500_000),
            (packets(64), 64, 1_000_000),
            (LimitSet { rate: Some("8Mbit".into()), ..packets(9) }, 9, 100_000),
        ] {
            assert_eq!(bounds_after(set, "shape"), Ok(Some(Bounds { packets, bytes })));
        }
        for (set, mode, named) in [
            (queue("1kB"), "shape", "at least tun.mtu"),
            (queue("many"), "shape", "many"),
            (queue("9packets"), "shape", "bytes"),
            (packets(0), "shape", "1 to 65536"),
            (queue("500kB"), "police", "say mode = \"shape\""),
            (packets(9), "police", "say mode = \"shape\""),
        ] {
            let error = bounds_after(set, mode).unwrap_err();
            assert!(error.contains(named), "{error}");
        }
    }
}
