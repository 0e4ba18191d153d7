//! Options of an examination.

use std::path::PathBuf;

/// Options of an examination, as the command line has them.
#[derive(Clone, Debug)]
pub struct Options {
    /// Path of the configuration file (TOML).
    pub config: PathBuf,
    /// Judges by what `culvert run --unprivileged` needs.
    pub unprivileged: bool,
    /// Does what mends findings and is safe.
    pub fix: bool,
    /// Does it without asking.
    pub yes: bool,
    /// Path of the preload library of `culvert exec`, or where it was looked for.
    pub preload: Result<PathBuf, String>,
}
