//! Packets that are resolved again: those for which there are SAs by now, and the worker's own ICMP errors.

use arrayvec::ArrayVec;
use io::Packet;
use wire::Headers;

use super::Slow;
use super::carry_out::carry_out;
use super::entered::{Entered, Resolved};
use super::hold::HeldForSa;
use crate::burst::Path;
use crate::features::limit::Grant;
use crate::model::Origin;
use crate::out::AnyOut;
use crate::out::hold::KEYS_AT_ONCE;
use crate::resolve::{Entry, SaWait, resolve};

/// Resolves a packet that no port received, and carries the decision out. `is_of_other`: it is another worker's, handed
/// over. `grant`: tokens of a limit that it has waited for.
pub(super) fn resolve_again(
    slow: &mut Slow,
    path: &mut Path,
    packet: Packet,
    h: &Headers,
    (origin, is_of_other): (Origin, bool),
    grant: Option<Grant>,
) {
    let owner = path.view.owner(is_of_other);
    let mut decided = resolve(&path.view, packet.data(), h, Entry::Outbound(origin), owner);
    let entered = Entered::Again(origin, None);
    carry_out(slow, path, &mut decided, Resolved { packet, h, entered, grant });
}

/// Sends on what waited for SAs that are there now, each SA's in the order of arrival.
///
/// A packet that still has none stays where it is, and those behind it wait with it: what is
/// taken out does not come back in this round, so this ends.
pub(super) fn retry(slow: &mut Slow, path: &mut Path) {
    loop {
        let (queue, view) = (&slow.waiting, &path.view);
        let ready = queue.keys().filter(|key| queue.is_ready(view, key));
        let mut ready: ArrayVec<SaWait, KEYS_AT_ONCE> = ready.take(KEYS_AT_ONCE).copied().collect();
        if ready.is_empty() {
            return;
        }
        // So that the order is the same whenever the same happens.
        ready.sort_unstable();
        for key in &ready {
            retry_key(slow, path, key);
        }
    }
}

fn retry_key(slow: &mut Slow, path: &mut Path, key: &SaWait) {
    let mut asked = false;
    while let Some(held) = slow.waiting.pop_ready(&path.view, key) {
        let HeldForSa { packet, origin, asks } = held;
        asked |= asks;
        path.exec.out.released(1);
        match wire::parse_ip(packet.data()) {
            Ok(h) => resolve_again(slow, path, packet, &h, (origin, false), None),
            Err(error) => path.exec.out.drop(packet, error.into()),
        }
    }
    // What that SA does not carry needs another one.
    if asked {
        slow.waiting.ask_again(&mut path.exec.out, key);
    }
}

/// Sends the ICMP errors that were made.
pub(super) fn send_errors(slow: &mut Slow, path: &mut Path) {
    if slow.errors.is_empty() {
        return;
    }
    for (error, origin) in slow.errors.take() {
        match wire::parse_ip(error.data()) {
            // A program of this machine hears it through the private interface.
            Ok(h) if path.view.topology.is_local_addr(h.dst) => {
                path.exec.out.give_to_linux(error);
            }
            Ok(h) => resolve_again(slow, path, error, &h, (origin, false), None),
            Err(reason) => path.exec.out.drop(error, reason.into()),
        }
    }
}
