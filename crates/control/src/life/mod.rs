//! The life of the process: its rights, its limits, its end.

pub mod confinement;
pub mod detour;
pub mod end;
pub mod error;
pub mod limits;
pub mod log;
pub mod privileges;
pub mod reloads;
mod serve;
pub mod stop;
pub mod unprivileged;
pub mod watchdog;

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Instant;

use self::confinement::Confinement;
use self::detour::PastDaemon;
use self::end::End;
use self::reloads::Reloads;
use self::watchdog::Watchdog;
use crate::clock::Now;
use crate::plan::machine::Look;

/// The process: how it came, how it ends, and who watches it.
pub(super) struct Life {
    pub(super) config_path: PathBuf,
    /// Looks at the machine, for a plan.
    pub(super) look: Box<dyn Look>,
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
    /// When what failed is tried again.
    pub(super) retry_at: Instant,
    pub(super) started: Instant,
}

impl Life {
    /// A process that follows a file, with its two signals.
    pub(super) fn new(
        config_path: &Path,
        look: Box<dyn Look>,
        confinement: Confinement,
        (terminate, hang_ups): (UnixStream, UnixStream),
        (watchdog, past_daemon): (Option<Watchdog>, PastDaemon),
        now: Now,
    ) -> Life {
        Life {
            config_path: config_path.to_owned(),
            look,
            reloads: Reloads::new(config_path, now),
            ending: None,
            confinement,
            terminate,
            hang_ups,
            watchdog,
            past_daemon,
            retry_at: now.at,
            started: now.at,
        }
    }
}
