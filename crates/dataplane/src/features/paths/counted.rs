//! Packets beside which probes travel, as their SAs count them (RFC 8972 §4.5).
//!
//! Those with the probe's DSCP: another class may wait in other queues, and be lost there. Only SAs in tunnel mode count, as
//! nobody on the way can change the DSCP inside; in transport mode a router may. What a device encrypts, and payloads of
//! IP-TFS, nobody counts by class.

use dispatch::Home;
use esp::{Mode, Sa};
use paths::Counted;
use policy::{Outbound, SaEntry};
use wire::Headers;

use crate::model::{Meta, Origin};
use crate::view::View;

/// Packets that have left by the SA which will protect a packet of this host. `None` if nobody counts them, or more than one SA
/// protects it.
pub(super) fn sent_before(view: &View, h: &Headers, origin: Origin) -> Option<Counted> {
    let flow = view.flow(h, origin.iif(), origin.marks(), view.owner(false));
    match view.reader.outbound(&flow) {
        Outbound::Protect(_, sa) => counted(view.reader.sa(sa)?, h.traffic_class),
        _ => None,
    }
}

/// Packets that the SA has carried which has decrypted one. `None` if nobody counts them, or more than one SA was around it.
pub(super) fn received_with(view: &View, h: &Headers, meta: &Meta) -> Option<Counted> {
    let is_inside = meta.outers().is_some_and(|outers| outers.iter().next().is_some());
    let via = meta.ingress.via().filter(|_| !is_inside)?;
    counted(view.reader.sa(via)?, h.traffic_class)
}

fn counted(sa: &SaEntry<Sa>, traffic_class: u8) -> Option<Counted> {
    if sa.config.params.mode != Mode::Tunnel || sa.home().at() == Home::DEVICE {
        return None;
    }
    let classes = sa.measure_classes();
    Some(Counted { by: classes.by(), packets: classes.packets(traffic_class) })
}
