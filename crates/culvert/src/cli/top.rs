//! Arguments of `culvert top`.

use clap::Args;

/// Below the help.
pub const KEYS: &str = "Keys:\n  \
    1 to 7, Tab    overview, SAs, policies, drops, flows, paths, applications\n  \
    Up, Down       choose a line; Enter shows all that belongs to it, Esc goes back\n  \
    s, r           sort by the next column, the other way round\n  \
    /              show only lines with a text; Enter keeps it, Esc takes it away\n  \
    p              hold the picture\n  \
    ?              these keys, and what columns mean\n  \
    q              end";

/// Arguments of `culvert top`.
#[derive(Debug, Args)]
pub struct TopArgs {
    /// Print the rates of one interval, and end.
    #[arg(long)]
    pub once: bool,
    /// Seconds between two looks.
    #[arg(long, short = 'i', value_name = "SECONDS", default_value = "1", value_parser = parse_interval)]
    pub interval: f64,
    /// With more SAs or policies than this they are not listed.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub max: usize,
}

/// A number of seconds.
pub fn parse_interval(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("{text:?} is no number of seconds"))?;
    match (0.1..=3600.0).contains(&seconds) {
        true => Ok(seconds),
        false => Err("between 0.1 and 3600 seconds".into()),
    }
}
