//! `culvert exec`: a program whose NETLINK_XFRM sockets go to culvert.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use doctor::processes::{IKE_DAEMONS, IkeProcess, ike_processes};
use report::{client, paths};
use thiserror::Error;

use crate::cli::ExecArgs;

/// The preload library's file name.
const LIBRARY: &str = "libculvert_preload.so";

/// Where packages put it, when it does not lie beside the binary.
const LIBRARY_DIRS: [&str; 3] = ["/usr/lib/culvert", "/usr/local/lib/culvert", MULTIARCH_DIR];

/// Debian's, of this architecture.
#[cfg(target_arch = "aarch64")]
const MULTIARCH_DIR: &str = "/usr/lib/aarch64-linux-gnu/culvert";
#[cfg(not(target_arch = "aarch64"))]
const MULTIARCH_DIR: &str = "/usr/lib/x86_64-linux-gnu/culvert";

/// Why a program was not started.
#[derive(Debug, Error)]
pub enum ExecError {
    /// The preload library is nowhere.
    #[error(
        "the preload library {LIBRARY} was not found in {searched}\n  build it with `make build`, \
         or name it with --preload or CULVERT_PRELOAD"
    )]
    NoLibrary {
        /// Places that were searched.
        searched: String,
    },
    /// The program cannot be started.
    #[error("{program}: {source}")]
    Start {
        /// Path of the program.
        program: String,
        /// The kernel's answer.
        source: io::Error,
    },
}

/// As the preload library waits for the daemon at each request, unless told otherwise.
const WAIT: &str = "30 s (CULVERT_XFRM_WAIT) at each request";

/// How long a daemon may take that was started just before, until it is said that there is none.
const GRACE: Duration = Duration::from_secs(1);

/// Replaces this process by the program. Returns only on failure.
pub fn exec(name: &str, args: &ExecArgs) -> ExecError {
    let library = match find_library(args.preload.as_deref()) {
        Ok(library) => library,
        Err(error) => return error,
    };
    let (program, rest) = match args.program.split_first() {
        Some(split) => split,
        None => {
            return ExecError::Start {
                program: String::new(),
                source: io::ErrorKind::InvalidInput.into(),
            };
        }
    };
    let mut preload = library.into_os_string();
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|v| !v.is_empty()) {
        preload.push(":");
        preload.push(others);
    }
    if is_ike_daemon(program) {
        for other in ike_processes() {
            eprintln!("culvert: {}", second_daemon(&other, name));
        }
    }
    if let Some(why) = client::silence(name, GRACE) {
        eprintln!("culvert: {why}\n  {} waits for a daemon, up to {WAIT}", display(program));
    }
    let source = Command::new(program)
        .args(rest)
        .env("LD_PRELOAD", preload)
        .env("CULVERT_XFRM_SOCKET", paths::xfrm_socket(name))
        .exec();
    ExecError::Start { program: display(program), source }
}

fn is_ike_daemon(program: &OsString) -> bool {
    let file = Path::new(program).file_name().and_then(|name| name.to_str());
    file.is_some_and(|name| IKE_DAEMONS.contains(&name))
}

/// Warning where an IKE daemon runs already: two of them share UDP 500 and the control socket, and
/// either may get packets and commands for the other.
fn second_daemon(other: &IkeProcess, name: &str) -> String {
    let led = match &other.socket {
        None => "past culvert",
        Some(socket) if *socket == paths::xfrm_socket(name) => "with this culvert",
        Some(_) => "with another culvert",
    };
    format!(
        "{other} runs in this network namespace already, {led}: two IKE daemons take each other's messages\n  \
         {} first",
        other.stopped_by()
    )
}

fn display(program: &OsString) -> String {
    program.to_string_lossy().into_owned()
}

/// The preload library: the one that is named, or the first that is where it belongs.
///
/// # Errors
/// [`ExecError::NoLibrary`] lists the places.
fn find_library(named: Option<&Path>) -> Result<PathBuf, ExecError> {
    let beside = std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.to_owned()));
    let candidates: Vec<PathBuf> = match named {
        Some(path) => vec![path.to_owned()],
        None => beside
            .into_iter()
            .chain(LIBRARY_DIRS.map(PathBuf::from))
            .map(|dir| dir.join(LIBRARY))
            .collect(),
    };
    // The dynamic linker takes a relative path as relative to wherever the program goes.
    let found = candidates.iter().find_map(|path| path.canonicalize().ok());
    found.ok_or_else(|| ExecError::NoLibrary {
        searched: candidates.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(", "),
    })
}

/// The preload library as [`exec`] finds it when only the environment names it, or where it was looked for.
pub fn named_library() -> Result<PathBuf, String> {
    let named = std::env::var_os("CULVERT_PRELOAD").map(PathBuf::from);
    find_library(named.as_deref()).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_ike_daemon_is_named_with_what_ends_the_first() {
        let unit = Some("strongswan.service".to_owned());
        let other = IkeProcess { name: "charon-systemd".into(), pid: 812, socket: None, unit };
        let text = second_daemon(&other, "default");
        assert!(text.starts_with("charon-systemd (process 812, strongswan.service) runs in this"));
        assert!(text.contains("past culvert") && text.ends_with("systemctl stop strongswan first"));
        let socket = Some(paths::xfrm_socket("default"));
        let text = second_daemon(&IkeProcess { socket, unit: None, ..other }, "default");
        assert!(text.contains("with this culvert") && text.ends_with("kill 812 first"), "{text}");
    }

    #[test]
    fn only_ike_daemons_are_alone() {
        assert!(
            is_ike_daemon(&"/usr/sbin/charon-systemd".into()) && is_ike_daemon(&"pluto".into())
        );
        assert!(!is_ike_daemon(&"ip".into()) && !is_ike_daemon(&"/".into()));
    }
}
