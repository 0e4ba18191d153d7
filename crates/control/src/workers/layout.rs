//! Which workers there are, on which cores, and which crypto threads serve them.

use config::{Cpus, WorkerConfig};
use rustix::thread::{CpuSet, sched_getaffinity};
use thiserror::Error;

use crate::slots::QUEUES_PER_WORKER;

/// A set of workers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// The workers by number, each with the core that it is pinned to, if it is.
    pub workers: Vec<Option<usize>>,
    /// The cores of the crypto threads. Thread `i` serves worker `i % n`.
    pub crypto: Vec<usize>,
}

/// Why a set of workers is not possible.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum LayoutError {
    /// The machine has no such core, or this process may not use it.
    #[error(
        "{key} names core {core}, which does not exist or which this process may not use\n  it may \
         use {}",
        ranges(.allowed)
    )]
    NoSuchCore {
        /// Key of the configuration.
        key: &'static str,
        /// Number of the core.
        core: usize,
        /// Cores that there are, ascending.
        allowed: Vec<usize>,
    },
    /// A port has more queues than the workers have places for.
    #[error(
        "a port has {queues} receive queues, and {workers} workers (worker.cpus) take at most {most} \
         of one port\n  set port.queues, or more workers"
    )]
    TooManyQueues {
        /// Queues of the port with the most.
        queues: u32,
        /// Workers of the configuration.
        workers: usize,
        /// Queues that they can have.
        most: usize,
    },
}

impl Layout {
    /// The set that the configuration asks for; `queues` are those of the port that has the most. The
    /// default is a worker for each of these, as far as there are cores.
    ///
    /// # Errors
    /// A core that this process cannot use.
    pub fn new(config: &WorkerConfig, queues: u32, cores: &[usize]) -> Result<Layout, LayoutError> {
        let check =
            |key: &'static str, list: &[usize]| match list.iter().find(|c| !cores.contains(c)) {
                Some(&core) => Err(LayoutError::NoSuchCore { key, core, allowed: cores.to_vec() }),
                None => Ok(()),
            };
        let workers = match config.cpus() {
            Some(Cpus::Cores(list)) => {
                check(if config.cpu.is_some() { "worker.cpu" } else { "worker.cpus" }, &list)?;
                list.into_iter().map(Some).collect()
            }
            Some(Cpus::Count(count)) => vec![None; count],
            None => vec![None; (queues as usize).clamp(1, cores.len().clamp(1, Cpus::MOST))],
        };
        check("worker.crypto_cpus", &config.crypto_cpus)?;
        Ok(Layout { workers, crypto: config.crypto_cpus.clone() })
    }

    /// Checks that the workers have slots for so many queues of one port.
    ///
    /// # Errors
    /// There are too few.
    pub fn check_queues(&self, queues: u32) -> Result<(), LayoutError> {
        let workers = self.workers.len();
        let most = workers * QUEUES_PER_WORKER;
        match queues as usize > most {
            true => Err(LayoutError::TooManyQueues { queues, workers, most }),
            false => Ok(()),
        }
    }

    /// Workers and crypto threads.
    pub const fn threads(&self) -> usize {
        self.workers.len() + self.crypto.len()
    }

    /// The cores of one worker's crypto threads.
    pub fn crypto_of(&self, worker: usize) -> impl Iterator<Item = usize> + '_ {
        self.crypto.iter().copied().skip(worker).step_by(self.workers.len().max(1))
    }

    /// Warning for the operator. Without any port, as without privileges, all packets come by the
    /// queues of the private interface, of which each worker has one.
    pub fn warning(&self, queues: u32) -> Option<String> {
        let workers = self.workers.len();
        (queues > 0 && workers > 1 && workers > queues as usize).then(|| {
            format!(
                "worker.cpus: {workers} workers, but no port has more than {queues} receive queues; \
                 the workers beyond only take what this host itself sends"
            )
        })
    }
}

/// The cores that this process may use, ascending.
pub fn cores() -> Vec<usize> {
    let set = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    (0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect()
}

/// Cores as ranges: `0-3, 6`.
pub fn ranges(cores: &[usize]) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for &core in cores {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == core => *last = core,
            _ => ranges.push((core, core)),
        }
    }
    let text = |(first, last): (usize, usize)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    ranges.into_iter().map(text).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(config: &WorkerConfig, queues: u32) -> Result<Layout, LayoutError> {
        Layout::new(config, queues, &[0, 1, 2, 5])
    }

    fn config(cpus: Option<Cpus>, crypto_cpus: &[usize]) -> WorkerConfig {
        WorkerConfig { cpus, crypto_cpus: crypto_cpus.to_vec(), ..WorkerConfig::default() }
    }

    #[test]
    fn left_out_it_is_one_for_each_queue_as_far_as_there_are_cores() {
        let auto = config(None, &[]);
        for (queues, workers) in [(0, 1), (1, 1), (3, 3), (4, 4), (16, 4), (64, 4)] {
            assert_eq!(plan(&auto, queues).unwrap().workers, vec![None; workers], "{queues}");
        }
    }

    #[test]
    fn numbers_and_lists_are_taken_as_they_are() {
        let plan = |cpus, crypto: &[usize]| plan(&config(Some(cpus), crypto), 2).unwrap();
        assert_eq!(plan(Cpus::Count(9), &[]).workers, vec![None; 9]);
        let three = plan(Cpus::Cores(vec![5, 0, 5]), &[1, 2]);
        assert_eq!(three.workers, [Some(5), Some(0), Some(5)]);
        let threads: Vec<Vec<usize>> = (0..3).map(|w| three.crypto_of(w).collect()).collect();
        assert_eq!(threads, [vec![1], vec![2], vec![]]);
        let one = plan(Cpus::Count(1), &[2, 1, 0]);
        assert_eq!(one.crypto_of(0).collect::<Vec<_>>(), [2, 1, 0]);
        let old = WorkerConfig { cpu: Some(5), ..WorkerConfig::default() };
        assert_eq!(super::Layout::new(&old, 1, &[5]).unwrap().workers, [Some(5)]);
    }

    #[test]
    fn what_cannot_be_names_key_and_limit() {
        let error = |config: &WorkerConfig, queues| plan(config, queues).unwrap_err().to_string();
        let text = error(&config(Some(Cpus::Cores(vec![0, 3])), &[]), 1);
        assert!(text.contains("worker.cpus names core 3") && text.contains("0-2, 5"), "{text}");
        let text = error(&WorkerConfig { cpu: Some(9), ..WorkerConfig::default() }, 1);
        assert!(text.contains("worker.cpu names core 9"), "{text}");
        let text = error(&config(None, &[7]), 1);
        assert!(text.contains("worker.crypto_cpus names core 7"), "{text}");
        let two = plan(&config(Some(Cpus::Count(2)), &[]), 33).unwrap();
        assert_eq!(two.check_queues(32), Ok(()));
        let text = two.check_queues(33).unwrap_err().to_string();
        for part in ["33 receive queues", "2 workers", "at most 32", "port.queues"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn more_workers_than_queues_are_spoken_of() {
        let four = plan(&config(Some(Cpus::Count(4)), &[]), 2).unwrap();
        let warning = four.warning(2).unwrap();
        assert!(warning.contains("4 workers") && warning.contains("2 receive queues"), "{warning}");
        assert_eq!(four.warning(4), None);
        assert_eq!(four.warning(0), None);
        assert_eq!(plan(&config(Some(Cpus::Count(1)), &[]), 0).unwrap().warning(0), None);
    }
}
