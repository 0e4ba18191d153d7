//! Addresses as XFRM has them: 16 bytes whatever the family, which is told elsewhere.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use netlink::{Field, Reader, TooShort};

/// Linux's `xfrm_address_t`: 16 bytes, of which IPv4 uses the first 4. The others are kept as they
/// came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Address(pub [u8; 16]);

impl Address {
    /// The address of this family, or `None` for a family other than IPv4 and IPv6.
    pub fn ip(self, family: u16) -> Option<IpAddr> {
        match family {
            AF_INET => {
                let [a, b, c, d, ..] = self.0;
                Some(IpAddr::V4(Ipv4Addr::new(a, b, c, d)))
            }
            AF_INET6 => Some(IpAddr::V6(Ipv6Addr::from(self.0))),
            _ => None,
        }
    }
}

impl From<IpAddr> for Address {
    fn from(ip: IpAddr) -> Self {
        match ip {
            IpAddr::V4(v4) => {
                let [a, b, c, d] = v4.octets();
                Address([a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
            }
            IpAddr::V6(v6) => Address(v6.octets()),
        }
    }
}

impl Field for Address {
    const LEN: usize = 16;

    fn read(r: &mut Reader<'_>) -> Result<Self, TooShort> {
        r.take().map(Address)
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }
}

/// The number of the address's family.
pub const fn family_of(ip: IpAddr) -> u16 {
    match ip {
        IpAddr::V4(_) => AF_INET,
        IpAddr::V6(_) => AF_INET6,
    }
}

/// Address family IPv4 (`AF_INET`).
pub const AF_INET: u16 = 2;
/// Address family IPv6 (`AF_INET6`).
pub const AF_INET6: u16 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let v4: IpAddr = "192.0.2.1".parse().unwrap();
        let v6: IpAddr = "2001:db8::1".parse().unwrap();
        assert_eq!(Address::from(v4).ip(AF_INET), Some(v4));
        assert_eq!(Address::from(v6).ip(AF_INET6), Some(v6));
        assert_eq!(Address::from(v6).ip(0), None);
        assert_eq!((family_of(v4), family_of(v6)), (AF_INET, AF_INET6));
    }
}
