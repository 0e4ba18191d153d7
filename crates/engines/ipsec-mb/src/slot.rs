//! Room for what is computed, or set aside, of one packet of a burst.

/// The longest packet, in bytes, of a job that runs in a burst: the library counts its lanes'
/// lengths in 16 bits and refuses 65535, and extended sequence numbers add four.
pub(crate) const MAX_PACKET_LEN: usize = 65530;

/// Bytes of the high half of a sequence number.
pub(crate) const SEQ_HI_LEN: u16 = 4;

/// Memory of a job beside its packet, at an address that stays during the burst.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
pub(crate) struct Slot {
    /// The computed tag, where it does not go straight into the packet.
    pub(crate) tag: [u8; 32],
    /// The received ICV, while its place holds the high half of the sequence number.
    pub(crate) received: [u8; 32],
    /// A nonce, or AES-CTR's first counter block.
    pub(crate) nonce: [u8; 16],
    /// Additional data with extended sequence numbers.
    pub(crate) aad: [u8; 12],
}

/// An empty one.
pub(crate) const NO_SLOT: Slot =
    Slot { tag: [0; 32], received: [0; 32], nonce: [0; 16], aad: [0; 12] };
