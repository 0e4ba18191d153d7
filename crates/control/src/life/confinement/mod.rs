//! Confinement: filters of seccomp on what the daemon may ask of the kernel, which nobody can take off again.
//!
//! | threads | may not | then |
//! | --- | --- | --- |
//! | all, and programs that they start | what only an attacker does ([`calls::HOSTILE`]) | the process is killed: the guard stands, and the next start takes up all SAs |
//! | | what culvert has no use for ([`calls::REFUSED`]), namespaces included | EPERM |
//! | those that talk to commands (`culvert-ctl`, `culvert-read`, captures) | start programs, too | EPERM |
//! | workers and crypto threads | all but what moves packets ([`calls::PACKETS`]) | ENOSYS |
//! | the one that asks charon (`culvert-vici`) | all but the same, and to connect to Unix sockets | ENOSYS |
//! | those of `culvert web` and `culvert metrics` | all but what serves ([`calls::SERVING`]) | ENOSYS |
//!
//! A call that is forbidden fails and ends nothing, where it may be a library's new way to do what it always did: no
//! update of the C library is to end a gateway. ENOSYS says that the kernel has no such call; then such a library
//! takes the call that it took before. For threads that start `nft` and `iptables-save` what is forbidden is
//! listed, and not what is allowed, because those programs keep the filters and change with their packages.
//!
//! The filters of all threads are installed before a thread is made, as capabilities are dropped: so each that comes
//! later has them, and everything that a daemon does in its life has been tried under them. Threads share their
//! memory, and code that has got into one may get at another: what holds an attacker are the first two rows; the
//! others take the direct way from him.

mod calls;

use std::collections::BTreeMap;
use std::env::consts::ARCH;
use std::fmt;
use std::sync::Arc;

use seccompiler::{
    BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, apply_filter,
};
use tracing::warn;

/// How far a daemon is confined. Each of its threads has one.
#[derive(Clone, Debug)]
pub enum Confinement {
    /// Confined by filters.
    Filtered(Arc<Filters>),
    /// Not at all, by its configuration.
    Off,
    /// Not at all: why there are no filters.
    Missing(String),
}

impl Confinement {
    /// Confines this thread and all that it will start, if it is to be.
    pub fn begin(is_wanted: bool) -> Confinement {
        if !is_wanted {
            return Confinement::Off;
        }
        let installed = Filters::new().and_then(|filters| {
            filters.of_all.iter().try_for_each(|filter| apply_filter(filter))?;
            Ok(filters)
        });
        match installed {
            Ok(filters) => Confinement::Filtered(Arc::new(filters)),
            Err(error) => Confinement::Missing(reason(&error)),
        }
    }

    /// Leaves this thread what moves packets.
    pub fn for_packets(&self) {
        self.more(|filters| &filters.of_packets);
    }

    /// Keeps this thread, and all that it will start, from starting programs.
    pub fn for_clients(&self) {
        self.more(|filters| &filters.of_clients);
    }

    /// Leaves this thread what moves packets, and connecting to Unix sockets.
    pub fn for_vici(&self) {
        self.more(|filters| &filters.of_vici);
    }

    fn more(&self, filter: impl FnOnce(&Filters) -> &BpfProgram) {
        if let Confinement::Filtered(filters) = self
            && let Err(error) = apply_filter(filter(filters))
        {
            warn!(%error, "a thread is confined no more than all are");
        }
    }

    /// Warning for the operator.
    pub fn warning(&self) -> Option<String> {
        match self {
            Confinement::Filtered(_) => None,
            Confinement::Off => {
                Some("security.seccomp = false: no system call is forbidden".into())
            }
            Confinement::Missing(_) => Some(format!("seccomp: {self}")),
        }
    }
}

impl fmt::Display for Confinement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Confinement::Filtered(_) => f.write_str("on"),
            Confinement::Off => f.write_str("off, by the configuration"),
            Confinement::Missing(why) => write!(f, "off, {why}"),
        }
    }
}

fn reason(error: &Error) -> String {
    match error {
        Error::Seccomp(e) if matches!(e.raw_os_error(), Some(libc::ENOSYS | libc::EINVAL)) => {
            "this kernel has none (CONFIG_SECCOMP_FILTER)".into()
        }
        other => other.to_string(),
    }
}

/// Leaves this process, and all threads that it will start, what serving by HTTP needs: no file is opened, no program is
/// started, and no connection is made but to Unix sockets.
///
/// # Errors
/// Why there are no filters.
pub fn confine_server() -> Result<(), String> {
    let installed = server_filter().and_then(|filter| apply_filter(&filter));
    installed.map_err(|error| reason(&error))
}

fn server_filter() -> Result<BpfProgram, Error> {
    let calls = calls::PACKETS.iter().chain(calls::SERVING);
    let mut allowed: Rules = calls.map(|call| (*call, Vec::new())).collect();
    let is = |argument, operator, value| {
        let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)?;
        Ok::<_, Error>(vec![SeccompRule::new(vec![condition])?])
    };
    let thread = libc::CLONE_THREAD as u64;
    allowed.insert(libc::SYS_clone, is(0, SeccompCmpOp::MaskedEq(thread), thread)?);
    allowed.insert(calls::ASKING, is(0, SeccompCmpOp::Eq, libc::AF_UNIX as u64)?);
    // ENOSYS of clone3(2) has the C library take clone(2), whose flags can be looked at.
    let missing = SeccompAction::Errno(libc::ENOSYS as u32);
    compile(allowed, missing, SeccompAction::Allow)
}

/// Compiled once, so that no thread finds an error in them later.
#[derive(Debug)]
pub struct Filters {
    of_all: [BpfProgram; 3],
    of_clients: BpfProgram,
    of_packets: BpfProgram,
    of_vici: BpfProgram,
}

impl Filters {
    fn new() -> Result<Filters, Error> {
        let refuse = || SeccompAction::Errno(libc::EPERM as u32);
        let missing = || SeccompAction::Errno(libc::ENOSYS as u32);
        let mut refused = listed(calls::REFUSED);
        for number in calls::numbers(libc::SYS_clone) {
            refused.insert(number, namespaces()?);
        }
        let of_all = [
            forbid(listed(calls::HOSTILE), SeccompAction::KillProcess)?,
            forbid(refused, refuse())?,
            // The C library then takes clone(2), whose flags can be looked at.
            forbid(listed(&[calls::CLONE3]), missing())?,
        ];
        let of_clients = forbid(listed(calls::PROGRAMS), refuse())?;
        let mut allowed: Rules = calls::PACKETS.iter().map(|call| (*call, Vec::new())).collect();
        let of_packets = compile(allowed.clone(), missing(), SeccompAction::Allow)?;
        let unix = libc::AF_UNIX as u64;
        let is_unix = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, unix)?;
        allowed.insert(calls::ASKING, vec![SeccompRule::new(vec![is_unix])?]);
        allowed.insert(libc::SYS_connect, Vec::new());
        let of_vici = compile(allowed, missing(), SeccompAction::Allow)?;
        Ok(Filters { of_all, of_clients, of_packets, of_vici })
    }
}

/// Calls, and which of each; without a rule all.
type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn listed(calls: &[i64]) -> Rules {
    calls.iter().flat_map(|call| calls::numbers(*call)).map(|n| (n, Vec::new())).collect()
}

fn namespaces() -> Result<Vec<SeccompRule>, Error> {
    let rule = |flag: &i32| {
        let flag = *flag as u64;
        let is_set = SeccompCmpOp::MaskedEq(flag);
        let condition = SeccompCondition::new(0, SeccompCmpArgLen::Qword, is_set, flag)?;
        Ok(SeccompRule::new(vec![condition])?)
    };
    calls::NAMESPACES.iter().map(rule).collect()
}

fn forbid(rules: Rules, then: SeccompAction) -> Result<BpfProgram, Error> {
    compile(rules, SeccompAction::Allow, then)
}

fn compile(rules: Rules, others: SeccompAction, these: SeccompAction) -> Result<BpfProgram, Error> {
    Ok(SeccompFilter::new(rules, others, these, ARCH.try_into()?)?.try_into()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;
    use std::thread;

    /// Fate of a program that makes one system call: its errno, 0 if there is none, or the signal that
    /// killed it.
    fn call(number: i64, argument: i64) -> Result<i32, i32> {
        let text = format!("exit(syscall({number}, {argument}, 0, 0, 0, 0) == -1 ? $! + 0 : 0)");
        let status = Command::new("perl").args(["-e", &text]).status().unwrap();
        status.code().ok_or_else(|| status.signal().unwrap())
    }

    /// Runs something on a thread that is confined, which leaves the other tests free.
    fn confined(work: impl FnOnce(&Confinement) + Send + 'static) {
        let thread = thread::spawn(|| {
            let confinement = Confinement::begin(true);
            assert!(matches!(confinement, Confinement::Filtered(_)), "{confinement}");
            work(&confinement);
        });
        thread.join().unwrap();
    }

    const ASK: i64 = 0xffff_ffff;

    #[test]
    fn hostile_calls_kill_and_others_are_refused() {
        // This one says something, and changes nothing.
        assert_eq!(call(libc::SYS_personality, ASK), Ok(0));
        confined(|_| {
            assert_eq!(call(libc::SYS_personality, ASK), Ok(libc::EPERM));
            assert_eq!(call(libc::SYS_getpid, 0), Ok(0));
            for hostile in calls::HOSTILE.iter().flat_map(|call| calls::numbers(*call)) {
                assert_eq!(call(hostile, 0), Err(libc::SIGSYS), "{hostile:#x}");
            }
            for refused in calls::REFUSED.iter().flat_map(|call| calls::numbers(*call)) {
                assert_eq!(call(refused, 0), Ok(libc::EPERM), "{refused:#x}");
            }
            for flag in calls::NAMESPACES {
                assert_eq!(call(libc::SYS_clone, i64::from(*flag)), Ok(libc::EPERM), "{flag:#x}");
            }
            assert_eq!(call(calls::CLONE3, 0), Ok(libc::ENOSYS));
            // Those that come later have them too.
            thread::spawn(|| assert_eq!(call(libc::SYS_personality, ASK), Ok(libc::EPERM)))
                .join()
                .unwrap();
        });
        assert_eq!(call(libc::SYS_personality, ASK), Ok(0));
    }

    #[test]
    fn who_talks_to_clients_starts_no_program() {
        confined(|confinement| {
            assert!(Command::new("true").status().unwrap().success());
            confinement.for_clients();
            let start = || Command::new("true").status().unwrap_err().raw_os_error();
            assert_eq!(start(), Some(libc::EPERM));
            assert_eq!(thread::spawn(start).join().unwrap(), Some(libc::EPERM));
            assert!(std::fs::read("/proc/self/status").is_ok());
        });
    }

    #[test]
    fn who_moves_packets_opens_nothing() {
        confined(|confinement| {
            confinement.for_packets();
            let none = |e: io::Error| e.raw_os_error() == Some(libc::ENOSYS);
            assert!(std::fs::read("/proc/self/status").is_err_and(none));
            assert!(std::net::UdpSocket::bind("127.0.0.1:0").is_err_and(none));
            assert!(Command::new("true").status().is_err_and(none));
            assert!(thread::Builder::new().spawn(|| ()).is_err());
            // Memory, sleep and the log go on.
            let memory: Vec<u8> = vec![1; 64 << 20];
            thread::sleep(std::time::Duration::from_millis(1));
            eprintln!("{}", memory.iter().filter(|byte| **byte == 1).count());
        });
    }

    #[test]
    fn who_asks_charon_connects_to_unix_sockets_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let unix = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = tcp.local_addr().unwrap();
        confined(move |confinement| {
            confinement.for_vici();
            let none = |e: io::Error| e.raw_os_error() == Some(libc::ENOSYS);
            assert!(std::fs::read("/proc/self/status").is_err_and(none));
            assert!(std::net::TcpStream::connect(address).is_err_and(none));
            assert!(std::os::unix::net::UnixListener::bind("/nonexistent/s").is_err_and(none));
            assert!(Command::new("true").status().is_err_and(none));
            assert!(thread::Builder::new().spawn(|| ()).is_err());
            std::os::unix::net::UnixStream::connect(path).unwrap();
        });
        unix.accept().unwrap();
    }

    #[test]
    fn who_serves_opens_nothing_and_connects_to_unix_sockets_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let unix = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = tcp.local_addr().unwrap();
        let waiting = std::net::TcpStream::connect(address).unwrap();
        let (done, is_done) = std::sync::mpsc::channel();
        // It has filters of its own from here on.
        thread::spawn(move || {
            confine_server().unwrap();
            let none = |e: io::Error| e.raw_os_error() == Some(libc::ENOSYS);
            assert!(std::fs::read("/proc/self/status").is_err_and(none));
            assert!(std::fs::read_dir("/").is_err_and(none));
            assert!(std::net::TcpStream::connect(address).is_err_and(none));
            assert!(std::net::UdpSocket::bind("127.0.0.1:0").is_err_and(none));
            assert!(Command::new("true").status().is_err());
            // A connection is accepted, by a thread of its own, and the daemon asked.
            let served = thread::Builder::new().spawn(move || {
                let (mut client, _) = tcp.accept().unwrap();
                io::Write::write_all(&mut client, b"x").unwrap();
                std::os::unix::net::UnixStream::connect(path).unwrap();
            });
            served.unwrap().join().unwrap();
            done.send(()).unwrap();
        });
        is_done.recv_timeout(std::time::Duration::from_secs(20)).unwrap();
        unix.accept().unwrap();
        drop(waiting);
    }

    #[test]
    fn what_is_off_is_said() {
        let off = Confinement::begin(false);
        assert!(off.warning().unwrap().contains("security.seccomp = false"));
        off.for_packets();
        off.for_clients();
        assert_eq!(call(libc::SYS_personality, ASK), Ok(0));
        let missing = Confinement::Missing("no filters".into());
        assert_eq!(missing.warning().unwrap(), "seccomp: off, no filters");
        let error = Error::Seccomp(io::Error::from_raw_os_error(libc::ENOSYS));
        assert!(reason(&error).contains("CONFIG_SECCOMP_FILTER"));
        let error = Error::Seccomp(io::Error::from_raw_os_error(libc::EPERM));
        assert!(reason(&error).contains("not permitted"));
    }
}
