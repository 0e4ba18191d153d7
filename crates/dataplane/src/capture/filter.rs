//! Which packets a tap records.

use outcome::DropReason;
use policy::Prefix;
use wire::Summary;

use super::record::{Place, Record, Verdict};

/// Conditions for packets to be recorded. Without any: every packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// At this place alone.
    pub place: Option<Place>,
    /// On its way out to peers, or on its way in from them.
    pub is_outbound: Option<bool>,
    /// Interfaces, by one of which the packet came or left; 0 is the private interface.
    pub interfaces: Vec<u32>,
    /// Protected or decrypted by an SA of this SPI, host byte order.
    pub spi: Option<u32>,
    /// Protected or decrypted by an SA of this reqid.
    pub reqid: Option<u32>,
    /// Policy that decided.
    pub policy: Option<PolicyFilter>,
    /// Addresses and ports of the packet, or of the packet inside.
    pub flow: FlowFilter,
    /// Reasons for which the packet was dropped.
    pub drops: Option<Drops>,
}

/// A policy, and what its SAs are told by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyFilter {
    /// Index of the policy.
    pub index: u32,
    /// The reqids of its templates: packets of no policy, as ESP on the wire, are told by their SA.
    pub reqids: Vec<u32>,
}

/// Which drops are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drops {
    /// Drops for any reason.
    Any,
    /// Drops for this reason.
    For(DropReason),
}

/// A flow. What is not given matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowFilter {
    /// Where packets come from.
    pub src: Option<Prefix>,
    /// Where they go.
    pub dst: Option<Prefix>,
    /// Where they come from or go.
    pub host: Option<Prefix>,
    /// IP protocol. `None`: all.
    pub protocol: Option<u8>,
    /// Source port; ICMP's type.
    pub src_port: Option<u16>,
    /// Destination port; ICMP's code.
    pub dst_port: Option<u16>,
    /// One of the two.
    pub port: Option<u16>,
}

impl FlowFilter {
    /// True if a packet matches.
    pub fn matches(&self, packet: &Summary) -> bool {
        let Summary { flow, fields } = packet;
        let (src, dst) = (flow.src(), flow.dst());
        let (src_port, dst_port) = flow.ports();
        self.src.is_none_or(|prefix| prefix.contains(src))
            && self.dst.is_none_or(|prefix| prefix.contains(dst))
            && self.host.is_none_or(|prefix| prefix.contains(src) || prefix.contains(dst))
            && self.protocol.is_none_or(|protocol| protocol == fields.protocol())
            && self.src_port.is_none_or(|port| port == src_port)
            && self.dst_port.is_none_or(|port| port == dst_port)
            && self.port.is_none_or(|port| port == src_port || port == dst_port)
    }

    /// True if every packet matches, one without a flow too.
    pub fn is_empty(&self) -> bool {
        *self == FlowFilter::default()
    }
}

impl Filter {
    /// True if a record is wanted. Its flow is not compared.
    pub(super) fn wants(&self, record: &Record) -> bool {
        let sas = || {
            let by = match record.verdict {
                Verdict::Protected(by) => Some(by),
                _ => None,
            };
            record.sa.into_iter().chain(by)
        };
        self.place.is_none_or(|place| place == record.place)
            && self.is_outbound.is_none_or(|out| out == record.is_outbound)
            && (self.interfaces.is_empty() || self.is_by_interface(record))
            && self.spi.is_none_or(|spi| sas().any(|sa| sa.id.spi == spi))
            && self.reqid.is_none_or(|reqid| sas().any(|sa| sa.reqid == reqid))
            && self.policy.as_ref().is_none_or(|policy| match record.policy {
                Some(index) => index == policy.index,
                None => sas().any(|sa| policy.reqids.contains(&sa.reqid)),
            })
            && match self.drops {
                None => true,
                Some(Drops::Any) => matches!(record.verdict, Verdict::Dropped(_)),
                Some(Drops::For(reason)) => record.verdict == Verdict::Dropped(reason),
            }
    }

    fn is_by_interface(&self, record: &Record) -> bool {
        let left_by = match record.verdict {
            Verdict::Sent { ifindex } => Some(ifindex),
            Verdict::ToLinux => Some(0),
            _ => None,
        };
        self.interfaces.iter().any(|i| *i == record.ifindex || Some(*i) == left_by)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 10.1.0.5 port 1000 > 10.2.0.9 port 443, TCP.
    fn packet() -> Summary {
        let mut packet = vec![0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 10, 1, 0, 5, 10, 2, 0, 9];
        packet.extend([0x03, 0xe8, 0x01, 0xbb]);
        packet.resize(40, 0);
        packet[32] = 0x50;
        let sum: u32 = packet[..20].chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum();
        let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        (&wire::parse_ip(&packet).expect("a packet")).into()
    }

    fn prefix(text: &str, len: u8) -> Option<Prefix> {
        Some(Prefix { addr: text.parse().expect("an address"), len })
    }

    #[test]
    fn each_part_of_a_flow_can_rule_it_out() {
        let packet = packet();
        let yes = [
            FlowFilter::default(),
            FlowFilter { src: prefix("10.1.0.0", 16), ..FlowFilter::default() },
            FlowFilter { dst: prefix("10.2.0.9", 32), ..FlowFilter::default() },
            FlowFilter { host: prefix("10.2.0.0", 24), ..FlowFilter::default() },
            FlowFilter { protocol: Some(6), port: Some(443), ..FlowFilter::default() },
            FlowFilter { src_port: Some(1000), dst_port: Some(443), ..FlowFilter::default() },
        ];
        for filter in yes {
            assert!(filter.matches(&packet), "{filter:?}");
        }
        let no = [
            FlowFilter { src: prefix("10.2.0.0", 16), ..FlowFilter::default() },
            FlowFilter { dst: prefix("10.1.0.5", 32), ..FlowFilter::default() },
            FlowFilter { host: prefix("fd00::", 8), ..FlowFilter::default() },
            FlowFilter { protocol: Some(17), ..FlowFilter::default() },
            FlowFilter { src_port: Some(443), ..FlowFilter::default() },
            FlowFilter { dst_port: Some(1000), ..FlowFilter::default() },
            FlowFilter { port: Some(80), ..FlowFilter::default() },
        ];
        for filter in no {
            assert!(!filter.matches(&packet) && !filter.is_empty(), "{filter:?}");
        }
    }
}
