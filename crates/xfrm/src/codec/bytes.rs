//! Reading and writing fixed layouts: bounds-checked, padding always zero on the way out.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Something ended before its fixed part did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("shorter than its fixed part")]
pub struct TooShort;

/// A cursor over bytes from outside.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Reads from the start of `bytes`.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Reader(bytes)
    }

    /// The next `N` bytes.
    ///
    /// # Errors
    /// Fewer than `N` bytes are left.
    pub fn take<const N: usize>(&mut self) -> Result<[u8; N], TooShort> {
        let (head, tail) = self.0.split_first_chunk::<N>().ok_or(TooShort)?;
        self.0 = tail;
        Ok(*head)
    }

    /// Bytes that were not read yet.
    pub const fn rest(&self) -> &'a [u8] {
        self.0
    }
}

/// A value with a fixed layout on the wire, native byte order unless its type says otherwise.
pub trait Field: Sized {
    /// Length in bytes.
    const LEN: usize;

    /// Reads the value.
    ///
    /// # Errors
    /// Fewer than [`Field::LEN`] bytes are left.
    fn read(r: &mut Reader<'_>) -> Result<Self, TooShort>;

    /// Appends exactly [`Field::LEN`] bytes.
    fn write(&self, out: &mut Vec<u8>);

    /// Decodes from the start of `bytes`; more bytes may follow.
    ///
    /// # Errors
    /// Fewer than [`Field::LEN`] bytes.
    fn decode(bytes: &[u8]) -> Result<Self, TooShort> {
        Self::read(&mut Reader::new(bytes))
    }

    /// The value's bytes.
    fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(Self::LEN);
        self.write(&mut out);
        out
    }
}

macro_rules! native {
    ($($t:ty),*) => {$(
        impl Field for $t {
            const LEN: usize = size_of::<$t>();

            fn read(r: &mut Reader<'_>) -> Result<Self, TooShort> {
                r.take().map(<$t>::from_ne_bytes)
            }

            fn write(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_ne_bytes());
            }
        }
    )*};
}
native!(u8, u16, u32, i32, u64);

macro_rules! big_endian {
    ($($(#[$doc:meta])* $name:ident($t:ty)),*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub struct $name(pub $t);

        impl Field for $name {
            const LEN: usize = size_of::<$t>();

            fn read(r: &mut Reader<'_>) -> Result<Self, TooShort> {
                r.take().map(|b| $name(<$t>::from_be_bytes(b)))
            }

            fn write(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.0.to_be_bytes());
            }
        }
    )*};
}
big_endian! {
    /// 16 bits that travel in network byte order; the number here is in host order.
    Be16(u16),
    /// 32 bits that travel in network byte order; the number here is in host order.
    Be32(u32)
}

/// `N` bytes of padding: skipped when read, zero when written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Pad<const N: usize>;

impl<const N: usize> Field for Pad<N> {
    const LEN: usize = N;

    fn read(r: &mut Reader<'_>) -> Result<Self, TooShort> {
        r.take::<N>().map(|_| Pad)
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[0; N]);
    }
}

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

/// Declares a struct whose fields follow each other on the wire, and checks its length.
macro_rules! layout {
    ($($(#[$doc:meta])* $name:ident, $len:literal bytes {
        $($(#[$fdoc:meta])* $field:ident: $t:ty,)*
    })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
        pub struct $name {
            $($(#[$fdoc])* pub $field: $t,)*
        }

        const _: () = assert!($len == 0 $(+ <$t as $crate::codec::Field>::LEN)*);

        impl $crate::codec::Field for $name {
            const LEN: usize = $len;

            fn read(
                r: &mut $crate::codec::Reader<'_>,
            ) -> Result<Self, $crate::codec::TooShort> {
                Ok($name { $($field: $crate::codec::Field::read(r)?,)* })
            }

            fn write(&self, out: &mut Vec<u8>) {
                $($crate::codec::Field::write(&self.$field, out);)*
            }
        }
    )*};
}
pub(crate) use layout;

#[cfg(test)]
mod tests {
    use super::*;

    layout! {
        /// A struct of the test.
        Sample, 12 bytes {
            /// First.
            a: u8,
            /// Padding, zero.
            pad: Pad<3>,
            /// Second.
            b: Be32,
            /// Third.
            c: u32,
        }
    }

    #[test]
    fn padding_is_skipped_and_zeroed() {
        let mut bytes = vec![7, 1, 2, 3, 0, 0, 1, 0];
        bytes.extend(0xdead_beef_u32.to_ne_bytes());
        let s = Sample::decode(&bytes).unwrap();
        assert_eq!(s, Sample { a: 7, pad: Pad, b: Be32(256), c: 0xdead_beef });
        bytes[1..4].fill(0);
        assert_eq!(s.to_bytes(), bytes);
    }

    #[test]
    fn short_input_is_an_error_at_every_length() {
        let bytes = Sample::default().to_bytes();
        for len in 0..bytes.len() {
            assert_eq!(Sample::decode(&bytes[..len]), Err(TooShort), "{len}");
        }
    }

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
