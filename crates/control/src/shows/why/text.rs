//! Answers of the data path in words, with the names of what they are about.

use core::net::IpAddr;
use core::sync::atomic::Ordering::Relaxed;

use dataplane::{Fate, NatSays, PathBy, PolicySays, Step, Way};
use forward::{IcmpCause, Resolution};
use outcome::DropReason;
use policy::{Direction, Marks, PolicyConfig, Prefix, SaId, SaState};
use report::protocol::name;
use report::{self, PacketFate, WhyPacket, WhyQuestion, WhyStep};
use wire::{Headers, protocol};

use super::explainer::Explainer;
use super::near_miss::near_misses;
use crate::texts::{direction_text, mac_text, mode_text, selector_text, spi_text, suite_text};

/// A step that names nothing.
pub fn step(question: WhyQuestion, answer: String) -> WhyStep {
    WhyStep { question, answer, ..WhyStep::default() }
}

/// The step of a prefix that the guard blocks.
pub fn guarded(Prefix { addr, len }: Prefix) -> WhyStep {
    step(
        WhyQuestion::Guard,
        format!(
            "{addr}/{len} of [guard] prefixes: blocked by the kernel until a policy is about it"
        ),
    )
}

/// A packet, in words.
pub fn packet(asked: &WhyPacket) -> String {
    let WhyPacket { src, dst, protocol: number, src_port, dst_port, len, .. } = asked;
    let name = name(*number);
    let ports = match *number {
        protocol::ICMP | protocol::ICMPV6 => format!(" type {src_port} code {dst_port}"),
        _ if protocol::has_ports(*number) => format!(" port {src_port} > {dst_port}"),
        _ => String::new(),
    };
    format!("{src} > {dst}, {name}{ports}, {len} bytes")
}

/// A fate as a word.
pub const fn word(fate: &Fate) -> PacketFate {
    match fate {
        Fate::Opened => PacketFate::Opened,
        Fate::ToLinux { .. } | Fate::ThroughNat => PacketFate::ToLinux,
        Fate::Forwarded => PacketFate::Forwarded,
        Fate::Stepped => PacketFate::Stepped,
        Fate::Decapsulated | Fate::Eliminated => PacketFate::Decapsulated,
        Fate::Protected { .. } => PacketFate::Protected,
        Fate::Offloaded => PacketFate::Offloaded,
        Fate::ToApplication => PacketFate::ToApplication,
        Fate::HandedOver { .. } => PacketFate::HandedOver,
        Fate::WaitsForSa { .. } => PacketFate::WaitsForSa,
        Fate::WaitsForFragments => PacketFate::WaitsForFragments,
        Fate::Answered(..) => PacketFate::Answered,
        Fate::Dropped(_) => PacketFate::Dropped,
        Fate::Consumed => PacketFate::Consumed,
    }
}

/// Why a packet is dropped, if it is.
pub fn reason(fate: &Fate) -> Option<DropReason> {
    match fate {
        Fate::Answered(_, reason) | Fate::Dropped(reason) => Some(*reason),
        _ => None,
    }
}

/// A fate as a sentence, after these steps.
pub fn verdict(fate: &Fate, steps: &[WhyStep]) -> String {
    let by = || {
        let ways = steps.iter().rev().filter(|step| step.question == WhyQuestion::Route);
        let interface = ways.filter_map(|step| step.interface.as_deref()).next();
        interface.map_or_else(String::new, |name| format!(" by {name}"))
    };
    match fate {
        Fate::Opened => {
            "opened: its SPI says by which SA; ask about what is inside with --spi".into()
        }
        Fate::ToLinux { as_received: true } => "Linux gets it, as received by the same port".into(),
        Fate::ToLinux { as_received: false } => "Linux gets it".into(),
        Fate::ThroughNat => {
            "Linux gets it, whose NAT has to see it first; policy is asked when it comes back"
                .into()
        }
        Fate::Forwarded => format!("forwarded in clear{}", by()),
        Fate::Stepped => {
            "it takes the step of its segment, and is looked at again as what it has become".into()
        }
        Fate::Decapsulated => {
            "what is inside goes on without its headers, and is looked at again, if an overlay of these is carried out here; \
             Linux gets it else"
                .into()
        }
        Fate::Eliminated => {
            "a copy: the first one goes on without its headers, and is looked at again; others are dropped".into()
        }
        Fate::ToApplication => "given to the application that has its TEID ([[gtpu]])".into(),
        Fate::Offloaded => "given to the offload device that has its SA and policy".into(),
        Fate::Protected { cut: None } => format!("protected, and sent{}", by()),
        Fate::Protected { cut: Some(len) } => {
            format!("cut into packets of up to {len} bytes, which are protected, and sent{}", by())
        }
        Fate::HandedOver { to } => format!("handed over to worker {to}"),
        Fate::WaitsForSa { policy } => {
            format!(
                "held for up to 5 s, while the IKE daemon is asked for an SA for policy {policy}"
            )
        }
        Fate::WaitsForFragments => "held until the packet's other fragments are there".into(),
        Fate::Answered(cause, reason) => {
            format!("dropped ({}), and its sender is told: {}", reason.name(), icmp(*cause))
        }
        Fate::Dropped(reason) => format!("dropped ({}): {}", reason.name(), reason.text()),
        Fate::Consumed => "consumed: nobody else is on that link".into(),
    }
}

/// Text behind a verdict that waits for a neighbour.
pub fn delay(steps: &[Step]) -> String {
    let unknown = steps.iter().find_map(|step| match step {
        Step::Neighbour { addr, resolution: Resolution::Unknown | Resolution::Pending, .. } => {
            Some(addr)
        }
        _ => None,
    });
    unknown.map_or_else(String::new, |addr| format!(", once {addr} has answered"))
}

fn icmp(cause: IcmpCause) -> String {
    match cause {
        IcmpCause::TooBig { mtu } => format!("too big, {mtu} bytes would fit"),
        IcmpCause::TimeExceeded => "time exceeded".into(),
        IcmpCause::NoRoute => "no route".into(),
        IcmpCause::HostUnreachable => "host unreachable".into(),
        IcmpCause::Prohibited => "administratively prohibited".into(),
        IcmpCause::Parameter { code, pointer } => {
            format!("parameter problem, code {code}, at byte {pointer}")
        }
    }
}

/// State of a neighbour, and its consequence.
fn neighbour_answer(addr: IpAddr, resolution: Resolution) -> String {
    match resolution {
        Resolution::Resolved { mac, .. } if mac.0 == [0; 6] => {
            format!("{addr}: by the IKE daemon's UDP socket, for which Linux finds the way")
        }
        Resolution::Resolved { mac, confirm: false } => format!("{addr} is {}", mac_text(mac.0)),
        Resolution::Resolved { mac, confirm: true } => {
            format!("{addr} was {}: used, and Linux is asked to confirm it", mac_text(mac.0))
        }
        Resolution::Unknown => format!("{addr} is not known: Linux is asked, for up to 3 s"),
        Resolution::Pending => format!("{addr} is not known: Linux is asking, for up to 3 s"),
        Resolution::Failed => format!("{addr} has not answered Linux, which is asked again"),
    }
}

/// Decision of Linux's NAT, in words.
fn nat_answer(says: NatSays) -> String {
    match says {
        NatSays::Linux => {
            "Linux decides: no connection is known that the fast path may carry, or it has to see the packet".into()
        }
        NatSays::Same => "Linux knows the connection, and leaves its packets as they are".into(),
        NatSays::Translated(to) => {
            let end = |addr, port| match addr {
                IpAddr::V4(_) => format!("{addr}:{port}"),
                IpAddr::V6(_) => format!("[{addr}]:{port}"),
            };
            let (src, dst) = (end(to.src, to.src_port), end(to.dst, to.dst_port));
            format!("Linux knows the connection, and translates it: {src} > {dst}")
        }
    }
}

impl Explainer<'_> {
    /// A step in words; `h` are the packet's headers.
    pub(crate) fn step(&self, step: &Step, h: &Headers) -> WhyStep {
        match step {
            Step::Ends { is_local: true } => self::step(WhyQuestion::For, "this host".into()),
            Step::Ends { is_local: false } => self::step(WhyQuestion::For, "another host".into()),
            Step::Exempt => self::step(
                WhyQuestion::Policy,
                "not asked: key exchange or neighbour discovery".into(),
            ),
            Step::RateLimit(name) => self::step(
                WhyQuestion::Limit,
                format!("{name}, if it has tokens: culvert limit show {name}"),
            ),
            Step::Path { by, path } => {
                let by = match by {
                    PathBy::Rule(rule) => rule,
                    PathBy::Translation => "the translation of its connection",
                    PathBy::Routes => "the routes",
                };
                self::step(
                    WhyQuestion::Steer,
                    match path {
                        Some(path) => format!("{by}, by path {path}"),
                        None => {
                            format!("{by}, which stops packets while none of its paths is good")
                        }
                    },
                )
            }
            Step::Copied { path } => {
                self::step(WhyQuestion::Steer, format!("a second copy by path {path}"))
            }
            Step::WithParity { of } => {
                self::step(WhyQuestion::Steer, format!("with parity for each {of} packets"))
            }
            Step::Nat(says) => self::step(WhyQuestion::Nat, nat_answer(*says)),
            Step::Policy { direction, marks, index, says } => {
                let question = match direction {
                    Direction::In => WhyQuestion::PolicyIn,
                    Direction::Out => WhyQuestion::PolicyOut,
                    Direction::Forward => WhyQuestion::PolicyForward,
                };
                let answer = self.policy_answer((*direction, *marks), *index, *says, h);
                WhyStep { policy: *index, ..self::step(question, answer) }
            }
            Step::Guard(prefix) => guarded(*prefix),
            Step::Sa(id) => {
                let spi = Some(spi_text(id.spi));
                WhyStep { spi, ..self::step(WhyQuestion::Sa, self.sa_answer(id)) }
            }
            Step::Sid { name } => self::step(WhyQuestion::Segment, format!("this host's, {name}")),
            Step::Headend { mode, first } => self::step(
                WhyQuestion::Headend,
                format!("{mode}, the first one is {first}; then it is looked at again"),
            ),
            Step::Overlay { ifindex, src, dst } => {
                let name = self.linux.name_of(*ifindex);
                let says = format!("headers of {name}, {src} to {dst}; then it is looked at again");
                WhyStep { interface: Some(name), ..self::step(WhyQuestion::Overlay, says) }
            }
            Step::Route { dst, to } => self.route_answer(*dst, *to),
            Step::Neighbour { ifindex, addr, resolution } => WhyStep {
                interface: Some(self.linux.name_of(*ifindex)),
                ..self::step(WhyQuestion::Neighbour, neighbour_answer(*addr, *resolution))
            },
            Step::Size { len, protected, mtu } => {
                let whole = protected.unwrap_or(*len);
                let says = if whole <= *mtu { "fits" } else { "does not fit" };
                let long = match protected {
                    Some(protected) => format!("{len} bytes, {protected} once it is protected"),
                    None => format!("{len} bytes"),
                };
                self::step(WhyQuestion::Size, format!("{long}: {says} the path's {mtu}"))
            }
        }
    }

    fn policy_answer(
        &self,
        (direction, marks): (Direction, Marks),
        index: Option<u32>,
        says_what: PolicySays,
        h: &Headers,
    ) -> String {
        let says: String = match says_what {
            // The guard may have something to say.
            PolicySays::Clear if index.is_none() => "no protection is asked for".into(),
            PolicySays::Clear => "it passes in clear".into(),
            PolicySays::Leave => "Linux carries it out (`culvert sa` says why)".into(),
            PolicySays::Block => "it is blocked".into(),
            PolicySays::Unsupported => "it asks for what culvert cannot do, and blocks".into(),
            PolicySays::NoSa => "to be protected, and there is no SA".into(),
            PolicySays::Protect => "to be protected".into(),
            PolicySays::Allowed => "it is let in".into(),
            PolicySays::Refused(reason) => format!("refused ({})", reason.name()),
        };
        let databases = self.sa.source.databases();
        let Some(policy) = index.and_then(|index| databases.policy(index)) else {
            let marks = match (marks.mark, marks.if_id) {
                (0, 0) => String::new(),
                (mark, 0) => format!(" with mark {mark:#x}"),
                (mark, if_id) => format!(" with mark {mark:#x}, if_id {if_id:#x}"),
            };
            return format!("no {} policy matches{marks}: {says}", direction_text(direction));
        };
        let chosen = &policy.config;
        let misses = match says_what {
            PolicySays::NoSa => {
                let sas: Vec<_> = databases.sas().filter(|sa| sa.state().is_usable()).collect();
                near_misses(chosen, (h.src, h.dst), sas.iter().map(|sa| &sa.config))
            }
            _ => Vec::new(),
        };
        let says = [vec![says], misses].concat().join("; ");
        let matches = |config: &PolicyConfig| {
            config.direction == direction
                && config.index != chosen.index
                && config.if_id == marks.if_id
                && config.mark.matches(marks.mark)
                && config.selector.matches(h)
        };
        let others = databases.policies().map(|other| &other.config).filter(|c| matches(c));
        let mut others: Vec<(u32, u32)> = others.map(|c| (c.priority, c.index)).collect();
        others.sort_unstable();
        let behind = match others.first() {
            Some((priority, index)) => format!(
                "; before {} that match too, the next is {index} (priority {priority})",
                others.len()
            ),
            None => String::new(),
        };
        format!(
            "{} ({}, priority {}): {says}{behind}",
            chosen.index,
            selector_text(&chosen.selector),
            chosen.priority
        )
    }

    fn sa_answer(&self, id: &SaId) -> String {
        let Some(sa) = self.entry(id) else { return format!("{:#010x}: gone by now", id.spi) };
        let params = &sa.config.params;
        let mode = mode_text(params.mode);
        let state = match sa.state() {
            SaState::Valid => "valid",
            SaState::Dying => "dying: its soft limit is reached",
            SaState::Expired => "expired",
        };
        let way = match self.crew.direction(params.src, params.dst) {
            Some(report::Direction::In) => "received",
            _ => "sent",
        };
        format!(
            "{:#010x} {} > {}, {mode}, {}, reqid {}, {state}, {} packets {way}",
            id.spi,
            params.src,
            params.dst,
            suite_text(params),
            sa.config.reqid,
            sa.esp.live().packets().load(Relaxed)
        )
    }

    fn route_answer(&self, dst: IpAddr, to: Way) -> WhyStep {
        let (interface, answer) = match to {
            Way::Port { ifindex, via, mtu } => {
                let name = self.linux.name_of(ifindex);
                let how = if via == dst { "on the link".into() } else { format!("via {via}") };
                let answer = format!("{dst} {how}, dev {name}, mtu {mtu}");
                (Some(name), answer)
            }
            Way::Segments { mtu } => {
                (None, format!("{dst} by a route with segments, for packets of up to {mtu} bytes"))
            }
            Way::Overlay { mtu } => {
                (None, format!("{dst} by an overlay, for packets of up to {mtu} bytes"))
            }
            Way::Tunnel { mtu } => (None, format!("{dst} by a tunnel interface, mtu {mtu}")),
            Way::Linux => {
                (None, format!("{dst}: only Linux goes there (no port, or a rule that it judges)"))
            }
            Way::Local => (None, format!("{dst} is this host")),
            Way::Nowhere(reason) => (None, format!("{dst}: nowhere ({})", reason.name())),
        };
        WhyStep { interface, ..step(WhyQuestion::Route, answer) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::MacAddr;

    #[test]
    fn a_doubtful_neighbour_is_used() {
        let addr = "192.0.2.2".parse().unwrap();
        let resolved = |confirm| Resolution::Resolved { mac: MacAddr([2, 0, 0, 0, 0, 1]), confirm };
        let said = "192.0.2.2 was 02:00:00:00:00:01: used, and Linux is asked to confirm it";
        assert_eq!(neighbour_answer(addr, resolved(true)), said);
        assert_eq!(neighbour_answer(addr, resolved(false)), "192.0.2.2 is 02:00:00:00:00:01");
        assert!(
            neighbour_answer(addr, Resolution::Unknown).contains("is not known: Linux is asked")
        );
    }
}
