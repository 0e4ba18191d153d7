//! VXLAN (RFC 7348 §5).
//!
//! ```text
//!   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!   |R|R|R|R|I|R|R|R|            Reserved                           |
//!   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!   |                VXLAN Network Identifier (VNI) |   Reserved    |
//!   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

/// The port that IANA has given it; Linux's own default is 8472.
pub const PORT: u16 = 4789;

pub(crate) const HEADER_LEN: usize = 8;

/// The flag that says that there is a VNI.
const HAS_VNI: u8 = 0x08;

/// A header for this VNI, of 24 bits.
pub(crate) const fn header(vni: u32) -> [u8; HEADER_LEN] {
    let [a, b, c, d] = (vni << 8).to_be_bytes();
    [HAS_VNI, 0, 0, 0, a, b, c, d]
}

/// The VNI of a header. `None` where there is none, and for extensions (GPE, group policies, remote checksums), whose
/// flags are set then.
pub(crate) fn read(bytes: &[u8]) -> Option<u32> {
    let [flags, r1, r2, r3, a, b, c, r4] = *bytes.first_chunk::<HEADER_LEN>()?;
    let is_plain = flags == HAS_VNI && [r1, r2, r3, r4] == [0; 4];
    is_plain.then_some(u32::from_be_bytes([0, a, b, c]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vni_has_24_bits_and_flags_are_told_from_it() {
        for vni in [0, 1, 42, 0x00ff_ffff] {
            assert_eq!(read(&header(vni)), Some(vni));
        }
        assert_eq!(read(&header(7)[..7]), None);
        for at in [0, 1, 2, 3, 7] {
            let mut other = header(7);
            other[at] ^= 0x88;
            assert_eq!(read(&other), None, "byte {at}");
        }
    }
}
