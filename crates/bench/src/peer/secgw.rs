//! The peer's process: started, stopped and continued, and asked what it has sent.

use core::time::Duration;
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Instant;

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv,
    send, socket_with,
};
use rustix::process::{Pid, Signal, kill_process};

use super::config::Files;
use crate::error::BenchError;
use crate::options::{Direction, Options};
use crate::timing::Timed;

/// A running peer, stopped but while it is measured.
pub(crate) struct Secgw {
    telemetry: OwnedFd,
    process: Process,
}

impl Secgw {
    /// Starts it on one core and waits until it answers.
    pub(crate) fn start(
        program: &Path,
        files: &Files,
        direction: Direction,
        cpu: usize,
        options: &Options<'_>,
    ) -> Result<Secgw, BenchError> {
        let prefix = format!("culvert-bench-{}", std::process::id());
        // The port whose packets have no ESP yet.
        let unprotected = match direction {
            Direction::Outbound => "0x2",
            Direction::Inbound => "0x1",
        };
        let log = File::create(files.log()).map_err(BenchError::system("write the peer's log"))?;
        let errors = log.try_clone().map_err(BenchError::system("write the peer's log"))?;
        let receive =
            format!("net_pcap0,rx_pcap={},infinite_rx=1", files.capture().to_string_lossy());
        let child = Command::new(program)
            .args(["-l", &cpu.to_string(), "-n", "4", "--in-memory", "--no-pci"])
            .args(["--file-prefix", &prefix])
            .args(["--vdev=crypto_aesni_mb0", &format!("--vdev={receive}")])
            .args(["--vdev=net_null0,no-rx=1", "--"])
            .args(["-p", "0x3", "-P", "--rxoffload=0x0", "--txoffload=0x0"])
            .args(files.uses_library().then_some("-l"))
            .args(["-u", unprotected])
            .arg(format!("--config=(0,0,{cpu}),(1,0,{cpu})"))
            .arg("-f")
            .arg(files.configuration())
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            .spawn()
            .map_err(BenchError::system(&format!("start {}", program.display())))?;
        let directory = Path::new("/var/run/dpdk").join(prefix);
        let path = directory.join("dpdk_telemetry.v2");
        let mut process = Process { child, directory };
        let deadline = Instant::now() + START_LIMIT;
        loop {
            options.check_stop()?;
            if let Some(telemetry) = try_connect(&path) {
                return Ok(Secgw { telemetry, process });
            }
            let ended = !matches!(process.child.try_wait(), Ok(None));
            if ended || Instant::now() > deadline {
                let log = fs::read_to_string(files.log()).unwrap_or_default();
                let lines: Vec<&str> = log.lines().collect();
                let last = lines.get(lines.len().saturating_sub(5)..).unwrap_or(&[]).join("\n  ");
                return Err(BenchError::Peer(format!("the peer does not start:\n  {last}")));
            }
            sleep(POLL);
        }
    }

    /// Runs it until packets flow, then stops it.
    pub(crate) fn warm_up(&mut self, options: &Options<'_>) -> Result<(), BenchError> {
        let deadline = Instant::now() + START_LIMIT;
        while self.sent()? < ENOUGH_PACKETS {
            options.check_stop()?;
            if Instant::now() > deadline {
                return Err(BenchError::Peer("the peer runs, but sends nothing".to_owned()));
            }
            sleep(POLL);
        }
        self.signal(Signal::STOP)
    }

    /// Runs it for a repetition's length, on the core that the calling thread is on too.
    pub(crate) fn measure(&mut self, options: &Options<'_>) -> Result<Timed, BenchError> {
        self.signal(Signal::CONT)?;
        sleep(SETTLE);
        let begun = Instant::now();
        let mut timed = Timed::within(options.patience);
        while timed.has_time(options.duration) {
            options.check_stop()?;
            timed.quiet_slice(|| self.slice())?;
            if timed.packets == 0 && begun.elapsed() > PATIENCE {
                return Err(BenchError::Peer("the peer has stopped to send".to_owned()));
            }
        }
        self.signal(Signal::STOP)?;
        Ok(timed)
    }

    /// Packets that it sends in a moment, and the time that it had of it.
    fn slice(&mut self) -> Result<(u64, Duration), BenchError> {
        // How long it has waited is known when it runs again.
        sleep(RESUME);
        let (from, waited_from, begun) = (self.sent()?, self.waited(), Instant::now());
        sleep(SLICE);
        let (to, waited_to, time) = (self.sent()?, self.waited(), begun.elapsed());
        // Time of the core that other processes took is not the peer's.
        let time = time.saturating_sub(waited_to.saturating_sub(waited_from));
        Ok((to.saturating_sub(from), time))
    }

    /// How long its worker has waited for the core so far.
    fn waited(&self) -> Duration {
        let path = format!("/proc/{}/schedstat", self.process.child.id());
        let text = fs::read_to_string(path).unwrap_or_default();
        let ns = text.split_whitespace().nth(1).and_then(|ns| ns.parse().ok());
        Duration::from_nanos(ns.unwrap_or(0))
    }

    /// Packets that it has sent.
    fn sent(&mut self) -> Result<u64, BenchError> {
        let failed = || BenchError::system("ask the peer's telemetry");
        send(&self.telemetry, b"/ethdev/stats,1", SendFlags::NOSIGNAL).map_err(failed())?;
        let mut buffer = vec![0; 1 << 16];
        let (len, _) =
            recv(&self.telemetry, buffer.as_mut_slice(), RecvFlags::empty()).map_err(failed())?;
        let answer: serde_json::Value = buffer
            .get(..len)
            .and_then(|text| serde_json::from_slice(text).ok())
            .unwrap_or_default();
        let packets = answer.get("/ethdev/stats").and_then(|stats| stats.get("opackets"));
        packets.and_then(serde_json::Value::as_u64).ok_or_else(|| {
            BenchError::Peer("the peer's telemetry does not tell what it sends".to_owned())
        })
    }

    fn signal(&self, signal: Signal) -> Result<(), BenchError> {
        kill_process(pid(&self.process.child), signal)
            .map_err(BenchError::system("signal the peer"))
    }
}

/// The process; ended when dropped.
struct Process {
    child: Child,
    /// Where it has its socket.
    directory: PathBuf,
}

impl Drop for Process {
    /// Asks it to end, and insists after a while.
    fn drop(&mut self) {
        let pid = pid(&self.child);
        // Errors are ignored: the wait below sees if it has ended.
        let _ = kill_process(pid, Signal::INT);
        let _ = kill_process(pid, Signal::CONT);
        let deadline = Instant::now() + END_LIMIT;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            sleep(POLL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        // Files that it leaves, and no other process uses: the name has our process's number.
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn pid(child: &Child) -> Pid {
    Pid::from_child(child)
}

/// Connects to the telemetry socket, which greets first; `None` if it is not there yet.
fn try_connect(path: &Path) -> Option<OwnedFd> {
    let address = SocketAddrUnix::new(path).ok()?;
    let kind = SocketType::SEQPACKET;
    let socket = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).ok()?;
    connect(&socket, &address).ok()?;
    let mut greeting = vec![0; 1 << 14];
    recv(&socket, greeting.as_mut_slice(), RecvFlags::empty()).ok()?;
    Some(socket)
}

/// How long it may take until it answers, and until packets flow.
const START_LIMIT: Duration = Duration::from_secs(30);
/// How long it may take to end: who interrupts does not want to wait.
const END_LIMIT: Duration = Duration::from_millis(500);
const POLL: Duration = Duration::from_millis(20);
/// From its continuation until it is measured.
const SETTLE: Duration = Duration::from_millis(20);
/// So short that who works beside the core mostly stays, or stays away.
const SLICE: Duration = Duration::from_millis(4);
const RESUME: Duration = Duration::from_micros(300);
/// How long it may send nothing.
const PATIENCE: Duration = Duration::from_secs(1);
/// Packets after which its caches are warm.
const ENOUGH_PACKETS: u64 = 50_000;
