//! SAs and policies as the kernel would tell them.

use std::net::IpAddr;

use esp::Mode;
use policy::{
    Action, Direction, Mark, PolicyConfig, PolicyFlags, Prefix, SaId, Selector, Template,
};
use xfrm::{Failure, KernelNumbers, LearntPolicy, LearntSa, Wanted};

pub use crate::daemon::sources::testing::{HERE, THERE};
use crate::daemon::sources::testing::{config, keys};

/// A tunnel's SA.
pub fn sa(spi: u32, (src, dst): (IpAddr, IpAddr), reqid: u32) -> LearntSa {
    let config = config(spi, (src, dst), reqid);
    LearntSa {
        id: SaId { dst, spi, protocol: 50, mark: Mark::default() },
        src,
        reqid,
        if_id: 0,
        mode: 1,
        is_larval: false,
        is_offloaded: false,
        numbers: KernelNumbers::default(),
        carried: Ok((config, keys())),
    }
}

/// The same, in BEET mode, which is not carried.
pub fn beet(spi: u32, ends: (IpAddr, IpAddr), reqid: u32) -> LearntSa {
    LearntSa { mode: 4, carried: Err(Failure::ModeUnsupported), ..sa(spi, ends, reqid) }
}

/// A policy that protects by tunnels between these ends, one after the other.
pub fn policy(
    index: u32,
    direction: Direction,
    (src, dst): (IpAddr, IpAddr),
    reqids: &[u32],
) -> LearntPolicy {
    let all = Prefix { addr: [10, 0, 0, 0].into(), len: 8 };
    let template = |reqid: &u32| Template {
        src,
        dst,
        spi: 0,
        protocol: 50,
        mode: Mode::Tunnel,
        reqid: *reqid,
        optional: false,
    };
    let wanted = |reqid: &u32| Wanted {
        protocol: 50,
        mode: 1,
        reqid: *reqid,
        spi: 0,
        ends: Some((src, dst)),
    };
    LearntPolicy {
        is_of_socket: false,
        config: PolicyConfig {
            index,
            direction,
            selector: Selector::between(all, all),
            priority: 1,
            action: Action::Allow,
            templates: reqids.iter().map(template).collect(),
            flags: PolicyFlags::default(),
            mark: Mark::default(),
            if_id: 0,
        },
        failure: None,
        wanted: reqids.iter().map(wanted).collect(),
    }
}
