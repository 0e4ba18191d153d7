//! `culvert limit`: rate limits of the running daemon.

use std::sync::Arc;

use dataplane::RateRules;
use limit::units;

use super::Daemon;
use crate::config::{Burst, LimitConfig, Rate};
use crate::report::{Limit, LimitSet};

/// An entry with other rates or bursts.
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
    ] {
        if let Some(text) = text {
            *to = Some(burst(text)?);
        }
    }
    Ok(next)
}

impl Daemon {
    /// The rules about rates, as of now.
    pub(super) fn rate_rules(&mut self) -> Arc<RateRules> {
        let at = (self.workers.count(), self.workers.now_ns());
        self.rate_limits.follow(&self.config.limits, self.observer.snapshot(), at)
    }

    /// `culvert limit show`.
    pub(super) fn limits(&self) -> Vec<Limit> {
        self.rate_limits.report(self.workers.now_ns())
    }

    /// `culvert limit set`: until the next reload.
    ///
    /// # Errors
    /// What cannot be, and what would be right. Nothing is changed then.
    pub(super) fn set_limit(&mut self, set: &LimitSet) -> Result<(), String> {
        let mut entries = self.config.limits.clone();
        let Some(entry) = entries.iter_mut().find(|entry| entry.name == set.name) else {
            let mut names: Vec<&str> =
                self.config.limits.iter().take(20).map(|entry| entry.name.as_str()).collect();
            if names.is_empty() {
                names.push("none; [[limit]] of the configuration names them");
            }
            return Err(format!("{}: no such limit; there is {}", set.name, names.join(", ")));
        };
        *entry = changed(entry, set)?;
        if let Some(problem) = self.config.limit_problem(&entries) {
            return Err(format!("{}: {problem}", set.name));
        }
        self.config.limits = entries;
        self.publish_topology();
        Ok(())
    }
}
