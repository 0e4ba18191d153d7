//! Fragments put together again are the packet.

use forward::fragment::{PlanError, plan};
use proptest::prelude::*;
use wire::ipv4::{Ipv4Header, fill_checksum};
use wire::{Fragment, parse_ip};

/// An IPv4 packet of protocol 50, so that no upper layer has to fit.
fn packet(word: u16, options: &[u8], payload_len: usize) -> Vec<u8> {
    let header_len = 20 + options.len();
    let mut p = vec![0x40 | (header_len / 4) as u8, 0x28];
    p.extend(((header_len + payload_len) as u16).to_be_bytes());
    p.extend([0xab, 0xcd]);
    p.extend(word.to_be_bytes());
    p.extend([63, 50, 0, 0, 192, 0, 2, 1, 198, 51, 100, 7]);
    p.extend(options);
    fill_checksum(&mut p);
    p.extend((0..payload_len).map(|i| (i * 7 + i / 256) as u8));
    p
}

fn split(packet: &[u8], mtu: usize) -> Result<Vec<Vec<u8>>, PlanError> {
    let plan = plan(&parse_ip(packet).unwrap(), packet, mtu)?;
    let mut out = Vec::new();
    for n in 0..plan.count() {
        let mut buf = vec![0xee; mtu + 8];
        let len = plan.write(n, &mut buf).unwrap();
        assert_eq!(len, plan.len_of(n));
        assert!(buf[len..].iter().all(|b| *b == 0xee), "written beyond the fragment");
        assert!(plan.write(n, &mut buf[..len - 1]).is_err());
        buf.truncate(len);
        out.push(buf);
    }
    assert!(plan.write(plan.count(), &mut vec![0; 70_000]).is_err());
    assert_eq!(plan.len_of(plan.count()), 0);
    Ok(out)
}

/// Checks a chain of fragments and returns its payload, from the first one's offset on.
fn join(fragments: &[Vec<u8>]) -> (usize, Vec<u8>, bool) {
    let mut payload = Vec::new();
    let mut begin = None;
    let mut more = true;
    for f in fragments {
        assert!(more, "nothing follows the last fragment");
        parse_ip(f).unwrap();
        let header = Ipv4Header::parse(f).unwrap();
        assert_eq!(usize::from(header.total_len()), f.len());
        let begin = *begin.get_or_insert(header.fragment_offset());
        assert_eq!(header.fragment_offset(), begin + payload.len(), "no gap, no overlap");
        assert_eq!((header.ident(), header.ttl(), header.protocol()), (0xabcd, 63, 50));
        assert_eq!(header.traffic_class(), 0x28);
        assert_eq!(
            (header.src().octets(), header.dst().octets()),
            ([192, 0, 2, 1], [198, 51, 100, 7])
        );
        payload.extend(header.payload());
        more = header.more_fragments();
    }
    (begin.unwrap(), payload, more)
}

#[test]
fn what_fits_stays_as_it_is() {
    let whole = packet(0x4000, &[], 1480);
    assert_eq!(split(&whole, 1500).unwrap(), [whole]);
}

#[test]
fn one_byte_too_many() {
    let fragments = split(&packet(0, &[], 1481), 1500).unwrap();
    assert_eq!(fragments.iter().map(Vec::len).collect::<Vec<_>>(), [1500, 21]);
    let kinds: Vec<_> = fragments.iter().map(|f| parse_ip(f).unwrap().fragment).collect();
    assert_eq!(kinds, [Fragment::First, Fragment::Later]);
}

#[test]
fn the_last_fragment_fills_the_link() {
    // 1480 and then 1476 bytes, which is no multiple of 8 and still fits.
    let fragments = split(&packet(0, &[], 1480 + 1476), 1500).unwrap();
    assert_eq!(fragments.iter().map(Vec::len).collect::<Vec<_>>(), [1500, 1496]);
    // With an MTU of 1497 the room behind the header is 1477 bytes, 1472 in units of 8.
    let fragments = split(&packet(0, &[], 1472 + 1477), 1497).unwrap();
    assert_eq!(fragments.iter().map(Vec::len).collect::<Vec<_>>(), [1492, 1497]);
}

#[test]
fn df_is_cleared_when_fragmented() {
    for f in split(&packet(0x4000, &[], 100), 68).unwrap() {
        assert!(!Ipv4Header::parse(&f).unwrap().dont_fragment());
    }
}

#[test]
fn options_are_copied_by_their_flag() {
    // Record route (7: not copied), no-op, security (130: copied), router alert (148: copied).
    let options = [7, 7, 4, 0, 0, 0, 0, 1, 130, 11, 1, 2, 3, 4, 5, 6, 7, 8, 9, 148, 4, 0, 0, 0];
    let fragments = split(&packet(0, &options, 500), 200).unwrap();
    assert_eq!(Ipv4Header::parse(&fragments[0]).unwrap().options(), options);
    let copied = [130, 11, 1, 2, 3, 4, 5, 6, 7, 8, 9, 148, 4, 0, 0, 0];
    for f in &fragments[1..] {
        // 15 bytes and one of end-of-list.
        assert_eq!(Ipv4Header::parse(f).unwrap().options(), copied);
    }
    assert_eq!(join(&fragments).1.len(), 500);
}

#[test]
fn malformed_options_end_the_copy() {
    for bad in [[131, 0, 9, 9], [131, 1, 9, 9], [131, 5, 9, 9], [1, 1, 1, 131]] {
        let fragments = split(&packet(0, &bad, 200), 100).unwrap();
        assert_eq!(Ipv4Header::parse(&fragments[0]).unwrap().options(), bad);
        assert_eq!(Ipv4Header::parse(&fragments[1]).unwrap().options(), []);
    }
}

#[test]
fn what_cannot_be_fragmented() {
    assert_eq!(split(&packet(0, &[], 100), 27), Err(PlanError::MtuTooSmall));
    assert!(split(&packet(0, &[], 100), 28).is_ok());
    assert_eq!(split(&packet(0, &[1; 40], 100), 67), Err(PlanError::MtuTooSmall));
    let mut v6 = vec![0x60, 0, 0, 0, 0, 0, 59, 64];
    v6.extend([0; 32]);
    assert_eq!(plan(&parse_ip(&v6).unwrap(), &v6, 20).unwrap_err(), PlanError::NotIpv4);
    let p = packet(0, &[], 100);
    let h = parse_ip(&p).unwrap();
    assert_eq!(plan(&h, &p[..60], 50).unwrap_err(), PlanError::Malformed);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn fragments_join_to_the_packet(
        payload_len in 0usize..6000,
        mtu in 68usize..2000,
        second_mtu in 68usize..1000,
        words in 0usize..10,
        offset in 0u16..4000,
        more: bool,
    ) {
        let payload_len = if more { payload_len & !7 } else { payload_len };
        let word = offset | if more { 0x2000 } else { 0 };
        let whole = packet(word, &vec![1; words * 4], payload_len);
        let fragments = split(&whole, mtu).unwrap();
        let want = (usize::from(offset) * 8, whole[20 + words * 4..].to_vec(), more);
        prop_assert!(fragments.iter().all(|f| f.len() <= mtu));
        prop_assert_eq!(&join(&fragments), &want);
        // No fewer fragments would do.
        let (first, other) = (mtu - 20 - words * 4, mtu - 20);
        let room_of_one_less = match fragments.len() {
            1 => None,
            2 => Some(first),
            n => Some((first & !7) + (n - 3) * (other & !7) + other),
        };
        prop_assert!(room_of_one_less.is_none_or(|room| payload_len > room));
        // Fragments of fragments join just as well.
        let again: Vec<Vec<u8>> =
            fragments.iter().flat_map(|f| split(f, second_mtu).unwrap()).collect();
        prop_assert!(again.iter().all(|f| f.len() <= second_mtu));
        prop_assert_eq!(&join(&again), &want);
    }

    #[test]
    fn noise_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..120), mtu in 0usize..100) {
        let mut bytes = bytes;
        if let Some(b) = bytes.first_mut() {
            *b = 0x40 | *b & 0xf;
        }
        if let Some(len) = bytes.get_mut(2..4) {
            len.copy_from_slice(&[0, 60]);
        }
        fill_checksum(&mut bytes);
        if let Ok(h) = parse_ip(&bytes) {
            if let Ok(plan) = plan(&h, &bytes, mtu) {
                for n in 0..=plan.count() {
                    let _ = plan.write(n, &mut [0; 128]);
                }
            }
            // Another packet under these headers.
            let other = packet(0, &[1; 8], 70);
            if let Ok(plan) = plan(&h, &other, mtu) {
                let _ = plan.write(0, &mut [0; 128]);
            }
        }
    }
}
