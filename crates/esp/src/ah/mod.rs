//! AH: whole packets are authenticated, none is encrypted (RFC 4302).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+---------------+-------------------------------+
//! |  Next Header  |  Payload Len  |           Reserved            |
//! +---------------+---------------+-------------------------------+
//! |                 Security Parameters Index (SPI)               |
//! +---------------------------------------------------------------+
//! |                    Sequence Number Field                      |
//! +---------------------------------------------------------------+
//! |        Integrity Check Value, and padding to 4 or 8 bytes     |
//! +---------------------------------------------------------------+
//!   length in bytes: 4 * (Payload Len + 2)
//! ```
//!
//! The ICV is over the packet from its IP header to its end, with the fields that may change on the
//! way, and the ICV itself, as zeros (§3.3.3). So the packet is made like that in place, and the
//! engine runs an integrity-only suite over it, as over an ESP packet that is all text:
//!
//! ```text
//!   [IP, options, extensions: changeable fields zero][AH, ICV zero][payload] [ICV][IP ... as it is]
//!   <---------------------------- the engine's packet -------------------------->
//! ```
//!
//! The high half of an extended sequence number follows the packet (§3.3.3.2.2), which is what the
//! engine does for such suites. Behind the packet the ICV is written by sealing, and compared by
//! opening; the copy of the headers is put back.

mod mutable;
mod open;
mod seal;

use crypto::{Cipher, Suite};
use wire::{ipv6, protocol};

use crate::params::SaParams;

/// AH without the ICV.
pub(crate) const FIXED_LEN: usize = 12;

/// True if AH can use a suite. AH encrypts nothing, and has no place for an IV.
pub(crate) const fn is_for(suite: Suite) -> bool {
    matches!(suite, Suite::Separate { cipher: Cipher::Null, .. })
}

/// The length in bytes of an SA's AH, padding included.
///
/// RFC 4302 §2.6 has a multiple of 4 bytes over IPv4 and of 8 over IPv6. Linux makes it 8 for both,
/// unless the SA says otherwise (`align4`).
pub(crate) fn header_len(params: &SaParams) -> usize {
    let align = if params.dst.is_ipv4() && params.flags.align4 { 4 } else { 8 };
    (FIXED_LEN + params.suite.icv_len_bytes()).next_multiple_of(align)
}

/// Where AH begins in a packet whose first AH it is.
fn begins_at(packet: &[u8]) -> Option<usize> {
    let first = *packet.first()?;
    if first >> 4 == 4 {
        return Some(usize::from(first & 0x0f) * 4);
    }
    let mut kind = *packet.get(ipv6::field::NEXT_HEADER)?;
    let mut at = ipv6::HEADER_LEN;
    // Each turn takes at least 8 bytes.
    while kind != protocol::AH {
        let header = packet.get(at..)?.first_chunk::<8>()?;
        kind = header[0];
        at += (usize::from(header[1]) + 1) * 8;
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use core::net::IpAddr;

    use super::*;
    use crate::params::{Mode, Protocol, SaFlags};

    #[test]
    fn headers_are_as_long_as_linux_makes_them() {
        let len = |suite: Suite, v4: bool, align4: bool| {
            let addr: IpAddr = if v4 { [192, 0, 2, 1].into() } else { [1; 16].into() };
            header_len(&SaParams {
                spi: 1,
                src: addr,
                dst: addr,
                protocol: Protocol::Ah,
                mode: Mode::Transport,
                suite,
                encap: None,
                esn: false,
                replay_window: 0,
                tfc_pad_len: 0,
                flags: SaFlags { align4, ..SaFlags::default() },
            })
        };
        // By the length of the ICV: IPv4 with align4, IPv4, IPv6.
        for (icv, lens) in
            [(12, [24, 24, 24]), (16, [28, 32, 32]), (24, [36, 40, 40]), (32, [44, 48, 48])]
        {
            let suite = Suite::all().find(|s| is_for(*s) && s.icv_len_bytes() == icv);
            let suite = suite.expect("a suite");
            let all = [len(suite, true, true), len(suite, true, false), len(suite, false, true)];
            assert_eq!(all, lens, "{suite}");
        }
    }
}
