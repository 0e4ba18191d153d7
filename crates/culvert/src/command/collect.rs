//! Everything that the daemon counts, asked at once.

use crate::client::{ClientError, ask};
use crate::report::{Device, Drops, Limit, Policy, Port, Request, Sa, Stats, Status};

/// How many of a kind are asked for one by one; of more there are the sums alone.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// SAs.
    pub sas: usize,
    /// Policies.
    pub policies: usize,
}

/// What the daemon said.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    pub status: Status,
    pub stats: Stats,
    pub drops: Drops,
    pub ports: Vec<Port>,
    pub devices: Vec<Device>,
    /// The first of them.
    pub limits: Vec<Limit>,
    /// None if there are too many.
    pub sas: Option<Vec<Sa>>,
    /// None if there are too many.
    pub policies: Option<Vec<Policy>>,
}

/// Asks a daemon.
pub fn collect(name: &str, limits: Limits) -> Result<Seen, ClientError> {
    let status: Status = ask(name, Request::Status)?;
    let sas = (status.sas <= limits.sas)
        .then(|| ask(name, Request::Sa { show_keys: false, spi: None }))
        .transpose()?;
    let policies =
        (status.policies <= limits.policies).then(|| ask(name, Request::Policy)).transpose()?;
    let mut rate_limits: Vec<Limit> = ask(name, Request::Limits)?;
    rate_limits.truncate(MOST_RATE_LIMITS);
    Ok(Seen {
        status,
        stats: ask(name, Request::Stats)?,
        drops: ask(name, Request::Drops)?,
        ports: ask(name, Request::Port)?,
        devices: ask(name, Request::Device)?,
        limits: rate_limits,
        sas,
        policies,
    })
}

/// Rate limits that are told one by one: those that stand first in the configuration.
const MOST_RATE_LIMITS: usize = 500;
