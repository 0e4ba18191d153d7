//! Entry points of the fuzzers: bytes of the network in any order, which must end in a count each.

use core::net::SocketAddr;
use std::sync::Arc;

use crate::stamp::{Counts, Key, Timestamp};
use crate::{Asked, Bounds, Counted, Kind, Labels, Limits, Plan, Prober, Reflector, Remover, Stay};

/// A reflector and a session get packets cut out of `bytes`: the first byte of each says its length and to whom.
///
/// # Panics
/// If a packet is not counted, a reflection is not as long as its probe, or a reflector sends a reflection back.
pub fn packets(bytes: &[u8]) {
    let keys = || Key::new(&[7; 32]).into_iter().collect::<Vec<_>>();
    let limits = Limits { per_second: 1000, sessions: 4 };
    let reflectors = [Vec::new(), keys()].map(|keys| {
        let remover = Remover::new(Arc::new(Labels::default()), 77);
        Reflector::new(keys, limits).with_remover(remover)
    });
    let in_clear = Reflector::in_clear(keys(), Limits { per_second: 3, sessions: 0 });
    let mut reflectors: Vec<_> = reflectors.into_iter().chain(in_clear).collect();
    let bounds = Bounds { loss_ppm: 1000, delay_ns: Some(1000), jitter_ns: None };
    let (interval_ns, timeout_ns, hold_ns) = (50, 200, 1000);
    let plan = Plan { interval_ns, timeout_ns, misses: 3, window: 8, bounds, hold_ns };
    let kinds = [
        Kind::Stamp { ssid: 5, key: None },
        Kind::Stamp { ssid: 5, key: keys().pop() },
        Kind::Echo,
    ];
    let mut probers = kinds
        .map(|kind| Prober::new(kind, plan, u32::MAX, 0).asking_for_removal(5).counting_packets());
    let from = SocketAddr::from(([192, 0, 2, 1], 49152));
    let (mut left, mut now_ns, mut out) = (bytes, 1u64, [0; 512]);
    while let [head, rest @ ..] = left {
        let (packet, behind) = rest.split_at(rest.len().min(usize::from(*head)));
        left = behind;
        now_ns += u64::from(*head);
        let stay = Stay { now_ns, received: Timestamp(now_ns), sent: Timestamp(now_ns) };
        let packets = u32::from(*head).wrapping_mul(0x0101_0101);
        let counts = Counts { received: packets, sent: packets };
        let counted = Counted { by: u64::from(*head & 1), packets };
        for reflector in &mut reflectors {
            let before = reflector.reflections();
            let asked = Asked { from, ttl: *head, class: *head };
            let done = reflector.reflect(packet, asked, stay, || Some(counts), &mut out);
            assert!(done.is_none_or(|(len, _)| len == packet.len()));
            assert_ne!(before, reflector.reflections());
            if let Some((len, _)) = done {
                let mut back = [0; 512];
                let reflection = out.get(..len).unwrap_or_default();
                assert!(reflector.reflect(reflection, asked, stay, || None, &mut back).is_none());
            }
        }
        for prober in &mut probers {
            if prober.is_due(now_ns) {
                prober.send(now_ns, Timestamp(0), u16::from(*head), Some(counted), &mut out);
            }
            let before = (prober.counts(), prober.refusals());
            prober.receive(now_ns, packet, Some(counted));
            assert_ne!(before, (prober.counts(), prober.refusals()));
            prober.tick(now_ns);
            assert!(prober.due_ns() > now_ns);
        }
    }
}
