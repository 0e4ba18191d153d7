//! Packets whose flow has no plan that holds.

use esp::Sa;
use io::Packet;
use policy::SaEntry;

use super::Slow;
use super::carry_out::carry_out;
use super::entered::{Entered, Resolved};
use crate::burst::{Misses, Path};
use crate::features::limit::Grant;
use crate::model::{Meta, Turn, TurnHolder};
use crate::out::AnyOut;
use crate::resolve::resolve_arrival;

/// Nobody but [`Alone`](super::Alone) has it.
impl TurnHolder for Slow {}

impl Misses for Slow {
    #[inline(always)]
    fn turn(&self) -> Turn<'_> {
        Turn::of(self)
    }

    #[inline(always)]
    fn takes_all(&self) -> bool {
        false
    }

    #[inline(never)]
    fn miss(&mut self, path: &mut Path, packet: Packet, meta: &Meta, held: Option<&SaEntry<Sa>>) {
        resolve_miss(self, path, (packet, None), meta, held);
    }
}

/// Resolves a packet that has no plan, with the tokens that it has got if it has waited for some.
#[inline(always)]
pub(super) fn resolve_miss(
    slow: &mut Slow,
    path: &mut Path,
    (packet, grant): (Packet, Option<Grant>),
    meta: &Meta,
    held: Option<&SaEntry<Sa>>,
) {
    let h = match wire::parse_ip(packet.data()) {
        Ok(h) => h,
        // It parsed when it was classified.
        Err(error) => return path.exec.out.drop(packet, error.into()),
    };
    let mut decided = resolve_arrival(&path.view, packet.data(), &h, meta, held);
    path.exec.out.counters.work.flow_misses.add(u64::from(!decided.decision.is_counted_later()));
    let entered = Entered::Arrived(meta, None);
    carry_out(slow, path, &mut decided, Resolved { packet, h: &h, entered, grant });
}
