//! `[worker]`: how many threads move packets, on which cores, and with what.

use std::fmt;

use serde::Deserialize;

/// `[worker]`: the threads that move packets.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WorkerConfig {
    /// How many workers, or their cores; one for each receive queue of the port with the most, as far
    /// as there are cores, when left out.
    pub cpus: Option<Cpus>,
    /// The core of the only worker.
    pub cpu: Option<usize>,
    /// Cores of threads that encrypt and decrypt for the workers, one thread each; none when left out.
    /// The first serves worker 0, the second worker 1, and round again.
    pub crypto_cpus: Vec<usize>,
    /// Behaviour of a worker when no packets come.
    pub poll: PollMode,
    /// Entries of each worker's flow cache; each takes some 160 bytes.
    pub flows: u32,
    /// Buffers for packets; each takes `frame_bytes`.
    pub frames: u32,
    /// Bytes of one buffer, 2048 or 4096; at least the largest MTU plus 512.
    pub frame_bytes: u32,
}

impl Default for WorkerConfig {
    fn default() -> Self {
        WorkerConfig {
            cpus: None,
            cpu: None,
            crypto_cpus: Vec::new(),
            poll: PollMode::Adaptive,
            flows: dataplane::DEFAULT_FLOWS as u32,
            frames: 16384,
            frame_bytes: 2048,
        }
    }
}

impl WorkerConfig {
    /// How many workers, or on which cores, if the file says.
    pub fn cpus(&self) -> Option<Cpus> {
        self.cpus.clone().or_else(|| self.cpu.map(|core| Cpus::Cores(vec![core])))
    }
}

/// How many workers there are, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cpus {
    /// So many, which Linux puts on cores.
    Count(usize),
    /// One for each core that is named, pinned to it; a core may be named more than once.
    Cores(Vec<usize>),
}

impl Cpus {
    /// The most workers.
    pub const MOST: usize = dataplane::MAX_WORKERS;

    /// How many there are.
    pub fn count(&self) -> usize {
        match self {
            Cpus::Count(count) => *count,
            Cpus::Cores(cores) => cores.len(),
        }
    }
}

impl<'de> Deserialize<'de> for Cpus {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Cpus;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of workers or a list of cores, such as 4 or [0, 2, 3]")
            }

            fn visit_i64<E: serde::de::Error>(self, count: i64) -> Result<Cpus, E> {
                let wrong = |_| E::invalid_value(serde::de::Unexpected::Signed(count), &self);
                usize::try_from(count).map(Cpus::Count).map_err(wrong)
            }

            fn visit_u64<E: serde::de::Error>(self, count: u64) -> Result<Cpus, E> {
                let wrong = |_| E::invalid_value(serde::de::Unexpected::Unsigned(count), &self);
                usize::try_from(count).map(Cpus::Count).map_err(wrong)
            }

            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut seq: A) -> Result<Cpus, A::Error> {
                let mut cores = Vec::new();
                while let Some(core) = seq.next_element()? {
                    cores.push(core);
                }
                Ok(Cpus::Cores(cores))
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

/// The most crypto threads.
pub(super) const MAX_CRYPTO_CPUS: usize = 32;

/// Behaviour of a worker when no packets come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PollMode {
    /// Sleeps, but not while packets come every few microseconds.
    #[default]
    Adaptive,
    /// Never sleeps: uses a whole core.
    Always,
}

impl From<PollMode> for dataplane::Polling {
    fn from(mode: PollMode) -> Self {
        match mode {
            PollMode::Adaptive => Self::Adaptive,
            PollMode::Always => Self::Always,
        }
    }
}
