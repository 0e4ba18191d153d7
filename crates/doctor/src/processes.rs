//! Programs: where they are, what they answer, which of them run.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a program may take. None of those that are asked works long.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where programs lie that the search path does not name.
const MORE_DIRS: [&str; 6] =
    ["/usr/sbin", "/sbin", "/usr/local/sbin", "/usr/lib/ipsec", "/usr/libexec/ipsec", "/usr/bin"];

/// The daemons that negotiate keys, as processes are called.
pub const IKE_DAEMONS: [&str; 3] = ["charon-systemd", "charon", "pluto"];

/// A running IKE daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IkeProcess {
    /// The program's name.
    pub name: String,
    /// Process id, as this PID namespace has it.
    pub pid: u32,
    /// The socket that its XFRM netlink goes to, if it was started by `culvert exec`.
    pub socket: Option<PathBuf>,
    /// The unit of systemd's that it runs in, if it does in one.
    pub unit: Option<String>,
}

impl IkeProcess {
    /// The command that ends it.
    pub fn stopped_by(&self) -> String {
        match &self.unit {
            Some(unit) => format!("systemctl stop {}", unit.trim_end_matches(".service")),
            None => format!("kill {}", self.pid),
        }
    }
}

impl std::fmt::Display for IkeProcess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let unit = self.unit.as_ref().map_or_else(String::new, |unit| format!(", {unit}"));
        write!(f, "{} (process {}{unit})", self.name, self.pid)
    }
}

/// The program's file, in the search path or where distributions put it.
pub fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs = std::env::split_paths(&path).chain(MORE_DIRS.map(PathBuf::from));
    dirs.map(|dir| dir.join(name)).find(|file| {
        let runs = |m: fs::Metadata| m.is_file() && m.permissions().mode() & 0o111 != 0;
        fs::metadata(file).is_ok_and(runs)
    })
}

/// Runs a program to its end and returns what it printed; it is killed when it takes too long.
///
/// # Errors
/// A text: not there, failed with its message, took too long. What it prints must fit a pipe
/// (64 KiB).
pub fn output(program: &Path, arguments: &[&str], input: &str) -> Result<String, String> {
    output_within(PATIENCE, program, arguments, input)
}

fn output_within(
    patience: Duration,
    program: &Path,
    arguments: &[&str],
    input: &str,
) -> Result<String, String> {
    let named = |what: &dyn std::fmt::Display| format!("{}: {what}", program.display());
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| named(&e))?;
    if let Some(mut stdin) = child.stdin.take() {
        // One that ends without reading says why itself.
        let _ = stdin.write_all(input.as_bytes());
    }
    let status = wait(&mut child, patience).map_err(|e| named(&e))?;
    let mut texts = [String::new(), String::new()];
    if let (Some(out), Some(err)) = (&mut child.stdout, &mut child.stderr) {
        out.read_to_string(&mut texts[0]).map_err(|e| named(&e))?;
        err.read_to_string(&mut texts[1]).map_err(|e| named(&e))?;
    }
    let [out, err] = texts;
    if status { Ok(out) } else { Err(named(&err.lines().next().unwrap_or("failed"))) }
}

/// Waits for the end, with patience; true for success.
fn wait(child: &mut Child, patience: Duration) -> std::io::Result<bool> {
    let deadline = Instant::now() + patience;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.success());
        }
        if Instant::now() >= deadline {
            child.kill()?;
            child.wait()?;
            return Err(std::io::ErrorKind::TimedOut.into());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// IKE daemons that run in this thread's network namespace.
pub fn ike_processes() -> Vec<IkeProcess> {
    ike_processes_beside("thread-self")
}

/// IKE daemons that run in the network namespace of a process, by its folder in `/proc`.
pub fn ike_processes_beside(process: &str) -> Vec<IkeProcess> {
    let here = fs::read_link(format!("/proc/{process}/ns/net")).ok();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut found: Vec<IkeProcess> = entries
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let directory = entry.path();
            let name = fs::read_to_string(directory.join("comm")).ok()?.trim_end().to_owned();
            let is_ike = IKE_DAEMONS.contains(&name.as_str());
            if !is_ike || here.is_none() || fs::read_link(directory.join("ns/net")).ok() != here {
                return None;
            }
            let environment = fs::read(directory.join("environ")).ok()?;
            let groups = fs::read_to_string(directory.join("cgroup")).unwrap_or_default();
            Some(IkeProcess { name, pid, socket: socket_of(&environment), unit: unit_of(&groups) })
        })
        .collect();
    found.sort_by_key(|process| process.pid);
    found
}

/// The socket that `culvert exec` named in a process's environment.
fn socket_of(environment: &[u8]) -> Option<PathBuf> {
    let value = environment
        .split(|&byte| byte == 0)
        .find_map(|entry| entry.strip_prefix(b"CULVERT_XFRM_SOCKET="))?;
    Some(PathBuf::from(std::ffi::OsStr::from_bytes(value)))
}

/// The unit of systemd's in what `/proc/PID/cgroup` says: `0::/system.slice/strongswan.service`.
fn unit_of(groups: &str) -> Option<String> {
    let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let name = path.rsplit('/').find(|part| part.ends_with(".service"))?;
    Some(name.to_owned())
}

/// Version by `swanctl --help`: `strongSwan 5.9.8 swanctl`.
pub fn strongswan_version(help: &str) -> Option<String> {
    let mut words = help.split_whitespace().skip_while(|word| *word != "strongSwan").skip(1);
    words.next().filter(|v| v.starts_with(|c: char| c.is_ascii_digit())).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_run_and_given_up_on() {
        let sh = find("sh").expect("every system has one");
        assert_eq!(output(&sh, &["-c", "cat"], "hello").unwrap(), "hello");
        let error = output(&sh, &["-c", "echo no >&2; exit 3"], "").unwrap_err();
        assert!(error.ends_with("sh: no"), "{error}");
        assert!(output(Path::new("/nonexistent"), &[], "").is_err());
        assert_eq!(find("no-such-program-anywhere"), None);
    }

    #[test]
    fn a_program_that_hangs_is_ended() {
        let sh = find("sh").expect("every system has one");
        let patience = Duration::from_millis(50);
        // Without an end of its own: if it were waited for, this test would not end either.
        let error = output_within(patience, &sh, &["-c", "exec sleep infinity"], "").unwrap_err();
        assert!(error.contains("timed out"), "{error}");
    }

    #[test]
    fn the_socket_comes_from_the_environment() {
        let environment = b"A=b\0CULVERT_XFRM_SOCKET=/run/culvert/x/xfrm.sock\0C=d\0";
        assert_eq!(socket_of(environment), Some("/run/culvert/x/xfrm.sock".into()));
        assert_eq!(socket_of(b"MY_CULVERT_XFRM_SOCKET=/x\0"), None);
        assert_eq!(socket_of(b""), None);
    }

    #[test]
    fn the_unit_comes_from_the_control_group() {
        let unit = unit_of("0::/system.slice/strongswan.service\n");
        assert_eq!(unit.as_deref(), Some("strongswan.service"));
        assert_eq!(unit_of("0::/user.slice/user-0.slice/session-1.scope\n"), None);
        assert_eq!(unit_of("12:pids:/system.slice/ssh.service\n0::/\n"), None);
    }

    #[test]
    fn versions() {
        let version = strongswan_version("strongSwan 5.9.8 swanctl\nusage:\n");
        assert_eq!(version.as_deref(), Some("5.9.8"));
        assert_eq!(strongswan_version("strongSwan swanctl"), None);
        assert_eq!(strongswan_version(""), None);
    }
}
