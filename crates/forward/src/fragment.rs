//! IPv4 fragmentation (RFC 791 §3.2, "An Example Fragmentation Procedure").
//!
//! A [`Plan`] says into how many fragments a packet goes and writes each into a buffer of the
//! caller. Fragments of fragments come out right: offsets add up, and only the last piece of a
//! last fragment is a last fragment. Nothing is allocated.

use wire::ipv4::{self, Ipv4Header, MAX_HEADER_LEN, MIN_HEADER_LEN};
use wire::{Headers, NoRoom};

/// Why a packet cannot be fragmented.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum PlanError {
    /// Not an IPv4 packet: IPv6 is never fragmented on the way (RFC 8200 §4.5).
    #[error("only IPv4 packets are fragmented on the way")]
    NotIpv4,
    /// The MTU leaves no room for 8 bytes behind the header.
    #[error("the MTU is too small for a fragment")]
    MtuTooSmall,
    /// The packet is not the one that the headers were parsed from, or ends beyond 65535 bytes.
    #[error("the packet contradicts its headers")]
    Malformed,
}

/// How a packet is cut.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    packet: Ipv4Header<'a>,
    /// The whole packet, up to its total length.
    bytes: &'a [u8],
    /// Options of fragments but the first: those whose copy flag is set, padded to 4 bytes.
    copied: [u8; MAX_HEADER_LEN - MIN_HEADER_LEN],
    copied_len: usize,
    /// Payload of the first fragment, in bytes.
    first_len: usize,
    /// Payload of the others but the last, in bytes.
    other_len: usize,
    count: usize,
}

/// Plans the fragments of a packet for a link of this MTU, in bytes.
///
/// A packet that fits makes a plan of one, which writes the packet as it is. Whether the packet
/// may be fragmented is the caller's to decide: DF is not looked at, and fragments leave without
/// it. Checksums of the layer above have to be complete.
///
/// # Errors
/// See [`PlanError`].
pub fn plan<'a>(h: &Headers, packet: &'a [u8], mtu: usize) -> Result<Plan<'a>, PlanError> {
    if h.src.is_ipv6() {
        return Err(PlanError::NotIpv4);
    }
    let bytes = packet.get(..usize::from(h.total_len)).ok_or(PlanError::Malformed)?;
    let header = Ipv4Header::parse_quoted(bytes).map_err(|_| PlanError::Malformed)?;
    let header_len = usize::from(header.header_len());
    let payload_len = header.payload().len();
    if usize::from(header.total_len()) != bytes.len()
        || header.fragment_offset() + bytes.len() > usize::from(u16::MAX)
    {
        return Err(PlanError::Malformed);
    }
    let (copied, copied_len) = copied_options(header.options());
    let mut plan = Plan {
        packet: header,
        bytes,
        copied,
        copied_len,
        first_len: payload_len,
        other_len: 0,
        count: 1,
    };
    if bytes.len() <= mtu {
        return Ok(plan);
    }
    // Every fragment but the last carries a multiple of 8 bytes.
    plan.first_len = mtu.saturating_sub(header_len) & !7;
    plan.other_len = mtu.saturating_sub(MIN_HEADER_LEN + copied_len) & !7;
    if plan.first_len == 0 || plan.other_len == 0 {
        return Err(PlanError::MtuTooSmall);
    }
    let last_room = mtu - MIN_HEADER_LEN - copied_len;
    let rest = payload_len.saturating_sub(plan.first_len);
    // The last fragment need not be a multiple of 8, so it may be longer than the others.
    plan.count = 2 + rest.saturating_sub(last_room).div_ceil(plan.other_len);
    Ok(plan)
}

impl Plan<'_> {
    /// Into how many fragments the packet goes; 1 if it fits as it is.
    pub const fn count(&self) -> usize {
        self.count
    }

    /// Length of fragment `n` with its header, in bytes; 0 if there is none.
    pub fn len_of(&self, n: usize) -> usize {
        self.piece(n).map_or(0, |(at, len)| self.header_len(at) + len)
    }

    /// Writes fragment `n`, counted from 0, to the buffer's beginning, and returns its length.
    ///
    /// # Errors
    /// The buffer is shorter than [`Plan::len_of`], or there is no fragment `n`.
    pub fn write(&self, n: usize, out: &mut [u8]) -> Result<usize, NoRoom> {
        let (at, len) = self.piece(n).ok_or(NoRoom)?;
        let header_len = self.header_len(at);
        let out = out.get_mut(..header_len + len).ok_or(NoRoom)?;
        if self.count == 1 {
            out.copy_from_slice(self.bytes);
            return Ok(out.len());
        }
        let total_len = out.len() as u16; // at most the packet's own length
        let data = self.packet.payload().get(at..at + len).ok_or(NoRoom)?;
        let (header, payload) = out.split_at_mut_checked(header_len).ok_or(NoRoom)?;
        payload.copy_from_slice(data);

        let (fixed, options) = header.split_first_chunk_mut::<MIN_HEADER_LEN>().ok_or(NoRoom)?;
        *fixed = *self.bytes.first_chunk().ok_or(NoRoom)?;
        options.copy_from_slice(if at == 0 {
            self.packet.options()
        } else {
            self.copied.get(..self.copied_len).unwrap_or_default()
        });
        let more = self.packet.more_fragments() || at + len < self.packet.payload().len();
        // `plan` checked that the offset fits its 13 bits.
        let offset = ((self.packet.fragment_offset() + at) / 8) as u16 & ipv4::OFFSET_MASK;
        let word = if more { offset | ipv4::MORE_FRAGMENTS } else { offset };
        fixed[0] = 0x40 | (header_len / 4) as u8;
        [fixed[2], fixed[3]] = total_len.to_be_bytes();
        [fixed[6], fixed[7]] = word.to_be_bytes();
        ipv4::fill_checksum(header);
        Ok(usize::from(total_len))
    }

    /// Where fragment `n` begins in the packet's payload, and its length.
    fn piece(&self, n: usize) -> Option<(usize, usize)> {
        if n >= self.count {
            return None;
        }
        let at = match n {
            0 => 0,
            n => self.first_len + (n - 1) * self.other_len,
        };
        let rest = self.packet.payload().len().checked_sub(at)?;
        let len = match n {
            _ if n + 1 == self.count => rest,
            0 => self.first_len,
            _ => self.other_len,
        };
        Some((at, len))
    }

    fn header_len(&self, at: usize) -> usize {
        match at {
            0 => usize::from(self.packet.header_len()),
            _ => MIN_HEADER_LEN + self.copied_len,
        }
    }
}

/// The options that every fragment carries, padded with end-of-list to a multiple of 4 bytes.
/// Options after a malformed one are not carried.
fn copied_options(options: &[u8]) -> ([u8; MAX_HEADER_LEN - MIN_HEADER_LEN], usize) {
    const END: u8 = 0;
    const NOP: u8 = 1;
    const COPY: u8 = 0x80;
    let mut out = [END; MAX_HEADER_LEN - MIN_HEADER_LEN];
    let mut used = 0;
    let mut rest = options;
    while let [kind, after @ ..] = rest {
        if *kind == END {
            break;
        }
        if *kind == NOP {
            rest = after;
            continue;
        }
        let Some((option, after)) = after
            .first()
            .filter(|len| **len >= 2)
            .and_then(|len| rest.split_at_checked((*len).into()))
        else {
            break;
        };
        if kind & COPY != 0
            && let Some(to) = out.get_mut(used..used + option.len())
        {
            to.copy_from_slice(option);
            used += option.len();
        }
        rest = after;
    }
    (out, used.next_multiple_of(4))
}
