//! Metadata of frames that a driver tells XDP programs (`linux/netdev.h`, Linux 6.3 and later).

use std::io;

use crate::generic::{Generic, unknown};

/// Of [`xdp_metadata`]: the VLAN tags that the driver has taken out of frames.
pub const XDP_METADATA_VLAN_TAG: u64 = 1 << 2;

/// The bits of an interface's `xdp-rx-metadata-features`, in the network namespace of the calling thread.
///
/// # Errors
/// The system does not say, or has no such interface.
pub fn xdp_metadata(ifindex: u32) -> io::Result<u64> {
    let device = (NETDEV_A_DEV_IFINDEX, &ifindex.to_ne_bytes()[..]);
    let mut netdev = Generic::open(b"netdev\0")?;
    let bits = netdev.ask(NETDEV_CMD_DEV_GET, Some(device), NETDEV_A_DEV_XDP_RX_METADATA)?;
    let bits = bits.and_then(|bits| bits.first_chunk().copied());
    bits.map(u64::from_ne_bytes).ok_or_else(unknown)
}

const NETDEV_CMD_DEV_GET: u8 = 1;
const NETDEV_A_DEV_IFINDEX: u16 = 1;
const NETDEV_A_DEV_XDP_RX_METADATA: u16 = 5;
