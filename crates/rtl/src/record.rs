//! Records of the tables: packed structs of `gateway_pkg.sv`, bit for bit.

use core::net::IpAddr;

use zeroize::Zeroize;

/// The longest record in bits: an SA.
const MAX_BITS: usize = 1536;

/// A record, written field by field from its highest bit down.
///
/// Zeroised when dropped: SAs hold keys.
pub(crate) struct Record {
    /// Bits so far, the first one highest.
    bytes: [u8; MAX_BITS / 8],
    bits: usize,
}

impl Record {
    pub(crate) fn new() -> Record {
        Record { bytes: [0; MAX_BITS / 8], bits: 0 }
    }

    /// Appends the lowest `width` bits of a value.
    pub(crate) fn put(&mut self, width: u32, value: u64) -> &mut Record {
        for place in (0..width).rev() {
            if value >> place & 1 != 0 {
                self.bytes[self.bits / 8] |= 0x80 >> (self.bits % 8);
            }
            self.bits += 1;
        }
        self
    }

    /// Appends one bit.
    pub(crate) fn flag(&mut self, value: bool) -> &mut Record {
        self.put(1, value.into())
    }

    /// Appends `len` bytes: those given, and zeros behind them.
    pub(crate) fn bytes(&mut self, len: usize, bytes: &[u8]) -> &mut Record {
        assert!(bytes.len() <= len, "{} bytes do not fit into {len}", bytes.len());
        for place in 0..len {
            self.put(8, bytes.get(place).copied().unwrap_or(0).into());
        }
        self
    }

    /// Appends an address: 16 bytes, IPv4 in the first four.
    pub(crate) fn address(&mut self, address: IpAddr) -> &mut Record {
        match address {
            IpAddr::V4(address) => self.bytes(16, &address.octets()),
            IpAddr::V6(address) => self.bytes(16, &address.octets()),
        }
    }

    /// The record in words of 32 bits, the one with the lowest bits first.
    pub(crate) fn words(&self) -> impl Iterator<Item = u32> + '_ {
        let bit = |place: usize| {
            // Places count from the lowest bit.
            let from_front = self.bits.checked_sub(place + 1)?;
            Some(u32::from(self.bytes[from_front / 8] >> (7 - from_front % 8) & 1))
        };
        (0..self.bits.div_ceil(32)).map(move |word| {
            (0..32).fold(0, |sum, place| sum | bit(32 * word + place).unwrap_or(0) << place)
        })
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        self.bytes.zeroize();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_field_is_highest() {
        let mut record = Record::new();
        record.flag(true).put(3, 0b010).bytes(2, &[0xab]).put(16, 0x1234);
        // 1 010 10101011 00000000 0001001000110100, 36 bits
        let words: Vec<u32> = record.words().collect();
        assert_eq!(words, [0xab00_1234, 0b1010]);
    }
}
