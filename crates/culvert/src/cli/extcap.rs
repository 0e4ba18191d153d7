//! Arguments of `culvert extcap`: Wireshark's words, and those of its options.

use std::path::PathBuf;

use clap::Args;

use super::FilterArgs;

/// Arguments of `culvert extcap`.
#[derive(Debug, Args)]
pub struct ExtcapArgs {
    /// Tell the interfaces: one for each daemon that runs.
    #[arg(long)]
    pub extcap_interfaces: bool,
    /// Version of Wireshark that asks.
    #[arg(long, value_name = "VERSION", num_args = 0..=1, default_missing_value = "")]
    pub extcap_version: Option<String>,
    /// The interface that the rest is about.
    #[arg(long, value_name = "INTERFACE")]
    pub extcap_interface: Option<String>,
    /// Tell its link types.
    #[arg(long, requires = "extcap_interface")]
    pub extcap_dlts: bool,
    /// Tell its options.
    #[arg(long, requires = "extcap_interface")]
    pub extcap_config: bool,
    /// Wireshark's capture filter, of which only an empty one is understood.
    #[arg(long, value_name = "FILTER")]
    pub extcap_capture_filter: Option<String>,
    /// Capture packets, for Wireshark.
    #[arg(long, requires = "extcap_interface", requires = "fifo")]
    pub capture: bool,
    /// The pipe that Wireshark reads.
    #[arg(long, value_name = "FILE")]
    pub fifo: Option<PathBuf>,
    #[command(flatten)]
    pub filter: FilterArgs,
}
