//! Arguments of `culvert app`.

use clap::Args;

/// Arguments of `culvert app`.
#[derive(Debug, Args)]
pub struct AppArgs {
    /// Show the last N verdicts, each with its flow and host, instead of counts.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub recent: usize,
}
