//! Attributes of an SA or a policy that a device can lack.

use core::fmt;

use crypto::Suite;
use esp::{Mode, Protocol};
use policy::Direction;

/// An attribute of an SA or a policy that a device does not carry out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attribute {
    /// Algorithms of the SA.
    Suite(Suite),
    /// An integrity key of so many bytes.
    AuthKey(usize),
    /// AH or IPComp.
    Protocol(Protocol),
    /// Tunnel or transport mode.
    Mode(Mode),
    /// Outer addresses of two families.
    Families,
    /// Extended sequence numbers, or their absence.
    Esn(bool),
    /// Encapsulation in UDP.
    UdpEncap,
    /// The size of the replay window in packets; 0 is no replay check.
    ReplayWindow(u32),
    /// Traffic flow confidentiality.
    TfcPadding,
    /// Flags about ECN, DSCP or DF.
    Flags,
    /// Mark of the SA or policy.
    Mark,
    /// An XFRM interface id.
    IfId,
    /// Of an SA: a selector of its own. Of a policy: an interface, or a range of ports.
    Selector,
    /// A limit by volume that is too large to be counted.
    Limit(u64),
    /// A reqid that is too large.
    Reqid(u32),
    /// A policy's direction.
    Direction(Direction),
    /// A priority that is too large.
    Priority(u32),
    /// Several templates, an optional one, or one of another protocol than ESP.
    Templates,
    /// Policies at all: crypto offload has none.
    Policy,
}

impl fmt::Display for Attribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Attribute::Suite(suite) => write!(f, "suite {suite}"),
            Attribute::AuthKey(len) => write!(f, "integrity key of {len} bytes"),
            Attribute::Protocol(protocol) => write!(f, "protocol {}", protocol.number()),
            Attribute::Mode(Mode::Tunnel) => f.write_str("tunnel mode"),
            Attribute::Mode(Mode::Transport) => f.write_str("transport mode"),
            Attribute::Mode(Mode::Iptfs) => f.write_str("IP-TFS mode"),
            Attribute::Families => f.write_str("outer addresses of two families"),
            Attribute::Esn(true) => f.write_str("extended sequence numbers"),
            Attribute::Esn(false) => f.write_str("sequence numbers of 32 bits"),
            Attribute::UdpEncap => f.write_str("UDP encapsulation"),
            Attribute::ReplayWindow(0) => f.write_str("replay check switched off"),
            Attribute::ReplayWindow(len) => write!(f, "replay window of {len} packets"),
            Attribute::TfcPadding => f.write_str("traffic flow confidentiality"),
            Attribute::Flags => f.write_str("flags about ECN, DSCP or DF"),
            Attribute::Mark => f.write_str("mark"),
            Attribute::IfId => f.write_str("interface id"),
            Attribute::Selector => f.write_str("selector"),
            Attribute::Limit(limit) => write!(f, "volume limit of {limit}"),
            Attribute::Reqid(reqid) => write!(f, "reqid {reqid}"),
            Attribute::Direction(direction) => write!(f, "policy direction {direction:?}"),
            Attribute::Priority(priority) => write!(f, "priority {priority}"),
            Attribute::Templates => f.write_str("templates other than one of ESP"),
            Attribute::Policy => f.write_str("policies"),
        }
    }
}
