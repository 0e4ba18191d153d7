//! The SAs that protect a packet together, one inside the other.

use core::net::IpAddr;

use crate::flow::Flow;
use crate::model::{MAX_BUNDLE, Template};
use crate::view::SaHandle;

/// SAs in the order in which they are applied to a packet that leaves: one for each template of its
/// policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaBundle {
    handles: [SaHandle; MAX_BUNDLE],
    len: u8,
}

impl SaBundle {
    /// The bundle of one SA.
    pub const fn new(first: SaHandle) -> SaBundle {
        SaBundle { handles: [first; MAX_BUNDLE], len: 1 }
    }

    /// Adds the SA that is applied next; false if there is no room.
    #[must_use]
    pub fn push(&mut self, next: SaHandle) -> bool {
        let place = self.handles.get_mut(usize::from(self.len));
        let has_room = place.map(|place| *place = next).is_some();
        self.len += u8::from(has_room);
        has_room
    }

    /// The SAs in the order in which they are applied outbound.
    pub fn as_slice(&self) -> &[SaHandle] {
        self.handles.get(..usize::from(self.len)).unwrap_or(&self.handles)
    }
}

/// Each template of a policy with the ends of the SAs for it: its own in tunnel mode; in transport mode
/// those of the packet as the templates before it leave it. An unspecified source stands for any.
pub(crate) fn with_ends<'t>(
    templates: &'t [Template],
    flow: &Flow<'_>,
) -> impl Iterator<Item = (&'t Template, (IpAddr, IpAddr))> {
    let mut ends = (flow.headers.src, flow.headers.dst);
    templates.iter().map(move |template| {
        if template.mode.is_tunnel() {
            ends = (template.src, template.dst);
        }
        (template, ends)
    })
}
