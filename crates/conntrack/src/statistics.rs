//! How full Linux's table of connections is, and what it refused (`IPCTNL_MSG_CT_GET_STATS` and `_CPU`).

use crate::message::{CTNETLINK, FLAG_DUMP, FLAG_REQUEST, Writer, answers, attributes, be32};

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
pub fn ask_fill() -> Vec<u8> {
    Writer::new(GET_STATS, FLAG_REQUEST, 0).finish()
}

/// Asks what was refused: an answer for each CPU, and an end.
pub fn ask_refusals() -> Vec<u8> {
    Writer::new(GET_STATS_CPU, FLAG_REQUEST | FLAG_DUMP, 0).finish()
}

impl Statistics {
    /// Adds the counts of a datagram. Messages of another kind, and unsound ones, are left out.
    pub fn add(&mut self, datagram: &[u8]) {
        for (kind, message) in answers(datagram) {
            let all = attributes(message).filter_map(|(name, value)| Some((name, be32(value)?)));
            if kind == CTNETLINK << 8 | GET_STATS {
                for (name, value) in all {
                    match name {
                        GLOBAL_ENTRIES => self.entries = value,
                        GLOBAL_MAX_ENTRIES => self.most = value,
                        _ => {}
                    }
                }
            } else if kind == CTNETLINK << 8 | GET_STATS_CPU {
                for (name, value) in all {
                    match name {
                        INSERT_FAILED => self.insert_failed += u64::from(value),
                        DROP => self.dropped += u64::from(value),
                        EARLY_DROP => self.early_dropped += u64::from(value),
                        _ => {}
                    }
                }
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
    use super::*;

    /// As the kernel answers.
    fn told(kind: u16, values: &[(u16, u32)]) -> Vec<u8> {
        let mut writer = Writer::new(kind, 0, 0);
        values.iter().for_each(|(name, value)| writer.put(*name, &value.to_be_bytes()));
        writer.finish()
    }

    #[test]
    fn those_of_all_cpus_are_added() {
        let cpu = |n| {
            told(GET_STATS_CPU, &[(2, 77), (INSERT_FAILED, n), (DROP, 10 * n), (EARLY_DROP, 1)])
        };
        let fill = told(GET_STATS, &[(GLOBAL_ENTRIES, 95), (GLOBAL_MAX_ENTRIES, 100)]);
        let bytes = [cpu(1), cpu(2), fill].concat();
        let mut found = Statistics::default();
        found.add(&bytes);
        let expected =
            Statistics { entries: 95, most: 100, insert_failed: 3, dropped: 30, early_dropped: 2 };
        assert_eq!(found, expected);
        assert_eq!(found.without_room(), 27);
        assert!(found.is_nearly_full());
        // Cut short anywhere it is borne.
        for len in 0..bytes.len() {
            Statistics::default().add(&bytes[..len]);
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
