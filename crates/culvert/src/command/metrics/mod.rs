//! `culvert metrics`: what the daemon counts, for Prometheus.
//!
//! A client of the daemon's as every other command: the daemon listens to nobody else for it, and pays for a
//! scrape what it pays for the commands that show the same. Where it is served, the process gives up all that serving
//! does not need before it reads a byte from anybody.

mod accept;
mod bfd;
mod families;
mod latency;
mod limits;
mod paths;
mod rows;
mod serve;
mod text;

use std::error::Error;
use std::sync::Arc;

use report::client::Client;

use super::collect::{Limits, collect};
use super::http::{self, Fault, Status};
use crate::cli::{Listen, MetricsArgs};
use serve::Scrapes;

/// Prints what there is now, or serves it until it is stopped.
pub fn metrics(name: &str, json: bool, args: &MetricsArgs) -> Result<String, Box<dyn Error>> {
    let limits = Limits { sas: args.max_sas, policies: args.max_policies };
    match args.listen {
        None => {
            let openmetrics = families::exposition(&collect(&Client::control(name), limits)?)?;
            Ok(match (json, args.openmetrics) {
                (true, _) => text::json(&openmetrics),
                (false, true) => openmetrics,
                (false, false) => text::prometheus(&openmetrics),
            })
        }
        Some(address) if !address.ip().is_loopback() && !args.expose => Err(format!(
            "--listen {address}: metrics tell the addresses of tunnels, and anybody could ask; listen on \
             127.0.0.1, or add --expose"
        )
        .into()),
        Some(address) => {
            let socket = http::listen(&Listen::Tcp(address))?;
            http::become_server("metrics", &args.user)?;
            // To the one who starts it: where it serves.
            match json {
                true => println!("{}", serde_json::json!({ "url": format!("http://{address}/metrics") })),
                false => eprintln!("culvert metrics: http://{address}/metrics"),
            }
            let daemon = Client::reading(name);
            let names = http::Names::new(args.hosts.clone(), args.expose);
            let scrapes = Scrapes::new(names, move || scrape(&daemon, limits));
            http::serve("metrics", &socket, &Arc::new(scrapes))
        }
    }
}

/// Says why there are none, as while the daemon restarts.
fn scrape(daemon: &Client, limits: Limits) -> Result<String, Fault> {
    families::exposition(&collect(daemon, limits)?)
        .map_err(|error| Fault::new(Status::NO_DAEMON, error.to_string()))
}
