//! SAs and policies as the kernel would tell them.

use std::net::IpAddr;

use policy::{Direction, Mark, SaId};
use xfrm::codec::LifetimeConfig;
use xfrm::{Failure, KernelNumbers, LearntPolicy, LearntSa, Wanted};

use crate::sources::testing;
pub use crate::sources::testing::{HERE, THERE};
use crate::sources::testing::{config, keys};

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
        limits: LifetimeConfig::unlimited(),
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
    ends: (IpAddr, IpAddr),
    reqids: &[u32],
) -> LearntPolicy {
    let wanted =
        |reqid: &u32| Wanted { protocol: 50, mode: 1, reqid: *reqid, spi: 0, ends: Some(ends) };
    LearntPolicy {
        is_of_socket: false,
        config: testing::policy(index, direction, ends, reqids),
        failure: None,
        wanted: reqids.iter().map(wanted).collect(),
    }
}
