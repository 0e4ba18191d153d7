//! `culvert metrics`: what the daemon counts, in the OpenMetrics format.
//!
//! A client of the daemon's as every other command: the daemon listens to nobody else for it, and pays for a
//! scrape what it pays for the commands that show the same.

mod families;
mod serve;

use std::error::Error;

use super::collect::{Limits, collect};
use crate::cli::MetricsArgs;

/// Prints what there is now, or serves it until it is stopped.
pub fn metrics(name: &str, args: &MetricsArgs) -> Result<String, Box<dyn Error>> {
    let limits = Limits { sas: args.max_sas, policies: args.max_policies };
    match args.listen {
        None => Ok(families::exposition(&collect(name, limits)?)?),
        Some(address) if !address.ip().is_loopback() && !args.expose => Err(format!(
            "--listen {address}: metrics tell the addresses of tunnels, and anybody could ask; listen on \
             127.0.0.1, or add --expose"
        )
        .into()),
        Some(address) => {
            serve::serve(address, || Ok(families::exposition(&collect(name, limits)?)?))?;
            Ok(String::new())
        }
    }
}
