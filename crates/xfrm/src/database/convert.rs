//! Parts of SAs and policies, from netlink's words into the data path's.

use esp::Mode;
use policy::{Mark, PortMask, Prefix, Selector};

use crate::codec::{MarkAttribute, SelectorInfo, constant as c};
use crate::failure::Failure;

/// A mode that the data path has.
pub(super) fn mode(mode: u8) -> Result<Mode, Failure> {
    match mode {
        c::MODE_TRANSPORT => Ok(Mode::Transport),
        c::MODE_TUNNEL => Ok(Mode::Tunnel),
        c::MODE_IPTFS => Ok(Mode::Iptfs),
        c::MODE_ROUTE_OPTIMIZATION | c::MODE_BEET => Err(Failure::ModeUnsupported),
        _ => Err(Failure::Mode),
    }
}

/// The mark as the data path has it.
pub(super) fn mark(m: &MarkAttribute) -> Mark {
    Mark { value: m.value, mask: m.mask }
}

/// The selector as the data path has it; `None` for one of unspecified family, which matches
/// everything.
pub(super) fn selector(s: &SelectorInfo) -> Option<Selector> {
    Some(Selector {
        src: Prefix { addr: s.src.ip(s.family)?, len: s.src_prefix_len },
        dst: Prefix { addr: s.dst.ip(s.family)?, len: s.dst_prefix_len },
        protocol: s.protocol,
        src_port: PortMask { value: s.src_port.0, mask: s.src_port_mask.0 },
        dst_port: PortMask { value: s.dst_port.0, mask: s.dst_port_mask.0 },
        ifindex: s.ifindex.cast_unsigned(),
        user: s.user,
    })
}
