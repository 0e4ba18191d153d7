//! Arguments of `culvert nat`.

use clap::Args;

/// Arguments of `culvert nat`.
#[derive(Debug, Args)]
pub struct NatArgs {
    /// Tell so many connections at most.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub max: usize,
    /// Those that stay as they are, too.
    #[arg(long, short = 'a')]
    pub all: bool,
}
