//! The SAs that packets have named lately, so that the packets that follow need no look-up.
//!
//! Within one view of the databases the answer to a look-up stays the same, and most bursts are of
//! a few SAs. Each SA has one place, by its SPI; who comes later takes it.

use policy::SaHandle;
use wire::{FlowKey, protocol};

use crate::view::View;

/// Answers of [`policy::Reader::inbound_sa`] for ESP, good in one view.
pub(crate) struct InboundSas {
    places: [CachedSa; PLACES],
    /// The view that is current: it counts up.
    view: u64,
}

#[derive(Clone, Copy, Default)]
struct CachedSa {
    dst: [u64; 3],
    spi: u32,
    /// The view that the answer is of; 0 for none.
    view: u64,
    sa: Option<SaHandle>,
}

impl Default for InboundSas {
    fn default() -> InboundSas {
        InboundSas { places: [CachedSa::default(); PLACES], view: 1 }
    }
}

impl InboundSas {
    /// Forgets all: the databases have changed.
    pub(crate) fn begin_view(&mut self) {
        self.view += 1;
    }

    /// The SA for a packet of this flow with this SPI. The view has not changed since
    /// [`InboundSas::begin_view`].
    #[inline(always)]
    pub(crate) fn find(&mut self, flow: &FlowKey, spi: u32, view: &View) -> Option<SaHandle> {
        let place = self.places.get_mut(spi as usize % PLACES)?;
        let dst = flow.dst_words();
        // Without the call, and the memory, that comparing arrays takes.
        let unlike = place.dst.iter().zip(&dst).fold(0, |unlike, (a, b)| unlike | (a ^ b));
        if place.view == self.view && place.spi == spi && unlike == 0 {
            return place.sa;
        }
        let Some(sa) = look_up(flow, spi, view) else {
            return look_up_marked(flow, spi, view);
        };
        *place = CachedSa { dst, spi, view: self.view, sa: Some(sa) };
        Some(sa)
    }
}

#[inline(never)]
fn look_up(flow: &FlowKey, spi: u32, view: &View) -> Option<SaHandle> {
    view.reader.inbound_sa(flow.dst(), spi, protocol::ESP, 0)
}

/// One with the mark of a tunnel interface. Not kept: which that is hangs on the source too.
#[cold]
#[inline(never)]
fn look_up_marked(flow: &FlowKey, spi: u32, view: &View) -> Option<SaHandle> {
    view.inbound_sa(flow, spi, protocol::ESP)
}

/// Some kilobytes, and more SAs than a burst is of while bursts are not spread over many.
const PLACES: usize = 64;
