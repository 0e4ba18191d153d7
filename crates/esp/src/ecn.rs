//! Congestion marks across a tunnel's two headers (RFC 6040, RFC 3168).

use outcome::DropReason;

/// How a tunnel's exit combines the two headers' ECN fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum EcnDecap {
    /// All sixteen cells of RFC 6040 §4.2, with the drop of an outer CE over an inner not-ECT.
    #[default]
    Rfc6040,
    /// As Linux's XFRM: an outer CE marks an inner header that is ECN-capable. Every other
    /// combination leaves the inner header as it is, and nothing is dropped.
    Linux,
}

impl EcnDecap {
    /// The inner ECN field after decapsulation; both arguments may be whole traffic class bytes.
    ///
    /// # Errors
    /// [`DropReason::InEcn`] where RFC 6040 has the packet dropped: the outer header reports
    /// congestion, and the inner one cannot carry the report.
    pub fn combine(self, inner: u8, outer: u8) -> Result<u8, DropReason> {
        let (inner, outer) = (inner & MASK, outer & MASK);
        match (self, inner, outer) {
            (EcnDecap::Rfc6040, NOT_ECT, CE) => Err(DropReason::InEcn),
            (_, NOT_ECT, _) => Ok(NOT_ECT),
            (_, _, CE) => Ok(CE),
            (EcnDecap::Rfc6040, ECT_0, ECT_1) => Ok(ECT_1),
            _ => Ok(inner),
        }
    }
}

/// The ECN field's bits in the traffic class byte.
pub(crate) const MASK: u8 = 0b11;
const NOT_ECT: u8 = 0b00;
const ECT_1: u8 = 0b01;
const ECT_0: u8 = 0b10;
const CE: u8 = 0b11;

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 6040 figure 4. Rows: inner; columns: outer; both in the order not-ECT, ECT(0), ECT(1),
    /// CE.
    #[test]
    fn sixteen_cells() {
        const ORDER: [u8; 4] = [NOT_ECT, ECT_0, ECT_1, CE];
        let drop = Err(DropReason::InEcn);
        let table = [
            [Ok(NOT_ECT), Ok(NOT_ECT), Ok(NOT_ECT), drop],
            [Ok(ECT_0), Ok(ECT_0), Ok(ECT_1), Ok(CE)],
            [Ok(ECT_1), Ok(ECT_1), Ok(ECT_1), Ok(CE)],
            [Ok(CE), Ok(CE), Ok(CE), Ok(CE)],
        ];
        for (row, inner) in table.iter().zip(ORDER) {
            for (expected, outer) in row.iter().zip(ORDER) {
                let got = EcnDecap::Rfc6040.combine(inner | 0xb8, outer | 0x28);
                assert_eq!(got, *expected, "inner {inner:#b}, outer {outer:#b}");
            }
        }
    }

    #[test]
    fn linux_propagates_only_ce() {
        for inner in 0..4 {
            for outer in 0..4 {
                let expected = if outer == CE && inner != NOT_ECT { CE } else { inner };
                assert_eq!(EcnDecap::Linux.combine(inner, outer), Ok(expected));
            }
        }
    }
}
