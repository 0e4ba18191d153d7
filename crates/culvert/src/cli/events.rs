//! Arguments of `culvert events`.

use clap::Args;

/// Arguments of `culvert events`.
#[derive(Debug, Args)]
pub struct EventsArgs {
    /// Only what is remembered, and no waiting.
    #[arg(long)]
    pub once: bool,
    /// Only what comes from now on.
    #[arg(long, conflicts_with = "once")]
    pub new: bool,
}
