//! State of the classifier, as it is shown.

use std::collections::VecDeque;

use apps::{Catalogue, Tally, Verdict};
use report::AppFlow;

/// Verdicts that are kept to be shown.
const MOST_RECENT: usize = 1024;

/// Counts and the last verdicts.
#[derive(Clone, Debug, Default)]
pub(super) struct Shown {
    pub(super) tally: Tally,
    /// The newest last.
    verdicts: VecDeque<Verdict>,
}

impl Shown {
    /// Adds a verdict, in the place of the oldest if there are too many.
    pub(super) fn add(&mut self, verdict: Verdict) {
        if self.verdicts.len() >= MOST_RECENT {
            self.verdicts.pop_front();
        }
        self.verdicts.push_back(verdict);
    }

    /// The last verdicts, the newest first.
    pub(super) fn recent(&self, most: usize, catalogue: &Catalogue) -> Vec<AppFlow> {
        self.verdicts.iter().rev().take(most).map(|verdict| row(verdict, catalogue)).collect()
    }
}

fn row(verdict: &Verdict, catalogue: &Catalogue) -> AppFlow {
    let Verdict { flow, client, application, host, known_by } = verdict;
    let server = flow.ends().iter().find(|end| *end != client).unwrap_or(client);
    AppFlow {
        application: catalogue.name(*application).to_owned(),
        host: host.as_ref().map(ToString::to_string),
        known_by: known_by.word().to_owned(),
        protocol: flow.protocol,
        client: client.addr,
        client_port: client.port,
        server: server.addr,
        server_port: server.port,
    }
}
