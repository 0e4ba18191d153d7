//! `[[steer]]`: which traffic takes which of the paths.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use selection::{Bounds, Candidate, Fallback, MAX_CANDIDATES, Rule, Spread};
use serde::Deserialize;

use super::limit::Names;
use super::marks::Dscp;
use super::packets::with_packet_keys;
use super::paths::{PathConfig, PathMode};
use super::problem::{Problem, instead};

with_packet_keys! {
    /// `[[steer]]`: paths of some traffic. The first entry that is about a packet decides, once for its flow.
    #[derive(Clone, Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct SteerConfig {
        /// Name of the rule.
        pub name: String,
        /// The paths by their names, the preferred one first.
        pub paths: Vec<String>,
        /// The class of probes that the paths are judged by; `dscp`, or the first class of each path when left out.
        #[serde(default)]
        pub class: Option<Dscp>,
        /// How flows are spread over good paths.
        #[serde(default)]
        pub spread: SpreadOf,
        /// Shares of the paths, in their order; equal when left out.
        #[serde(default)]
        pub weights: Option<Vec<u16>>,
        /// Paths that each packet takes at once: 2 to have a second copy by another path.
        #[serde(default = "one")]
        pub copies: u8,
        /// Packets for each of which there is one more, their parity; 0: none.
        #[serde(default)]
        pub parity: u8,
        /// How long packets wait for their parity at most, in milliseconds.
        #[serde(default = "parity_ms")]
        pub parity_ms: u32,
        /// Treatment of packets while no path is good.
        #[serde(default)]
        pub otherwise: Otherwise,
        /// Longest delay of a good path, there and back, in milliseconds.
        #[serde(default)]
        pub max_delay_ms: Option<u32>,
        /// Largest jitter of a good path, in milliseconds.
        #[serde(default)]
        pub max_jitter_ms: Option<u32>,
        /// Largest loss of a good path, in percent.
        #[serde(default)]
        pub max_loss_percent: Option<f64>,
        /// Seconds for which a path is well before its flows come back.
        #[serde(default = "return_after_s")]
        pub return_after_s: u32,
    }
}

/// How flows are spread over good paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SpreadOf {
    /// All take the first good path.
    #[default]
    Prefer,
    /// They share the good paths.
    Share,
}

/// Treatment of packets while no path is good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Otherwise {
    /// They take the least bad path.
    #[default]
    Best,
    /// They are dropped.
    Block,
}

const fn one() -> u8 {
    1
}

const fn parity_ms() -> u32 {
    20
}

const fn return_after_s() -> u32 {
    30
}

/// Number by which flows draw lots for a path: its name's, so that they stay where paths come and go beside it.
fn lot_of(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}

impl SteerConfig {
    /// The rule, with paths by their place among `places`. The configuration is checked: each is there.
    pub fn rule(&self, places: &HashMap<&str, u16>) -> Rule {
        let weights = self.weights.iter().flatten().copied().chain(std::iter::repeat(1));
        let ms = |ms: u32| Duration::from_millis(ms.into());
        Rule {
            candidates: self
                .paths
                .iter()
                .zip(weights)
                .filter_map(|(name, weight)| {
                    let path = *places.get(name.as_str())?;
                    Some(Candidate { path, lot: lot_of(name), weight })
                })
                .collect(),
            bounds: Bounds {
                delay: self.max_delay_ms.map(ms),
                jitter: self.max_jitter_ms.map(ms),
                // A percent has ten thousand parts of a million.
                loss_ppm: self.max_loss_percent.map(|percent| (percent * 10_000.0) as u32),
            },
            spread: match self.spread {
                SpreadOf::Prefer => Spread::Prefer,
                SpreadOf::Share => Spread::Share,
            },
            fallback: match self.otherwise {
                Otherwise::Best => Fallback::LeastBad,
                Otherwise::Block => Fallback::Block,
            },
            return_after: Duration::from_secs(self.return_after_s.into()),
        }
    }

    /// True if its packets get numbers, as they travel in copies or with parity: the far end has to agree.
    pub const fn is_numbered(&self) -> bool {
        self.copies > 1 || self.parity > 0
    }

    /// The class of probes that a path is judged by.
    pub fn class_of(&self, path: &PathConfig) -> Option<Dscp> {
        self.class.or(self.dscp).or_else(|| path.dscp.first().copied())
    }

    /// The first value that cannot be by itself: its key, itself, and what is allowed.
    fn problem(&self, names: Names) -> Option<(&'static str, String, &'static str)> {
        let is_time = |ms: Option<u32>| ms.is_some_and(|ms| !(1..=60_000).contains(&ms));
        let time = |key, ms: Option<u32>| {
            is_time(ms)
                .then(|| (key, ms.unwrap_or_default().to_string(), "1 to 60000 milliseconds"))
        };
        if !(names.is_name)(&self.name) {
            return Some(("name", self.name.clone(), "1 to 64 letters, digits, '-' and '_'"));
        }
        if let Some(problem) = self.packets().problem(names.is_interface) {
            return Some(problem);
        }
        if self.paths.is_empty() || self.paths.len() > MAX_CANDIDATES {
            return Some(("paths", self.paths.len().to_string(), "1 to 64 names of [[path]]"));
        }
        if let Some(weights) = &self.weights {
            let is_wrong = weights.len() != self.paths.len() || weights.contains(&0);
            if is_wrong {
                return Some((
                    "weights",
                    format!("{weights:?}"),
                    "a number above 0 for each of paths",
                ));
            }
            if self.spread == SpreadOf::Prefer {
                return Some((
                    "weights",
                    format!("{weights:?}"),
                    "nothing, or spread = \"share\": preferred paths have no shares",
                ));
            }
        }
        if let Some(percent) =
            self.max_loss_percent.filter(|percent| !(0.0..=100.0).contains(percent))
        {
            return Some(("max_loss_percent", percent.to_string(), "0 to 100"));
        }
        if !(1..=2).contains(&self.copies) {
            return Some(("copies", self.copies.to_string(), "1 or 2"));
        }
        if self.copies > 1 && (self.paths.len() < 2 || self.spread == SpreadOf::Share) {
            return Some((
                "copies",
                self.copies.to_string(),
                "1, or at least two paths and spread = \"prefer\": a second copy takes the next best path",
            ));
        }
        if self.parity != 0 && !(2..=32).contains(&self.parity) {
            return Some(("parity", self.parity.to_string(), "0, or 2 to 32 packets"));
        }
        if self.parity > 0 && (self.copies > 1 || self.spread == SpreadOf::Share) {
            return Some((
                "parity",
                self.parity.to_string(),
                "0, or copies = 1 and spread = \"prefer\": parity goes by the path of its packets",
            ));
        }
        if !(1..=200).contains(&self.parity_ms) {
            return Some(("parity_ms", self.parity_ms.to_string(), "1 to 200 milliseconds"));
        }
        if self.return_after_s > 86_400 {
            return Some((
                "return_after_s",
                self.return_after_s.to_string(),
                "at most a day: 86400 seconds",
            ));
        }
        time("max_delay_ms", self.max_delay_ms)
            .or_else(|| time("max_jitter_ms", self.max_jitter_ms))
    }
}

/// Values that cannot be, of each entry the first.
pub(super) fn problems(
    entries: &[SteerConfig],
    paths: &[PathConfig],
    names: Names,
) -> Vec<Problem> {
    let known: HashMap<&str, &PathConfig> =
        paths.iter().map(|path| (path.name.as_str(), path)).collect();
    let mut before = HashSet::new();
    let mut found = Vec::new();
    for (at, entry) in entries.iter().enumerate() {
        let key = |key: &str| format!("steer[{at}].{key}");
        let is_new = before.insert(entry.name.as_str());
        if let Some((wrong, value, allowed)) = entry.problem(names) {
            found.push(Problem::of_value(key(wrong), &value, allowed));
        } else if !is_new {
            found.push(Problem::of_value(key("name"), &entry.name, "another name for each rule"));
        } else if let Some((name, wrong, remedy)) = wrong_path(entry, paths, &known) {
            found.push(Problem::new(key("paths"), &name, wrong, remedy));
        }
    }
    found
}

/// The first path of a rule that cannot be: its name, the fault, and what would be right.
fn wrong_path<'e>(
    entry: &'e SteerConfig,
    paths: &[PathConfig],
    known: &HashMap<&str, &PathConfig>,
) -> Option<(&'e String, &'static str, String)> {
    for (at, name) in entry.paths.iter().enumerate() {
        let wrong = |allowed: &str| Some((name, "this cannot be", allowed.to_owned()));
        let Some(path) = known.get(name.as_str()) else {
            let names: Vec<&str> = paths.iter().map(|path| path.name.as_str()).collect();
            let remedy = match names.is_empty() {
                true => "add a [[path]] of this name".to_owned(),
                false => instead(name, &names),
            };
            return Some((name, "there is no [[path]] of this name", remedy));
        };
        if entry.paths.iter().take(at).any(|other| other == name) {
            return wrong("each path once");
        }
        if path.tunnel.is_none() && path.uplink.is_none() {
            return wrong("a path with a tunnel or an uplink, which is where its packets leave");
        }
        if entry.is_numbered() && (path.mode != PathMode::Stamp || path.tunnel.is_none()) {
            return wrong(
                "a path with a tunnel and mode = \"stamp\", by which its far end says that it removes copies, and recovers \
                 by parity",
            );
        }
        let Some(class) = entry.class_of(path).filter(|class| !path.dscp.contains(class)) else {
            continue;
        };
        let has: Vec<String> = path.dscp.iter().take(8).map(|class| class.written()).collect();
        return Some((
            name,
            "its probes do not measure the class of the rule",
            format!(
                "add {} to dscp of path {name}, or have the rule judged by another class: class = {}",
                class.written(),
                has.join(" or ")
            ),
        ));
    }
    None
}

/// Rules that no packet comes to, and bounds that no measurement passes.
pub(super) fn warnings(entries: &[SteerConfig], paths: &[PathConfig]) -> Vec<Problem> {
    let known: HashMap<&str, &PathConfig> =
        paths.iter().map(|path| (path.name.as_str(), path)).collect();
    let mut found = Vec::new();
    for (at, entry) in entries.iter().enumerate() {
        let key = |key: &str| format!("steer[{at}].{key}");
        let is_before = |other: &&SteerConfig| {
            other.name != entry.name && other.packets().covers(&entry.packets())
        };
        if let Some(before) = entries.iter().take(at).find(is_before) {
            found.push(Problem::new(
                key("name"),
                &entry.name,
                format!(
                    "no packet comes to it: {} is about the same ones, and stands before it",
                    before.name
                ),
                format!("put it before {}, or make that one narrower", before.name),
            ));
        }
        let bounds = [("max_delay_ms", entry.max_delay_ms), ("max_jitter_ms", entry.max_jitter_ms)];
        for (of, bound) in bounds {
            let Some(bound) = bound else { continue };
            let paths = entry.paths.iter().filter_map(|name| known.get(name.as_str()));
            if let Some(path) = paths.into_iter().find(|path| bound > path.timeout_ms()) {
                let (name, timeout) = (&path.name, path.timeout_ms());
                found.push(Problem::new(
                    key(of),
                    &bound,
                    format!("no probe of path {name} takes so long: it is lost after {timeout} ms"),
                    format!("a smaller one, or timeout_ms = {bound} for path {name}"),
                ));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::Config;

    const PATHS: &str = "[[tunnel]]\ninterface = \"ipsec0\"\nif_id = 1\n[[tunnel]]\ninterface = \"ipsec1\"\nif_id = 2\n\
        [[path]]\nname = \"a\"\ntunnel = \"ipsec0\"\nsource = \"10.0.0.1\"\nto = \"10.0.0.2\"\ndscp = [\"EF\", \"BE\"]\n\
        [[path]]\nname = \"b\"\ntunnel = \"ipsec1\"\nsource = \"10.0.1.1\"\nto = \"10.0.1.2\"\n\
        [[path]]\nname = \"c\"\nsource = \"10.0.2.1\"\nto = \"10.0.2.2\"\n\
        [[path]]\nname = \"e\"\ntunnel = \"ipsec1\"\nsource = \"10.0.1.1\"\nto = \"10.0.1.2\"\nmode = \"icmp\"\n";

    fn parse(rules: &str) -> Result<Config, String> {
        let text = format!("{PATHS}{rules}");
        Config::parse(&text, Path::new("culvert.toml")).map_err(|error| error.to_string())
    }

    #[test]
    fn a_rule_has_what_is_usual() {
        let config = parse("[[steer]]\nname = \"all\"\npaths = [\"b\", \"a\"]\nclass = \"BE\"\nmax_loss_percent = 1.5\n").unwrap();
        let places = [("a", 0), ("b", 1)].into();
        let rule = config.steers[0].rule(&places);
        assert_eq!(
            rule.candidates.iter().map(|c| (c.path, c.weight)).collect::<Vec<_>>(),
            [(1, 1), (0, 1)]
        );
        assert_eq!((rule.bounds.loss_ppm, rule.bounds.delay), (Some(15_000), None));
        assert_eq!((rule.spread, rule.fallback), (Spread::Prefer, Fallback::LeastBad));
        assert_eq!(rule.return_after, Duration::from_secs(30));
    }

    #[test]
    fn what_cannot_be_is_refused_by_its_key() {
        let rule = |keys: &str| format!("[[steer]]\nname = \"all\"\n{keys}\n");
        for (text, named) in [
            (rule("paths = []"), "steer[0].paths"),
            (rule("paths = [\"d\"]"), "steer[0].paths = \"d\": there is no [[path]]"),
            (rule("paths = [\"A\"]"), "did you mean a? There is a, b, c, e"),
            (rule("paths = [\"a\", \"a\"]"), "steer[0].paths"),
            (rule("paths = [\"c\"]"), "a path with a tunnel or an uplink"),
            (
                rule("paths = [\"b\"]\ndscp = \"EF\""),
                "the class of the rule\n  add \"EF\" to dscp of path b, or have the rule judged by another class: class = \"BE\"",
            ),
            (rule("paths = [\"a\"]").replace("all", "a b"), "steer[0].name"),
            (rule("paths = [\"a\"]") + &rule("paths = [\"a\"]"), "steer[1].name"),
            (rule("paths = [\"a\"]\nweights = [1]"), "steer[0].weights"),
            (rule("paths = [\"a\"]\nspread = \"share\"\nweights = [0]"), "steer[0].weights"),
            (rule("paths = [\"a\"]\nspread = \"share\"\nweights = [1, 2]"), "steer[0].weights"),
            (rule("paths = [\"a\"]\nmax_delay_ms = 0"), "steer[0].max_delay_ms"),
            (rule("paths = [\"a\"]\nmax_jitter_ms = 60001"), "steer[0].max_jitter_ms"),
            (rule("paths = [\"a\"]\nmax_loss_percent = 101"), "steer[0].max_loss_percent"),
            (rule("paths = [\"a\"]\nreturn_after_s = 86401"), "steer[0].return_after_s"),
            (rule("paths = [\"a\"]\ninterface = \"a/b\""), "steer[0].interface"),
            (
                rule("paths = [\"a\"]\nsrc = \"::/0\"\ndst = \"10.0.0.0/8\""),
                "steer[0].dst = \"10.0.0.0\": this cannot be\n  of the family of src",
            ),
            (rule("paths = [\"a\", \"b\"]\nclass = 0\ncopies = 3"), "steer[0].copies"),
            (rule("paths = [\"a\", \"b\"]\nclass = 0\ncopies = 0"), "steer[0].copies"),
            (rule("paths = [\"a\"]\ncopies = 2"), "at least two paths"),
            (
                rule("paths = [\"a\", \"b\"]\nclass = 0\ncopies = 2\nspread = \"share\""),
                "steer[0].copies",
            ),
            (rule("paths = [\"a\", \"e\"]\nclass = 0\ncopies = 2"), "mode = \"stamp\""),
            (rule("paths = [\"a\"]\nparity = 1"), "steer[0].parity"),
            (rule("paths = [\"a\"]\nparity = 33"), "steer[0].parity"),
            (rule("paths = [\"a\"]\nparity = 8\nparity_ms = 0"), "steer[0].parity_ms"),
            (rule("paths = [\"a\"]\nparity = 8\nparity_ms = 201"), "steer[0].parity_ms"),
            (rule("paths = [\"a\", \"b\"]\nclass = 0\ncopies = 2\nparity = 8"), "copies = 1"),
            (rule("paths = [\"a\"]\nspread = \"share\"\nparity = 8"), "steer[0].parity"),
            (rule("paths = [\"e\"]\nparity = 8"), "mode = \"stamp\""),
            (rule("paths = [\"a\"]\notherwise = \"drop\""), "best, block"),
            (rule("paths = [\"a\"]\ndelay = 1"), "did you mean max_delay_ms?"),
            (
                rule("paths = [\"a\"]\ninterval_ms = 1"),
                "it is a key of [device.NAME], [[path]]; here there is name",
            ),
            (
                rule("paths = [\"a\"]\nmax_delay_ms = \"-1 ms\""),
                "from 0 to 4294967295, without quotes",
            ),
            (rule("paths = [\"a\"]\nmax_delay_ms = -1"), "max_delay_ms = -1: this is -1"),
            (rule("paths = [\"a\"]\nmax_loss_percent = \"120 %\""), "a number, without quotes"),
            (rule("paths = [\"a\"]\nfoo = 1"), "steer[0].foo"),
        ] {
            let error = parse(&text).unwrap_err();
            assert!(error.contains(named), "{text}: {error}");
        }
    }

    #[test]
    fn rules_that_do_nothing_are_warned_of() {
        let warned = |rules: &str| {
            let text = format!("{PATHS}{rules}");
            let examined = Config::examine(&text, crate::any_machine);
            assert!(examined.problems.is_empty(), "{rules}: {:?}", examined.problems);
            let said: Vec<String> = examined.warnings.iter().map(|w| w.to_string()).collect();
            said.join("; ")
        };
        let rule = |name: &str, keys: &str| {
            format!("[[steer]]\nname = \"{name}\"\npaths = [\"a\"]\n{keys}\n")
        };
        let all = "";
        for (first, second) in [
            (all, all),
            (all, "class = \"EF\"\ndscp = 0"),
            (all, "src = \"::/0\""),
            ("dst = \"10.0.0.0/8\"", "dst = \"10.1.0.0/16\"\nmark = 1"),
            ("direction = \"both\"\ndscp = 0", "direction = \"in\"\ndscp = 0\ninterface = \"lan\""),
            ("mark = 7", "mark = 7"),
        ] {
            let said = warned(&(rule("one", first) + &rule("two", second)));
            assert!(
                said.starts_with("steer[1].name = \"two\": no packet comes to it: one is"),
                "{said}"
            );
        }
        for (first, second) in [
            ("dscp = 46", all),
            ("dst = \"10.1.0.0/16\"", "dst = \"10.0.0.0/8\""),
            ("dst = \"10.0.0.0/8\"", "src = \"10.0.0.0/8\""),
            (all, "direction = \"in\""),
            ("dst = \"0.0.0.0/0\"", "dst = \"::/0\""),
            ("mark = 7", "mark = 8"),
        ] {
            assert_eq!(
                warned(&(rule("one", first) + &rule("two", second))),
                "",
                "{first} {second}"
            );
        }
        let said = warned(&rule("one", "max_delay_ms = 1001"));
        assert!(
            said.contains("= 1001: no probe of path a takes so long")
                && said.contains("after 1000 ms"),
            "{said}"
        );
        assert_eq!(warned(&rule("one", "max_delay_ms = 1000")), "");
    }
}
