//! One barrier: a selector, a direction, and whether it blocks or passes.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use policy::{Action, Direction, PolicyConfig, PortMask, Prefix, Selector};
use serde::{Deserialize, Serialize};

/// Effect on packets that match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// They are dropped.
    Block,
    /// They pass, whatever comes later in the order.
    Pass,
}

/// One barrier, as it is listed and installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Barrier {
    direction: u8,
    src: (IpAddr, u8),
    dst: (IpAddr, u8),
    protocol: u8,
    src_port: (u16, u16),
    dst_port: (u16, u16),
    ifindex: u32,
    mark: (u32, u32),
    if_id: u32,
    priority: u32,
    effect: Effect,
    /// IPv6 by a kernel policy, where nftables cannot be used.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    by_policy: bool,
}

impl Barrier {
    /// Barrier of a policy. One that protects blocks what it would protect.
    ///
    /// Nothing for what is left to Linux, whose own policy stands. Nothing for one of a tunnel interface (`if_id`): what is routed to that interface stops there
    /// when nobody reads it, and no other packet is the policy's.
    pub fn of_policy(policy: &PolicyConfig) -> Option<Barrier> {
        if policy.if_id != 0 {
            return None;
        }
        let effect = match policy.action {
            Action::Allow if policy.templates.is_empty() => Effect::Pass,
            Action::Allow | Action::Block => Effect::Block,
            Action::Leave => return None,
        };
        let barrier = Barrier::new(policy.direction, policy.selector, policy.priority, effect);
        let policy::Mark { value, mask } = policy.mark;
        // As Linux stores it: by another one it is not found again.
        Some(Barrier { mark: (value & mask, mask), ..barrier })
    }

    /// The barriers of a prefix to and from which all traffic needs protection. They come after
    /// those of every policy.
    pub fn of_prefix(prefix: Prefix) -> [Barrier; 3] {
        let any = any_prefix(prefix.addr.is_ipv6());
        let to = Selector::between(any, prefix);
        let from = Selector::between(prefix, any);
        [
            Barrier::new(Direction::Out, to, u32::MAX, Effect::Block),
            Barrier::new(Direction::In, from, u32::MAX, Effect::Block),
            Barrier::new(Direction::Forward, from, u32::MAX, Effect::Block),
        ]
    }

    /// The barriers of a default action that blocks, one for each family (`ip xfrm policy setdefault`). They come
    /// after those of every policy, so they meet what no policy is about.
    pub fn of_default(direction: Direction) -> [Barrier; 2] {
        [false, true].map(|v6| {
            let any = any_prefix(v6);
            Barrier::new(direction, Selector::between(any, any), u32::MAX, Effect::Block)
        })
    }

    fn new(direction: Direction, s: Selector, priority: u32, effect: Effect) -> Barrier {
        Barrier {
            direction: direction_number(direction),
            src: (s.src.addr, s.src.len),
            dst: (s.dst.addr, s.dst.len),
            protocol: s.protocol,
            src_port: (s.src_port.value, s.src_port.mask),
            dst_port: (s.dst_port.value, s.dst_port.mask),
            ifindex: s.ifindex,
            mark: (0, 0),
            if_id: 0,
            priority,
            effect,
            by_policy: false,
        }
    }

    /// True if it is an nftables rule rather than a kernel policy: everything about IPv6, as long
    /// as nftables can be used.
    pub(crate) fn is_netfilter(&self) -> bool {
        self.src.0.is_ipv6() && !self.by_policy
    }

    /// True if it is a kernel policy of IPv6, which the private interface is not exempt from.
    pub(crate) fn is_by_policy(&self) -> bool {
        self.by_policy
    }

    /// The same as a kernel policy, where it is an nftables rule.
    pub(crate) fn as_policy(&self) -> Option<Barrier> {
        self.is_netfilter().then_some(Barrier { by_policy: true, ..*self })
    }

    /// Barrier that blocks all that this one blocks, and has less that can be refused: its
    /// addresses alone, then all of its family. It comes before all others of the priority, as
    /// nothing is known of their order. `None` for one that lets pass: without it later barriers
    /// decide, so nothing more passes.
    pub(crate) fn wider(&self) -> Option<Barrier> {
        let no_port = (0, 0);
        let addresses = Barrier {
            protocol: 0,
            src_port: no_port,
            dst_port: no_port,
            ifindex: 0,
            mark: (0, 0),
            ..*self
        };
        let any = any_prefix(self.src.0.is_ipv6());
        let family = Barrier { src: (any.addr, 0), dst: (any.addr, 0), ..addresses };
        let wider = [addresses, family].into_iter().find(|wider| wider != self);
        let wider = wider.filter(|_| self.effect == Effect::Block)?;
        Some(Barrier { priority: self.priority.saturating_sub(1), ..wider })
    }

    /// Kernel policies that let neighbour discovery (RFC 4861) pass before all others: without it no peer is reached.
    pub(crate) fn of_discovery() -> impl Iterator<Item = Barrier> {
        let any = any_prefix(true);
        let ways = [Direction::In, Direction::Out];
        ways.into_iter().flat_map(move |direction| {
            DISCOVERY.map(|kind| {
                let selector = Selector {
                    protocol: ICMPV6,
                    src_port: PortMask { value: kind, mask: u16::MAX },
                    ..Selector::between(any, any)
                };
                let pass = Barrier::new(direction, selector, 0, Effect::Pass);
                Barrier { by_policy: true, ..pass }
            })
        })
    }

    /// The fields that identify a policy in the kernel: a policy replaces the one of the same
    /// identity.
    pub(crate) fn identity(&self) -> Barrier {
        Barrier { priority: 0, effect: Effect::Block, ..*self }
    }

    /// The same for all barriers that differ in their addresses alone.
    pub(crate) fn class(&self) -> Barrier {
        let any = |(addr, len): (IpAddr, u8)| (any_prefix(addr.is_ipv6()).addr, len);
        Barrier { src: any(self.src), dst: any(self.dst), ..*self }
    }

    /// The barrier with the host bits of its addresses cleared.
    pub(crate) fn element(&self) -> Barrier {
        Barrier { src: masked(self.src), dst: masked(self.dst), ..*self }
    }

    /// Place in the order. Of two with one priority the one that blocks comes first: which of
    /// their policies decides is not known here, and blocking leaks nothing.
    pub(crate) fn rank(&self) -> (u32, bool) {
        (self.priority, self.effect == Effect::Pass)
    }

    /// The direction, as the kernel numbers it.
    pub(crate) fn direction(&self) -> u8 {
        self.direction
    }

    /// True if it is of a default action ([`Barrier::of_default`]), or blocks the same packets.
    pub fn is_default(&self) -> bool {
        let numbers = [Direction::In, Direction::Out, Direction::Forward];
        let mut all = numbers.into_iter().flat_map(Barrier::of_default);
        all.any(|barrier| barrier == *self)
    }

    /// Lower comes first.
    pub fn priority(&self) -> u32 {
        self.priority
    }

    /// Effect on packets that match.
    pub fn effect(&self) -> Effect {
        self.effect
    }

    /// Mark and mask.
    pub(crate) fn mark(&self) -> (u32, u32) {
        self.mark
    }

    /// XFRM interface id.
    pub(crate) fn if_id(&self) -> u32 {
        self.if_id
    }

    /// Selector of the packets.
    pub fn selector(&self) -> Selector {
        let prefix = |(addr, len)| Prefix { addr, len };
        let port = |(value, mask)| PortMask { value, mask };
        Selector {
            src: prefix(self.src),
            dst: prefix(self.dst),
            protocol: self.protocol,
            src_port: port(self.src_port),
            dst_port: port(self.dst_port),
            ifindex: self.ifindex,
            user: 0,
        }
    }
}

impl Barrier {
    /// Direction, as `ip xfrm policy` names it.
    pub fn way(&self) -> &'static str {
        ["in", "out", "fwd"].get(usize::from(self.direction)).unwrap_or(&"?")
    }
}

impl fmt::Display for Barrier {
    /// As `ip xfrm policy` would say it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dir = self.way();
        let effect = match self.effect {
            Effect::Block => "block",
            Effect::Pass => "allow",
        };
        write!(f, "src {}/{} dst {}/{}", self.src.0, self.src.1, self.dst.0, self.dst.1)?;
        if self.protocol != 0 {
            write!(f, " proto {}", self.protocol)?;
        }
        for (name, (value, mask)) in [("sport", self.src_port), ("dport", self.dst_port)] {
            if mask != 0 {
                write!(f, " {name} {value}")?;
            }
        }
        if self.ifindex != 0 {
            write!(f, " interface {}", self.ifindex)?;
        }
        if let (value, mask @ 1..) = self.mark {
            write!(f, " mark {value:#x}/{mask:#x}")?;
        }
        write!(f, " dir {dir} action {effect} priority {}", self.priority)
    }
}

/// The kernel's number of a direction (`XFRM_POLICY_IN`, …).
pub(crate) fn direction_number(direction: Direction) -> u8 {
    direction as u8
}

/// Protocol number of ICMPv6.
pub(crate) const ICMPV6: u8 = 58;

/// ICMPv6 types of neighbour discovery (RFC 4861).
pub(crate) const DISCOVERY: [u16; 5] = [133, 134, 135, 136, 137];

fn masked((addr, len): (IpAddr, u8)) -> (IpAddr, u8) {
    let addr = match addr {
        IpAddr::V4(addr) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(len.min(32))).unwrap_or(0);
            IpAddr::V4((addr.to_bits() & mask).into())
        }
        IpAddr::V6(addr) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(len.min(128))).unwrap_or(0);
            IpAddr::V6((addr.to_bits() & mask).into())
        }
    };
    (addr, len)
}

fn any_prefix(v6: bool) -> Prefix {
    let addr = match v6 {
        true => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        false => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    };
    Prefix { addr, len: 0 }
}
