//! SRv6 of routes (`ip -6 route add ... encap seg6 ...` and `... encap seg6local ...`): what `RTA_ENCAP` says
//! (`linux/seg6_iptunnel.h`, `linux/seg6_local.h`).

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use netlink::Attributes;
use netlink::attribute::{as_ip, as_u32, u16_at, u32_at};

use crate::uapi::*;

/// Encapsulation by a next hop.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Encap {
    /// Segments are put on packets (SRv6).
    Seg6(Seg6),
    /// They are at a segment of this host.
    Seg6Local(Seg6Local),
    /// Something that is not in this model, such as MPLS or an HMAC.
    Other,
}

/// How segments are put on packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Seg6Mode {
    /// `encap`: H.Encaps (RFC 8986 §5.1).
    Encap,
    /// `encap.red`: H.Encaps.Red (RFC 8986 §5.2).
    EncapRed,
    /// `inline`: segments behind the packet's own header.
    Inline,
    /// `l2encap`: H.Encaps.L2 (RFC 8986 §5.3).
    L2Encap,
    /// `l2encap.red`: H.Encaps.L2.Red (RFC 8986 §5.4).
    L2EncapRed,
}

/// Segments that packets get.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Seg6 {
    /// Way of putting them on.
    pub mode: Seg6Mode,
    /// In the order in which packets pass them; of `inline` without the packet's own destination.
    pub segments: Vec<Ipv6Addr>,
}

/// Behaviour of a segment (`SEG6_LOCAL_ACTION_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names of RFC 8986")]
pub enum SidAction {
    End,
    EndX,
    EndT,
    EndDx2,
    EndDx4,
    EndDx6,
    EndDt4,
    EndDt6,
    EndDt46,
    EndB6Encaps,
    /// Another one; its number.
    Other(u32),
}

/// A segment of this host.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Seg6Local {
    /// Behaviour of the segment.
    pub action: SidAction,
    /// Table, as `table` or as that of a VRF.
    pub table: Option<u32>,
    /// IPv4 next hop, of End.DX4.
    pub nh4: Option<Ipv4Addr>,
    /// IPv6 next hop, of End.X and End.DX6.
    pub nh6: Option<Ipv6Addr>,
    /// Index of the egress interface.
    pub oif: Option<u32>,
    /// Segments, in the order in which packets pass them.
    pub segments: Vec<Ipv6Addr>,
    /// `psp`, `usp`, `usd`.
    pub flavours: [bool; 3],
    /// `next-csid`, with the lengths of block and of node and function, in bits.
    pub next_csid: Option<(u8, u8)>,
    /// True if it has attributes that are not in this model.
    pub has_more: bool,
}

impl Seg6Local {
    /// One that has nothing but an action.
    pub const fn new(action: SidAction) -> Seg6Local {
        Seg6Local {
            action,
            table: None,
            nh4: None,
            nh6: None,
            oif: None,
            segments: Vec::new(),
            flavours: [false; 3],
            next_csid: None,
            has_more: false,
        }
    }
}

/// Encapsulation by the attributes of a next hop; `None` without one.
pub(crate) fn encap(kind: Option<&[u8]>, content: Option<&[u8]>) -> Option<Encap> {
    let content = content?;
    // Two bytes.
    let number = kind.and_then(|kind| u16_at(kind, 0));
    let understood = match number {
        Some(LWTUNNEL_ENCAP_SEG6) => seg6(content).map(Encap::Seg6),
        Some(LWTUNNEL_ENCAP_SEG6_LOCAL) => seg6_local(content).map(Encap::Seg6Local),
        _ => None,
    };
    Some(understood.unwrap_or(Encap::Other))
}

/// `struct seg6_iptunnel_encap`: the mode, and a segment routing header.
fn seg6(content: &[u8]) -> Option<Seg6> {
    let value = Attributes::new(content).find(SEG6_IPTUNNEL_SRH)?;
    let mode = match u32_at(value, 0)? {
        0 => Seg6Mode::Inline,
        1 => Seg6Mode::Encap,
        2 => Seg6Mode::L2Encap,
        3 => Seg6Mode::EncapRed,
        4 => Seg6Mode::L2EncapRed,
        _ => return None,
    };
    let mut segments = segments(value.get(4..)?)?;
    if mode == Seg6Mode::Inline {
        // A place for the packet's own destination.
        segments.pop();
    }
    Some(Seg6 { mode, segments })
}

/// The list of a segment routing header, in the order in which packets pass it; none if it has TLVs.
fn segments(srh: &[u8]) -> Option<Vec<Ipv6Addr>> {
    let count = usize::from(*srh.get(1)?) / 2;
    let last = usize::from(*srh.get(4)?);
    (count == last + 1).then_some(())?;
    let list = srh.get(8..8 + count * 16)?;
    let all = list.as_chunks::<16>().0.iter().rev();
    Some(all.map(|octets| Ipv6Addr::from(*octets)).collect())
}

fn seg6_local(content: &[u8]) -> Option<Seg6Local> {
    let mut action = None;
    let mut local = Seg6Local::new(SidAction::Other(0));
    for (kind, value) in Attributes::new(content) {
        match kind {
            SEG6_LOCAL_ACTION => action = as_u32(value),
            SEG6_LOCAL_SRH => local.segments = segments(value)?,
            SEG6_LOCAL_TABLE | SEG6_LOCAL_VRFTABLE => local.table = as_u32(value),
            SEG6_LOCAL_NH4 => match as_ip(value)? {
                IpAddr::V4(addr) => local.nh4 = Some(addr),
                IpAddr::V6(_) => return None,
            },
            SEG6_LOCAL_NH6 => match as_ip(value)? {
                IpAddr::V6(addr) => local.nh6 = Some(addr),
                IpAddr::V4(_) => return None,
            },
            SEG6_LOCAL_OIF => local.oif = as_u32(value),
            // Linux's own counters.
            SEG6_LOCAL_COUNTERS => {}
            SEG6_LOCAL_FLAVORS => flavours(value, &mut local)?,
            _ => local.has_more = true,
        }
    }
    local.action = match action? {
        1 => SidAction::End,
        2 => SidAction::EndX,
        3 => SidAction::EndT,
        4 => SidAction::EndDx2,
        5 => SidAction::EndDx6,
        6 => SidAction::EndDx4,
        7 => SidAction::EndDt6,
        8 => SidAction::EndDt4,
        10 => SidAction::EndB6Encaps,
        16 => SidAction::EndDt46,
        other => SidAction::Other(other),
    };
    Some(local)
}

fn flavours(value: &[u8], local: &mut Seg6Local) -> Option<()> {
    let found = Attributes::new(value);
    let operations = found.find(SEG6_LOCAL_FLV_OPERATION).and_then(as_u32)?;
    let bits = |kind, default| match found.find(kind) {
        Some([bits, ..]) => *bits,
        _ => default,
    };
    local.flavours = [1, 2, 3].map(|bit| operations >> bit & 1 != 0);
    if operations >> 4 & 1 != 0 {
        // Linux's defaults, which it does not tell.
        let block = bits(SEG6_LOCAL_FLV_LCBLOCK_BITS, 32);
        local.next_csid = Some((block, bits(SEG6_LOCAL_FLV_LCNODE_FN_BITS, 16)));
    }
    local.has_more |= operations >> 5 != 0;
    Some(())
}
