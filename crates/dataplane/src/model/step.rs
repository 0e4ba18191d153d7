//! The answers that a decision follows from, for who asks why.

use core::net::{IpAddr, Ipv6Addr};

use conntrack::Rewrite;
use forward::Resolution;
use outcome::DropReason;
use policy::{Direction, Marks, Outbound, PolicyEntry, Prefix, SaId};
use wire::Headers;

/// An answer that a decision follows from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Whether the packet is for this host, as the routes say.
    Ends {
        /// For this host, and not to be forwarded.
        is_local: bool,
    },
    /// Key exchange or neighbour discovery: no policy is asked.
    Exempt,
    /// What Linux's NAT has decided about the packet's connection.
    Nat(NatSays),
    /// What the policy database says.
    Policy {
        /// Which policies are asked.
        direction: Direction,
        /// With this mark and `if_id`.
        marks: Marks,
        /// The index of the policy that matches first, if one does.
        index: Option<u32>,
        /// What follows.
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
        /// The destination.
        dst: IpAddr,
        /// What they say.
        to: Way,
    },
    /// It is at a segment of this node (SRv6), and is looked at again once it has taken its step.
    Sid {
        /// What that does.
        name: &'static str,
    },
    /// It gets segments, and is looked at again then.
    Headend {
        /// How.
        mode: &'static str,
        /// The first one, which it goes to.
        first: Ipv6Addr,
    },
    /// The neighbour that the packet is sent to.
    Neighbour {
        /// The interface.
        ifindex: u32,
        /// Its address.
        addr: IpAddr,
        /// What Linux knows of it.
        resolution: Resolution,
    },
    /// Whether it fits.
    Size {
        /// The packet's length, in bytes.
        len: usize,
        /// Its length once it is protected; none if it is not, or cannot be.
        protected: Option<usize>,
        /// What the path carries, in bytes.
        mtu: usize,
    },
}

/// What Linux's NAT has decided about a packet's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NatSays {
    /// Nothing that is known, or Linux has to see the packet.
    Linux,
    /// Its packets stay as they are.
    Same,
    /// Its packets become this.
    Translated(Rewrite),
}

/// What follows from the policy that matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicySays {
    /// The packet passes in clear.
    Clear,
    /// Linux carries the policy out.
    Leave,
    /// The packet is blocked.
    Block,
    /// It asks for a protection that culvert does not have, so the packet is blocked.
    Unsupported,
    /// It asks for protection, and there is no SA.
    NoSa,
    /// SAs protect it.
    Protect,
    /// What arrived is what the policy asks for.
    Allowed,
    /// It is not, for this reason.
    Refused(DropReason),
}

/// Where the routes lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Out of a port.
    Port {
        /// The interface.
        ifindex: u32,
        /// The router, or the destination itself.
        via: IpAddr,
        /// In bytes.
        mtu: usize,
    },
    /// To a tunnel interface.
    Tunnel {
        /// In bytes.
        mtu: usize,
    },
    /// To a headend (SRv6).
    Segments {
        /// Of a packet without the segments, in bytes.
        mtu: usize,
    },
    /// Where only Linux goes: an interface that is no port, or by a rule that only Linux can judge.
    Linux,
    /// To this host.
    Local,
    /// Nowhere.
    Nowhere(DropReason),
}

/// Who wants to know the answers: nobody, whom they cost nothing, or a list.
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
    /// What the policies for packets that leave said.
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

    /// What the policies for packets that arrive said.
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
