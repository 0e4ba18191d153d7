//! How full Linux's table of connections is, and what it refused (`IPCTNL_MSG_CT_GET_STATS` and `_CPU`).

use netlink::attribute::as_be32 as be32;
use netlink::{MessageWriter, netfilter};

use crate::message::ask;

/// Linux's counters of its connections, since the network namespace began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Connections that there are.
    pub entries: u32,
    /// The most that there may be; 0 where the kernel does not say.
    pub most: u32,
    /// Connections that did not come into the table, and whose packet was dropped: no port was left for them, or one with the
    /// same tuple came in before.
    pub insert_failed: u64,
    /// Packets that were dropped: of connections that did not come in, and as the table was full.
    pub dropped: u64,
    /// Connections that were ended to make room for others.
    pub early_dropped: u64,
}

/// Asks how full the table is.
pub fn ask_fill() -> MessageWriter {
    ask(GET_STATS, 0)
}

/// Asks what was refused, by a dump: there is an answer for each CPU.
pub fn ask_refusals() -> MessageWriter {
    ask(GET_STATS_CPU, 0)
}

impl Statistics {
    /// Adds how full the table is, by what follows the header of an answer; what is unsound is left out.
    pub fn add_fill(&mut self, message: &[u8]) {
        for (name, value) in numbers(message) {
            match name {
                GLOBAL_ENTRIES => self.entries = value,
                GLOBAL_MAX_ENTRIES => self.most = value,
                _ => {}
            }
        }
    }

    /// Adds what a CPU has refused, likewise.
    pub fn add_refusals(&mut self, message: &[u8]) {
        for (name, value) in numbers(message) {
            match name {
                INSERT_FAILED => self.insert_failed += u64::from(value),
                DROP => self.dropped += u64::from(value),
                EARLY_DROP => self.early_dropped += u64::from(value),
                _ => {}
            }
        }
    }

    /// Packets that were dropped for lack of room, at least. Most that did not come in are counted as dropped too.
    pub fn without_room(&self) -> u64 {
        self.dropped.saturating_sub(self.insert_failed)
    }

    /// True if nine tenths of the table are taken.
    pub fn is_nearly_full(&self) -> bool {
        self.most > 0 && u64::from(self.entries) * 10 >= u64::from(self.most) * 9
    }
}

fn numbers(message: &[u8]) -> impl Iterator<Item = (u16, u32)> {
    let attributes = netfilter::split(message).map(|(_, attributes)| attributes);
    let attributes = attributes.into_iter().flatten();
    attributes.filter_map(|(name, value)| Some((name, be32(value)?)))
}

/// Message types (`IPCTNL_MSG_CT_*`).
const GET_STATS_CPU: u16 = 4;
const GET_STATS: u16 = 5;
/// Attributes of the counters (`CTA_STATS_*`).
const INSERT_FAILED: u16 = 9;
const DROP: u16 = 10;
const EARLY_DROP: u16 = 11;
/// Attributes of the whole table (`CTA_STATS_GLOBAL_*`).
const GLOBAL_ENTRIES: u16 = 1;
const GLOBAL_MAX_ENTRIES: u16 = 2;

#[cfg(test)]
mod tests {
    use netlink::{Field as _, Header};

    use super::*;

    /// As the kernel answers, from behind the header on.
    fn told(values: &[(u16, u32)]) -> Vec<u8> {
        let mut writer = ask(0, 0);
        values.iter().for_each(|(name, value)| {
            writer.attribute(*name, &value.to_be_bytes());
        });
        writer.finish()[Header::LEN..].to_vec()
    }

    #[test]
    fn those_of_all_cpus_are_added() {
        let cpu = |n| told(&[(2, 77), (INSERT_FAILED, n), (DROP, 10 * n), (EARLY_DROP, 1)]);
        let fill = told(&[(GLOBAL_ENTRIES, 95), (GLOBAL_MAX_ENTRIES, 100)]);
        let mut found = Statistics::default();
        found.add_refusals(&cpu(1));
        found.add_refusals(&cpu(2));
        found.add_fill(&fill);
        let expected =
            Statistics { entries: 95, most: 100, insert_failed: 3, dropped: 30, early_dropped: 2 };
        assert_eq!(found, expected);
        assert_eq!(found.without_room(), 27);
        assert!(found.is_nearly_full());
        // Cut short anywhere it is borne.
        for len in 0..fill.len() {
            Statistics::default().add_fill(&fill[..len]);
            Statistics::default().add_refusals(&fill[..len]);
        }
    }

    #[test]
    fn a_kernel_that_does_not_say_how_many_fit_is_not_called_full() {
        assert!(!Statistics { entries: 9, ..Statistics::default() }.is_nearly_full());
        assert!(!Statistics { entries: 89, most: 100, ..Statistics::default() }.is_nearly_full());
        assert!(
            Statistics { entries: u32::MAX, most: u32::MAX, ..Statistics::default() }
                .is_nearly_full()
        );
    }
}
