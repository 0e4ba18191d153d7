//! Arguments of `culvert path`.

use clap::Args;

/// Below the help.
pub const EXAMPLES: &str = "Examples:\n  \
    culvert path\n  \
    culvert path hq-fibre --json\n  \
    watch -n 1 culvert path";

/// Arguments of `culvert path`.
#[derive(Debug, Args)]
pub struct PathArgs {
    /// Only this one.
    #[arg(value_name = "NAME")]
    pub path: Option<String>,
}
