//! Which marks packets get that arrive at a port, before any policy is asked.

use policy::Prefix;
use wire::Summary;

/// A rule: packets that match all that it names get its mark. The first that matches decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkRule {
    /// The interface that the packet came in by, or that its ESP packet came in by; 0 for any.
    pub ifindex: u32,
    /// The packet's own DSCP, 0 to 63, not that of the ESP packet that it came in.
    pub dscp: Option<u8>,
    /// Prefix of the source. `None`: all.
    pub src: Option<Prefix>,
    /// Prefix of the destination. `None`: all.
    pub dst: Option<Prefix>,
    /// Mark that packets get.
    pub mark: u32,
}

impl MarkRule {
    pub(crate) fn matches(&self, ifindex: u32, summary: &Summary) -> bool {
        let Summary { flow, fields } = summary;
        (self.ifindex == 0 || self.ifindex == ifindex)
            && self.dscp.is_none_or(|dscp| fields.traffic_class() >> 2 == dscp)
            && self.src.is_none_or(|prefix| prefix.contains(flow.src()))
            && self.dst.is_none_or(|prefix| prefix.contains(flow.dst()))
    }
}
