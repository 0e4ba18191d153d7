//! Why the daemon does not start, or ends: what is wrong, and what would be right.

use config::ConfigError;
use crypto::EngineError;
use guard::GuardError;
use thiserror::Error;
use vault::VaultError;

use crate::files::FileError;
use crate::plan::failure::StepError;
use crate::workers::{Death, WorkersError};

/// Why the daemon did not start, or ended.
#[derive(Debug, Error)]
pub enum StartError {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The user is not root.
    #[error(
        "the daemon needs root: it opens AF_XDP sockets, loads a BPF program and sets routes\n  \
         start it by systemd or sudo"
    )]
    NotRoot,
    /// Root, but not allowed what root usually is: a container.
    #[error(
        "missing {0}: a container or unit that limits capabilities must grant CAP_NET_ADMIN, \
         CAP_NET_RAW, CAP_BPF and CAP_PERFMON"
    )]
    Capabilities(String),
    /// Not root of a user namespace that has the network namespace.
    #[error(
        "--unprivileged needs CAP_NET_ADMIN over its own network namespace\n  start it as root of a \
         container that has --cap-add NET_ADMIN and /dev/net/tun, or of `unshare --user \
         --map-root-user --net --mount`"
    )]
    NotRootOfNamespace,
    /// The log filter is wrong.
    #[error("log.level = {level:?}: {reason}\n  write error, warn, info, debug or trace")]
    LogLevel {
        /// Level that was given.
        level: String,
        /// Reason, in a line.
        reason: String,
    },
    /// The runtime directory or a file in it cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// Another daemon has the instance, or its saved state cannot be used.
    #[error("{0}\n  {hint}", hint = vault_hint(.0))]
    Vault(#[from] VaultError),
    /// SAs of another source are left.
    #[error(
        "source = \"kernel\", and the vault holds SAs and policies of the built-in databases\n  \
         stop the IKE daemon that runs under culvert exec, then: culvert guard clear --name {0}"
    )]
    VaultInUse(String),
    /// No engine can be made.
    #[error("crypto.engine: {0}")]
    Engine(#[from] EngineError),
    /// No memory for packets.
    #[error("{0}\n  worker.frames = {frames} needs {mib} MiB", frames = .1, mib = .2)]
    Memory(io::UmemError, u32, u32),
    /// The private interface.
    #[error("{0}")]
    Tun(#[from] io::TunError),
    /// Linux's tables cannot be read.
    #[error("{0}{hint}", hint = mirror_hint(.0))]
    Mirror(#[from] mirror::Error),
    /// The guard cannot be set up.
    #[error("{0}")]
    Guard(#[from] GuardError),
    /// A socket, a thread, a descriptor.
    #[error("{what}: {source}{hint}", hint = system_hint(source))]
    System {
        /// Step that failed.
        what: String,
        /// Why it failed.
        source: std::io::Error,
    },
    /// A step of the way to the configuration.
    #[error("{0}{hint}", hint = step_hint(.0))]
    Step(#[from] StepError),
    /// A thread of the running daemon has died.
    #[error("{0}\n  this is a defect; protected traffic stays blocked until the next start")]
    WorkerDied(#[from] Death),
    /// The running daemon lost its workers while it changed them.
    #[error("{0}\n  while worker.cpus was changed")]
    WorkersLost(WorkersError),
    /// The running daemon lost its interface.
    #[error("somebody deleted the private interface (tun.interface): a new start makes it again")]
    InterfaceGone,
}

/// Name of the exhausted resource, where the system's own words do not say it.
fn system_hint(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::OutOfMemory | std::io::ErrorKind::WouldBlock => {
            "\n  memory or threads are short: see `ulimit -v` and `ulimit -u`, and the control \
             group's memory.max and pids.max"
        }
        _ => "",
    }
}

/// Name of the exhausted resource, where a thread cannot be made.
fn step_hint(error: &StepError) -> &'static str {
    match error {
        StepError::Vici(source) => system_hint(source),
        _ => "",
    }
}

/// Where Linux's settings cannot be written at all.
fn mirror_hint(error: &mirror::Error) -> &'static str {
    match error {
        mirror::Error::Setting { source, .. }
            if source.kind() == std::io::ErrorKind::ReadOnlyFilesystem =>
        {
            "\n  a container: mount /proc/sys/net at another place too, to be written, and name the \
             folder that it is in by CULVERT_PROC_SYS"
        }
        _ => "",
    }
}

/// Remedy for a fault of the vault.
fn vault_hint(error: &VaultError) -> &'static str {
    match error {
        VaultError::InUse { .. } => "another daemon runs under this name",
        VaultError::DamagedJournal { .. } | VaultError::DamagedLiveNumbers { .. } => {
            "what an earlier run saved cannot be read; `culvert guard clear` forgets it. That takes \
             the guard down too: until tunnels are negotiated anew, traffic leaves in clear unless \
             [guard] prefixes name it"
        }
        VaultError::Io { source, .. } => match source.kind() {
            std::io::ErrorKind::OutOfMemory => {
                "no memory for it: see `ulimit -v` (RLIMIT_AS) and the control group's memory.max"
            }
            std::io::ErrorKind::StorageFull => {
                "the file system is full: the vault of this instance needs some MiB there"
            }
            _ => "the state of this instance has to be kept there",
        },
        VaultError::NotPrivate { .. } | VaultError::TooLong { .. } => {
            "the state of this instance, keys among it, has to be kept there"
        }
    }
}

/// Names what failed.
pub fn system(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> StartError {
    let what = what.into();
    move |source| StartError::System { what, source }
}
