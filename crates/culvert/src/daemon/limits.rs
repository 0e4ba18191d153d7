//! Whether this process may have the memory that it is going to need, asked before it needs it.
//!
//! What is refused later ends the process wherever that happens to be, and what is granted but not
//! there is taken back by the kernel, which kills. So what the configuration asks for is held
//! against the limits first, and the message names both.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use vault::Vault;

use crate::config::Config;
use crate::paths;

const MIB: u64 = 1 << 20;

/// Address space beyond what grows with the configuration: the kernel's types while programs are
/// loaded into it, maps, rings, the allocator's reserves for each thread.
const FIXED: u64 = 160 * MIB;

/// Of each thread: its stack, and what its engine has.
const THREAD: u64 = 4 * MIB;

/// Of a flow's plan.
const FLOW: u64 = 256;

/// Of each byte of the vault's journal: the record, what it is made into, and the databases' own.
const RECORD: u64 = 8;

/// What a start needs, in bytes.
struct Need {
    /// Packet buffers: populated at once.
    frames: u64,
    /// SAs and policies of the run before.
    saved: u64,
    /// All in all, as address space.
    in_all: u64,
}

impl Need {
    fn of(config: &Config) -> Need {
        let worker = &config.worker;
        let frames = u64::from(worker.frames) * u64::from(worker.frame_bytes);
        let len = |path: &PathBuf| fs::metadata(path).map_or(0, |m| m.len());
        let [journal, _, cells] = Vault::files(&paths::vault_dir(&config.name)).each_ref().map(len);
        let saved = journal * RECORD + cells;
        let threads = 3 + config.ports.len() as u64 + worker.crypto_cpus.len() as u64;
        let flows = u64::from(worker.flows) * FLOW * (1 + worker.crypto_cpus.len() as u64);
        let in_all = FIXED + frames + 2 * MIB + saved + threads * THREAD + flows;
        Need { frames, saved, in_all }
    }
}

/// Holds the need against the limits, and lifts the one of descriptors as far as it goes.
///
/// # Errors
/// What is too small, for what, and what would do.
pub fn check(config: &Config) -> Result<(), String> {
    let limit = getrlimit(Resource::Nofile);
    // What stands if this fails is enough for most.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    let need = Need::of(config);
    if let Some(limit) = getrlimit(Resource::As).current {
        let used = figure("/proc/self/status", "VmSize:").unwrap_or(0);
        check_address_space(&need, config, used, limit)?;
    }
    let meminfo = |key| figure("/proc/meminfo", key);
    let reserved =
        meminfo("HugePages_Free:").unwrap_or(0) / 1024 * meminfo("Hugepagesize:").unwrap_or(0);
    if reserved < need.frames {
        let available = meminfo("MemAvailable:").unwrap_or(u64::MAX);
        check_memory(&need, config, available, "the machine has", "free memory (MemAvailable)")?;
    }
    let allowed = control_group_limit().unwrap_or(u64::MAX);
    check_memory(&need, config, allowed, "the control group allows", "memory.max")
}

fn check_address_space(need: &Need, config: &Config, used: u64, limit: u64) -> Result<(), String> {
    let in_all = used + need.in_all;
    if in_all <= limit {
        return Ok(());
    }
    Err(format!(
        "the limit of address space (RLIMIT_AS, `ulimit -v`) is {} KiB, and a start needs about {} \
         KiB:\n  {} MiB of packet buffers (worker.frames = {}), {} MiB for saved SAs and policies, \
         {} MiB for the rest\n  lift the limit (`ulimit -v unlimited`; LimitAS= of the unit), or \
         lower worker.frames",
        limit / 1024,
        in_all.div_ceil(1024),
        need.frames / MIB,
        config.worker.frames,
        need.saved / MIB,
        (in_all - need.frames - need.saved) / MIB
    ))
}

fn check_memory(
    need: &Need,
    config: &Config,
    there: u64,
    who: &str,
    name: &str,
) -> Result<(), String> {
    let needed = need.frames + need.saved;
    if needed <= there {
        return Ok(());
    }
    Err(format!(
        "packet buffers (worker.frames = {} of {} bytes) and saved state need {} MiB, {who} {} MiB: \
         {name}\n  lower worker.frames, or give it more",
        config.worker.frames,
        config.worker.frame_bytes,
        needed.div_ceil(MIB),
        there / MIB
    ))
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
        let need = Need::of(&config);
        assert_eq!(need.frames, 32 * MIB);
        let used = 50 * MIB;
        assert_eq!(check_address_space(&need, &config, used, used + need.in_all), Ok(()));
        let error = check_address_space(&need, &config, used, used + need.in_all - 1).unwrap_err();
        for part in ["RLIMIT_AS", "ulimit -v", "worker.frames = 16384", "32 MiB"] {
            assert!(error.contains(part), "{part}: {error}");
        }
        assert_eq!(check_memory(&need, &config, need.frames + need.saved, "", ""), Ok(()));
        let error = check_memory(&need, &config, need.frames - 1, "x has", "y").unwrap_err();
        assert!(error.contains("worker.frames = 16384") && error.contains("31 MiB"), "{error}");
    }

    #[test]
    fn figures_of_the_kernel_are_found() {
        assert!(figure("/proc/self/status", "VmSize:").is_some_and(|size| size > MIB));
        assert!(figure("/proc/meminfo", "MemAvailable:").is_some_and(|size| size > MIB));
        assert_eq!(figure("/proc/meminfo", "NoSuchThing:"), None);
    }
}
