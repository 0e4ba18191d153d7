//! Fields that the two headers of a tunnel take over from each other, where an SA's own flags leave it open.

use crate::ecn::EcnDecap;

/// Rules for all SAs in tunnel mode. An SA whose flags say otherwise ([`SaFlags`]) goes its own way:
/// `nopmtudisc` clears DF and `dont-encap-dscp` the DSCP whatever stands here.
///
/// [`SaFlags`]: crate::SaFlags
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TunnelHeaders {
    /// DF of an outer IPv4 header.
    pub df: OuterDf,
    /// DSCP of the outer header.
    pub dscp: OuterDscp,
    /// ECN at the tunnel's exit.
    pub ecn: EcnDecap,
}

/// DF of an outer IPv4 header (RFC 4301 §8.1). IPv6 counts as DF set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OuterDf {
    /// The inner header's.
    #[default]
    Copy,
    /// Always set: no router on the way fragments, and each reports what is too big for it.
    Set,
    /// Always clear: routers on the way may fragment.
    Clear,
}

/// DSCP of the outer header (RFC 2983).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OuterDscp {
    /// The inner header's: the uniform model.
    #[default]
    Copy,
    /// This code point, 0 to 63, for every inner packet: the pipe model, which tells observers
    /// nothing.
    Value(u8),
}
