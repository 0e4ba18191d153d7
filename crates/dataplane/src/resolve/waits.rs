//! Test if a packet that waits for an SA still has to.

use core::cell::Cell;

use policy::Outbound;

use super::nat::Nat;
use super::question::Context;
use super::ways::tunnel_ahead;
use crate::model::Origin;
use crate::view::View;

/// True if a packet that waits for an SA can go on.
pub(crate) fn has_sa(view: &View, packet: &[u8], origin: Origin) -> bool {
    // One that does not parse any more may go too: to be dropped.
    wire::parse_ip(packet).map_or(true, |h| {
        let flow = |marks| view.flow(&h, origin.iif(), marks, view.owner(false));
        let ask = |marks| view.reader.outbound(&flow(marks));
        match ask(origin.marks()) {
            Outbound::NoState(..) => false,
            Outbound::NoPolicy | Outbound::Bypass(_) => {
                let owner = view.owner(false);
                let (knows_ports, nat) = (false, &Nat::Off);
                let steered = Cell::default();
                let context = Context { view, packet, h: &h, owner, knows_ports, nat, steered };
                let tunnel = tunnel_ahead(&context, origin);
                let marks = tunnel.map(|to| to.binding.outbound(origin.marks()));
                !marks.is_some_and(|marks| matches!(ask(marks), Outbound::NoState(..)))
            }
            _ => true,
        }
    })
}
