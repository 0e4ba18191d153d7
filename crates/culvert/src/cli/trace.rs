//! Arguments of `culvert trace`.

use clap::Args;

use super::FilterArgs;

/// Below the help.
pub const EXAMPLES: &str = "Examples:\n  \
    culvert trace --host 10.2.0.9 --proto tcp --dport 443\n  \
    culvert trace --drops -c 5\n  \
    culvert trace --interface lan --duration 10 --json";

/// Arguments of `culvert trace`.
#[derive(Debug, Args)]
pub struct TraceArgs {
    /// End after so many packets; one that is protected or decrypted counts twice.
    #[arg(long, short = 'c', value_name = "N", default_value_t = 20,
        value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub count: u64,
    /// End after so many seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub duration: u64,
    #[command(flatten)]
    pub filter: FilterArgs,
}
