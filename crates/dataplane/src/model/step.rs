//! The answers that a decision follows from, for who asks why.

use core::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use conntrack::Rewrite;
use forward::Resolution;
use outcome::DropReason;
use policy::{Direction, Marks, Outbound, PolicyEntry, Prefix, SaId};
use wire::Headers;

/// An answer that a decision follows from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Finding of the routes: the packet is for this host, or is not.
    Ends {
        /// For this host, and not to be forwarded.
        is_local: bool,
    },
    /// Key exchange or neighbour discovery: no policy is asked.
    Exempt,
    /// Decision of Linux's NAT about the packet's connection.
    Nat(NatSays),
    /// Verdict of the policy database.
    Policy {
        /// Which policies are asked.
        direction: Direction,
        /// With this mark and `if_id`.
        marks: Marks,
        /// The index of the policy that matches first, if one does.
        index: Option<u32>,
        /// Consequence of the policy.
        says: PolicySays,
    },
    /// No policy is about it, and nothing leaves in clear for this prefix (`[guard]`).
    Guard(Prefix),
    /// The rate limit that the packet is under, by its name. Whether there are tokens for it is not asked.
    RateLimit(Box<str>),
    /// An SA that protects.
    Sa(SaId),
    /// Where the routes lead a destination: the packet's own, or the peer's.
    Route {
        /// Destination that was looked up.
        dst: IpAddr,
        /// Answer of the routes.
        to: Way,
    },
    /// The path among those that the routes allow.
    Path {
        /// Who has chosen it.
        by: PathBy,
        /// Name of the path. `None`: no path is good, and a rule stops the packet.
        path: Option<Arc<str>>,
    },
    /// A second copy goes by another path.
    Copied {
        /// Name of that path.
        path: Arc<str>,
    },
    /// Parity follows, by the same path.
    WithParity {
        /// Packets that one parity packet is for.
        of: u8,
    },
    /// A segment of this node (SRv6). The packet is resolved again after its step.
    Sid {
        /// Name of the behaviour.
        name: &'static str,
    },
    /// Segments are put on the packet, which is resolved again then.
    Headend {
        /// Mode, as iproute2 spells it.
        mode: &'static str,
        /// The first one, which it goes to.
        first: Ipv6Addr,
    },
    /// An overlay's headers are put in front of the packet, which is resolved again then.
    Overlay {
        /// Index of the overlay's interface.
        ifindex: u32,
        /// Address of this end.
        src: IpAddr,
        /// Address of the far end.
        dst: IpAddr,
    },
    /// The neighbour that the packet is sent to.
    Neighbour {
        /// Index of the interface.
        ifindex: u32,
        /// Address of the neighbour.
        addr: IpAddr,
        /// State of the neighbour in Linux.
        resolution: Resolution,
    },
    /// Comparison of the packet's length with the path.
    Size {
        /// The packet's length, in bytes.
        len: usize,
        /// Length of the packet once it is protected, in bytes. `None` if it is not, or cannot be.
        protected: Option<usize>,
        /// MTU of the path, in bytes.
        mtu: usize,
    },
}

/// Decision of Linux's NAT about a packet's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NatSays {
    /// Nothing that is known, or Linux has to see the packet.
    Linux,
    /// The packets stay as they are.
    Same,
    /// The packets are translated so.
    Translated(Rewrite),
}

/// Consequence of the policy that matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicySays {
    /// The packet passes in clear.
    Clear,
    /// Linux carries the policy out.
    Leave,
    /// The packet is blocked.
    Block,
    /// The policy asks for a protection that culvert does not have, so the packet is blocked.
    Unsupported,
    /// The policy asks for protection, and there is no SA.
    NoSa,
    /// SAs protect it.
    Protect,
    /// The packet arrived as the policy asks.
    Allowed,
    /// The packet did not, for this reason.
    Refused(DropReason),
}

/// Where the routes lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Out of a port.
    Port {
        /// Index of the interface.
        ifindex: u32,
        /// The router, or the destination itself.
        via: IpAddr,
        /// MTU of the way, in bytes.
        mtu: usize,
    },
    /// To a tunnel interface.
    Tunnel {
        /// MTU of the way, in bytes.
        mtu: usize,
    },
    /// To a headend (SRv6).
    Segments {
        /// Of a packet without the segments, in bytes.
        mtu: usize,
    },
    /// To the far end of an overlay.
    Overlay {
        /// Of a packet without the overlay's headers, in bytes.
        mtu: usize,
    },
    /// Where only Linux goes: an interface that is no port, or by a rule that only Linux can judge.
    Linux,
    /// To this host.
    Local,
    /// No way, for this reason.
    Nowhere(DropReason),
}

/// Listener for the steps of a resolution: none, at no cost, or a list.
pub(crate) trait Notes {
    /// Notes an answer.
    fn tell(&mut self, step: impl FnOnce() -> Step);
}

impl Notes for () {
    #[inline(always)]
    fn tell(&mut self, _: impl FnOnce() -> Step) {}
}

impl Notes for Vec<Step> {
    fn tell(&mut self, step: impl FnOnce() -> Step) {
        self.push(step());
    }
}

impl Step {
    /// Step for the verdict of the policies on a packet that leaves.
    pub(crate) fn outbound(marks: Marks, found: &Outbound<'_>) -> Step {
        let says = match found {
            Outbound::NoPolicy | Outbound::Bypass(_) => PolicySays::Clear,
            Outbound::DefaultBlock | Outbound::Block(_) => PolicySays::Block,
            Outbound::Leave(_) => PolicySays::Leave,
            Outbound::Unsupported(_) => PolicySays::Unsupported,
            Outbound::NoState(..) => PolicySays::NoSa,
            Outbound::Protect(..) | Outbound::ProtectAll(..) => PolicySays::Protect,
        };
        let index = found.policy().map(|policy| policy.config.index);
        Step::Policy { direction: Direction::Out, marks, index, says }
    }

    /// Step for the verdict of the policies on a packet that arrives.
    pub(crate) fn inbound(
        direction: Direction,
        marks: Marks,
        found: Option<&PolicyEntry>,
        refused: Option<DropReason>,
    ) -> Step {
        let says = refused.map_or(PolicySays::Allowed, PolicySays::Refused);
        Step::Policy { direction, marks, index: found.map(|policy| policy.config.index), says }
    }

    /// A packet's length against a path's MTU.
    pub(crate) fn size(h: &Headers, protected: Option<usize>, mtu: usize) -> Step {
        Step::Size { len: h.total_len.into(), protected, mtu }
    }
}

/// Who chooses the path of a packet that the routes lead to one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathBy {
    /// The rule of this name.
    Rule(Arc<str>),
    /// Linux's translation of the packet's connection, which stays with the uplink whose address it has.
    Translation,
    /// The routes, as no rule is about the packet, or as its path takes none like it.
    Routes,
}
