//! Tables that frames are dressed by: VLANs, headends, overlays, as of the view.

use std::sync::Arc;

use crate::tables::Topology;
use crate::tables::overlays::Overlays;
use crate::tables::segments::Segments;
use crate::tables::vlan::Vlans;

/// A thread's copy of these tables: its exit has no view at hand.
pub(crate) struct Dress {
    /// The VLANs of ports.
    pub(crate) vlans: Arc<Vlans>,
    /// Routes with segments (SRv6).
    pub(crate) segments: Segments,
    /// Overlays and their far ends.
    pub(crate) overlays: Overlays,
    /// Identification of the last outer packet of an overlay.
    ident: u16,
    /// Where this thread counts VLANs' frames.
    pub(crate) lane: usize,
}

impl Dress {
    /// No tables yet.
    pub(super) fn new(lane: usize) -> Dress {
        let (vlans, segments, overlays) =
            (Arc::default(), Segments::default(), Overlays::default());
        // Those of several threads are apart.
        let ident = (lane as u16).wrapping_mul(0x1003);
        Dress { vlans, segments, overlays, ident, lane }
    }

    /// Takes the tables over from the view's.
    pub(crate) fn load(&mut self, topology: &Topology) {
        self.vlans = Arc::clone(&topology.vlans);
        self.segments = topology.segments.clone();
        self.overlays = topology.overlays.clone();
    }

    /// Identification of the next outer packet of an overlay.
    pub(super) fn next_ident(&mut self) -> u16 {
        self.ident = self.ident.wrapping_add(1);
        self.ident
    }
}
