//! Headends and segments against the examples of RFC 8986, RFC 8754 and RFC 9800, and against each other.

use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;
use srv6::{Behaviour, Csid, Done, Fault, Flavours, Headend, Icmp, Inner, Mode, Sid, Srh};
use wire::ipv6::Ipv6Fields;
use wire::protocol;

fn a(text: &str) -> Ipv6Addr {
    text.parse().expect("an address")
}

fn inner_v6(payload: usize) -> Vec<u8> {
    let fields = Ipv6Fields {
        traffic_class: 0x2c,
        flow_label: 0x12345,
        payload_len: payload as u16,
        next_header: protocol::UDP,
        hop_limit: 17,
        src: a("2001:db8:a::1"),
        dst: a("2001:db8:b::1"),
    };
    let mut packet = fields.to_bytes().to_vec();
    packet.extend((0..payload).map(|n| n as u8));
    packet
}

fn inner_v4() -> Vec<u8> {
    let fields = wire::ipv4::Ipv4Fields {
        traffic_class: 0,
        total_len: 28,
        ident: 7,
        dont_fragment: true,
        ttl: 9,
        protocol: protocol::UDP,
        src: Ipv4Addr::new(10, 1, 0, 1),
        dst: Ipv4Addr::new(10, 2, 0, 1),
    };
    let mut packet = fields.to_bytes().to_vec();
    packet.extend([1; 8]);
    packet
}

/// With segments on it.
fn wrapped(mode: Mode, segments: &[&str], packet: &[u8]) -> Vec<u8> {
    let segments: Vec<Ipv6Addr> = segments.iter().map(|s| a(s)).collect();
    let headend = Headend::new(mode, &segments, a("fc00::ff")).expect("few");
    let mut bytes = vec![0xee; headend.overhead()];
    bytes.extend(packet);
    headend.apply(&mut bytes).expect("IP");
    bytes
}

fn dst(packet: &[u8]) -> Ipv6Addr {
    Ipv6Addr::from(<[u8; 16]>::try_from(&packet[24..40]).expect("16"))
}

/// A packet behind a segment.
fn at(sid: &Sid, packet: &[u8]) -> Result<(Done, Vec<u8>), srv6::Refusal> {
    let mut bytes = vec![0; sid.overhead()];
    bytes.extend(packet);
    let done = sid.process(&mut bytes)?;
    let (Done::Onward { cut } | Done::Inside { cut, .. } | Done::Here { cut }) = done;
    Ok((done, bytes.split_off(cut)))
}

fn next(sid: &Sid, packet: &[u8]) -> Vec<u8> {
    let (done, packet) = at(sid, packet).expect("goes on");
    assert!(matches!(done, Done::Onward { .. }), "{done:?}");
    packet
}

fn end() -> Sid {
    Sid::new(Behaviour::End)
}

fn with(flavours: Flavours) -> Sid {
    Sid { flavours, ..end() }
}

const PSP: Flavours = Flavours { psp: true, usp: false, usd: false };
const USP: Flavours = Flavours { psp: false, usp: true, usd: false };
const USD: Flavours = Flavours { psp: false, usp: false, usd: true };

#[test]
fn encapsulation_writes_what_rfc_8986_says() {
    let inner = inner_v6(5);
    let packet = wrapped(Mode::Encap, &["fc00::1", "fc00::2"], &inner);
    // Version, traffic class and flow label are the packet's, and so is the hop limit.
    assert_eq!(packet[..4], inner[..4]);
    assert_eq!(u16::from_be_bytes([packet[4], packet[5]]), 40 + 45);
    assert_eq!((packet[6], packet[7]), (protocol::ROUTING, 17));
    assert_eq!(dst(&packet), a("fc00::1"));
    let srh = Srh::parse(&packet[40..]).expect("there");
    assert_eq!((srh.next_header(), srh.header_len()), (protocol::IPV6, 40));
    assert_eq!((srh.segments_left(), srh.last_entry()), (1, 1));
    assert_eq!((srh.segment(0), srh.segment(1)), (Some(a("fc00::2")), Some(a("fc00::1"))));
    assert_eq!(packet[80..], inner[..]);
    // Reduced: one segment less in the list, as many left.
    let packet = wrapped(Mode::EncapRed, &["fc00::1", "fc00::2"], &inner);
    let srh = Srh::parse(&packet[40..]).expect("there");
    assert_eq!((srh.segments_left(), srh.last_entry(), srh.header_len()), (1, 0, 24));
    assert_eq!(srh.segment(0), Some(a("fc00::2")));
    // One segment needs no list.
    let packet = wrapped(Mode::EncapRed, &["fc00::1"], &inner_v4());
    assert_eq!((packet[6], packet[7], packet.len()), (protocol::IPV4, 64, 40 + 28));
    assert_eq!(packet[..4], [0x60, 0, 0, 0]);
}

#[test]
fn insertion_ends_at_the_packets_own_destination() {
    let inner = inner_v6(5);
    for mode in [Mode::Inline, Mode::InlineRed] {
        let mut packet = wrapped(mode, &["fc00::1", "fc00::2"], &inner);
        assert_eq!(dst(&packet), a("fc00::1"));
        packet = next(&end(), &packet);
        assert_eq!(dst(&packet), a("fc00::2"));
        packet = next(&with(PSP), &packet);
        // Two hops.
        packet[7] += 2;
        assert_eq!(packet, inner);
    }
    let headend = Headend::new(Mode::Inline, &[a("fc00::1")], a("::1")).expect("one");
    let mut bytes = vec![0; headend.overhead()];
    bytes.extend(inner_v4());
    assert_eq!(headend.apply(&mut bytes).map_err(|r| r.fault), Err(Fault::Malformed));
}

#[test]
fn a_segment_passes_the_packet_on_to_the_next() {
    let packet = wrapped(Mode::Encap, &["fc00::1", "fc00::2", "fc00::3"], &inner_v6(5));
    let packet = next(&end(), &packet);
    assert_eq!((dst(&packet), packet[7]), (a("fc00::2"), 16));
    assert_eq!(Srh::parse(&packet[40..]).expect("there").segments_left(), 1);
    let penultimate = next(&with(PSP), &packet);
    assert_eq!((dst(&penultimate), penultimate[6]), (a("fc00::3"), protocol::IPV6));
    assert_eq!(penultimate.len(), 40 + 45);
    assert_eq!(u16::from_be_bytes([penultimate[4], penultimate[5]]), 45);
    // Without the flavour the last one gets the header, with nothing left.
    let packet = next(&end(), &packet);
    assert_eq!(dst(&packet), a("fc00::3"));
    let (done, inner) = at(&Sid::new(Behaviour::EndDt6(254)), &packet).expect("decapsulated");
    assert_eq!(done, Done::Inside { cut: 96, inner: Inner::V6 });
    assert_eq!(inner, inner_v6(5));
}

#[test]
fn the_last_segment_does_what_its_flavour_says() {
    let packet = wrapped(Mode::Encap, &["fc00::1"], &inner_v6(5));
    let refused = at(&end(), &packet).expect_err("nothing is left");
    assert_eq!(refused.icmp(), Some(Icmp::Parameter { code: 4, pointer: 64 }));
    let (done, inner) = at(&with(USD), &packet).expect("decapsulated");
    assert!(matches!(done, Done::Inside { inner: Inner::V6, .. }));
    assert_eq!(inner, inner_v6(5));
    let (done, bare) = at(&with(USP), &packet).expect("taken off");
    assert_eq!(done, Done::Here { cut: 24 });
    assert_eq!((bare[6], bare.len()), (protocol::IPV6, 40 + 45));
}

#[test]
fn what_does_not_fit_is_refused_with_the_error_that_it_deserves() {
    let good = wrapped(Mode::Encap, &["fc00::1", "fc00::2"], &inner_v6(5));
    let why = |sid: &Sid, packet: &[u8]| {
        let refused = at(sid, packet).expect_err("refused");
        (refused.fault, refused.icmp())
    };
    let at_left = Some(Icmp::Parameter { code: 0, pointer: 43 });
    let mut packet = good.clone();
    packet[43] = 3;
    assert_eq!(why(&end(), &packet), (Fault::SegmentsLeft, at_left));
    let mut packet = good.clone();
    packet[44] = 2;
    assert_eq!(why(&end(), &packet), (Fault::SegmentsLeft, at_left), "beyond the header");
    let dt6 = Sid::new(Behaviour::EndDt6(254));
    assert_eq!(why(&dt6, &good), (Fault::SegmentsLeft, at_left), "not the last one");
    let mut packet = good.clone();
    packet[7] = 1;
    assert_eq!(why(&end(), &packet), (Fault::HopLimit, Some(Icmp::TimeExceeded)));
    assert_eq!(why(&end(), &good[..70]).0, Fault::Malformed);
    let last = next(&end(), &good);
    let dx4 = Sid::new(Behaviour::EndDx4(Ipv4Addr::LOCALHOST));
    let at_upper = Some(Icmp::Parameter { code: 4, pointer: 80 });
    assert_eq!(why(&dx4, &last), (Fault::UpperLayer, at_upper));
    // An HMAC TLV behind the list.
    let mut packet = good.clone();
    packet[41] += 5;
    packet.splice(80..80, [5, 38].into_iter().chain([0; 38]));
    assert_eq!(why(&end(), &packet), (Fault::Hmac, None));
    // A fragment of the outer packet.
    let mut packet = last.clone();
    packet[40] = protocol::FRAGMENT;
    packet.splice(80..80, [protocol::IPV6, 0, 0, 1, 0, 0, 0, 7]);
    assert_eq!(why(&dt6, &packet), (Fault::Fragment, None));
}

#[test]
fn a_binding_segment_wraps_the_packet_for_its_policy() {
    let policy = Headend::new(Mode::EncapRed, &[a("fd00::1"), a("fd00::2")], a("fd00::ff"));
    let sid = Sid::new(Behaviour::EndB6Encaps(policy.expect("two")));
    let packet = wrapped(Mode::Encap, &["fc00::1", "fc00::2"], &inner_v6(5));
    let outer = next(&sid, &packet);
    assert_eq!(dst(&outer), a("fd00::1"));
    assert_eq!(Srh::parse(&outer[40..]).expect("there").segment(0), Some(a("fd00::2")));
    assert_eq!(outer[40 + 24..], next(&end(), &packet)[..]);
}

#[test]
fn next_csids_are_shifted_through_the_address() {
    let sid = Sid { csid: Csid::next(32, 16).expect("fits"), ..end() };
    // RFC 9800's container: three identifiers under one block; no list at all.
    let packet = wrapped(Mode::EncapRed, &["fc00:0:1:2:3::"], &inner_v6(5));
    let packet = next(&sid, &packet);
    assert_eq!((dst(&packet), packet[7]), (a("fc00:0:2:3::"), 16));
    let packet = next(&sid, &packet);
    assert_eq!(dst(&packet), a("fc00:0:3::"));
    assert_eq!(at(&sid, &packet).expect_err("the last one").fault, Fault::UpperLayer);
    // The argument is 0: the next container of the list.
    let packet = wrapped(Mode::EncapRed, &["fc00:0:1::", "fc00:0:7:8::"], &inner_v6(5));
    assert_eq!(dst(&next(&sid, &packet)), a("fc00:0:7:8::"));
    assert!(
        Csid::next(32, 96).is_none() && Csid::next(0, 16).is_none() && Csid::next(33, 16).is_none()
    );
}

#[test]
fn replace_csids_are_taken_from_the_list_one_by_one() {
    let sid = Sid { csid: Csid::replace(64, 32).expect("fits"), ..end() };
    // The list's entry has 4 identifiers, the first one in the lowest bits; the last place is empty.
    let list = "::44:0:33:0:22";
    let packet = wrapped(Mode::EncapRed, &["fc00::11:0:0", list], &inner_v6(5));
    assert_eq!(dst(&packet), a("fc00::11:0:0"));
    let at_22 = next(&sid, &packet);
    assert_eq!(dst(&at_22), a("fc00::22:0:3"));
    assert_eq!(Srh::parse(&at_22[40..]).expect("there").segments_left(), 0);
    let at_33 = next(&sid, &at_22);
    assert_eq!(dst(&at_33), a("fc00::33:0:2"));
    let at_44 = next(&sid, &at_33);
    assert_eq!((dst(&at_44), at_44[7]), (a("fc00::44:0:1"), 14));
    // Nothing but zeros is left: the last segment.
    assert_eq!(at(&sid, &at_44).expect_err("the last one").fault, Fault::UpperLayer);
    let usd = Sid { flavours: USD, ..sid.clone() };
    assert_eq!(at(&usd, &at_44).expect("decapsulated").1, inner_v6(5));
    // Behind the zeros the next entry is a whole address.
    let packet = wrapped(Mode::EncapRed, &["fc00::11:0:0", "::22", "fd00::5"], &inner_v6(5));
    let whole = next(&sid, &next(&sid, &packet));
    assert_eq!(dst(&whole), a("fd00::5"));
}

#[test]
fn segment_lists_have_a_length() {
    let of = |n| Headend::new(Mode::Encap, &vec![Ipv6Addr::LOCALHOST; n], Ipv6Addr::LOCALHOST);
    assert!(of(0).is_err() && of(9).is_err());
    assert_eq!(of(8).expect("8").overhead(), 40 + 8 + 8 * 16);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_wrapped_comes_out_as_it_was(
        count in 1..8usize, is_v4: bool, is_layer2: bool, payload in 0..64usize,
    ) {
        let packet = if is_v4 { inner_v4() } else { inner_v6(payload) };
        let names: Vec<String> = (1..=count).map(|n| format!("fc00::{n}")).collect();
        let segments: Vec<&str> = names.iter().map(String::as_str).collect();
        let (full, reduced, last) = match (is_layer2, is_v4) {
            (true, _) => (Mode::L2Encap, Mode::L2EncapRed, Behaviour::EndDx2(1)),
            (false, true) => (Mode::Encap, Mode::EncapRed, Behaviour::EndDt46(1)),
            (false, false) => (Mode::Encap, Mode::EncapRed, Behaviour::EndDx6(Ipv6Addr::LOCALHOST)),
        };
        let (mut full, mut reduced) =
            (wrapped(full, &segments, &packet), wrapped(reduced, &segments, &packet));
        for name in &segments {
            prop_assert_eq!(dst(&full), a(name));
            prop_assert_eq!(dst(&reduced), a(name));
            if name != segments.last().expect("one") {
                // The hop limit is enough: 17 or 64.
                (full, reduced) = (next(&end(), &full), next(&end(), &reduced));
            }
        }
        let last = Sid::new(last);
        prop_assert_eq!(&at(&last, &full).expect("opened").1, &packet);
        prop_assert_eq!(&at(&last, &reduced).expect("opened").1, &packet);
    }

    #[test]
    fn noise_is_harmless(
        bytes in prop::collection::vec(any::<u8>(), 0..200), selector: u8, left in 0..4u8,
    ) {
        srv6::fuzz::exercise(&bytes);
        let mut packet = wrapped(Mode::Encap, &["fc00:0:1::", "0:22::", "fc00::3"], &inner_v6(5));
        packet[43] = left;
        for (place, byte) in bytes.chunks_exact(2).map(|c| (usize::from(c[0]), c[1])).take(3) {
            if let Some(old) = packet.get_mut(place) {
                *old = byte;
            }
        }
        packet.insert(0, selector);
        srv6::fuzz::exercise(&packet);
    }
}
