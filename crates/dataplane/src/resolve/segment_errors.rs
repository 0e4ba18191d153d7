//! ICMPv6 errors from inside of the path of segments (RFC 8754 §5.4): which packets may be some, and whether they came
//! as the segments go.
//!
//! They come to the source of outer headers, which is an address of this host. What they quote is nothing that only
//! who sees the path could say, so who may send one is told by where it comes from: in clear from inside the domain
//! (`srv6.domain`), and under protection where the segments themselves are, and only there.

use policy::{Marks, Outbound};
use srv6::Headend;
use wire::{Fragment, icmpv6, protocol};

use super::Question;
use super::decision::ErrorCame;
use super::ways::outer_headers;
use crate::model::{LOOPBACK, Notes};
use crate::view::View;

/// Notes that a packet to this host may be such an error. Whatever it is, the next one with such headers may
/// quote another packet.
pub(super) fn note_segment_error<N: Notes>(question: &mut Question<'_, N>, came: ErrorCame) {
    let (segments, h) = (&question.view.topology.segments, question.h);
    // ICMP's type is its source port; it has 8 bits.
    let is_error = h.protocol == protocol::ICMPV6 && icmpv6::is_error(h.src_port as u8);
    if segments.is_empty() || !is_error || h.fragment != Fragment::Whole {
        return;
    }
    question.is_for_flow = false;
    let is_from_inside = match came {
        ErrorCame::InClear { ifindex } => segments.is_inside(ifindex),
        ErrorCame::Protected => true,
    };
    question.segment_error = is_from_inside.then_some(came);
}

/// True if an error came as the packets of a headend go.
pub(crate) fn is_as_sent(came: ErrorCame, view: &View, headend: &Headend) -> bool {
    let h = outer_headers(headend);
    let outbound =
        view.reader.outbound(&view.flow(&h, LOOPBACK, Marks::of_mark(0), view.owner(false)));
    let is_protected = matches!(
        outbound,
        Outbound::Protect(..) | Outbound::ProtectAll(..) | Outbound::NoState(..)
    );
    is_protected == (came == ErrorCame::Protected)
}
