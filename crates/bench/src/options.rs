//! Options that a caller can choose, the same for every benchmark.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use core::time::Duration;

use crypto::{Provider, Suite};

pub use crate::direction::Direction;
use crate::error::BenchError;
use crate::listener::{Listener, Nobody};

/// Parameters of the benchmarks. Each reads those that concern it.
#[derive(Clone)]
pub struct Options<'p> {
    /// Makes the engines and sessions.
    pub provider: &'p dyn Provider,
    /// Suites; see [`suite_by_name`].
    pub suites: Vec<Suite>,
    /// Lengths of the inner IP packet in bytes, from [`MIN_SIZE`] to what fits an MTU of 1500.
    pub sizes: Vec<usize>,
    /// Directions to measure: outbound, inbound.
    pub directions: Vec<Direction>,
    /// Numbers of SAs, each with a key, a policy and a remote network of its own.
    pub sas: Vec<usize>,
    /// Inner flows that packets take turns in; at least one for each SA.
    pub flows: usize,
    /// Repetitions, at least 1; their median counts.
    pub repeat: usize,
    /// Timed length of a repetition.
    pub duration: Duration,
    /// How long a repetition may take that waits for quiet moments; `None` for several times its length.
    pub patience: Option<Duration>,
    /// The core to run on; `None` for the one that the system chooses first.
    pub cpu: Option<usize>,
    /// Packets under way at once, each in a buffer of 2048 bytes; at least 64.
    pub frames: u32,
    /// How many allocations this thread has made so far, if the program counts them; see
    /// [`crate::allocation`].
    pub allocations: Option<fn() -> u64>,
    /// Hears of each row as soon as it is there.
    pub listener: &'p dyn Listener,
    /// Set from outside (a signal) to end a measurement early, where one may not just be killed.
    pub stop: Option<&'p AtomicBool>,
}

impl<'p> Options<'p> {
    /// AES-128-GCM both ways, in sizes from 64 to 1400 bytes, five times 200 ms each.
    pub fn new(provider: &'p dyn Provider) -> Options<'p> {
        Options {
            provider,
            suites: suite_by_name("aes128gcm16").into_iter().collect(),
            sizes: vec![64, 128, 256, 512, 1024, 1400],
            directions: vec![Direction::Outbound, Direction::Inbound],
            sas: vec![1],
            flows: 1024,
            repeat: 5,
            duration: Duration::from_millis(200),
            patience: None,
            cpu: None,
            // 16 MiB.
            frames: 8192,
            allocations: None,
            listener: &Nobody,
            stop: None,
        }
    }

    /// How many measurements there are of each suite, direction and size.
    pub(crate) fn cases(&self) -> usize {
        self.suites.len() * self.directions.len() * self.sizes.len()
    }

    /// An error, once someone asked to stop.
    pub(crate) fn check_stop(&self) -> Result<(), BenchError> {
        match self.stop.is_some_and(|stop| stop.load(Relaxed)) {
            true => Err(BenchError::Stopped),
            false => Ok(()),
        }
    }

    /// Refuses what cannot be measured.
    pub(crate) fn check(&self) -> Result<(), BenchError> {
        let refuse = |what, given, allowed| Err(BenchError::Option { what, given, allowed });
        if let Some(size) = self.sizes.iter().copied().find(|size| *size < MIN_SIZE) {
            return refuse("size", size, "28 bytes and more");
        }
        if self.repeat == 0 {
            return refuse("repeat", 0, "1 and more");
        }
        if let Some(sas) = self.sas.iter().copied().find(|sas| !(1..=MAX_SAS).contains(sas)) {
            return refuse("sas", sas, "1 to 131072");
        }
        if !(1..=MAX_FLOWS).contains(&self.flows) {
            return refuse("flows", self.flows, "1 to 1048576");
        }
        if !(64..=1 << 20).contains(&self.frames) {
            return refuse("frames", self.frames as usize, "64 to 1048576");
        }
        Ok(())
    }
}

/// The suite that strongSwan's proposals spell so, such as `aes128gcm16` or `aes256-sha256`.
pub fn suite_by_name(name: &str) -> Option<Suite> {
    Suite::all().find(|suite| suite.to_string() == name)
}

/// The shortest inner packet: IPv4 and UDP headers, in bytes.
pub const MIN_SIZE: usize = 28;
/// The most SAs: each has a remote network of 64 addresses in 10.128.0.0/9.
pub(crate) const MAX_SAS: usize = 1 << 17;
/// The most inner flows.
pub(crate) const MAX_FLOWS: usize = 1 << 20;
