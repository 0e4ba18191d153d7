//! Which connections of charon's are up, for people.

use report::units::{span, time_text};
use report::{ConfiguredChild, Connections};

/// Children that are down and told by name.
const MOST_NAMED: usize = 3;

/// A line of `culvert status`.
pub fn line(connections: &Connections, now_ms: u64) -> String {
    if let Some(why) = &connections.why {
        return format!("not known: charon at {}: {why}", connections.socket);
    }
    let down: Vec<&ConfiguredChild> = connections.children.iter().filter(|c| !c.up).collect();
    let all = connections.children.len();
    let mut parts: Vec<String> =
        down.iter().take(MOST_NAMED).map(|child| down_text(child, now_ms)).collect();
    let others = down.len() - parts.len();
    parts.extend((others > 0).then(|| format!("and {others} more")));
    let named = if parts.is_empty() { String::new() } else { format!(": {}", parts.join(", ")) };
    format!("{} of {all} up{named}", all - down.len())
}

fn down_text(child: &ConfiguredChild, now_ms: u64) -> String {
    const DAY_MS: u64 = 86_400_000;
    let name = format!("{}/{}", child.connection, child.child);
    let since_ms = child.down_since_ms.unwrap_or(now_ms);
    match now_ms.saturating_sub(since_ms) {
        // A time of day is of the last day.
        passed_ms @ DAY_MS.. => format!("{name} is down for {}", span(passed_ms / 1000)),
        _ => {
            let time = time_text(since_ms);
            format!("{name} is down since {} UTC", time.get(..5).unwrap_or(&time))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connections(down: &[(&str, u64)], up: usize) -> Connections {
        let child = |name: &str, down_since_ms: Option<u64>| ConfiguredChild {
            connection: "hq".into(),
            child: name.into(),
            up: down_since_ms.is_none(),
            down_since_ms,
        };
        let children = down.iter().map(|(name, ms)| child(name, Some(*ms)));
        let children = children.chain((0..up).map(|_| child("up", None))).collect();
        Connections { reachable: true, children, ..Connections::default() }
    }

    #[test]
    fn those_that_are_down_are_named() {
        const HOUR_MS: u64 = 3_600_000;
        let now = 100 * HOUR_MS;
        let line = |down: &[(&str, u64)], up| line(&connections(down, up), now);
        assert_eq!(line(&[], 3), "3 of 3 up");
        assert_eq!(line(&[], 0), "0 of 0 up");
        let noon = 96 * HOUR_MS + HOUR_MS / 20;
        assert_eq!(line(&[("net", noon)], 3), "3 of 4 up: hq/net is down since 00:03 UTC");
        assert_eq!(
            line(&[("net", HOUR_MS)], 0),
            format!("0 of 1 up: hq/net is down for {}", span(99 * 3600))
        );
        let many = line(&[("a", now), ("b", now), ("c", now), ("d", now), ("e", now)], 0);
        assert!(many.starts_with("0 of 5 up: hq/a is") && many.ends_with(", and 2 more"), "{many}");
    }

    #[test]
    fn why_nothing_is_known_is_told() {
        let connections = Connections {
            socket: "/run/charon.vici".into(),
            why: Some("no answer within 5 s".into()),
            ..Connections::default()
        };
        let wanted = "not known: charon at /run/charon.vici: no answer within 5 s";
        assert_eq!(line(&connections, 0), wanted);
    }
}
