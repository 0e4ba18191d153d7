//! Huge pages for packet buffers: what was asked of the kernel, what is there, what the buffers lie on.

use report::BufferPages;

use super::facts::{Facts, HugePages};
use super::finding::Finding;
use super::mend::Mend;

/// Of the size that buffers lie on, in KiB.
const PAGE_KIB: u64 = 2048;

/// Free memory is this many times what is asked for, or `--fix` does not ask for it.
const SPARE: u64 = 4;

const SLOW: &str =
    "packets wait for page tables then: buffers on huge pages are worth 2 to 5 % of the rate";

/// All of them.
pub fn check(facts: &Facts) -> Vec<Finding> {
    let huge = &facts.machine.huge_pages;
    let mut findings: Vec<Finding> = fewer_than_asked(huge).into_iter().collect();
    findings.push(buffers(facts, huge));
    findings
}

/// Finding where the machine's configuration asks for more huge pages than the kernel has.
fn fewer_than_asked(huge: &HugePages) -> Option<Finding> {
    let (asked, (total, _)) = (huge.asked?, huge.set_aside?);
    (huge.is_default_size && total < asked).then(|| {
        with_pages(
            huge,
            asked,
            asked - total,
            format!("{asked} are asked for (vm.nr_hugepages), and {total} are there"),
            "the kernel had no more memory in one piece when it was asked: what counts on them goes \
             without",
            "",
        )
    })
}

/// Pages of the packet buffers, now or after a start.
fn buffers(facts: &Facts, huge: &HugePages) -> Finding {
    let check = "hugepages";
    let running = facts.instance.daemon.as_ref().and_then(|daemon| daemon.as_ref().ok());
    let worker = facts.config().map(|config| &config.worker);
    let kib = match (running, worker) {
        (Some(running), _) => running.status.buffers_kib,
        (None, Some(worker)) => u64::from(worker.frames) * u64::from(worker.frame_bytes) / 1024,
        (None, None) => 0,
    };
    let needed = kib.div_ceil(PAGE_KIB);
    let Some((total, free)) = huge.set_aside.filter(|_| kib >= PAGE_KIB) else {
        let seen = match running {
            Some(running) => format!("packet buffers lie on {}", running.status.buffers_pages),
            None => "none that packet buffers could lie on".to_owned(),
        };
        return Finding::ok(check, seen);
    };
    let missing = needed.saturating_sub(free);
    if let Some(running) = running {
        let pages = &running.status.buffers_pages;
        if *pages != BufferPages::Small {
            return Finding::ok(check, format!("packet buffers lie on {pages}"));
        }
        if missing == 0 {
            return Finding::warning(
                check,
                format!("packet buffers lie on {pages}, and {free} huge pages are free"),
                SLOW,
                "systemctl restart culvert (tunnels stay)",
            );
        }
        let seen = format!("packet buffers lie on {pages}; they take {needed}, {free} are free");
        let then = "; then: systemctl restart culvert (tunnels stay)";
        return with_pages(huge, total + missing, missing, seen, SLOW, then);
    }
    if missing == 0 {
        return Finding::ok(check, format!("{free} are free, packet buffers take {needed}"));
    }
    if huge.transparent {
        return Finding::ok(
            check,
            format!("packet buffers take {needed}; the kernel gives them unasked"),
        );
    }
    let seen = format!("packet buffers take {needed}, and {free} are free");
    with_pages(huge, total + missing, missing, seen, SLOW, "")
}

/// A warning that is mended by having `pages` in all, `more` than now.
fn with_pages(
    huge: &HugePages,
    pages: u64,
    more: u64,
    seen: String,
    why: &str,
    then: &str,
) -> Finding {
    let mend = Mend::new(format!("sysctl -w vm.nr_hugepages={pages}"));
    let warning = |next: String| Finding::warning("hugepages", seen.as_str(), why, next);
    if !huge.is_default_size {
        return warning(format!(
            "echo {pages} > /sys/kernel/mm/hugepages/hugepages-{PAGE_KIB}kB/nr_hugepages{then}"
        ));
    }
    let warning = warning(format!("{mend}{then}"));
    let is_there = huge.available_kib >= more * PAGE_KIB * SPARE;
    if is_there { warning.mended_by(mend) } else { warning }
}

#[cfg(test)]
mod tests {
    use super::super::facts::healthy_daemon;
    use super::super::finding::Outcome::{Ok as Fine, Warning};
    use super::super::rows::{Row, assert_rows};
    use super::*;

    fn huge(facts: &mut Facts) -> &mut HugePages {
        &mut facts.machine.huge_pages
    }

    /// 16384 buffers of 2 KiB are 16 huge pages.
    fn small(facts: &mut Facts) {
        let mut running = healthy_daemon();
        running.status.buffers_kib = 32 * 1024;
        running.status.buffers_pages = "small pages".into();
        facts.instance.daemon = Some(Ok(running));
    }

    #[test]
    fn every_finding() {
        let rows: &[Row] = &[
            (|_| {}, "hugepages", Fine, &["20 are free, packet buffers take 16"]),
            (|f| huge(f).set_aside = None, "hugepages", Fine, &["none that"]),
            (|f| huge(f).set_aside = Some((20, 15)), "hugepages", Fine, &["unasked"]),
            (
                |f| {
                    *huge(f) =
                        HugePages { set_aside: Some((20, 15)), transparent: false, ..*huge(f) };
                },
                "hugepages",
                Warning,
                &["take 16, and 15 are free", "fix: Some(Mend(\"sysctl -w vm.nr_hugepages=21\"))"],
            ),
            (
                |f| {
                    small(f);
                    huge(f).set_aside = Some((0, 0));
                },
                "hugepages",
                Warning,
                &["small pages; they take 16, 0", "vm.nr_hugepages=16; then: systemctl restart"],
            ),
            (small, "hugepages", Warning, &["20 huge pages are free", "restart", "fix: None"]),
            (
                |f| huge(f).asked = Some(64),
                "hugepages",
                Warning,
                &[
                    "64 are asked for",
                    "20 are there",
                    "fix: Some(Mend(\"sysctl -w vm.nr_hugepages=64\"))",
                ],
            ),
            // What is free is not four times as much.
            (
                |f| {
                    huge(f).asked = Some(64);
                    huge(f).available_kib = 44 * PAGE_KIB * SPARE - 1;
                },
                "hugepages",
                Warning,
                &["sysctl -w vm.nr_hugepages=64", "fix: None"],
            ),
            // vm.nr_hugepages is about pages of 1 GiB then.
            (
                |f| {
                    small(f);
                    huge(f).set_aside = Some((0, 0));
                    huge(f).is_default_size = false;
                },
                "hugepages",
                Warning,
                &["echo 16 > /sys/kernel/mm/hugepages/hugepages-2048kB", "fix: None"],
            ),
        ];
        assert_rows(check, rows);
    }

    #[test]
    fn buffers_on_huge_pages_are_well_whatever_is_free() {
        for pages in ["reserved huge pages", "transparent huge pages"] {
            let mut facts = super::super::facts::healthy();
            small(&mut facts);
            facts.instance.daemon.as_mut().unwrap().as_mut().unwrap().status.buffers_pages =
                pages.into();
            facts.machine.huge_pages.set_aside = Some((20, 0));
            let found = check(&facts);
            assert!(found.len() == 1 && found[0].result == Fine, "{found:?}");
        }
    }
}
