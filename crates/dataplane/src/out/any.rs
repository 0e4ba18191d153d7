//! Exits of either kind: a worker's, which has ports, and a helper's, which notes in its burst what the worker is to do.
//!
//! The stages of a packet are written once, for any exit ([`AnyOut`]). Which one a path leads to is part of its type, so
//! no packet asks.

use esp::IvSource;
use io::tun::back;
use io::{FramePool, Packet};
use outcome::{DropReason, Outcome};
use wire::ethernet::{EtherType, HEADER_LEN, emit_untagged};

use crate::capture::Taps;
use crate::counters::Counters;
use crate::model::{Handed, Ingress, Meta, NextHop, Towards};
use crate::out::dress::Dress;
use crate::out::reports::Reports;
use crate::view::View;

/// The exit of one thread: every packet leaves the stages through it, and is counted for it.
pub(crate) trait AnyOut: Sized {
    /// Where this thread counts.
    fn counters(&self) -> &Counters;
    /// Where frames of ended packets go.
    fn pool(&mut self) -> &mut FramePool;
    /// News for the control thread.
    fn reports(&mut self) -> &mut Reports;
    /// Recorders of packets, during captures. A helper records nothing.
    fn taps(&mut self) -> Option<&mut Taps>;
    /// Tables that frames are dressed by.
    fn dress(&self) -> &Dress;
    /// The same, to be taken over from the view's tables.
    fn dress_mut(&mut self) -> &mut Dress;

    /// Ends a packet.
    fn end(&mut self, packet: Packet, outcome: Outcome);
    /// Sends a frame by a port, when it is its turn.
    fn send(&mut self, slot: usize, packet: Packet);
    /// Sends an IP packet to a neighbour that may be unknown.
    fn send_to(&mut self, view: &View, packet: Packet, towards: Towards);
    /// Sends a sealed packet whose next hop no plan has, in fragments where it could not be made short enough.
    fn send_sealed_to(&mut self, view: &View, packet: Packet, to: &NextHop, ivs: &mut IvSource);
    /// Hands an IP packet to Linux, through the private interface.
    fn give_to_linux(&mut self, packet: Packet);
    /// Hands something to another worker; it is dropped if the queue there is full.
    fn hand(&mut self, to: usize, handed: Handed);
    /// Hands a packet that arrived to another worker.
    fn hand_over(&mut self, view: &View, to: usize, packet: Packet, meta: &Meta);
    /// Keeps a packet whose SA is not there, or drops it: where nothing has changed since the round began, or too
    /// many wait.
    fn put_off(&mut self, view: &View, packet: Packet, meta: &Meta);
    /// Leaves a packet that a helper has no means for to the worker that it serves.
    fn leave(&mut self, view: &View, packet: Packet, meta: &Meta);
    /// Keeps a packet that has got segments: it goes on behind the burst.
    fn keep_wrapped(&mut self, packet: Packet, ingress: Ingress);

    /// Ends a packet by dropping it.
    fn drop(&mut self, packet: Packet, reason: DropReason) {
        self.end(packet, reason.into());
    }

    /// Gives a packet back to Linux as received by the interface that it came in by. Its Ethernet
    /// header still stands in front of it: nothing was written there since.
    fn give_back(&mut self, mut packet: Packet, tag: u16) {
        match back::tag(&mut packet, tag) {
            true => self.give_to_linux(packet),
            // A port leaves more room than that in front of each frame.
            false => self.drop(packet, DropReason::OutNoRoom),
        }
    }

    /// Hands an IP packet to Linux with the mark, and as received by the interface, that a tag stands
    /// for.
    fn give_marked(&mut self, mut packet: Packet, tag: u16) {
        // Nobody reads the addresses: Linux takes the header off.
        let none = wire::MacAddr([0; 6]);
        let header = packet.span.start.checked_sub(HEADER_LEN);
        let written = ether_type(&packet).zip(header).is_some_and(|(ether_type, start)| {
            let header = packet.buffer_mut().get_mut(start..).unwrap_or_default();
            emit_untagged(header, none, none, ether_type).is_ok()
        });
        match written && back::tag(&mut packet, tag) {
            true => self.give_to_linux(packet),
            false => self.drop(packet, DropReason::OutNoRoom),
        }
    }
}

/// The EtherType by the packet's version field.
pub(super) fn ether_type(packet: &Packet) -> Option<EtherType> {
    match packet.data().first()? >> 4 {
        4 => Some(EtherType::IPV4),
        6 => Some(EtherType::IPV6),
        _ => None,
    }
}
