//! GENEVE (RFC 8926 §3.4) without options.
//!
//! ```text
//!   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!   |Ver|  Opt Len  |O|C|    Rsvd.  |          Protocol Type        |
//!   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!   |        Virtual Network Identifier (VNI)       |    Reserved   |
//!   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use wire::EtherType;

/// The port that IANA has given it.
pub const PORT: u16 = 6081;

pub(crate) const HEADER_LEN: usize = 8;

/// A header for this VNI, of 24 bits, in front of such a payload.
pub(crate) const fn header(vni: u32, kind: EtherType) -> [u8; HEADER_LEN] {
    let [kind_hi, kind_lo] = kind.0.to_be_bytes();
    let [a, b, c, d] = (vni << 8).to_be_bytes();
    [0, 0, kind_hi, kind_lo, a, b, c, d]
}

/// VNI and kind of the payload. `None` for another version, for control messages and for options.
pub(crate) fn read(bytes: &[u8]) -> Option<(u32, EtherType)> {
    let [version, flags, kind_hi, kind_lo, a, b, c, reserved] =
        *bytes.first_chunk::<HEADER_LEN>()?;
    let is_plain = [version, flags, reserved] == [0; 3];
    let kind = EtherType(u16::from_be_bytes([kind_hi, kind_lo]));
    is_plain.then_some((u32::from_be_bytes([0, a, b, c]), kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_versions_and_control_are_left_to_others() {
        let plain = header(0x00ff_ff01, EtherType::IPV4);
        assert_eq!(read(&plain), Some((0x00ff_ff01, EtherType::IPV4)));
        assert_eq!(read(&plain[..7]), None);
        // Version 1, an option of 4 bytes, control, critical options.
        for (at, bits) in [(0, 0x40), (0, 0x01), (1, 0x80), (1, 0x40), (7, 1)] {
            let mut other = plain;
            other[at] |= bits;
            assert_eq!(read(&other), None, "byte {at}");
        }
    }
}
