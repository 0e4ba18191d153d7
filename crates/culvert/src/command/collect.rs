//! Everything that the daemon counts, asked at once.

use report::client::{Client, ClientError};
use report::{
    Apps, BfdSessions, Device, Drops, Limit, MeasuredPaths, Policy, Port, Request, Sa, Stats,
    Status, Steer,
};

/// How many of a kind are asked for one by one; of more there are the sums alone.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// SAs per answer, at most.
    pub sas: usize,
    /// Policies per answer, at most.
    pub policies: usize,
}

/// Answers of the daemon.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    pub status: Status,
    pub stats: Stats,
    pub drops: Drops,
    pub ports: Vec<Port>,
    pub devices: Vec<Device>,
    pub apps: Apps,
    /// The first of them.
    pub limits: Vec<Limit>,
    /// The first of them, and the reflector.
    pub paths: MeasuredPaths,
    /// Rules of path selection.
    pub steers: Vec<Steer>,
    /// The first of them, and the connection to `bfdd`.
    pub bfd: BfdSessions,
    /// None if there are too many.
    pub sas: Option<Vec<Sa>>,
    /// None if there are too many.
    pub policies: Option<Vec<Policy>>,
}

/// Asks a daemon.
pub fn collect(daemon: &Client, limits: Limits) -> Result<Seen, ClientError> {
    let status: Status = daemon.ask(Request::Status)?;
    let sas = (status.sas <= limits.sas)
        .then(|| daemon.ask(Request::Sa { show_keys: false, spi: None }))
        .transpose()?;
    let policies =
        (status.policies <= limits.policies).then(|| daemon.ask(Request::Policy)).transpose()?;
    let mut rate_limits: Vec<Limit> = daemon.ask(Request::Limits)?;
    rate_limits.truncate(MOST_RATE_LIMITS);
    let mut paths: MeasuredPaths = daemon.ask(Request::Path)?;
    paths.paths.truncate(MOST_PATHS);
    let mut bfd: BfdSessions = daemon.ask(Request::Bfd)?;
    bfd.sessions.truncate(MOST_BFD);
    Ok(Seen {
        status,
        stats: daemon.ask(Request::Stats)?,
        drops: daemon.ask(Request::Drops)?,
        ports: daemon.ask(Request::Port)?,
        devices: daemon.ask(Request::Device)?,
        apps: daemon.ask(Request::App { recent: 0 })?,
        limits: rate_limits,
        paths,
        steers: daemon.ask(Request::Steer)?,
        bfd,
        sas,
        policies,
    })
}

/// Sessions of paths that are told one by one: those that stand first in the configuration.
const MOST_PATHS: usize = 500;

/// Sessions of BFD that are told one by one: those of the lowest discriminators.
const MOST_BFD: usize = 500;

/// Rate limits that are told one by one: those that stand first in the configuration.
const MOST_RATE_LIMITS: usize = 500;
