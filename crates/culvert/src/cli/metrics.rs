//! Arguments of `culvert metrics`.

use std::net::SocketAddr;

use clap::Args;

/// Below the help.
pub const EXAMPLES: &str = "Examples:\n  \
    culvert metrics                            once, as node_exporter's textfile collector takes it\n  \
    culvert metrics --listen 127.0.0.1:9633    for Prometheus to scrape http://127.0.0.1:9633/metrics";

/// Arguments of `culvert metrics`.
#[derive(Debug, Args)]
pub struct MetricsArgs {
    /// Serve them by HTTP at this address until stopped, and do not print them.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<SocketAddr>,
    /// Print OpenMetrics, and not Prometheus's text format. Who scrapes gets what its field Accept asks for.
    #[arg(long, conflicts_with = "listen")]
    pub openmetrics: bool,
    /// Allow an address that other hosts reach.
    #[arg(long, requires = "listen")]
    pub expose: bool,
    /// Answer to this name too, as where Prometheus scrapes gw.example:9633. Without it: to localhost and addresses
    /// alone, so that no page of another site can ask under a name of its own.
    #[arg(long = "host", value_name = "NAME", requires = "listen")]
    pub hosts: Vec<String>,
    /// Become this user, when root starts it. The daemon answers to the one that its `security.reader` names.
    #[arg(long, value_name = "USER", default_value = "culvert")]
    pub user: String,
    /// With more SAs than this no SA has series of its own, six each: there are the sums alone.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub max_sas: usize,
    /// The same for policies, two series each.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub max_policies: usize,
}
