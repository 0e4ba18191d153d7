//! The machine that the figures were measured on.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::cycles;

/// Facts about the machine and the program, in order: name and value. What the system does not
/// tell is left out.
pub fn describe() -> Vec<(&'static str, String)> {
    let facts = [
        ("processor", processor()),
        ("cores", std::thread::available_parallelism().ok().map(|n| n.to_string())),
        ("caches", caches()),
        ("time-stamp counter", tsc_mhz().map(|mhz| format!("{mhz:.0} MHz"))),
        ("frequency governor", Some(governor())),
        ("hypervisor", Some(hypervisor())),
        ("memory", memory()),
        ("kernel", first_line("/proc/sys/kernel/osrelease")),
        ("mitigations", mitigations()),
        ("system", system()),
        ("compiler", output("rustc", &["--version"])),
        ("commit", commit()),
    ];
    facts.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

/// The processor's name as part of a file name: `amd-epyc-9654`.
pub fn processor_slug() -> String {
    let name = cpuinfo("model name").unwrap_or_else(|| "unknown".to_owned()).to_lowercase();
    let words: Vec<&str> = name
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !matches!(*word, "" | "r" | "tm" | "cpu" | "processor"))
        .take(5)
        .collect();
    words.join("-")
}

/// Memory that this process has resident, in bytes; 0 where the system does not tell.
pub(crate) fn resident_bytes() -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = kib.and_then(|kib| kib.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}

fn processor() -> Option<String> {
    let model = cpuinfo("model name")?;
    let numbers: Vec<String> = ["cpu family", "model", "stepping"]
        .iter()
        .filter_map(|key| Some(format!("{key} {}", cpuinfo(key)?)))
        .collect();
    Some(match numbers.is_empty() {
        true => model,
        false => format!("{model} ({})", numbers.join(", ")),
    })
}

/// A field of the first processor.
fn cpuinfo(key: &str) -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim().to_owned())
    })
}

fn caches() -> Option<String> {
    let base = "/sys/devices/system/cpu/cpu0/cache";
    let mut all = BTreeSet::new();
    for entry in fs::read_dir(base).ok()?.flatten() {
        let read = |name| fs::read_to_string(entry.path().join(name)).ok();
        let (Some(level), Some(kind), Some(size)) = (read("level"), read("type"), read("size"))
        else {
            continue;
        };
        let kind = match kind.trim() {
            "Data" => "d",
            "Instruction" => "i",
            _ => "",
        };
        all.insert(format!("L{}{kind} {}", level.trim(), size.trim()));
    }
    (!all.is_empty()).then(|| all.into_iter().collect::<Vec<_>>().join(", "))
}

/// The counter's rate, by the system's clock.
fn tsc_mhz() -> Option<f64> {
    let (begun, from) = (Instant::now(), cycles::now()?);
    sleep(Duration::from_millis(50));
    let (time, to) = (begun.elapsed(), cycles::now()?);
    Some(to.wrapping_sub(from) as f64 / time.as_secs_f64() / 1e6)
}

fn governor() -> String {
    first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
        .unwrap_or_else(|| "not told".to_owned())
}

fn hypervisor() -> String {
    let flags = cpuinfo("flags").unwrap_or_default();
    match flags.split(' ').any(|flag| flag == "hypervisor") {
        true => {
            let vendor = first_line("/sys/class/dmi/id/sys_vendor");
            format!("yes ({})", vendor.unwrap_or_else(|| "vendor not told".to_owned()))
        }
        false => "none".to_owned(),
    }
}

fn memory() -> Option<String> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let kib: u64 = text.lines().next()?.split_whitespace().nth(1)?.parse().ok()?;
    Some(format!("{:.1} GiB", kib as f64 / f64::from(1 << 20)))
}

/// The kernel's mitigations of the processor's weaknesses, if there are any.
fn mitigations() -> Option<String> {
    let mut all = BTreeSet::new();
    for entry in fs::read_dir("/sys/devices/system/cpu/vulnerabilities").ok()?.flatten() {
        let text = fs::read_to_string(entry.path()).unwrap_or_default();
        if text.starts_with("Mitigation") || text.starts_with("Vulnerable") {
            all.insert(format!("{}: {}", entry.file_name().to_string_lossy(), text.trim()));
        }
    }
    Some(all.into_iter().collect::<Vec<_>>().join("; "))
}

fn system() -> Option<String> {
    let text = fs::read_to_string("/etc/os-release").ok()?;
    let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(name.trim_matches('"').to_owned())
}

fn commit() -> Option<String> {
    let commit = output("git", &["rev-parse", "--short=12", "HEAD"])?;
    // The report that is being written may replace one that is committed.
    let changes = output(
        "git",
        &[
            "status",
            "--porcelain",
            "--untracked-files=no",
            "--",
            ":/",
            ":(top,exclude)bench/reports",
        ],
    );
    Some(match changes {
        Some(changes) if !changes.is_empty() => format!("{commit}, with changes"),
        _ => commit,
    })
}

fn first_line(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.lines().next()?.trim().to_owned())
}

fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_has_cores_and_a_name_for_files() {
        let facts = describe();
        assert!(facts.iter().any(|(name, value)| *name == "cores" && value != "0"));
        assert!(facts.iter().all(|(_, value)| !value.contains('\n')), "{facts:?}");
        let slug = processor_slug();
        assert!(!slug.is_empty());
        assert!(slug.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'), "{slug}");
    }

    #[test]
    fn memory_grows_when_it_is_written() {
        // Other tests of the process may give memory back in between, but not each time.
        assert!((0..20).any(|_| {
            let before = resident_bytes();
            let memory = vec![1_u8; 64 << 20];
            assert_eq!(memory.last(), Some(&1));
            resident_bytes() >= before + (60 << 20)
        }));
    }
}
