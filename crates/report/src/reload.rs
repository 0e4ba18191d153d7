//! `culvert reload`, and what is told of the configuration file that counts.

use serde::{Deserialize, Serialize};

use config::Problem;

/// Result of a reload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reloaded {
    /// The file counts; otherwise nothing of it does.
    pub reloaded: bool,
    /// Where the file that was read is.
    pub file: String,
    /// Problems of the file.
    pub problems: Vec<Problem>,
    /// Step that failed, though nothing was wrong with the file: all was undone.
    pub failed: Option<String>,
    /// Settings that have no effect, or not yet.
    pub warnings: Vec<Problem>,
    /// Keys that take effect only with a restart.
    pub waits_for_restart: Vec<String>,
}

/// The configuration that a daemon runs with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Configuration {
    /// Where its file is.
    pub file: String,
    /// When the file was last taken, at the start or by a reload, in milliseconds since 1970.
    pub taken_ms: u64,
    /// Reloads that were taken since the start.
    pub reloads: u64,
    /// Reloads that were refused since the start.
    pub refused: u64,
    /// The last reload, if it was refused.
    pub refusal: Option<Refusal>,
    /// Keys whose values in the file take effect only with a restart.
    pub waits_for_restart: Vec<String>,
}

/// A reload that was refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// When, in milliseconds since 1970.
    pub time_ms: u64,
    /// Why, in a line.
    pub why: String,
}
