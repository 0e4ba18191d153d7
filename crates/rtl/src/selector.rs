//! Policies: which packets, and what becomes of them.

use core::net::IpAddr;

use crate::record::Record;
use crate::registers::{POLICY_BITS, SA_BITS};
use crate::sa::SaIndex;

/// Which packets a policy is for: those of which everything that is given agrees.
///
/// Ports count for TCP, UDP, UDP-Lite, SCTP and DCCP; of ICMP the type and code are the source port,
/// type in the upper byte. A later fragment has ports 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Selector {
    /// Source network: address and prefix length; bits beyond it do not matter.
    pub src: (IpAddr, u8),
    /// Destination network, of the same family.
    pub dst: (IpAddr, u8),
    /// Upper-layer protocol. `None`: all.
    pub protocol: Option<u8>,
    /// Source port. `None`: all.
    pub src_port: Option<u16>,
    /// Destination port. `None`: all.
    pub dst_port: Option<u16>,
}

impl Selector {
    /// Everything from one network to another.
    pub const fn between(src: (IpAddr, u8), dst: (IpAddr, u8)) -> Selector {
        Selector { src, dst, protocol: None, src_port: None, dst_port: None }
    }

    /// Both networks are of one family, and the prefixes no longer than its addresses.
    pub fn is_valid(&self) -> bool {
        let fits = |(address, len): (IpAddr, u8)| len <= if address.is_ipv4() { 32 } else { 128 };
        self.src.0.is_ipv4() == self.dst.0.is_ipv4() && fits(self.src) && fits(self.dst)
    }

    /// The bits that count.
    pub(crate) fn shape(&self) -> Shape {
        Shape {
            v6: self.src.0.is_ipv6(),
            src_len: self.src.1,
            dst_len: self.dst.1,
            protocol: self.protocol.is_some(),
            src_port: self.src_port.is_some(),
            dst_port: self.dst_port.is_some(),
        }
    }

    /// The same selector with all bits zero that do not count: two that match the same packets are
    /// equal then.
    pub(crate) fn masked(self) -> Selector {
        let network = |(address, len): (IpAddr, u8)| match address {
            IpAddr::V4(a) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0);
                (IpAddr::V4((a.to_bits() & mask).into()), len)
            }
            IpAddr::V6(a) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0);
                (IpAddr::V6((a.to_bits() & mask).into()), len)
            }
        };
        Selector { src: network(self.src), dst: network(self.dst), ..self }
    }

    /// Bytes that the gateway hashes: version, addresses, protocol, ports and the shape's index.
    pub(crate) fn hashed(&self, shape: usize) -> Vec<u8> {
        let mut text = vec![u8::from(self.src.0.is_ipv6())];
        for (address, _) in [self.src, self.dst] {
            match address {
                IpAddr::V4(a) => text.extend(a.octets()),
                IpAddr::V6(a) => text.extend(a.octets()),
            }
        }
        text.push(self.protocol.unwrap_or(0));
        for port in [self.src_port, self.dst_port] {
            text.extend(port.unwrap_or(0).to_be_bytes());
        }
        text.push(shape as u8);
        text
    }
}

/// Which bits of a selector count (`shape_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Shape {
    v6: bool,
    src_len: u8,
    dst_len: u8,
    protocol: bool,
    src_port: bool,
    dst_port: bool,
}

impl Shape {
    pub(crate) fn record(&self, valid: bool) -> Record {
        let mut record = Record::new();
        record.flag(valid).flag(self.v6);
        record.put(8, self.src_len.into()).put(8, self.dst_len.into());
        record.flag(self.protocol).flag(self.src_port).flag(self.dst_port);
        record
    }
}

/// Action of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Drops the packet.
    Discard,
    /// Passes the packet in clear.
    Bypass,
    /// Outbound: it goes through this SA.
    Protect(SaIndex),
    /// Inbound: it must have come through an SA with this reqid ([`Sa::reqid`]).
    ///
    /// [`Sa::reqid`]: crate::Sa::reqid
    Require(u16),
}

/// A policy of the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Policy {
    /// Packets that the policy is for.
    pub selector: Selector,
    /// Action for these packets.
    pub action: Action,
    /// Of all policies that match, the one with the smallest priority decides.
    pub priority: u16,
    /// True if packets give way to those of other policies inside the gateway.
    pub is_low_class: bool,
}

impl Policy {
    pub(crate) fn record(&self, valid: bool, shape: usize, next: Option<u16>) -> Record {
        let s = self.selector.masked();
        let (action, sa) = match self.action {
            Action::Discard => (0, 0),
            Action::Bypass => (1, 0),
            Action::Protect(SaIndex(number)) | Action::Require(number) => (2, number),
        };
        let mut record = Record::new();
        record.flag(valid).put(3, shape as u64).flag(s.src.0.is_ipv6());
        record.address(s.src.0).address(s.dst.0);
        record.put(8, s.protocol.unwrap_or(0).into());
        record.put(16, s.src_port.unwrap_or(0).into()).put(16, s.dst_port.unwrap_or(0).into());
        record.put(2, action).flag(self.is_low_class).put(16, self.priority.into());
        record.put(SA_BITS, sa.into());
        record.flag(next.is_some()).put(POLICY_BITS, next.unwrap_or(0).into());
        record
    }
}
