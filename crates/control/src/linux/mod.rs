//! Linux's network state as it is mirrored here, and what culvert has there: interfaces, routes, rules, marks.

pub mod edge;
mod marks;
pub mod memifs;
pub mod nat;
pub mod overlays;
pub mod private;
mod publishing;
pub mod segments;
mod serve;
pub mod services;
pub mod topology;
pub mod tun_devices;
pub mod tunnels;
pub mod vlan_entries;
pub mod vlan_priorities;
pub mod vlans;
pub mod vrfs;
pub mod way_back;
pub mod xfrm_interfaces;

use steer::SendMarks;

use self::edge::{OwnInterfaces, Tables};
use self::marks::Marks;
use self::memifs::Memifs;
use self::nat::Nat;
use self::overlays::OverlayLinks;
use self::private::Private;
use self::segments::SegmentRoutes;
use self::tunnels::Tunnels;
use self::vlans::Vlans;
use self::way_back::WayBack;

/// Linux's network state, and what culvert has there.
pub(super) struct Linux {
    pub(super) observer: Box<dyn Tables>,
    pub(super) interfaces: Box<dyn OwnInterfaces>,
    pub(super) reflection: topology::Reflection,
    pub(super) overlays: OverlayLinks,
    pub(super) vlans: Vlans,
    pub(super) tunnels: Tunnels,
    pub(super) memifs: Memifs,
    pub(super) private: Private,
    pub(super) marks: Marks,
    pub(super) nat: Option<Nat>,
}

impl Linux {
    /// Linux as it was found, by these two edges; with the private interface, and what gives packets back by it.
    pub(super) fn new(
        (observer, interfaces): (Box<dyn Tables>, Box<dyn OwnInterfaces>),
        own: topology::Own,
        private: Private,
        (way_back, send_marks): (WayBack, Option<SendMarks>),
        nat: Option<Nat>,
    ) -> Linux {
        let segments = SegmentRoutes::default();
        let reflection = topology::Reflection::new(observer.snapshot(), own, segments);
        Linux {
            observer,
            interfaces,
            reflection,
            overlays: OverlayLinks::default(),
            vlans: Vlans::default(),
            tunnels: Tunnels::default(),
            memifs: Memifs::default(),
            private,
            marks: Marks::new(way_back, send_marks),
            nat,
        }
    }
}
