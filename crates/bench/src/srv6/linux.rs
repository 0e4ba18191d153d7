//! Linux's own routes with segments, measured on the calling thread in a network namespace of its own.
//!
//! ```text
//!  write ── tap ── route (encap seg6, encap seg6local) ── veth ── its other end: not for this host, dropped
//! ```
//!
//! All of it runs on the core that writes. What a packet costs until it is received is measured with frames that are
//! for another host and go no further than that ([`Linux::sending`]), and is the caller's to subtract.

use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

use io::tun::{Tap, TapConfig};
use rustix::thread::UnshareFlags;

use super::case::{Case, DOMAIN, DOMAIN_LEN, LAST, REMOTE_LEN, SOURCE, headend};
use crate::error::BenchError;
use crate::options::{Direction, Options};
use crate::shape::Shape;
use crate::timing::Timed;
use crate::traffic::local_host;
use crate::world::{LOCAL, REMOTE};

/// The interfaces, addresses and routes of one thread's namespace.
pub(super) struct Linux {
    tap: Tap,
}

impl Linux {
    /// Makes a namespace, which ends with the calling thread, and what is in it.
    ///
    /// # Errors
    /// Why there is none: who may not make one, measures without.
    pub(super) fn new() -> Result<Linux, String> {
        #[expect(
            deprecated,
            reason = "a network namespace alone breaks no promise of the standard library"
        )]
        rustix::thread::unshare(UnshareFlags::NEWNET)
            .map_err(|e| format!("no network namespace: {e}"))?;
        for (name, value) in [("all/forwarding", "1"), ("default/accept_dad", "0")] {
            fs::write(format!("/proc/sys/net/ipv6/conf/{name}"), value)
                .map_err(|e| format!("net.ipv6.conf.{name}: {e}"))?;
        }
        let config = TapConfig { name: "bench-in".to_owned(), mtu: 1500, mac: Some(HERE) };
        let tap = Tap::open_lasting(&config).map_err(|e| e.to_string())?;
        let shape = Shape { v6: true, ..Shape::default() };
        let (local, host) = (shape.addr(LOCAL), shape.addr(local_host(0)));
        ip(&format!(
            "link set lo up\n\
             link add {OUT} type veth peer name {FAR}\n\
             link set {OUT} up\n\
             link set {FAR} up\n\
             address add {SOURCE}/128 dev lo\n\
             route add {DOMAIN}/{DOMAIN_LEN} via fe80::9 dev {OUT}\n\
             route add {local}/112 via fe80::9 dev {OUT}\n\
             neighbour add fe80::9 lladdr {ELSEWHERE} dev {OUT} nud permanent\n\
             route add {LAST}/128 encap seg6local action End.DX6 nh6 {host} dev {OUT}\n"
        ))?;
        Ok(Linux { tap })
    }

    /// A case, until the time is over.
    ///
    /// # Errors
    /// [`BenchError::Lost`] if not all packets have come to the far end.
    pub(super) fn repetition(
        &mut self,
        options: &Options<'_>,
        case: Case,
        size: usize,
    ) -> Result<Timed, BenchError> {
        let remote = Shape { v6: true, ..Shape::default() }.addr(REMOTE);
        if let (Direction::Outbound, Some(headend)) = (case.direction, headend(case.segments)) {
            let segments: Vec<String> =
                headend.segments().iter().map(ToString::to_string).collect();
            let (mode, segments) = (headend.mode().name(), segments.join(","));
            let to = format!("encap seg6 mode {mode} segs {segments} dev {OUT}");
            ip(&format!("route replace {remote}/{REMOTE_LEN} {to}\n")).map_err(failed)?;
        }
        let before = received().map_err(failed)?;
        let (timed, written) = self.write(options, case, size, HERE)?;
        match received().map_err(failed)? - before {
            all if all >= written as u64 => Ok(timed),
            some => Err(BenchError::Lost { given: written, sent: some as usize, reason: None }),
        }
    }

    /// The same of frames that go nowhere.
    ///
    /// # Errors
    /// The interface takes none.
    pub(super) fn sending(
        &mut self,
        options: &Options<'_>,
        case: Case,
        size: usize,
    ) -> Result<Timed, BenchError> {
        Ok(self.write(options, case, size, [2, 0, 0, 0, 9, 9])?.0)
    }

    /// Writes packets of all flows in turn until the time is over, and says how many, those of pieces that do not
    /// count among them.
    fn write(
        &self,
        options: &Options<'_>,
        case: Case,
        size: usize,
        to: [u8; 6],
    ) -> Result<(Timed, usize), BenchError> {
        let traffic = case.traffic(size, options.flows);
        let frame = |flow| {
            let header = [&to[..], &[2, 0, 0, 0, 0, 7], &[0x86, 0xdd]].concat();
            case.packet(&traffic, flow).map(|packet| [header, packet].concat())
        };
        let frames: Vec<Vec<u8>> = (0..traffic.flows).filter_map(frame).collect();
        let (mut timed, mut written) = (Timed::within(options.patience), 0);
        let mut result = Ok(());
        while timed.has_time(options.duration) {
            options.check_stop()?;
            timed.quiet_piece(frames.len(), None, || {
                result = frames.iter().try_for_each(|frame| self.tap.write(frame));
            });
            written += frames.len();
            core::mem::replace(&mut result, Ok(()))
                .map_err(|e| failed(format!("write to the TAP interface: {e}")))?;
        }
        Ok((timed, written))
    }
}

/// Packets that the far end has received.
fn received() -> Result<u64, String> {
    let text = fs::read_to_string("/proc/thread-self/net/dev").map_err(|e| e.to_string())?;
    let counts = text.lines().find_map(|line| line.trim().strip_prefix(FAR)?.strip_prefix(':'));
    // Bytes, and then packets.
    let packets = counts.and_then(|counts| counts.split_whitespace().nth(1)?.parse().ok());
    packets.ok_or_else(|| format!("no {FAR} in /proc/net/dev"))
}

/// Runs commands of `ip -6`, a line each, in the thread's namespace.
fn ip(commands: &str) -> Result<(), String> {
    let mut ip = Command::new("ip");
    ip.args(["-6", "-batch", "-"]).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut child = ip.spawn().map_err(|e| format!("ip: {e}"))?;
    if let Some(stdin) = &mut child.stdin {
        stdin.write_all(commands.as_bytes()).map_err(|e| format!("ip: {e}"))?;
    }
    let output = child.wait_with_output().map_err(|e| format!("ip: {e}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("ip: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

fn failed(why: String) -> BenchError {
    BenchError::Peer(why)
}

const OUT: &str = "bench-out";
const FAR: &str = "bench-far";
/// The TAP interface's address.
const HERE: [u8; 6] = [2, 0, 0, 0, 0, 1];
/// Nobody's: what goes there is dropped at the far end.
const ELSEWHERE: &str = "02:00:00:00:09:09";

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use engine_openssl::OpensslProvider;

    use super::*;
    use crate::srv6::case::CASES;

    #[test]
    fn linux_sends_every_packet_to_the_far_end() {
        if !rustix::process::getuid().is_root() {
            println!("skipped: needs root");
            return;
        }
        let thread = std::thread::spawn(|| {
            let provider = OpensslProvider::new().unwrap();
            let mut options = Options::new(&provider);
            options.duration = Duration::from_micros(10);
            options.patience = Some(options.duration);
            let mut linux = Linux::new().unwrap();
            for case in CASES {
                let timed = linux.repetition(&options, case, 60).unwrap();
                assert!(timed.packets >= 1024, "{case:?}");
            }
            let before = received().unwrap();
            linux.sending(&options, CASES[0], 60).unwrap();
            // Linux's own messages of its neighbours.
            assert!(received().unwrap() - before < 100);
        });
        thread.join().unwrap();
    }
}
