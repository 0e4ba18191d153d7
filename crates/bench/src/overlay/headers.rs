//! Headers of the overlays of the bench `overlay`.

use overlay::{
    Class, DontFragment, EcnMode, Encap, Id, Macs, Outer, PortKind, Ports, Shape as Headers, Ttl,
    Udp, VXLAN_PORT,
};
use wire::{MacAddr, parse_ip};

use crate::error::BenchError;
use crate::options::Direction;
use crate::shape::Overlay;
use crate::world;

impl Overlay {
    /// Headers of a packet that goes one way.
    pub(crate) fn encap(self, direction: Direction) -> Result<Encap, BenchError> {
        let (src, dst) = world::ends(direction, 0);
        let outer = Outer {
            src: src.into(),
            dst: dst.into(),
            class: Class::Inherit,
            ttl: Ttl::Fixed(64),
            dont_fragment: DontFragment::Set,
            encap_limit: None,
            ecn: EcnMode::Normal,
        };
        let frame = match direction {
            Direction::Outbound => Macs { dst: THERE, src: HERE },
            Direction::Inbound => Macs { dst: HERE, src: THERE },
        };
        let ports = Ports { from: 32_768, below: 60_999 };
        let headers = match self {
            Overlay::Gre => Headers::Gre { key: None, has_checksum: false, frame: None },
            Overlay::Vxlan => {
                let udp = Udp { src: ports, dst: VXLAN_PORT, has_checksum: false };
                Headers::Vxlan { vni: VNI, udp, frame }
            }
        };
        Encap::new(outer, &headers).map_err(|_| BenchError::NotFound { what: "overlay" })
    }

    pub(super) const fn id(self) -> Id {
        match self {
            Overlay::Gre => Id::Gre { key: None, is_frame: false },
            Overlay::Vxlan => Id::Vxlan { port: VXLAN_PORT, vni: VNI },
        }
    }

    /// Where the packet inside of a packet begins, if its headers are those of the overlay.
    pub(crate) fn inside(self, packet: &[u8]) -> Option<usize> {
        let h = parse_ip(packet).ok()?;
        let kind = |port| (port == VXLAN_PORT).then_some(PortKind::Vxlan);
        let arrived = overlay::look(packet, &h, kind).ok()?;
        let (src, dst) = world::ends(Direction::Outbound, 0);
        let is_ours = arrived.id == self.id() && (h.src, h.dst) == (src.into(), dst.into());
        is_ours.then_some(arrived.cut)
    }
}

const VNI: u32 = 42;
/// Stations of both ends.
pub(super) const HERE: MacAddr = MacAddr([2, 0, 0, 9, 0, 1]);
const THERE: MacAddr = MacAddr([2, 0, 0, 9, 0, 2]);
