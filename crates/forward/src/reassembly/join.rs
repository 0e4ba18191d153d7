//! One packet from its fragments.
//!
//! ```text
//!   IPv4   header of the first fragment, offset and flags cleared | payloads
//!   IPv6   headers of the first fragment up to its fragment header, which goes | payloads
//! ```
//!
//! The ECN field is made of those of all fragments (RFC 3168 §5.3): CE if one says so, unless another
//! is of a sender that does not know ECN.

use wire::{ECN_CE, ECN_MASK, FragmentFields, NoRoom, ipv4, ipv6};

/// Why fragments do not make a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum JoinError {
    /// The packet is longer than the buffer, or than any IP packet.
    #[error("the packet is too long")]
    TooLong,
    /// A fragment is not what was said of it, or the first one is missing.
    #[error("the fragments contradict what is known of them")]
    Malformed,
    /// One fragment says CE, another one not-ECT.
    #[error("the ECN fields contradict each other")]
    Ecn,
}

impl From<NoRoom> for JoinError {
    fn from(_: NoRoom) -> JoinError {
        JoinError::TooLong
    }
}

/// A packet that is put together in a buffer.
#[derive(Debug)]
pub struct Join<'b> {
    out: &'b mut [u8],
    head_len: usize,
    /// Bytes of payload that have been written.
    bytes: usize,
    has_first: bool,
    /// Which ECN fields were seen, one bit each.
    ecn: u8,
}

impl<'b> Join<'b> {
    /// A packet of `head_len` bytes of headers and `len` bytes behind them, at the beginning of `out`.
    ///
    /// # Errors
    /// [`JoinError::TooLong`].
    pub fn new(head_len: usize, len: usize, out: &'b mut [u8]) -> Result<Join<'b>, JoinError> {
        let total_len = head_len + len;
        if total_len > usize::from(u16::MAX) {
            return Err(JoinError::TooLong);
        }
        let out = out.get_mut(..total_len).ok_or(NoRoom)?;
        Ok(Join { out, head_len, bytes: 0, has_first: false, ecn: 0 })
    }

    /// Adds a fragment, in any order; none twice.
    ///
    /// # Errors
    /// [`JoinError::Malformed`].
    pub fn add(&mut self, packet: &[u8]) -> Result<(), JoinError> {
        let fields = FragmentFields::of(packet).ok_or(JoinError::Malformed)?;
        let (at, len) = (usize::from(fields.payload_at), usize::from(fields.len));
        let payload = packet.get(at..at + len).ok_or(JoinError::Malformed)?;
        let to = self.head_len + usize::from(fields.offset);
        let place = self.out.get_mut(to..to + len).ok_or(JoinError::Malformed)?;
        place.copy_from_slice(payload);
        self.bytes += len;
        self.ecn |= 1 << (wire::traffic_class(packet).unwrap_or(0) & ECN_MASK);
        if fields.offset == 0 {
            self.has_first = usize::from(fields.head_len) == self.head_len;
            let head = packet.get(..self.head_len).ok_or(JoinError::Malformed)?;
            self.out.get_mut(..self.head_len).ok_or(JoinError::Malformed)?.copy_from_slice(head);
            if head.first().is_some_and(|first| first >> 4 == 6) {
                self.unname_fragment_header(packet)?;
            }
        }
        Ok(())
    }

    /// Makes the header the whole packet's, and returns its length.
    ///
    /// # Errors
    /// See [`JoinError`].
    pub fn finish(self) -> Result<usize, JoinError> {
        let Join { out, head_len, bytes, has_first, ecn } = self;
        let total_len = out.len();
        if !has_first || head_len + bytes != total_len {
            return Err(JoinError::Malformed);
        }
        // At most 65535, as new() has seen.
        let len = total_len as u16;
        match out.first().map(|first| first >> 4) {
            Some(4) => {
                let header = out.get_mut(..head_len).ok_or(JoinError::Malformed)?;
                put(header, ipv4::field::TOTAL_LEN, len)?;
                put(header, ipv4::field::FRAGMENT, 0)?;
                ipv4::fill_checksum(header);
            }
            Some(6) => {
                let payload_len =
                    len.checked_sub(ipv6::HEADER_LEN as u16).ok_or(JoinError::Malformed)?;
                put(out, ipv6::field::PAYLOAD_LEN, payload_len)?;
            }
            _ => return Err(JoinError::Malformed),
        }
        if ecn & CE != 0 && ecn != CE {
            if ecn & NOT_ECT != 0 {
                return Err(JoinError::Ecn);
            }
            if let Some(class) = wire::traffic_class(out) {
                wire::set_traffic_class(out, class | ECN_CE);
            }
        }
        Ok(total_len)
    }

    /// The header that names IPv6's fragment header names what that one names.
    fn unname_fragment_header(&mut self, packet: &[u8]) -> Result<(), JoinError> {
        let header = ipv6::Ipv6Header::parse(packet).map_err(|_| JoinError::Malformed)?;
        let extensions = header.extensions().map_err(|_| JoinError::Malformed)?;
        let info = extensions.fragment.ok_or(JoinError::Malformed)?;
        let place = self.out.get_mut(usize::from(info.named_at)).ok_or(JoinError::Malformed)?;
        *place = info.next_header;
        Ok(())
    }
}

const NOT_ECT: u8 = 1;
const CE: u8 = 1 << ECN_CE;

fn put(header: &mut [u8], at: usize, word: u16) -> Result<(), JoinError> {
    let place = header.get_mut(at..at + 2).ok_or(JoinError::Malformed)?;
    place.copy_from_slice(&word.to_be_bytes());
    Ok(())
}
