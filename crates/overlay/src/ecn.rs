//! Congestion marks of inner and outer header (RFC 6040).

use wire::{ECN_CE, ECN_MASK};

/// ECN-capable transport, codepoint 1 (RFC 3168 §5).
const ECT_1: u8 = 0b01;

/// The outer header's ECN field: the inner one's (RFC 6040 §4.1, normal mode). Both are whole traffic classes.
#[inline]
pub const fn encapsulated(outer: u8, inner: u8) -> u8 {
    outer & !ECN_MASK | inner & ECN_MASK
}

/// Congestion has been met by a packet whose sender does not know of ECN: it has to be dropped (RFC 6040 §4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotCapable;

/// The inner header's traffic class once the outer one is gone (RFC 6040 §4.2, figure 4).
///
/// # Errors
/// The packet is to be dropped.
#[inline]
pub const fn decapsulated(outer: u8, inner: u8) -> Result<u8, NotCapable> {
    match (outer & ECN_MASK, inner & ECN_MASK) {
        (ECN_CE, 0) => Err(NotCapable),
        (_, 0) => Ok(inner),
        (ECN_CE, _) => Ok(inner | ECN_CE),
        (ECT_1, 0b10) => Ok(inner & !ECN_MASK | ECT_1),
        _ => Ok(inner),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows: inner not-ECT, ECT(0), ECT(1), CE. Columns: outer the same.
    #[test]
    fn every_pair_is_as_in_figure_4() {
        let (not, ect0, ect1, ce) = (0b00, 0b10, 0b01, 0b11);
        let columns = [not, ect0, ect1, ce];
        let rows = [
            (not, [Some(not), Some(not), Some(not), None]),
            (ect0, [Some(ect0), Some(ect0), Some(ect1), Some(ce)]),
            (ect1, [Some(ect1), Some(ect1), Some(ect1), Some(ce)]),
            (ce, [Some(ce); 4]),
        ];
        for (inner, expected) in rows {
            for (outer, expected) in columns.into_iter().zip(expected) {
                let dscp = 0b1010_1000;
                let found = decapsulated(0xfc & !dscp | outer, dscp | inner).ok();
                assert_eq!(
                    found,
                    expected.map(|e| dscp | e),
                    "inner {inner:02b} outer {outer:02b}"
                );
            }
        }
        assert_eq!(encapsulated(0xb8, 0x03), 0xbb);
    }
}
