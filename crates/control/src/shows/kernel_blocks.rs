//! Packets that policies in the kernel have blocked, by Linux's own counters: where the guard stands, most of that is
//! its doing, and nobody else tells.

use std::collections::BTreeMap;
use std::fs;

/// Linux's statistics of packets that a policy which blocks has met: those that arrive or are forwarded, and those
/// that leave (`xfrm_proc.rst`).
const BLOCKS: [&str; 2] = ["XfrmInPolBlock", "XfrmOutPolBlock"];

/// The counters of this network namespace; none where the kernel has no `CONFIG_XFRM_STATISTICS`.
pub fn read() -> BTreeMap<String, u64> {
    parse(&fs::read_to_string("/proc/thread-self/net/xfrm_stat").unwrap_or_default())
}

fn parse(text: &str) -> BTreeMap<String, u64> {
    let lines = text.lines().filter_map(|line| {
        let (name, count) = line.split_once(char::is_whitespace)?;
        let count = count.trim().parse().ok()?;
        BLOCKS.contains(&name).then(|| (name.to_owned(), count))
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_policies_block_is_read() {
        let text = "XfrmInError             \t0\nXfrmInPolBlock          \t7\nXfrmOutPolBlock         \t2\n";
        let counts = [("XfrmInPolBlock".to_owned(), 7), ("XfrmOutPolBlock".to_owned(), 2)];
        assert_eq!(parse(text), counts.into());
        assert!(parse("").is_empty());
    }
}
