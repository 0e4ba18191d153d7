//! Cases that a run has met: bins that must not stay empty.

use std::collections::BTreeMap;

/// Bins by group, each with its count.
#[derive(Default)]
pub struct Coverage(BTreeMap<&'static str, BTreeMap<String, u64>>);

impl Coverage {
    /// A bin that a run has to meet.
    pub fn expect(&mut self, group: &'static str, bin: impl Into<String>) {
        self.0.entry(group).or_default().entry(bin.into()).or_default();
    }

    /// Notes that a bin was met.
    pub fn hit(&mut self, group: &'static str, bin: impl Into<String>) {
        *self.0.entry(group).or_default().entry(bin.into()).or_default() += 1;
    }

    /// A table of all bins; and those that were not met.
    pub fn report(&self) -> (String, Vec<String>) {
        let mut text = String::new();
        let mut missed = Vec::new();
        for (group, bins) in &self.0 {
            let met = bins.values().filter(|count| **count > 0).count();
            text += &format!("{group}: {met} of {} met\n", bins.len());
            for (bin, count) in bins {
                text += &format!("  {count:7}  {bin}\n");
                if *count == 0 {
                    missed.push(format!("{group}: {bin}"));
                }
            }
        }
        (text, missed)
    }
}
