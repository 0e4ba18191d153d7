//! Problems of a configuration: where, what, and the remedy.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

/// A place in a file, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Place {
    /// The line, the first of the file being 1.
    pub line: usize,
    /// The character in it.
    pub column: usize,
}

/// A key or a value that cannot be, or that does not do what it is there for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// Where it stands; none of what the file leaves out.
    #[serde(flatten)]
    pub place: Option<Place>,
    /// The key, with its table: `port[1].interface`. Empty for the file as a whole.
    pub key: String,
    /// Value, as it is written; empty if the key is the problem.
    pub value: String,
    /// The fault of the value.
    pub wrong: Cow<'static, str>,
    /// A value that would be right.
    pub remedy: Cow<'static, str>,
}

impl Problem {
    /// A value that no machine takes, and what would be right.
    pub fn of_value(
        key: impl Into<String>,
        value: &dyn fmt::Display,
        remedy: impl Into<Cow<'static, str>>,
    ) -> Problem {
        Problem::new(key, value, "this cannot be", remedy)
    }

    /// A value, what is wrong with it, and what would be right.
    pub fn new(
        key: impl Into<String>,
        value: &dyn fmt::Display,
        wrong: impl Into<Cow<'static, str>>,
        remedy: impl Into<Cow<'static, str>>,
    ) -> Problem {
        let (key, value) = (key.into(), value.to_string());
        Problem { place: None, key, value, wrong: wrong.into(), remedy: remedy.into() }
    }

    /// Key and value, as the file writes them: `worker.frames = 1000`.
    pub fn subject(&self) -> String {
        match (self.key.as_str(), self.value.as_str()) {
            (key, "") => key.to_owned(),
            (key, value) if is_bare(value) => format!("{key} = {value}"),
            (key, value) => format!("{key} = {value:?}"),
        }
    }
}

/// Numbers, booleans and lists are written without quotes.
fn is_bare(value: &str) -> bool {
    let hex = value.strip_prefix("0x");
    let is_hex = hex.is_some_and(|digits| u64::from_str_radix(digits, 16).is_ok());
    let is_digits = value.bytes().all(|byte| byte.is_ascii_digit() || b"-.".contains(&byte));
    let is_number = is_hex || is_digits && value.parse::<f64>().is_ok();
    is_number || value == "true" || value == "false" || value.starts_with(['[', '{'])
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.subject().as_str() {
            "" => write!(f, "{}", self.wrong)?,
            subject => write!(f, "{subject}: {}", self.wrong)?,
        }
        match self.remedy.is_empty() {
            true => Ok(()),
            false => write!(f, "\n  {}", self.remedy),
        }
    }
}

/// Problems of one file, for people: each on a line that begins as a compiler's, with the remedy below it.
pub struct Listed<'p> {
    /// Where the file is.
    pub path: &'p std::path::Path,
    /// Problems of the file.
    pub problems: &'p [Problem],
}

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        for (number, problem) in self.problems.iter().enumerate() {
            if number > 0 {
                writeln!(f)?;
            }
            match problem.place {
                Some(Place { line, column }) => write!(f, "{path}:{line}:{column}: {problem}")?,
                None => write!(f, "{path}: {problem}")?,
            }
        }
        Ok(())
    }
}

/// The word of a list that is nearest to one that is not in it, if it is near enough to have been meant.
pub fn nearest<'w>(word: &str, known: impl IntoIterator<Item = &'w str>) -> Option<&'w str> {
    let lowered = word.to_lowercase();
    // A third of the letters, and one of the shortest words.
    let most = (word.chars().count() / 3).clamp(1, 3);
    known
        .into_iter()
        .map(|known| (strsim::osa_distance(&lowered, &known.to_lowercase()), known))
        .filter(|(distance, _)| *distance <= most)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

/// The only word of a list that has all parts of another: `max_delay_ms` for `delay`.
fn holder<'w>(word: &str, known: &[&'w str]) -> Option<&'w str> {
    let lowered = word.to_lowercase();
    let has_part = |known: &str, part: &str| known.split('_').any(|of| of == part);
    let has_all = |known: &&&str| lowered.split(['_', '-', ' ']).all(|part| has_part(known, part));
    let mut holders = known.iter().filter(has_all);
    holders.next().filter(|_| holders.next().is_none()).copied()
}

/// Suggestion for a word, in front of those that there are: `did you mean native? There is auto, native`. Of many the first
/// ones are listed.
pub fn instead(word: &str, known: &[&str]) -> String {
    let (listed, more) = known.split_at(known.len().min(LISTED));
    let mut all = listed.join(", ");
    if !more.is_empty() {
        all += &format!(" and {} more", more.len());
    }
    match nearest(word, known.iter().copied()).or_else(|| holder(word, known)) {
        Some(near) => format!("did you mean {near}? There is {all}"),
        None => format!("there is {all}"),
    }
}

/// Words that are listed: more than any table has keys.
const LISTED: usize = 48;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_are_near_are_found_and_others_are_not() {
        let known = ["interface", "kind", "mode", "queues", "lan", "wan"];
        for (word, near) in [
            ("interfce", Some("interface")),
            ("Mode", Some("mode")),
            ("queue", Some("queues")),
            ("lann", Some("lan")),
            ("colour", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, known), near, "{word}");
        }
        assert_eq!(instead("mdoe", &["mode", "kind"]), "did you mean mode? There is mode, kind");
        let keys = ["name", "max_delay_ms", "max_loss_percent", "parity", "parity_ms"];
        for (word, near) in [
            ("delay", Some("max_delay_ms")),
            ("delay_ms", Some("max_delay_ms")),
            ("loss-percent", Some("max_loss_percent")),
            ("max", None),
            ("ms", None),
            ("", None),
        ] {
            assert_eq!(holder(word, &keys), near, "{word}");
        }
        let names: Vec<String> = (0..1000).map(|number| format!("path{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let said = instead("pth7", &names);
        assert!(
            said.starts_with("did you mean path7?") && said.ends_with("and 952 more"),
            "{said}"
        );
    }

    #[test]
    fn values_are_quoted_as_the_file_does() {
        let subject = |value: &str| Problem::of_value("a.b", &value, "").subject();
        for bare in ["12", "-3", "1.5", "0x1f", "true", "[0, 99]"] {
            assert_eq!(subject(bare), format!("a.b = {bare}"));
        }
        for text in ["wan", "10.2.0.0", "::1", "a b", "10.2.0.1/16", "0B", "1500B", "inf", "1e3"] {
            assert_eq!(subject(text), format!("a.b = {text:?}"));
        }
        assert_eq!(subject(""), "a.b");
    }
}
