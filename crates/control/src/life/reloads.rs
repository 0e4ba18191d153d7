//! Results of reloads, for `culvert status`, metrics and the log.

use std::path::{Path, PathBuf};

use config::{Listed, Problem};
use report::{Configuration, Refusal, Warning, WarningKind};

use crate::clock::Now;

/// Since the daemon's start.
pub struct Reloads {
    file: PathBuf,
    taken_ms: u64,
    taken: u64,
    refused: u64,
    refusal: Option<Refusal>,
    waiting: Vec<String>,
}

impl Reloads {
    /// At the start, with this file.
    pub fn new(file: &Path, now: Now) -> Reloads {
        let (file, taken_ms) = (file.to_owned(), now.wall_ms);
        Reloads { file, taken_ms, taken: 0, refused: 0, refusal: None, waiting: Vec::new() }
    }

    /// The number of the reload at hand, counted since the start.
    pub fn number(&self) -> u64 {
        self.taken + self.refused + 1
    }

    /// The file was taken; some keys wait for a restart.
    pub fn take(&mut self, now: Now, waiting: Vec<String>) {
        (self.taken_ms, self.taken) = (now.wall_ms, self.taken + 1);
        (self.refusal, self.waiting) = (None, waiting);
    }

    /// Refuses a reload.
    pub fn refuse(&mut self, now: Now, why: String) {
        self.refused += 1;
        self.refusal = Some(Refusal { time_ms: now.wall_ms, why });
    }

    /// Its part of the status.
    pub fn report(&self) -> Configuration {
        Configuration {
            file: self.file.display().to_string(),
            taken_ms: self.taken_ms,
            reloads: self.taken,
            refused: self.refused,
            refusal: self.refusal.clone(),
            waits_for_restart: self.waiting.clone(),
        }
    }

    /// Warnings for the operator.
    pub fn warnings(&self, now: Now) -> impl Iterator<Item = Warning> + '_ {
        let refused = self.refusal.iter().map(move |refusal| {
            let ago = now.wall_ms.saturating_sub(refusal.time_ms) / 1000;
            let text = format!(
                "{} was not reloaded {ago} s ago, and nothing of it is in force: {}; mend it, then: culvert reload",
                self.file.display(),
                refusal.why
            );
            Warning::new(WarningKind::ReloadRefused, text)
        });
        let waiting = (!self.waiting.is_empty()).then(|| {
            let keys = self.waiting.join(", ");
            let text = format!("keys of {} that wait for a restart: {keys}", self.file.display());
            Warning::new(WarningKind::RestartPending, text)
        });
        refused.chain(waiting)
    }
}

/// Problems in one line: the first, and how many more there are.
pub fn in_a_line(path: &Path, problems: &[Problem]) -> String {
    let Some(first) = problems.first() else { return String::new() };
    let text = Listed { path, problems: std::slice::from_ref(first) }.to_string();
    let first = text.lines().next().unwrap_or_default();
    match problems.len() - 1 {
        0 => first.to_owned(),
        more => format!("{first} (and {more} more)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_known_until_a_reload_is_taken() {
        let path = Path::new("/etc/c.toml");
        let now = Now::read();
        let mut reloads = Reloads::new(path, now);
        assert_eq!(reloads.warnings(now).count(), 0);
        let problem = |key: &str| Problem::new(key, &1, "wrong", "right");
        reloads.refuse(now, in_a_line(path, &[problem("a.b"), problem("c.d")]));
        let [warning] = &reloads.warnings(now).collect::<Vec<_>>()[..] else { panic!("one") };
        assert!(warning.text.contains("/etc/c.toml: a.b = 1: wrong (and 1 more)"), "{warning:?}");
        let report = reloads.report();
        assert_eq!((report.reloads, report.refused, report.refusal.is_some()), (0, 1, true));
        reloads.take(now, vec!["tun.mtu".into()]);
        let report = reloads.report();
        assert_eq!((report.reloads, report.refused, report.refusal), (1, 1, None));
        let [warning] = &reloads.warnings(now).collect::<Vec<_>>()[..] else { panic!("one") };
        assert!(warning.text.ends_with("wait for a restart: tun.mtu"), "{warning:?}");
    }
}
