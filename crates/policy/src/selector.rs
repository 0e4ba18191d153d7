//! Which packets an SA or a policy is for.

use core::net::IpAddr;

use wire::{Fragment, Headers};

/// An address prefix. Host bits need not be zero: they are ignored in comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prefix {
    /// The address, whose bits behind the length mean nothing.
    pub addr: IpAddr,
    /// The prefix length in bits; 0 matches every address of the family.
    pub len: u8,
}

impl Prefix {
    /// True if the address is of the same family and inside.
    pub fn contains(&self, addr: IpAddr) -> bool {
        match (self.addr, addr) {
            (IpAddr::V4(p), IpAddr::V4(a)) => {
                let shift = 32 - u32::from(self.len.min(32));
                shift == 32 || (p.to_bits() ^ a.to_bits()) >> shift == 0
            }
            (IpAddr::V6(p), IpAddr::V6(a)) => {
                let shift = 128 - u32::from(self.len.min(128));
                shift == 128 || (p.to_bits() ^ a.to_bits()) >> shift == 0
            }
            _ => false,
        }
    }
}

/// A port as Linux's selectors have it: a value under a mask, in host byte order. Mask 0 matches
/// every port, `0xffff` one, others a range that is a power of two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PortMask {
    /// The port's bits under the mask, host byte order.
    pub value: u16,
    /// The bits that count.
    pub mask: u16,
}

impl PortMask {
    /// True if the port matches.
    pub const fn contains(self, port: u16) -> bool {
        (port ^ self.value) & self.mask == 0
    }
}

/// Linux's `xfrm_selector`: which packets an SA or policy is for (RFC 4301 §4.4.1.1).
///
/// Source and destination are those of the packet itself, in whatever direction it goes. For ICMP
/// the type stands in `src_port` and the code in `dst_port`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Selector {
    /// Source prefix; both prefixes are of one family.
    pub src: Prefix,
    /// Prefix of the packet's destination.
    pub dst: Prefix,
    /// Upper-layer protocol, 0 for any.
    pub protocol: u8,
    /// Source port with its mask.
    pub src_port: PortMask,
    /// Destination port with its mask.
    pub dst_port: PortMask,
    /// Interface index, 0 for any.
    pub ifindex: u32,
    /// User, as Linux keeps it; kept, not used for matching.
    pub user: u32,
}

impl Selector {
    /// Everything from one prefix to the other, whatever the protocol; both are of one family.
    pub const fn between(src: Prefix, dst: Prefix) -> Selector {
        const ANY: PortMask = PortMask { value: 0, mask: 0 };
        Selector { src, dst, protocol: 0, src_port: ANY, dst_port: ANY, ifindex: 0, user: 0 }
    }

    /// True if it asks for any bit of a port.
    pub(crate) const fn names_ports(&self) -> bool {
        self.src_port.mask != 0 || self.dst_port.mask != 0
    }

    /// True if it selects all packets of its family.
    pub fn is_any(&self) -> bool {
        let nets = [self.src.len, self.dst.len, self.protocol];
        nets == [0; 3] && !self.names_ports() && self.ifindex == 0
    }

    /// True if the packet matches.
    ///
    /// A later fragment has no ports: it matches only where the selector asks for none (a
    /// selector with ports is OPAQUE to it, RFC 4301 §4.4.1.1).
    pub fn matches(&self, h: &Headers) -> bool {
        self.src.contains(h.src)
            && self.dst.contains(h.dst)
            && (self.protocol == 0 || self.protocol == h.protocol)
            && match h.fragment {
                Fragment::Later => self.src_port.mask == 0 && self.dst_port.mask == 0,
                Fragment::Whole | Fragment::First => {
                    self.src_port.contains(h.src_port) && self.dst_port.contains(h.dst_port)
                }
            }
    }
}
