//! The configuration, which the environment holds.

use std::time::Duration;

/// Configuration, from the environment of the program.
#[derive(Debug)]
pub(crate) struct Config {
    /// Where the server listens.
    pub(crate) path: Vec<u8>,
    /// How long a request waits for a server that is away.
    pub(crate) wait: Duration,
}
