//! Checks at the start that this process may have the memory that it is going to need.
//!
//! An allocation that is refused later ends the process at that point, and memory that is granted
//! but not there brings the kernel's OOM killer. So the configuration's needs are compared with the
//! limits first, and the message names both.

use std::fs;
use std::path::{Path, PathBuf};

use config::{Config, PortConfig, Problem};
use report::paths;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use vault::Vault;

use crate::layout::Layout;
use crate::ports::rings::FRAMES_PER_QUEUE;

const MIB: u64 = 1 << 20;

/// Address space beyond what grows with the configuration: the kernel's types while programs are
/// loaded into it, maps, rings, the allocator's reserves for each thread.
const FIXED: u64 = 160 * MIB;

/// For each thread: its stack and its engine.
const THREAD: u64 = 4 * MIB;

/// For each flow of the cache.
const FLOW: u64 = 256;

/// For each byte of the vault's journal: the record, and its copies in the databases.
const RECORD: u64 = 8;

/// Memory of this machine, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Limit of this process's address space, if there is one (RLIMIT_AS).
    pub address_space: Option<u64>,
    /// Address space that it uses.
    pub used: u64,
    /// Free memory (`MemAvailable`), if the kernel says.
    pub available: Option<u64>,
    /// Huge pages that nobody has taken.
    pub huge_pages: u64,
    /// Limit of its control groups, if there is one (`memory.max`).
    pub group: Option<u64>,
    /// Memory that the SAs and policies of the run before take.
    pub saved: u64,
}

impl Memory {
    /// Looks at it, and at the vault of an instance.
    pub fn look(instance: &str) -> Memory {
        let len = |path: &PathBuf| fs::metadata(path).map_or(0, |m| m.len());
        let [journal, _, live_numbers, _] =
            Vault::files(&paths::vault_dir(instance)).each_ref().map(len);
        let meminfo = |key| figure("/proc/meminfo", key);
        let huge_pages = meminfo("HugePages_Free:").unwrap_or(0) / 1024;
        Memory {
            address_space: getrlimit(Resource::As).current,
            used: figure("/proc/self/status", "VmSize:").unwrap_or(0),
            available: meminfo("MemAvailable:"),
            huge_pages: huge_pages * meminfo("Hugepagesize:").unwrap_or(0),
            group: control_group_limit(),
            saved: journal * RECORD + live_numbers,
        }
    }
}

/// Resources that a start needs, in bytes.
struct Need {
    /// Packet buffers: populated at once.
    frames: u64,
    /// SAs and policies of the run before.
    saved: u64,
    /// Address space in all.
    in_all: u64,
}

impl Need {
    fn of(config: &Config, workers: usize, saved: u64) -> Need {
        let worker = &config.worker;
        let frames = u64::from(worker.frames) * u64::from(worker.frame_bytes);
        let working = (workers + worker.crypto_cpus.len()) as u64;
        let threads = 2 + config.ports.len() as u64 + working;
        let flows = u64::from(worker.flows) * FLOW * working;
        let in_all = FIXED + frames + 2 * MIB + saved + threads * THREAD + flows;
        Need { frames, saved, in_all }
    }
}

/// Frames beyond those in rings, with one worker: bursts, held packets, packets in flight.
pub const FRAMES_SPARE: u32 = 2048;

/// Frames without which a worker does not work: those that it keeps, and a burst to receive and one
/// to send.
const FRAMES_PER_WORKER: u32 = (io::POOL_LEN + 2 * io::BURST_LEN) as u32;

/// Frames without which workers and the configured queues of ports do not work.
pub fn frames_at_start(ports: &[PortConfig], workers: usize) -> u32 {
    let queues = configured_queues(ports).saturating_mul(FRAMES_PER_QUEUE);
    queues.saturating_add(FRAMES_PER_WORKER.saturating_mul(workers as u32))
}

/// A port without `queues` counts as one.
fn configured_queues(ports: &[PortConfig]) -> u32 {
    ports.iter().map(|port| port.queues.unwrap_or(1)).sum()
}

/// Says if there are too few buffers for the queues of these ports and for these workers.
pub fn frames_problem(frames: u32, ports: &[PortConfig], layout: &Layout) -> Option<Problem> {
    let workers = layout.workers.len();
    let needed = frames_at_start(ports, workers);
    (frames < needed).then(|| {
        let wrong = format!(
            "{workers} workers and {} queues of ports need at least {needed}",
            configured_queues(ports)
        );
        let enough = needed.next_power_of_two();
        let remedy = format!("worker.frames = {enough}, or fewer workers (worker.cpus)");
        Problem::new(FRAMES, &frames, wrong, remedy)
    })
}

/// The key of the packet buffers.
const FRAMES: &str = "worker.frames";

/// Raises the limit of descriptors as far as it goes.
pub fn raise_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    // The present limit is enough for most, should this fail.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// Compares what a start needs with the limits: what is too small, for what, and what would do.
pub fn problem(config: &Config, workers: usize, memory: &Memory) -> Option<Problem> {
    let need = Need::of(config, workers, memory.saved);
    let of_address_space = memory
        .address_space
        .and_then(|limit| address_space_problem(&need, config, memory.used, limit));
    let of_machine = || {
        let there = memory.available.filter(|_| memory.huge_pages < need.frames)?;
        memory_problem(&need, config, there, "the machine has", "free memory (MemAvailable)")
    };
    let of_group =
        || memory_problem(&need, config, memory.group?, "the control group allows", "memory.max");
    of_address_space.or_else(of_machine).or_else(of_group)
}

/// The same for threads that a running daemon gets more of.
pub fn growth_problem(config: &Config, threads: usize, memory: &Memory) -> Option<Problem> {
    let flows = u64::from(config.worker.flows) * FLOW;
    let needed = threads as u64 * (THREAD + flows);
    let left = memory.address_space.map_or(u64::MAX, |limit| limit.saturating_sub(memory.used));
    let left = left.min(memory.available.unwrap_or(u64::MAX));
    (needed > left).then(|| {
        let (mib, there) = (needed.div_ceil(MIB), left / MIB);
        let wrong =
            format!("{threads} more threads need about {mib} MiB, and {there} MiB are left");
        let remedy = "fewer of them, or a smaller worker.flows, or more memory";
        Problem::new("worker.flows", &config.worker.flows, wrong, remedy)
    })
}

fn address_space_problem(need: &Need, config: &Config, used: u64, limit: u64) -> Option<Problem> {
    let in_all = used + need.in_all;
    (in_all > limit).then(|| {
        let wrong = format!(
            "the limit of address space (RLIMIT_AS, `ulimit -v`) is {} KiB, and a start needs about {} \
             KiB: {} MiB of packet buffers, {} MiB for saved SAs and policies, {} MiB for the rest",
            limit / 1024,
            in_all.div_ceil(1024),
            need.frames / MIB,
            need.saved / MIB,
            (in_all - need.frames - need.saved) / MIB
        );
        let remedy = "lift the limit (`ulimit -v unlimited`; LimitAS= of the unit), or lower worker.frames";
        Problem::new(FRAMES, &config.worker.frames, wrong, remedy)
    })
}

fn memory_problem(
    need: &Need,
    config: &Config,
    there: u64,
    who: &str,
    name: &str,
) -> Option<Problem> {
    let needed = need.frames + need.saved;
    (needed > there).then(|| {
        let wrong = format!(
            "packet buffers of {} bytes and saved state need {} MiB, {who} {} MiB: {name}",
            config.worker.frame_bytes,
            needed.div_ceil(MIB),
            there / MIB
        );
        let remedy = "lower worker.frames, or give it more memory";
        Problem::new(FRAMES, &config.worker.frames, wrong, remedy)
    })
}

/// A figure of a file with lines `KEY N kB`, in bytes; of a count without a unit, 1024 times it.
fn figure(path: &str, key: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(key))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()?.saturating_mul(1024))
}

/// The least of the limits that this process's control groups have (version 2).
fn control_group_limit() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let root = Path::new("/sys/fs/cgroup");
    let limits = root
        .join(group)
        .ancestors()
        .take_while(|path| path.starts_with(root))
        .filter_map(|path| {
            fs::read_to_string(path.join("memory.max")).ok()?.trim().parse::<u64>().ok()
        })
        .collect::<Vec<_>>();
    limits.into_iter().min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_named_with_what_needs_how_much() {
        let config = Config::parse("name = \"nobody-has-this-name\"", Path::new("x")).unwrap();
        let memory = Memory::look("nobody-has-this-name");
        let need = Need::of(&config, 1, memory.saved);
        assert_eq!(need.frames, 32 * MIB);
        let used = 50 * MIB;
        let limit = used + need.in_all;
        assert_eq!(address_space_problem(&need, &config, used, limit), None);
        let text = address_space_problem(&need, &config, used, limit - 1).unwrap().to_string();
        for part in ["RLIMIT_AS", "ulimit -v", "worker.frames = 16384", "32 MiB"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(memory_problem(&need, &config, need.frames + need.saved, "", ""), None);
        let text = memory_problem(&need, &config, need.frames - 1, "x has", "y").unwrap();
        let text = text.to_string();
        assert!(text.contains("worker.frames = 16384") && text.contains("31 MiB"), "{text}");
        assert_eq!(growth_problem(&config, 0, &memory), None);
        let text = growth_problem(&config, 1 << 40, &memory).unwrap().to_string();
        assert!(text.contains("more threads") && text.contains("worker.flows"), "{text}");
    }

    #[test]
    fn buffers_must_do_for_workers_and_queues() {
        let config = |text: &str| Config::parse(text, Path::new("x")).unwrap();
        let check = |config: &Config, workers| {
            let layout = Layout { workers: vec![None; workers], crypto: Vec::new() };
            frames_problem(config.worker.frames, &config.ports, &layout)
        };
        let small = config("[[port]]\ninterface = \"a\"\nqueues = 2\n[worker]\nframes = 1024\n");
        assert_eq!(check(&small, 1), None);
        let text = check(&small, 4).unwrap().to_string();
        for part in
            ["worker.frames = 1024", "4 workers", "2 queues", "2816", "= 4096", "worker.cpus"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(check(&config("[worker]\nframes = 4096\n"), 6), None);
        assert_eq!(check(&config(""), 25), None);
        assert!(check(&config(""), 26).is_some());
    }

    #[test]
    fn figures_of_the_kernel_are_found() {
        assert!(figure("/proc/self/status", "VmSize:").is_some_and(|size| size > MIB));
        assert!(figure("/proc/meminfo", "MemAvailable:").is_some_and(|size| size > MIB));
        assert_eq!(figure("/proc/meminfo", "NoSuchThing:"), None);
    }
}
