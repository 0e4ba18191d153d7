//! The bench `peer`: culvert beside DPDK's example gateway, ipsec-secgw, in one run.
//!
//! Both do ESP in tunnel mode with the same library, the same keys, the same 1024 inner flows, on
//! the same core, in turns: while one runs, the other is stopped (SIGSTOP). The peer has one SA each
//! way, one policy, one route, no replay check, and ports in memory: its driver `net_pcap` gives it
//! the same 1024 packets again and again, `net_null` takes what it sends. Its rate is what its
//! telemetry counts, over the time for which the core was its own.
//!
//! Culvert is measured twice: `beyond L2` is the bench `esp` as it is, with 16 MiB of buffers that
//! have left the second-level cache; `warm` has 512 buffers, written just before, which is what the
//! peer's driver does for it.

mod config;
mod hugepages;
mod secgw;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crypto::{AesKey, Cipher, IcvLen, Integrity, Suite};

use crate::error::BenchError;
use crate::esp::{plan, repetition, row};
use crate::gateway::{Gateway, Path};
use crate::options::{Direction, Options};
use crate::pin::pinned;
use crate::row::Row;
use crate::rows::{Rows, label};
use crate::timing::Repetitions;
use crate::traffic::{Choice, Traffic};

use hugepages::HugePages;
use secgw::Secgw;

/// Parameters of the bench `peer` beyond those of the others.
#[derive(Clone, Debug)]
pub struct Peer {
    /// The peer's program; `bench/peer/build` makes it.
    pub program: PathBuf,
    /// Set from outside (a signal) to end early: everything is put back as it was.
    pub stop: Arc<AtomicBool>,
    /// True while there is nothing to put back: this process may just be killed.
    pub is_idle: Arc<AtomicBool>,
}

impl Default for Peer {
    fn default() -> Peer {
        Peer {
            program: PathBuf::from("/var/tmp/culvert-peer/ipsec-secgw"),
            stop: Arc::new(AtomicBool::new(false)),
            is_idle: Arc::new(AtomicBool::new(true)),
        }
    }
}

impl Peer {
    /// Refuses to go on where the peer cannot run, and says what to do.
    ///
    /// # Errors
    /// [`BenchError::Peer`].
    pub fn check(&self) -> Result<(), BenchError> {
        if !self.program.exists() {
            return Err(BenchError::Peer(format!(
                "{} is not there; build it with bench/peer/build (as root, with network: it \
                 installs DPDK and fetches its source with apt)",
                self.program.display()
            )));
        }
        if !rustix::process::geteuid().is_root() {
            let what = "the peer needs root, for huge pages; run this as root";
            return Err(BenchError::Peer(what.to_owned()));
        }
        Ok(())
    }
}

/// There is something to put back until this is dropped.
struct Busy<'p>(&'p AtomicBool);

impl<'p> Busy<'p> {
    fn new(is_idle: &'p AtomicBool) -> Busy<'p> {
        is_idle.store(false, Relaxed);
        Busy(is_idle)
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// The bench `peer`.
///
/// # Errors
/// [`BenchError::Peer`] where the peer cannot run or does not do its work; else as `esp`.
pub fn peer(options: &Options<'_>, peer: &Peer) -> Result<Vec<Row>, BenchError> {
    options.check()?;
    peer.check()?;
    if let Some(suite) = options.suites.iter().find(|suite| !is_known(**suite)) {
        let what = format!("the peer is compared with aes128gcm16 and aes128-sha1, not {suite}");
        return Err(BenchError::Peer(what));
    }
    let options = &Options { stop: Some(&peer.stop), ..options.clone() };
    // Dropped last.
    let _busy = Busy::new(&peer.is_idle);
    let _pages = HugePages::reserve()?;
    let cpu = options.cpu.unwrap_or_else(rustix::thread::sched_getcpu);
    pinned(Some(cpu), || {
        let mut rows = Rows::new(options, options.cases());
        for suite in &options.suites {
            for direction in &options.directions {
                for size in &options.sizes {
                    rows.begin(&label(*suite, *direction, *size));
                    let measured = one(options, peer, *suite, *direction, *size, cpu);
                    // An interrupt from a terminal reaches the peer too, and then it fails first.
                    options.check_stop()?;
                    rows.extend(measured?);
                }
            }
        }
        Ok(rows.into_vec())
    })
}

fn one(
    options: &Options<'_>,
    peer: &Peer,
    suite: Suite,
    direction: Direction,
    size: usize,
    cpu: usize,
) -> Result<[Row; 2], BenchError> {
    let gateway = |frames: u32| {
        let traffic = Traffic::new(direction, size, 1, options.flows, Choice::InTurn(0));
        let mut plan = plan(options, suite, Path::Esp, traffic);
        plan.frames = frames;
        Gateway::new(plan)
    };
    let mut beyond = gateway(options.frames)?;
    let mut warm = gateway(WARM_FRAMES)?;
    let frames = beyond.example_frames(options.flows)?;
    beyond.prove()?;
    warm.prove()?;

    options.check_stop()?;
    let files = config::Files::write(suite, direction, &frames)?;
    let mut secgw = Secgw::start(&peer.program, &files, direction, cpu, options)?;
    secgw.warm_up(options)?;
    let (mut ours, mut ours_warm) = (Repetitions::default(), Repetitions::default());
    let mut theirs = Repetitions::default();
    for _ in 0..options.repeat {
        ours.0.push(repetition(&mut beyond, options)?);
        ours_warm.0.push(repetition(&mut warm, options)?);
        theirs.0.push(secgw.measure(options)?);
    }
    let theirs = theirs.mpps();
    let finished = |case, gateway: &Gateway, ours: &Repetitions| {
        let mut row = row(options, "peer", gateway);
        ours.fill(&mut row, options.allocations.is_some());
        row.case = Some(case);
        row.peer_mpps = Some(theirs);
        row.ratio_peer = Some(ours.mpps() / theirs);
        row
    };
    Ok([finished("beyond L2", &beyond, &ours), finished("warm", &warm, &ours_warm)])
}

/// Suites that both have, and that `config` can spell.
const fn is_known(suite: Suite) -> bool {
    matches!(
        suite,
        Suite::AesGcm { key: AesKey::Aes128, icv: IcvLen::Icv16 }
            | Suite::Separate {
                cipher: Cipher::AesCbc(AesKey::Aes128),
                integrity: Integrity::Sha1_96
            }
    )
}

/// Buffers that stay in the second-level cache: about what the peer has under way.
const WARM_FRAMES: u32 = 512;
