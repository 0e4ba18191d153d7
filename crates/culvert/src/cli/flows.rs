//! Arguments of `culvert flows`.

use clap::Args;

use super::FilterArgs;
use super::top::parse_interval;

/// Below the help.
pub const EXAMPLES: &str = "Examples:\n  \
    culvert flows\n  \
    culvert flows --spi 0xc1a2b3c4\n  \
    culvert flows --drops --interval 10\n  \
    culvert flows --application zoom --path fibre\n  \
    culvert flows --follow --json";

/// Arguments of `culvert flows`.
#[derive(Debug, Args)]
pub struct FlowsArgs {
    /// Seconds for which packets are counted.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = parse_interval)]
    pub interval: f64,
    /// Go on, interval after interval, until interrupted.
    #[arg(long, short = 'f')]
    pub follow: bool,
    /// Tell so many flows, those that carry the most; of the others their packets in all.
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub max: usize,
    /// Only flows of this application, as `culvert app` names it.
    #[arg(long, value_name = "NAME")]
    pub application: Option<String>,
    /// Only flows that leave by this path, as `culvert path` names it.
    #[arg(long, value_name = "NAME")]
    pub path: Option<String>,
    #[command(flatten)]
    pub filter: FilterArgs,
}
