//! Address prefixes as the configuration writes them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::Deserialize;

/// An address prefix in the configuration: `10.2.0.0/16`, `2001:db8::/32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AddressPrefix(pub policy::Prefix);

impl<'de> Deserialize<'de> for AddressPrefix {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let wrong = || {
            serde::de::Error::custom(format!(
                "{text:?} is no address prefix; write for instance \"10.2.0.0/16\" or \
                 \"2001:db8::/32\""
            ))
        };
        let (addr, len) = text.split_once('/').ok_or_else(wrong)?;
        let addr: IpAddr = addr.parse().map_err(|_| wrong())?;
        let len: u8 = len.parse().map_err(|_| wrong())?;
        let most = if addr.is_ipv4() { 32 } else { 128 };
        if len > most {
            return Err(wrong());
        }
        let network = network(addr, len);
        if network != addr {
            return Err(serde::de::Error::custom(format!(
                "bits beyond the length of the prefix are set; write \"{network}/{len}\", or \
                 \"{addr}/{most}\" for the one address"
            )));
        }
        Ok(AddressPrefix(policy::Prefix { addr, len }))
    }
}

impl AddressPrefix {
    /// True if all addresses of another prefix are in this one.
    pub(super) fn covers(self, other: AddressPrefix) -> bool {
        self.0.len <= other.0.len && self.0.contains(other.0.addr)
    }
}

/// An address without the bits beyond a length.
fn network(addr: IpAddr, len: u8) -> IpAddr {
    let len = u32::from(len);
    match addr {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - len).unwrap_or(0);
            Ipv4Addr::from_bits(v4.to_bits() & mask).into()
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - len).unwrap_or(0);
            Ipv6Addr::from_bits(v6.to_bits() & mask).into()
        }
    }
}
