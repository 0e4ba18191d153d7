//! Counts by application, of what was looked at.

use std::collections::BTreeMap;

use crate::application::AppId;
use crate::verdict::KnownBy;

/// Counts of one application.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Flows by what they are known by, in the order of [`KnownBy::ALL`].
    pub flows: [u64; KnownBy::ALL.len()],
    /// Packets that were looked at, until and after the verdict.
    pub packets: u64,
    /// Bytes of these packets, as IP packets.
    pub bytes: u64,
}

/// Counts of all applications.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    counts: Vec<Count>,
    /// Packets that are no IP packet that can be looked at: a fragment, or damaged.
    pub odd: u64,
    /// Answers of name servers that were believed.
    pub answers: u64,
    /// Answers that no question of the client waited for.
    pub strange_answers: u64,
    /// Flows that were given up before their end, as there were too many.
    pub displaced: u64,
}

impl Count {
    /// Flows by the words for what they are known by, where there are any.
    pub fn known_by(&self) -> BTreeMap<String, u64> {
        let all = KnownBy::ALL.iter().zip(self.flows);
        all.filter(|(_, flows)| *flows > 0).map(|(by, flows)| (by.word().into(), flows)).collect()
    }
}

impl Tally {
    pub(crate) fn new(applications: usize) -> Tally {
        Tally { counts: vec![Count::default(); applications], ..Tally::default() }
    }

    /// Counts of an application.
    pub fn of(&self, app: AppId) -> Count {
        self.counts.get(app.index()).copied().unwrap_or_default()
    }

    pub(crate) fn flow(&mut self, app: AppId, known_by: KnownBy) {
        if let Some(flows) = self
            .counts
            .get_mut(app.index())
            .and_then(|count| count.flows.get_mut(known_by as usize))
        {
            *flows += 1;
        }
    }

    pub(crate) fn packets(&mut self, app: AppId, packets: u64, bytes: u64) {
        if let Some(count) = self.counts.get_mut(app.index()) {
            count.packets += packets;
            count.bytes += bytes;
        }
    }
}
