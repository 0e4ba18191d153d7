//! Flows, looked at while they are shown: each look costs the data path something.

use std::time::Duration;

use report::{Flows, FlowsRequest, PacketFilter};

use crate::command::flows::Feed;

/// Flows that are told at most.
const MOST: usize = 1000;

/// Which flows are looked at, and what was seen last.
pub struct Watch {
    feed: Option<(PacketFilter, Feed)>,
    /// The last interval that is over; or why there is none.
    pub seen: Result<Option<Flows>, String>,
}

impl Watch {
    /// Of nothing yet.
    pub fn new() -> Watch {
        Watch { feed: None, seen: Ok(None) }
    }

    /// Looks at these flows from now on, and at what came of those before. Where the daemon has ended it, it is asked
    /// again the next time.
    pub fn look(&mut self, name: &str, wanted: Option<PacketFilter>, interval: Duration) {
        if self.feed.as_ref().map(|(filter, _)| filter) != wanted.as_ref() {
            self.feed = None;
            self.seen = Ok(None);
            if let Some(filter) = wanted {
                let request = FlowsRequest {
                    filter: filter.clone(),
                    interval_ms: interval.as_millis() as u64,
                    most: MOST,
                    application: None,
                    path: None,
                };
                match Feed::begin(name, request, interval) {
                    Ok(feed) => self.feed = Some((filter, feed)),
                    Err(error) => self.seen = Err(error.to_string()),
                }
            }
        }
        if let Some((_, feed)) = &self.feed {
            self.seen = feed.latest();
            if self.seen.is_err() {
                self.feed = None;
            }
        }
    }
}
