//! Address prefixes as the configuration writes them.

use serde::Deserialize;

/// An address prefix in the configuration: `10.2.0.0/16`, `2001:db8::/32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AddressPrefix(pub policy::Prefix);

impl<'de> Deserialize<'de> for AddressPrefix {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let wrong = || {
            serde::de::Error::custom(format!(
                "`{text}` is not an address prefix; write for instance `10.2.0.0/16` or \
                 `2001:db8::/32`"
            ))
        };
        let (addr, len) = text.split_once('/').ok_or_else(wrong)?;
        let addr: std::net::IpAddr = addr.parse().map_err(|_| wrong())?;
        let len: u8 = len.parse().map_err(|_| wrong())?;
        let most = if addr.is_ipv4() { 32 } else { 128 };
        if len > most {
            return Err(wrong());
        }
        Ok(AddressPrefix(policy::Prefix { addr, len }))
    }
}
