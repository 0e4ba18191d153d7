//! Extension by which a sender asks whether the far end removes second copies, of a type for private use (RFC 8972 §5.1).
//!
//! ```text
//! +-------------------------------+
//! | "cvpe"                        |  4 bytes: nobody else means the type so
//! | identity of the sender        |  8
//! | identity of the far end       |  8, zeros in a probe
//! | first label << 12, abilities  |  4, zeros in a probe
//! +-------------------------------+
//! ```
//!
//! Of the abilities the lowest bit says that lost packets are recovered by parity; the others are 0, and not looked at.
//!
//! A reflector that removes no copies marks it as unrecognised, as any other reflector does.

use crate::labels::Removal;

/// Type of the extension.
pub(super) const KIND: u8 = 252;

/// Length of its value, in bytes.
pub(super) const LEN: usize = 24;

/// Ability: lost packets are recovered by parity.
const RECOVERS: u32 = 1;

const TAG: [u8; 4] = *b"cvpe";

/// Value of a probe's.
pub(super) fn question(sender: u64) -> [u8; LEN] {
    let mut value = [0; LEN];
    let parts = TAG.into_iter().chain(sender.to_be_bytes());
    value.iter_mut().zip(parts).for_each(|(to, byte)| *to = byte);
    value
}

/// The sender that asks.
pub(super) fn sender(value: &[u8]) -> Option<u64> {
    let (tag, rest) = value.split_first_chunk()?;
    let sender = u64::from_be_bytes(*rest.first_chunk()?);
    (*tag == TAG && value.len() == LEN).then_some(sender)
}

/// Writes the answer into the value of a probe's.
pub(super) fn answer(value: &mut [u8], removal: Removal) {
    if let Some((_, rest)) = value.split_at_mut_checked(12)
        && let Some((by, label)) = rest.split_first_chunk_mut()
        && let Some(label) = label.first_chunk_mut()
    {
        let abilities = if removal.recovers { RECOVERS } else { 0 };
        *by = removal.by.to_be_bytes();
        *label = (removal.label << 12 | abilities).to_be_bytes();
    }
}

/// The answer to this sender.
pub(super) fn read(value: &[u8], asker: u64) -> Option<Removal> {
    let (by, rest) = value.get(12..)?.split_first_chunk()?;
    let word = u32::from_be_bytes(*rest.first_chunk()?);
    let removal =
        Removal { by: u64::from_be_bytes(*by), label: word >> 12, recovers: word & RECOVERS != 0 };
    (sender(value) == Some(asker) && removal.by != 0).then_some(removal)
}
