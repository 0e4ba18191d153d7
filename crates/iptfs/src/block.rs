//! Data blocks (RFC 9347, section 6.1.3): told apart by their first four bits, which are those of an IP version.

/// The kind of a block, by its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// Padding, to the payload's end.
    Pad,
    /// An IP packet of this length in bytes.
    Packet(usize),
    /// An IP packet of which too little is there to know its length.
    Short,
    /// No block begins so, or its length is none that a packet has.
    Bad,
}

/// Bytes of a packet that tell its length at the latest.
pub(crate) const HEAD_LEN: usize = 7;

/// Looks at the beginning of a block, of which there is at least one byte.
#[inline]
pub(crate) fn look(bytes: &[u8]) -> Look {
    match bytes.first().map(|first| first >> 4) {
        None | Some(0) => Look::Pad,
        Some(4) => match bytes {
            [_, _, high, low, ..] => match u16::from_be_bytes([*high, *low]) {
                0..V4_HEADER_LEN => Look::Bad,
                len => Look::Packet(len.into()),
            },
            _ => Look::Short,
        },
        Some(6) => match bytes {
            // Hop-by-hop options and no length: a jumbogram (RFC 2675), whose length would stand elsewhere.
            [_, _, _, _, 0, 0, 0, ..] => Look::Bad,
            [_, _, _, _, 0, 0] => Look::Short,
            [_, _, _, _, high, low, ..] => {
                Look::Packet(V6_HEADER_LEN + usize::from(u16::from_be_bytes([*high, *low])))
            }
            _ => Look::Short,
        },
        Some(_) => Look::Bad,
    }
}

const V4_HEADER_LEN: u16 = 20;
const V6_HEADER_LEN: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_told_by_its_first_bytes() {
        for (bytes, found) in [
            (&[0x00, 1, 2][..], Look::Pad),
            (&[0x0f], Look::Pad),
            (&[0x45, 0, 0, 20], Look::Packet(20)),
            (&[0x45, 0, 0xff, 0xff], Look::Packet(65535)),
            (&[0x45, 0, 0, 19], Look::Bad),
            (&[0x45, 0, 0, 0], Look::Bad),
            (&[0x45, 0, 0], Look::Short),
            (&[0x60, 0, 0, 0, 0, 1], Look::Packet(41)),
            (&[0x60, 0, 0, 0, 0xff, 0xff], Look::Packet(65575)),
            (&[0x60, 0, 0, 0, 0], Look::Short),
            (&[0x60, 0, 0, 0, 0, 0], Look::Short),
            (&[0x60, 0, 0, 0, 0, 0, 59], Look::Packet(40)),
            (&[0x60, 0, 0, 0, 0, 0, 0], Look::Bad),
            (&[0x50, 0, 0, 20], Look::Bad),
            (&[0xf0], Look::Bad),
        ] {
            assert_eq!(look(bytes), found, "{bytes:x?}");
        }
    }
}
