//! The life of the process: its rights, its limits, its end.

pub mod confinement;
pub mod detour;
pub mod end;
pub mod error;
pub mod examine;
pub mod limits;
pub mod log;
pub mod privileges;
pub mod reloads;
mod serve;
pub mod stop;
pub mod unprivileged;
pub mod watchdog;

use std::os::unix::net::UnixStream;
use std::time::Instant;

use self::confinement::Confinement;
use self::detour::PastDaemon;
use self::end::End;
use self::reloads::Reloads;
use self::watchdog::Watchdog;

/// The process: how it came, how it ends, and who watches it.
pub(super) struct Life {
    pub(super) config_path: std::path::PathBuf,
    pub(super) reloads: Reloads,
    /// A reload has ended it.
    pub(super) ending: Option<End>,
    pub(super) confinement: Confinement,
    pub(super) terminate: UnixStream,
    pub(super) hang_ups: UnixStream,
    /// The service manager's, if it has one.
    pub(super) watchdog: Option<Watchdog>,
    /// Leads what Linux sends past this daemon while it hangs, where Linux can carry on.
    pub(super) past_daemon: PastDaemon,
    pub(super) retry_at: Instant,
    pub(super) started: Instant,
}
