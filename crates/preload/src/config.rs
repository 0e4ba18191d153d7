//! What the environment says.

use std::time::Duration;

/// What the environment says.
#[derive(Debug)]
pub(crate) struct Config {
    /// Where the server listens.
    pub(crate) path: Vec<u8>,
    /// How long a request waits for a server that is away.
    pub(crate) wait: Duration,
}
