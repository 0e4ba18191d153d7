//! What a driver tells XDP programs of frames, by the generic netlink family `netdev` (Linux 6.3 and later).

use std::io::{Error, ErrorKind, Result};

use netlink_sys::protocols::NETLINK_GENERIC;
use netlink_sys::{Socket, SocketAddr};

/// Whether the driver tells the VLAN tags that it has taken out of frames. False where Linux does not say.
pub(super) fn tells_vlan_tags(ifindex: u32) -> bool {
    features(ifindex).is_ok_and(|features| features & VLAN_TAG != 0)
}

/// The bits of `xdp-rx-metadata-features`.
fn features(ifindex: u32) -> Result<u64> {
    let mut socket = Socket::new(NETLINK_GENERIC)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    // What is asked is answered within the call that asks.
    socket.set_non_blocking(true)?;
    let ask = |message: &[u8]| {
        socket.send(message, 0)?;
        Ok::<_, Error>(socket.recv_from_full()?.0)
    };
    let name = message(GENL_ID_CTRL, CTRL_CMD_GETFAMILY, CTRL_ATTR_FAMILY_NAME, b"netdev\0");
    let family: [u8; 2] = attribute(&ask(&name)?, CTRL_ATTR_FAMILY_ID)?;
    let family = u16::from_ne_bytes(family);
    let device = message(family, NETDEV_CMD_DEV_GET, DEV_IFINDEX, &ifindex.to_ne_bytes());
    attribute(&ask(&device)?, DEV_XDP_RX_METADATA_FEATURES).map(u64::from_ne_bytes)
}

/// A request with one attribute.
fn message(family: u16, command: u8, attribute: u16, value: &[u8]) -> Vec<u8> {
    let attribute_len = ATTRIBUTE_HEADER_LEN + value.len();
    let len = HEADERS_LEN + attribute_len.next_multiple_of(4);
    let mut message = Vec::with_capacity(len);
    message.extend((len as u32).to_ne_bytes());
    message.extend(family.to_ne_bytes());
    message.extend(NLM_F_REQUEST.to_ne_bytes());
    // Sequence number and port.
    message.extend([0; 8]);
    message.extend([command, VERSION, 0, 0]);
    message.extend((attribute_len as u16).to_ne_bytes());
    message.extend(attribute.to_ne_bytes());
    message.extend(value);
    message.resize(len, 0);
    message
}

/// An answer's attribute of this kind.
fn attribute<const N: usize>(answer: &[u8], wanted: u16) -> Result<[u8; N]> {
    let missing = || Error::from(ErrorKind::InvalidData);
    let kind = answer.get(4..6).ok_or_else(missing)?;
    if kind == NLMSG_ERROR.to_ne_bytes() {
        return Err(ErrorKind::NotFound.into());
    }
    let mut rest = answer.get(HEADERS_LEN..).ok_or_else(missing)?;
    while let [a, b, c, d, ..] = *rest {
        let len = usize::from(u16::from_ne_bytes([a, b]));
        let value = rest.get(ATTRIBUTE_HEADER_LEN..len).ok_or_else(missing)?;
        if u16::from_ne_bytes([c, d]) == wanted {
            return value.try_into().map_err(|_| missing());
        }
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or(&[]);
    }
    Err(missing())
}

/// A header of netlink, and one of generic netlink.
const HEADERS_LEN: usize = 16 + 4;
const ATTRIBUTE_HEADER_LEN: usize = 4;
const NLM_F_REQUEST: u16 = 1;
const NLMSG_ERROR: u16 = 2;

const GENL_ID_CTRL: u16 = 0x10;
const VERSION: u8 = 1;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;

/// Of the family `netdev`.
const NETDEV_CMD_DEV_GET: u8 = 1;
const DEV_IFINDEX: u16 = 1;
const DEV_XDP_RX_METADATA_FEATURES: u16 = 5;
const VLAN_TAG: u64 = 1 << 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_and_wrong_ones_refused() {
        let mut answer = message(20, 1, DEV_IFINDEX, &7u32.to_ne_bytes());
        answer.extend([12, 0, DEV_XDP_RX_METADATA_FEATURES as u8, 0, 6, 0, 0, 0, 0, 0, 0, 0]);
        let features = |answer: &[u8]| attribute(answer, DEV_XDP_RX_METADATA_FEATURES);
        if cfg!(target_endian = "little") {
            assert_eq!(features(&answer).map(u64::from_le_bytes).expect("there"), 6);
        }
        assert!(attribute::<4>(&answer, DEV_XDP_RX_METADATA_FEATURES).is_err(), "of other size");
        assert!(attribute::<8>(&answer, 9).is_err(), "not there");
        for len in 0..answer.len() {
            assert!(features(&answer[..len]).is_err(), "cut to {len}");
        }
        // An attribute that is shorter than its header would be read for ever.
        answer[HEADERS_LEN] = 0;
        assert!(features(&answer).is_err());
        answer[4] = NLMSG_ERROR as u8;
        assert!(features(&answer).is_err());
    }

    #[test]
    fn no_interface_tells_nothing() {
        assert!(!tells_vlan_tags(0));
    }
}
