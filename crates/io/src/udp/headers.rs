//! Headers in front of a datagram's payload in a frame.

/// Ethernet, then IP without options, then UDP, in bytes.
pub(super) const fn headers_len(is_v4: bool) -> usize {
    let ip = if is_v4 { 20 } else { 40 };
    wire::ethernet::HEADER_LEN + ip + UDP_LEN
}

/// A UDP header, in bytes.
pub(super) const UDP_LEN: usize = 8;
