//! Labels that a reflector assigns to senders of copies, of whose packets this host removes the second ones.

use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::HashMap;
use std::sync::Arc;

/// Streams of a sender, each with a label of its own: as many, one behind the other.
pub const STREAMS: u32 = 16;

/// The first label: those before it are special (RFC 3032 §2.1).
const FIRST: u32 = 16;

/// Most senders that have labels at a time.
const SENDERS: usize = 1024;

/// Time in which a sender without probes makes room for another one.
const KEPT_NS: u64 = 60_000_000_000;

/// Who has which labels. One thread assigns, and all may ask.
#[derive(Debug)]
pub struct Labels {
    /// Identities of senders by their places; 0 for none.
    senders: Box<[AtomicU64]>,
}

impl Default for Labels {
    fn default() -> Labels {
        Labels { senders: (0..SENDERS).map(|_| AtomicU64::new(0)).collect() }
    }
}

impl Labels {
    /// Identity of the sender that has a label.
    pub fn sender(&self, label: u32) -> Option<u64> {
        let place = label.checked_sub(FIRST)? / STREAMS;
        let sender = self.senders.get(place as usize)?.load(Ordering::Relaxed);
        (sender != 0).then_some(sender)
    }
}

/// Consent of a far end to copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Removal {
    /// Identity of the far end. Paths with the same one end at one machine.
    pub by: u64,
    /// Label of the first of [`STREAMS`] streams, of whose packets it removes second copies.
    pub label: u32,
    /// True if it recovers lost packets of these streams by parity.
    pub recovers: bool,
}

/// The reflector's side: assigns labels.
#[derive(Debug)]
pub struct Remover {
    labels: Arc<Labels>,
    by: u64,
    /// Places of senders, and when each has asked last.
    known: HashMap<u64, (usize, u64)>,
    /// No sender is without probes for long enough before, as far as is known.
    used_until_ns: u64,
}

impl Remover {
    /// Of the host with this identity, which is not 0. `labels` may have those of before.
    pub fn new(labels: Arc<Labels>, by: u64) -> Remover {
        let senders = labels.senders.iter().map(|sender| sender.load(Ordering::Relaxed));
        let known = senders.zip(0..).filter(|(sender, _)| *sender != 0);
        let known = known.map(|(sender, place)| (sender, (place, 0))).collect();
        Remover { labels, by, known, used_until_ns: 0 }
    }

    /// The labels of a sender: those that it has, or others. `None` if there are none left.
    pub fn assign(&mut self, sender: u64, now_ns: u64) -> Option<Removal> {
        if sender == 0 {
            return None;
        }
        let place = match self.known.get_mut(&sender) {
            Some((place, asked_ns)) => {
                *asked_ns = now_ns;
                *place
            }
            None => self.add(sender, now_ns)?,
        };
        // Fewer than there are labels.
        Some(Removal { by: self.by, label: FIRST + place as u32 * STREAMS, recovers: true })
    }

    /// Finds a place for a new sender. It hangs on both identities, so that labels of before a restart are, most likely, another's.
    fn add(&mut self, sender: u64, now_ns: u64) -> Option<usize> {
        if self.known.len() >= SENDERS {
            if now_ns <= self.used_until_ns {
                return None;
            }
            let labels = &self.labels;
            self.known.retain(|_, (place, asked_ns)| {
                let is_kept = now_ns.saturating_sub(*asked_ns) <= KEPT_NS;
                if let Some(sender) = labels.senders.get(*place).filter(|_| !is_kept) {
                    sender.store(0, Ordering::Relaxed);
                }
                is_kept
            });
            let oldest_ns = self.known.values().map(|(_, asked_ns)| *asked_ns).min();
            self.used_until_ns = oldest_ns.map_or(0, |oldest_ns| oldest_ns.saturating_add(KEPT_NS));
        }
        // A multiplier of Knuth's (MMIX); the upper bits are the good ones.
        let first = ((sender ^ self.by).wrapping_mul(6_364_136_223_846_793_005) >> 32) as usize;
        let of = |owner: u64| {
            let mut places = (0..SENDERS).map(|step| first.wrapping_add(step) % SENDERS);
            places.find(|place| {
                let sender = self.labels.senders.get(*place);
                sender.is_some_and(|sender| sender.load(Ordering::Relaxed) == owner)
            })
        };
        // The reflector before may have given it one since this one was made.
        let place = of(sender).or_else(|| of(0))?;
        self.labels.senders.get(place)?.store(sender, Ordering::Relaxed);
        self.known.insert(sender, (place, now_ns));
        Some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_has_labels_of_its_own_and_keeps_them() {
        let labels = Arc::new(Labels::default());
        let mut remover = Remover::new(Arc::clone(&labels), 77);
        let one = remover.assign(5, 0).expect("labels");
        let other = remover.assign(6, 0).expect("labels");
        assert_eq!((one.by, remover.assign(5, 1)), (77, Some(one)));
        assert!(one.recovers && other.recovers);
        assert!(one.label >= FIRST && one.label.abs_diff(other.label) >= STREAMS);
        for stream in 0..STREAMS {
            assert_eq!(labels.sender(one.label + stream), Some(5));
        }
        assert_eq!(labels.sender(other.label), Some(6));
        // Another reflector of the host, as after a reload.
        let mut again = Remover::new(Arc::clone(&labels), 77);
        assert_eq!(again.assign(6, 2), Some(other));
        assert_eq!(again.assign(0, 2), None);
        let none = [0, FIRST - 1, FIRST + SENDERS as u32 * STREAMS, u32::MAX];
        assert_eq!(none.map(|label| labels.sender(label)), [None; 4]);
    }

    #[test]
    fn two_reflectors_of_one_host_give_a_sender_one_label() {
        let labels = Arc::new(Labels::default());
        let [mut before, mut after] = [(); 2].map(|()| Remover::new(Arc::clone(&labels), 77));
        // The one before goes on until the worker has the other.
        let label = before.assign(5, 0);
        assert_eq!(after.assign(5, 1), label);
    }

    #[test]
    fn places_are_bounded_and_free_again() {
        let labels = Arc::new(Labels::default());
        let mut remover = Remover::new(Arc::clone(&labels), 77);
        let all: Vec<_> = (1..=SENDERS as u64).filter_map(|s| remover.assign(s, s)).collect();
        assert_eq!(all.len(), SENDERS);
        assert_eq!(remover.assign(9999, SENDERS as u64), None);
        let kept = remover.assign(2, KEPT_NS).expect("its own");
        let new = remover.assign(9999, KEPT_NS + 4).expect("a place");
        assert_eq!((labels.sender(new.label), labels.sender(kept.label)), (Some(9999), Some(2)));
        // The first ones are gone, and one that has asked just lately enough is not.
        assert_eq!(labels.sender(all[3].label), Some(4));
        assert!(all.iter().filter(|removal| labels.sender(removal.label).is_none()).count() >= 1);
    }
}
