//! Mutable fields of the headers in front of AH (RFC 4302 §3.3.3.1 and appendix A).

use core::ops::Range;

use wire::{ipv4, ipv6, protocol};

/// Makes `headers` as the ICV has them; `copy` are the same bytes.
///
/// Returns `None`, perhaps half done, where [`each`] does.
pub(super) fn blank(copy: &[u8], headers: &mut [u8]) -> Option<()> {
    each(copy, |place| {
        if let Some(bytes) = headers.get_mut(place) {
            bytes.fill(0);
        }
    })?;
    if let Some(first) = headers.first_mut().filter(|first| **first >> 4 == 6) {
        // The upper half of the traffic class.
        *first = 0x60;
    }
    Some(())
}

/// Calls `zero` with each run of bytes of the headers that counts as zeros: whole bytes; beside them,
/// in IPv6, the lower half of the first.
///
/// `None` where the headers contradict themselves, and where a source route or routing header is not
/// used up: where AH ends is not where the packet is sent then, and what arrives there would have to be
/// foretold. (RFC 5095 forbids the one header for which RFC 4302 says how.)
pub(super) fn each(headers: &[u8], zero: impl FnMut(Range<usize>)) -> Option<()> {
    if headers.first()? >> 4 == 4 { each_v4(headers, zero) } else { each_v6(headers, zero) }
}

fn each_v4(headers: &[u8], mut zero: impl FnMut(Range<usize>)) -> Option<()> {
    for (at, len) in [
        (ipv4::field::TRAFFIC_CLASS, 1),
        (ipv4::field::FRAGMENT, 2),
        (ipv4::field::TTL, 1),
        (ipv4::field::CHECKSUM, 2),
    ] {
        zero(at..at + len);
    }
    let mut at = ipv4::MIN_HEADER_LEN;
    while at < headers.len() {
        let kind = *headers.get(at)?;
        let len = match kind {
            option::END => return Some(()),
            option::NOP => 1,
            _ => usize::from(*headers.get(at + 1)?),
        };
        let option = headers.get(at..at + len)?;
        match (kind, option) {
            (option::NOP, _) => {}
            (_, [] | [_]) => return None,
            // The pointer counts from 1; it is beyond the option once the route is used up.
            (option::LOOSE_ROUTE | option::STRICT_ROUTE, [_, _, pointer, ..])
                if usize::from(*pointer) > len =>
            {
                zero(at..at + len);
            }
            (option::LOOSE_ROUTE | option::STRICT_ROUTE, _) => return None,
            _ if option::stays(kind) => {}
            _ => zero(at..at + len),
        }
        at += len;
    }
    Some(())
}

/// IPv4's options (IANA "IP Option Numbers").
mod option {
    pub const END: u8 = 0;
    pub const NOP: u8 = 1;
    pub const LOOSE_ROUTE: u8 = 131;
    pub const STRICT_ROUTE: u8 = 137;

    /// True if routers leave an option as it is (RFC 4302 appendix A1): security (RFC 1108),
    /// extended security, commercial security, router alert, sender directed multi-destination.
    pub const fn stays(kind: u8) -> bool {
        matches!(kind, 130 | 133 | 134 | 148 | 149)
    }
}

fn each_v6(headers: &[u8], mut zero: impl FnMut(Range<usize>)) -> Option<()> {
    // Traffic class and flow label, but for the half byte beside the version.
    zero(1..4);
    zero(ipv6::field::HOP_LIMIT..ipv6::field::HOP_LIMIT + 1);
    let mut kind = *headers.get(ipv6::field::NEXT_HEADER)?;
    let mut at = ipv6::HEADER_LEN;
    while at < headers.len() {
        let [next, words, _, segments_left] = *headers.get(at..)?.first_chunk()?;
        let end = at + (usize::from(words) + 1) * 8;
        match kind {
            protocol::HOP_BY_HOP | protocol::DESTINATION_OPTIONS => {
                each_option(headers.get(..end)?, at + 2, &mut zero)?;
            }
            protocol::ROUTING if segments_left == 0 => {}
            // A fragment is put together before its AH is looked at (RFC 4302 §3.4.1).
            _ => return None,
        }
        kind = next;
        at = end;
    }
    (at == headers.len()).then_some(())
}

/// The data of the options that say of themselves that they change (RFC 8200 §4.2).
fn each_option(header: &[u8], mut at: usize, zero: &mut impl FnMut(Range<usize>)) -> Option<()> {
    const PAD_1: u8 = 0;
    const CHANGES: u8 = 0x20;
    while at < header.len() {
        let kind = *header.get(at)?;
        if kind == PAD_1 {
            at += 1;
            continue;
        }
        let data = at + 2;
        let end = data + usize::from(*header.get(at + 1)?);
        if end > header.len() {
            return None;
        }
        if kind & CHANGES != 0 {
            zero(data..end);
        }
        at = end;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blanked(headers: &[u8]) -> Option<Vec<u8>> {
        let mut blank_headers = headers.to_vec();
        blank(headers, &mut blank_headers).map(|()| blank_headers)
    }

    fn v4(options: &[u8]) -> Vec<u8> {
        let ihl = 5 + options.len() as u8 / 4;
        let mut header = vec![0x40 | ihl, 0xb8, 1, 2, 3, 4, 0x40, 0, 64, 51, 9, 9];
        header.extend([192, 0, 2, 1, 192, 0, 2, 2]);
        header.extend(options);
        header
    }

    fn v6(chain: &[(u8, &[u8])]) -> Vec<u8> {
        let mut header = vec![0x6b, 0xc1, 2, 3, 0, 9, 0, 64];
        header.extend([7; 32]);
        let mut next_at = 6;
        for (kind, body) in chain {
            header[next_at] = *kind;
            next_at = header.len();
            header.extend([0, ((body.len() + 2) / 8 - 1) as u8]);
            header.extend(*body);
        }
        header[next_at] = 51;
        header
    }

    #[test]
    fn what_changes_of_v4_is_zero() {
        let mut expected = v4(&[]);
        for at in [1, 6, 7, 8, 10, 11] {
            expected[at] = 0;
        }
        assert_eq!(blanked(&v4(&[])), Some(expected));
    }

    #[test]
    fn options_of_v4_stay_or_count_as_zeros() {
        // Options; the same as the ICV has them.
        let cases: [(&[u8], Option<&[u8]>); 13] = [
            (&[1, 1, 1, 0], Some(&[1, 1, 1, 0])),
            (&[148, 4, 7, 8], Some(&[148, 4, 7, 8])),
            (&[130, 3, 9, 0], Some(&[130, 3, 9, 0])),
            // Behind the end nothing is an option.
            (&[0, 7, 3, 4], Some(&[0, 7, 3, 4])),
            (&[7, 3, 4, 1], Some(&[0, 0, 0, 1])),
            (&[68, 4, 5, 1], Some(&[0; 4])),
            (&[82, 4, 5, 1], Some(&[0; 4])),
            // Not known.
            (&[222, 4, 5, 1], Some(&[0; 4])),
            // Routes: used up; hops left.
            (&[131, 7, 8, 1, 2, 3, 4, 0], Some(&[0; 8])),
            (&[137, 7, 4, 1, 2, 3, 4, 0], None),
            // Lengths.
            (&[130, 1, 1, 1], None),
            (&[130, 0, 1, 1], None),
            (&[1, 1, 130, 3], None),
        ];
        for (options, expected) in cases {
            let found = blanked(&v4(options));
            assert_eq!(found.as_deref().map(|h| &h[20..]), expected, "{options:?}");
        }
    }

    #[test]
    fn what_changes_of_v6_is_zero() {
        let mut expected = v6(&[]);
        expected[0] = 0x60;
        expected[1..4].fill(0);
        expected[7] = 0;
        assert_eq!(blanked(&v6(&[])), Some(expected));
    }

    #[test]
    fn extension_headers_of_v6_stay_but_for_the_data_that_changes() {
        const HBH: u8 = protocol::HOP_BY_HOP;
        const DST: u8 = protocol::DESTINATION_OPTIONS;
        const RT: u8 = protocol::ROUTING;
        // One header's body; the same as the ICV has it.
        type Case<'c> = (u8, &'c [u8], Option<&'c [u8]>);
        let cases: [Case<'_>; 9] = [
            (HBH, &[0x05, 2, 1, 2, 0, 0], Some(&[0x05, 2, 1, 2, 0, 0])),
            (HBH, &[0x25, 2, 1, 2, 0, 0], Some(&[0x25, 2, 0, 0, 0, 0])),
            (DST, &[0, 0x3e, 3, 1, 2, 3], Some(&[0, 0x3e, 3, 0, 0, 0])),
            (DST, &[1, 4, 1, 2, 3, 4], Some(&[1, 4, 1, 2, 3, 4])),
            (DST, &[1, 5, 1, 2, 3, 4], None),
            (DST, &[0, 0, 0, 0, 0, 1], None),
            (RT, &[4, 0, 1, 2, 3, 4], Some(&[4, 0, 1, 2, 3, 4])),
            (RT, &[0, 1, 1, 2, 3, 4], None),
            (protocol::FRAGMENT, &[0, 0, 1, 2, 3, 4], None),
        ];
        for (kind, body, expected) in cases {
            let found = blanked(&v6(&[(kind, body)]));
            assert_eq!(found.as_deref().map(|h| &h[42..]), expected, "{kind} {body:?}");
        }
        let both = v6(&[(HBH, &[0x25, 4, 1, 2, 3, 4]), (DST, &[0x25, 4, 1, 2, 3, 4])]);
        let found = blanked(&both).unwrap();
        assert_eq!((&found[44..48], &found[52..56]), (&[0; 4][..], &[0; 4][..]));
        // Cut short.
        assert_eq!(blanked(&both[..55]), None);
    }
}
