//! Reading and writing fixed layouts: bounds-checked, padding always zero on the way out.

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

/// Declares a struct whose fields follow each other on the wire, and checks its length.
#[macro_export]
macro_rules! layout {
    ($($(#[$doc:meta])* $name:ident, $len:literal bytes {
        $($(#[$fdoc:meta])* $field:ident: $t:ty,)*
    })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
        pub struct $name {
            $($(#[$fdoc])* pub $field: $t,)*
        }

        const _: () = assert!($len == 0 $(+ <$t as $crate::Field>::LEN)*);

        impl $crate::Field for $name {
            const LEN: usize = $len;

            fn read(
                r: &mut $crate::Reader<'_>,
            ) -> Result<Self, $crate::TooShort> {
                Ok($name { $($field: $crate::Field::read(r)?,)* })
            }

            fn write(&self, out: &mut Vec<u8>) {
                $($crate::Field::write(&self.$field, out);)*
            }
        }
    )*};
}
pub use layout;

#[cfg(test)]
mod tests {
    use super::*;

    layout! {
        /// A struct of the test.
        Sample, 12 bytes {
            /// The first byte.
            a: u8,
            /// Padding of zeros, to four bytes.
            pad: Pad<3>,
            /// A big-endian number.
            b: Be32,
            /// A native number.
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
}
