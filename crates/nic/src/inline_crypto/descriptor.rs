//! Descriptors that go with a packet to the hardware, and come with one from it.

/// Of the transmit context descriptor, the words that IPsec needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransmitContext {
    /// `IPLEN`, the IP header's length, in its bits 0 to 8. (`MACLEN` is 0: there is no link header here.)
    pub vlan_macip_lens: u32,
    /// `SA_IDX` in its bits 0 to 9.
    pub fceof_saidx: u32,
    /// [`TUCMD_IPV4`], [`TUCMD_ESP`], [`TUCMD_ENCRYPT`], and `ESP_LEN`, the trailer's length with
    /// the ICV, in its bits 0 to 8.
    pub type_tucmd_mlhl: u32,
}

impl TransmitContext {
    /// For an ESP packet behind an IP header of `ip_len` bytes.
    pub fn esp(
        sa: u16,
        ip_len: usize,
        trailer_len: usize,
        is_encrypted: bool,
        is_v4: bool,
    ) -> Self {
        let flag = |is: bool, bit| if is { bit } else { 0 };
        TransmitContext {
            vlan_macip_lens: ip_len as u32 & LEN_MASK,
            fceof_saidx: u32::from(sa) & crate::inline_crypto::registers::INDEX_MASK,
            type_tucmd_mlhl: TUCMD_ESP
                | flag(is_encrypted, TUCMD_ENCRYPT)
                | flag(is_v4, TUCMD_IPV4)
                | trailer_len as u32 & LEN_MASK,
        }
    }

    pub(crate) fn ip_len(self) -> usize {
        (self.vlan_macip_lens & LEN_MASK) as usize
    }

    pub(crate) fn sa(self) -> usize {
        (self.fceof_saidx & crate::inline_crypto::registers::INDEX_MASK) as usize
    }

    pub(crate) fn trailer_len(self) -> usize {
        (self.type_tucmd_mlhl & LEN_MASK) as usize
    }

    pub(crate) fn has(self, flag: u32) -> bool {
        self.type_tucmd_mlhl & flag != 0
    }
}

/// Bits of a length in the context descriptor.
const LEN_MASK: u32 = 0x1ff;
/// The IP header is IPv4.
pub const TUCMD_IPV4: u32 = 0x0000_0400;
/// ESP; else AH.
pub const TUCMD_ESP: u32 = 0x0000_2000;
/// Encrypt; else the ICV alone.
pub const TUCMD_ENCRYPT: u32 = 0x0000_4000;

/// Status and error bits of a receive descriptor, those of IPsec.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiveStatus(pub u32);

impl ReceiveStatus {
    /// The hardware has worked on the packet: it found its SA.
    pub const fn is_secp(self) -> bool {
        self.0 & STATUS_SECP != 0
    }

    /// The error, [`ERROR_NONE`] for none.
    pub const fn error(self) -> u32 {
        self.0 & ERROR_MASK
    }

    pub(crate) const fn secp(error: u32) -> ReceiveStatus {
        ReceiveStatus(STATUS_SECP | error)
    }
}

/// An SA was found.
pub const STATUS_SECP: u32 = 0x0002_0000;
/// The bits of errors.
pub const ERROR_MASK: u32 = 0x1800_0000;
/// The packet has no error.
pub const ERROR_NONE: u32 = 0;
/// The SA is of another protocol than the packet.
pub const ERROR_INVALID_PROTOCOL: u32 = 0x0800_0000;
/// The packet is too short for IV, trailer and ICV, or no multiple of four bytes.
pub const ERROR_INVALID_LENGTH: u32 = 0x1000_0000;
/// The ICV is wrong.
pub const ERROR_AUTHENTICATION: u32 = 0x1800_0000;
