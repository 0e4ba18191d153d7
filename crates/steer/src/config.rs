//! Settings of the loader: modes, sizes, prefixes, ports.

use core::fmt;
use std::net::IpAddr;

/// How the program is to be attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// In the driver if it can, else in the stack, with a warning.
    #[default]
    Auto,
    /// In the driver, before a socket buffer is made.
    Native,
    /// In the stack. Works with every interface, and is slower.
    Generic,
}

/// Where the program stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hook {
    /// XDP: what is taken goes to AF_XDP sockets.
    #[default]
    Xdp,
    /// A packet socket's filter and tc ingress: what is taken goes to the packet sockets that have the filter
    /// ([`Steer::filter`](crate::Steer::filter)).
    Packet,
}

/// How the program was attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attached {
    /// In the driver.
    Native,
    /// In the stack.
    Generic,
    /// At tc ingress, by a link that goes with the process.
    Tcx,
}

impl fmt::Display for Attached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Native => "native",
            Self::Generic => "generic",
            Self::Tcx => "tcx",
        })
    }
}

/// The most entries that the tables hold, per family. They take memory only when used.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Inbound SAs, at most.
    pub sas: u32,
    /// Protected prefixes, at most.
    pub prefixes: u32,
    /// Local addresses, at most.
    pub addresses: u32,
    /// Receive queues of the interface, at most.
    pub queues: u32,
    /// Directions of known flows; with 0 the program does not look for any.
    pub flows: u32,
}

impl Default for Sizes {
    fn default() -> Self {
        Self { sas: 131_072, prefixes: 131_072, addresses: 4096, queues: 64, flows: 0 }
    }
}

/// How to load and attach.
#[derive(Clone, Copy, Debug, Default)]
pub struct SteerConfig {
    /// Hook to attach to.
    pub hook: Hook,
    /// How XDP is attached.
    pub mode: Mode,
    /// Load the multi-buffer variant (`xdp.frags`), which a large MTU needs. Frames that are to be
    /// taken but do not lie in one buffer are dropped and counted.
    pub frags: bool,
    /// Sizes of the tables.
    pub sizes: Sizes,
}

/// An address prefix without bits set beyond its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    pub(crate) addr: IpAddr,
    pub(crate) len: u8,
}

impl Prefix {
    /// A prefix; bits of `addr` beyond `len` are cleared. `None` if `len` is longer than the
    /// address.
    pub fn new(addr: IpAddr, len: u8) -> Option<Self> {
        let addr = match addr {
            IpAddr::V4(v4) if len <= 32 => {
                let mask = u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0);
                IpAddr::V4((u32::from(v4) & mask).into())
            }
            IpAddr::V6(v6) if len <= 128 => {
                let mask = u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0);
                IpAddr::V6((u128::from(v6) & mask).into())
            }
            _ => return None,
        };
        Some(Self { addr, len })
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.addr, self.len)
    }
}

/// The UDP ports at which this host speaks IKE, or has overlays, in host byte order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UdpPorts {
    /// IKE without a marker: 500.
    pub ike: Vec<u16>,
    /// IKE with the non-ESP marker, ESP in UDP, and keepalives: 4500.
    pub natt: Vec<u16>,
    /// Overlays: VXLAN, GENEVE, L2TPv3. None of the others.
    pub overlays: Vec<u16>,
}

impl Default for UdpPorts {
    fn default() -> Self {
        Self { ike: vec![500], natt: vec![4500], overlays: Vec::new() }
    }
}

/// A direction of a flow, whose addresses are translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flow {
    /// Source address of the packets.
    pub src: IpAddr,
    /// Destination address, of the same family.
    pub dst: IpAddr,
    /// Upper-layer protocol (IANA).
    pub protocol: u8,
    /// Source port, or the identifier of an ICMP query.
    pub src_port: u16,
    /// Destination port; type and code of an ICMP query, the type in the upper byte.
    pub dst_port: u16,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_masked_and_checked() {
        let show = |addr: &str, len| {
            let addr = addr.parse().expect("an address");
            Prefix::new(addr, len).map(|prefix| prefix.to_string())
        };
        assert_eq!(show("10.1.2.3", 8).as_deref(), Some("10.0.0.0/8"));
        assert_eq!(show("10.1.2.3", 0).as_deref(), Some("0.0.0.0/0"));
        assert_eq!(show("10.1.2.3", 32).as_deref(), Some("10.1.2.3/32"));
        assert_eq!(show("10.1.2.3", 33), None);
        assert_eq!(show("fd00::ff:1", 112).as_deref(), Some("fd00::ff:0/112"));
        assert_eq!(show("fd00::1", 0).as_deref(), Some("::/0"));
        assert_eq!(show("fd00::1", 129), None);
    }
}
