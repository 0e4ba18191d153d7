//! Compressed segments (RFC 9800): several short identifiers in one address.
//!
//! ```text
//!   NEXT-CSID                                   REPLACE-CSID
//!   +-------+------+------+------+-- -+         +-------+--------+----------------+-------+
//!   | block | this | next | next | 0  |         | block |  this  |       0        | index |
//!   +-------+------+------+------+-- -+         +-------+--------+----------------+-------+
//!    LBL     NFL   `- argument                   LBL     LNFL         argument   ^
//!   shifted to the left by NFL at each          replaced by the identifier at the index below, of
//!   segment, until the argument is 0            the list's entry, until 0, or an identifier of 0
//!
//!   an entry of REPLACE-CSIDs of 32 bits, by index, the last one of a path first:
//!   +-- bit 0 --+-----------+-----------+- bit 127 -+
//!   |     0     |     1     |     2     |     3     |
//!   +-----------+-----------+-----------+-----------+
//!     0: none     the third   the second  the first
//! ```

use core::net::Ipv6Addr;

/// How a segment's identifiers are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Csid {
    /// Not at all.
    #[default]
    None,
    /// NEXT-CSID (§4.1), with the lengths of block and of node and function, in bits.
    Next {
        /// LBL: bits of the locator block.
        block_len: u8,
        /// LNL and LFL.
        function_len: u8,
    },
    /// REPLACE-CSID (§4.2), with the same lengths.
    Replace {
        /// LBL: bits of the locator block.
        block_len: u8,
        /// LNFL: 8, 16, 32 or 64.
        function_len: u8,
    },
}

impl Csid {
    /// NEXT-CSID; none unless the lengths leave room for an argument (as Linux, which wants whole bytes).
    pub fn next(block_len: u8, function_len: u8) -> Option<Csid> {
        let is_good = is_length(block_len, 120) && is_length(function_len, 64);
        (is_good && u16::from(block_len) + u16::from(function_len) < 128)
            .then_some(Csid::Next { block_len, function_len })
    }

    /// REPLACE-CSID; none unless identifiers fill an entry, and there is room for the index.
    pub fn replace(block_len: u8, function_len: u8) -> Option<Csid> {
        let is_good = is_length(block_len, 112) && matches!(function_len, 8 | 16 | 32 | 64);
        (is_good && u16::from(block_len) + u16::from(function_len) + INDEX_ROOM <= 128)
            .then_some(Csid::Replace { block_len, function_len })
    }
}

/// An index has at most four bits; arguments are whole bytes.
const INDEX_ROOM: u16 = 8;

fn is_length(bits: u8, most: u8) -> bool {
    bits != 0 && bits <= most && bits.is_multiple_of(8)
}

/// The address of the next segment of a NEXT-CSID address: none if its argument is 0.
pub(crate) fn shifted(dst: Ipv6Addr, block_len: u8, function_len: u8) -> Option<Ipv6Addr> {
    let bits = dst.to_bits();
    let below_block = low_mask(block_len);
    let argument = bits & low_mask(block_len + function_len);
    let next = bits & !below_block | argument << function_len & below_block;
    (argument != 0).then(|| Ipv6Addr::from_bits(next))
}

/// The index that a REPLACE-CSID address has for an argument.
pub(crate) fn index(dst: Ipv6Addr, function_len: u8) -> u8 {
    (dst.to_bits() as u8) & (per_entry(function_len) - 1)
}

/// The address of the identifier at an index of an entry.
pub(crate) fn replaced(
    dst: Ipv6Addr,
    (block_len, function_len): (u8, u8),
    (entry, index): (Ipv6Addr, u8),
) -> Ipv6Addr {
    let places = 128 - u32::from(block_len) - u32::from(function_len);
    let identifiers = low_mask(128 - function_len);
    let cleared =
        dst.to_bits() & !(identifiers << places) & !u128::from(per_entry(function_len) - 1);
    Ipv6Addr::from_bits(
        cleared | identifier(entry, function_len, index) << places | u128::from(index),
    )
}

/// The identifier at an index of an entry: index 0 is in the highest bits (§4.2.1).
pub(crate) fn identifier(entry: Ipv6Addr, function_len: u8, index: u8) -> u128 {
    let behind = u32::from((per_entry(function_len) - 1).saturating_sub(index));
    entry.to_bits() >> (u32::from(function_len) * behind) & low_mask(128 - function_len)
}

/// True if nothing follows the identifier at an index of the last entry (§4.2.1, S02).
pub(crate) fn is_last(entry: Ipv6Addr, function_len: u8, index: u8) -> bool {
    index.checked_sub(1).is_none_or(|next| identifier(entry, function_len, next) == 0)
}

/// Identifiers in an entry: a power of two, 16 at most.
pub(crate) const fn per_entry(function_len: u8) -> u8 {
    128 / function_len
}

/// The bits behind the first `len`.
const fn low_mask(len: u8) -> u128 {
    if len >= 128 { 0 } else { u128::MAX >> len }
}
