//! A packet cut into fragments of its path's MTU.

use forward::{fragment, fragment_v6};
use io::Packet;
use outcome::{DropReason, Outcome};
use wire::{Family, Headers, Span};

use crate::out::any::AnyOut;
use crate::tables::vlan::note_as_of;

/// Cuts a packet into fragments of at most `mtu` bytes, and gives each to `hand_on`.
///
/// An IPv6 packet must be one that this host sends itself; `ident` is then the fragments'
/// identification. `through` is what `hand_on` works with; the exit is part of it.
pub(crate) fn fragment<O: AnyOut, T: AsMut<O>>(
    through: &mut T,
    packet: Packet,
    h: &Headers,
    (mtu, ident): (usize, u32),
    mut hand_on: impl FnMut(&mut T, Packet, &Headers),
) {
    let out = through.as_mut();
    let Some(cut) = Cut::new(h, packet.data(), mtu, ident) else {
        return out.drop(packet, DropReason::OutTooBig);
    };
    out.counters().work.fragmented.add(1);
    // The packet ends as its first fragment; the others are new.
    let pieces = cut.count();
    out.counters().generated.add(pieces.saturating_sub(1) as u64);
    for n in 0..pieces {
        if let Some((mut piece, h)) = piece(through.as_mut(), &cut, n) {
            note_as_of(&mut piece, &packet);
            hand_on(through, piece, &h);
        }
    }
    through.as_mut().pool().put_packet(packet);
}

/// One fragment, or its end.
fn piece(out: &mut impl AnyOut, cut: &Cut<'_>, n: usize) -> Option<(Packet, Headers)> {
    let Some(frame) = out.pool().take() else {
        out.counters().count(Outcome::Dropped(DropReason::NoFrames), 1);
        return None;
    };
    let start = frame.headroom();
    let mut piece = Packet { frame, span: Span { start, len: 0 } };
    let room = piece.frame.bytes_mut().get_mut(start..).unwrap_or(&mut []);
    let Ok(len) = cut.write(n, room) else {
        out.drop(piece, DropReason::OutNoRoom);
        return None;
    };
    piece.span.len = len;
    match wire::parse_ip(piece.data()) {
        Ok(h) => Some((piece, h)),
        Err(error) => {
            out.drop(piece, error.into());
            None
        }
    }
}

/// A plan of fragments, of either family.
enum Cut<'a> {
    V4(fragment::Plan<'a>),
    V6(fragment_v6::Plan<'a>),
}

impl<'a> Cut<'a> {
    fn new(h: &Headers, packet: &'a [u8], mtu: usize, ident: u32) -> Option<Cut<'a>> {
        match h.family() {
            Family::V4 => fragment::plan(h, packet, mtu).ok().map(Cut::V4),
            Family::V6 => fragment_v6::plan(h, packet, mtu, ident).ok().map(Cut::V6),
        }
    }

    fn count(&self) -> usize {
        match self {
            Cut::V4(plan) => plan.count(),
            Cut::V6(plan) => plan.count(),
        }
    }

    fn write(&self, n: usize, out: &mut [u8]) -> Result<usize, wire::NoRoom> {
        match self {
            Cut::V4(plan) => plan.write(n, out),
            Cut::V6(plan) => plan.write(n, out),
        }
    }
}
