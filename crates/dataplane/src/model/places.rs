//! Numbers of interfaces and ports, and what those mean that no link and no port has.
//!
//! | number | below | from | stands for |
//! | --- | --- | --- | --- |
//! | interface | `1 << 31` | 1 | an interface of Linux; 0 is the private interface |
//! | interface | | [`FIRST_SEGMENTS`] | a route with segments, by its number |
//! | interface | | [`FIRST_OVERLAYS`] | an overlay: far end or interface, by its number |
//! | slot | [`FIRST_VLAN_SLOT`] | 0 | a queue of the worker ([`slots`](super::slots)) |
//! | slot | [`FIRST_SEGMENTS_SLOT`] | [`FIRST_VLAN_SLOT`] | a VLAN on a port |
//! | slot | [`FIRST_OVERLAYS_SLOT`] | [`FIRST_SEGMENTS_SLOT`] | a headend |
//! | slot | [`KEEPS_DEI`] | [`FIRST_OVERLAYS_SLOT`] | a far end of an overlay |

/// Kind of a port: the place that it leads to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PortKind {
    /// An Ethernet interface.
    #[default]
    Ethernet,
    /// Linux's own stack, by the private interface.
    Private,
    /// Linux's own stack, by a tunnel interface: what Linux routes to it is protected by the SAs of
    /// its `if_id`, and what these decrypt comes in by it.
    Tunnel,
}

impl PortKind {
    /// True if it carries IP packets to and from Linux's own stack, rather than frames.
    pub const fn is_linux(self) -> bool {
        !matches!(self, PortKind::Ethernet)
    }
}

/// The slot of the first VLAN, above those of all queues.
pub const FIRST_VLAN_SLOT: usize = 0x0800;

/// Beside a slot: packets came in by a VLAN too, and those that were drop eligible stay so.
pub(crate) const KEEPS_DEI: usize = 1 << 15;

/// The slot of packets whose buffers say how they came in.
pub(crate) const fn keeping_dei(slot: usize) -> usize {
    let is_vlan = FIRST_VLAN_SLOT <= slot && slot < FIRST_SEGMENTS_SLOT;
    // Slots of VLANs are below that bit.
    if is_vlan { slot | KEEPS_DEI } else { slot }
}

/// The loopback's index: where routing rules see packets of this host come in.
pub(crate) const LOOPBACK: u32 = 1;

/// The first index that stands for a route with segments. No link has such a one.
pub const FIRST_SEGMENTS: u32 = 0x8000_0000;

/// Of a packet that was inside of another: it came in by the segment that has opened that.
pub(crate) const INSIDE: u32 = 0x4000_0000;

/// The first slot that stands for a headend: above those of VLANs, and below their mark.
pub(crate) const FIRST_SEGMENTS_SLOT: usize = 0x4000;

const _: () = assert!(FIRST_OVERLAYS_SLOT + MAX_OVERLAYS <= KEEPS_DEI);

/// How many routes with segments have an index.
pub const MAX_SEGMENT_ROUTES: usize = 0x3000;

/// The first index that stands for an overlay: of packets that got its headers, for a far end; of what was inside of
/// such, for an interface. No link and no route with segments has such a one.
pub(crate) const FIRST_OVERLAYS: u32 = 0xa000_0000;

/// The first slot that stands for a far end of an overlay.
pub(crate) const FIRST_OVERLAYS_SLOT: usize = FIRST_SEGMENTS_SLOT + MAX_SEGMENT_ROUTES;

/// How many far ends of overlays have an index, and how many interfaces.
pub const MAX_OVERLAYS: usize = 0x1000;

/// True if an index stands for a function (a route with segments, an overlay), and for no link.
pub(crate) const fn is_function(index: u32) -> bool {
    index >= FIRST_SEGMENTS
}

/// True if a slot stands for a headend.
pub(crate) const fn is_headend(slot: usize) -> bool {
    FIRST_SEGMENTS_SLOT <= slot && slot < FIRST_SEGMENTS_SLOT + MAX_SEGMENT_ROUTES
}

/// True if a slot stands for a far end of an overlay.
pub(crate) const fn is_far_end(slot: usize) -> bool {
    FIRST_OVERLAYS_SLOT <= slot && slot < FIRST_OVERLAYS_SLOT + MAX_OVERLAYS
}

/// The number of an overlay that an index stands for. Those of far ends and of interfaces are apart, by
/// [`was_inside`].
pub(crate) const fn overlay_of(index: u32) -> Option<usize> {
    match index & !INSIDE {
        FIRST_OVERLAYS.. => Some((index & !INSIDE & !FIRST_OVERLAYS) as usize),
        _ => None,
    }
}

/// True if a packet that came in by an index was inside another.
pub(crate) const fn was_inside(index: u32) -> bool {
    is_function(index) && index & INSIDE != 0
}

/// Room behind a packet for padding, trailer and ICV, in bytes.
pub(crate) const TAILROOM: usize = 128;
