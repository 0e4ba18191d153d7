//! Direct Measurement: counts of the packets beside which probes travel (RFC 8972 §4.5).
//!
//! ```text
//! +-------------------------------+
//! | S_TxC                         |  4 bytes: sent by the sender; comes back as it is
//! | R_RxC                         |  4: received by the reflector, zeros in a probe
//! | R_TxC                         |  4: sent by the reflector, zeros in a probe
//! +-------------------------------+
//! ```
//!
//! Counts go round. Which packets are counted is for operators to agree: here those of the SA that carries the probe, or the
//! reflection, with its DSCP.

/// Type of the extension.
pub(super) const KIND: u8 = 5;

/// Length of its value, in bytes.
pub(super) const LEN: usize = 12;

/// Counts of a reflector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Packets that it has received.
    pub received: u32,
    /// Packets that it has sent.
    pub sent: u32,
}

/// Value of a probe's.
pub(super) const fn question(sent: u32) -> [u8; LEN] {
    let [a, b, c, d] = sent.to_be_bytes();
    [a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0]
}

/// Writes the answer into the value of a probe's.
pub(super) fn answer(value: &mut [u8], counts: Counts) {
    if let Some((_, rest)) = value.split_first_chunk_mut::<4>()
        && let Some((received, rest)) = rest.split_first_chunk_mut()
        && let Some(sent) = rest.first_chunk_mut()
    {
        *received = counts.received.to_be_bytes();
        *sent = counts.sent.to_be_bytes();
    }
}

/// The answer to a probe's that had this count. `None` if it is to another one, or of another length.
pub(super) fn read(value: &[u8], asked: u32) -> Option<Counts> {
    let value: &[u8; LEN] = value.try_into().ok()?;
    let word = |at: usize| Some(u32::from_be_bytes(*value.get(at..)?.first_chunk()?));
    let counts = Counts { received: word(4)?, sent: word(8)? };
    (word(0)? == asked).then_some(counts)
}
