//! Looks at huge pages: what is set aside, what was asked for, and what the kernel gives unasked.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::Path;

use super::super::facts::HugePages;

/// Huge pages of the size that packet buffers lie on.
const SET_ASIDE: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB";

/// Where settings are kept, in the order of preference for files of one name (sysctl.d(5)).
const SETTINGS: [&str; 4] =
    ["/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d"];

/// As they are now.
pub fn look() -> HugePages {
    let number = |name: &str| -> Option<u64> {
        fs::read_to_string(Path::new(SET_ASIDE).join(name)).ok()?.trim().parse().ok()
    };
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let transparent = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    let boot = fs::read_to_string("/proc/cmdline").unwrap_or_default();
    HugePages {
        set_aside: number("nr_hugepages").zip(number("free_hugepages")),
        asked: asked_in(settings().iter().map(String::as_str)).or_else(|| asked_at_boot(&boot)),
        transparent: transparent.is_ok_and(|text| !text.contains("[never]")),
        is_default_size: figure(&meminfo, "Hugepagesize:") == Some(2048),
        available_kib: figure(&meminfo, "MemAvailable:").unwrap_or(0),
    }
}

/// The texts of sysctl.d(5) in the order in which they count, and of sysctl.conf(5), which is last.
fn settings() -> Vec<String> {
    let mut files: BTreeMap<OsString, std::path::PathBuf> = BTreeMap::new();
    for directory in SETTINGS {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        for path in entries.map(|entry| entry.path()) {
            if path.extension().is_some_and(|end| end == "conf")
                && let Some(name) = path.file_name()
            {
                files.entry(name.to_owned()).or_insert(path);
            }
        }
    }
    let last = Path::new("/etc/sysctl.conf").to_owned();
    files.into_values().chain([last]).filter_map(|path| fs::read_to_string(path).ok()).collect()
}

/// The last value of `vm.nr_hugepages`.
fn asked_in<'t>(texts: impl Iterator<Item = &'t str>) -> Option<u64> {
    let lines = texts.flat_map(str::lines).filter_map(|line| line.split_once('='));
    let values = lines.filter_map(|(name, value)| {
        let name = name.trim().trim_start_matches('-').replace('/', ".");
        (name == "vm.nr_hugepages").then(|| value.trim().parse().ok())?
    });
    values.last()
}

/// `hugepages=N` of the kernel's command line, as far as it is about pages of 2 MiB.
fn asked_at_boot(line: &str) -> Option<u64> {
    let mut is_ours = true;
    let mut asked = None;
    for word in line.split_whitespace() {
        match word.split_once('=') {
            Some(("hugepagesz" | "default_hugepagesz", size)) => {
                is_ours = size.eq_ignore_ascii_case("2M")
            }
            Some(("hugepages", count)) if is_ours => asked = count.parse().ok(),
            _ => {}
        }
    }
    asked
}

/// A figure of a text with lines `KEY N kB`.
fn figure(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with(key))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_setting_counts() {
        let texts =
            ["# vm.nr_hugepages = 1\nvm.nr_hugepages = 64\n", "net.a = 1\n-vm/nr_hugepages=128\n"];
        assert_eq!(asked_in(texts.into_iter()), Some(128));
        assert_eq!(asked_in(texts[..1].iter().copied()), Some(64));
        assert_eq!(asked_in(["vm.nr_hugepages_mempolicy = 3\n"].into_iter()), None);
    }

    #[test]
    fn at_boot_only_pages_of_this_size_count() {
        assert_eq!(asked_at_boot("quiet hugepages=32 ro"), Some(32));
        assert_eq!(asked_at_boot("hugepagesz=1G hugepages=4 hugepagesz=2M hugepages=64"), Some(64));
        assert_eq!(asked_at_boot("default_hugepagesz=1G hugepages=4"), None);
        assert_eq!(asked_at_boot("ro"), None);
    }

    #[test]
    fn this_machine_can_be_looked_at() {
        let huge = look();
        assert!(huge.available_kib > 0, "{huge:?}");
        assert!(huge.set_aside.is_none_or(|(total, free)| free <= total), "{huge:?}");
    }
}
