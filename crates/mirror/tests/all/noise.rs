//! Whatever bytes come: no panic, no endless loop, and what is understood stays understood.

use mirror::{Message, XfrmInterface, decode};
use proptest::collection::vec;
use proptest::prelude::*;

/// A message header and a payload.
fn message(kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&(16 + payload.len() as u32).to_ne_bytes());
    bytes.extend_from_slice(&kind.to_ne_bytes());
    bytes.extend_from_slice(&[0; 2]);
    bytes.extend_from_slice(&7u32.to_ne_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(payload);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn attribute(kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (4 + payload.len() as u16).to_ne_bytes().to_vec();
    bytes.extend_from_slice(&kind.to_ne_bytes());
    bytes.extend_from_slice(payload);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// A payload with a plausible header and attributes of any type and length.
fn payload() -> impl Strategy<Value = Vec<u8>> {
    let family = prop::sample::select(&[0u8, 2, 10, 7, 28, 128][..]);
    let header = (family, vec(any::<u8>(), 7..16)).prop_map(|(f, rest)| [vec![f], rest].concat());
    let lens = prop::sample::select(&[0usize, 1, 2, 3, 4, 6, 8, 16, 18, 40][..]);
    let value = lens.prop_flat_map(|len| vec(any::<u8>(), len));
    let attributes = vec((0..40u16, value).prop_map(|(kind, v)| attribute(kind, &v)), 0..12);
    (header, attributes).prop_map(|(h, a)| [h, a.concat()].concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn pure_noise(bytes in vec(any::<u8>(), 0..300)) {
        prop_assert!(decode(&bytes).count() <= bytes.len() / 16 + 1);
    }

    #[test]
    fn plausible_messages(
        list in vec((0..40u16, payload()), 1..5),
        cut in any::<prop::sample::Index>(),
        flip in any::<(prop::sample::Index, u8)>(),
    ) {
        let mut bytes: Vec<u8> = list.iter().flat_map(|(kind, p)| message(*kind, p)).collect();
        prop_assert_eq!(decode(&bytes).count(), list.len());
        let at = flip.0.index(bytes.len());
        bytes[at] ^= flip.1;
        decode(&bytes).for_each(drop);
        bytes.truncate(cut.index(bytes.len()));
        decode(&bytes).for_each(drop);
    }

    /// Attributes that nobody knows, before and after those that count, change nothing.
    #[test]
    fn unknown_attributes_are_passed_over(
        before in vec((200..0x3fffu16, vec(any::<u8>(), 0..20)), 0..4),
        after in vec((200..0x3fffu16, vec(any::<u8>(), 0..20)), 0..4),
    ) {
        let unknown = |list: &[(u16, Vec<u8>)]| -> Vec<u8> {
            list.iter().flat_map(|(kind, value)| attribute(*kind, value)).collect()
        };
        // A route to 10.9.0.0/16 through interface 3 in table main.
        let header = [2u8, 16, 0, 0, 254, 4, 0, 1, 0, 0, 0, 0];
        let known = [attribute(1, &[10, 9, 0, 0]), attribute(4, &3u32.to_ne_bytes())].concat();
        let plain = message(24, &[&header[..], &known].concat());
        let odd = message(24, &[&header[..], &unknown(&before), &known, &unknown(&after)].concat());
        let one = |bytes: &[u8]| decode(bytes).next();
        let Some(Message::Route { route, .. }) = one(&plain) else {
            panic!("not understood");
        };
        prop_assert_eq!(route.next_hops[0].ifindex, 3);
        prop_assert_eq!(one(&odd), one(&plain));
    }
}

#[test]
fn a_message_that_is_cut_is_no_message() {
    let header = [2u8, 16, 0, 0, 254, 4, 0, 1, 0, 0, 0, 0];
    let whole = message(24, &[&header[..], &attribute(1, &[10, 9, 0, 0])].concat());
    assert_eq!(decode(&whole).count(), 1);
    for len in 0..whole.len() {
        assert_eq!(decode(&whole[..len]).count(), 0, "{len}");
    }
}

#[test]
fn a_length_below_the_header_ends_it() {
    for len in 0..16u32 {
        let mut bytes = vec![0; 64];
        bytes[..4].copy_from_slice(&len.to_ne_bytes());
        assert_eq!(decode(&bytes).count(), 0);
    }
}

/// A link of kind `xfrm` with this data, and attributes behind it.
fn xfrm_link(data: &[u8], more: &[u8]) -> mirror::Link {
    link_of(b"xfrm\0", data, more)
}

fn link_of(kind: &[u8], data: &[u8], more: &[u8]) -> mirror::Link {
    let mut header = vec![0u8; 16];
    header[2..4].copy_from_slice(&65534u16.to_ne_bytes());
    header[4..8].copy_from_slice(&9u32.to_ne_bytes());
    header[8..12].copy_from_slice(&1u32.to_ne_bytes());
    let info = [attribute(1, kind), attribute(2 | 0x8000, data)].concat();
    let known = [attribute(3, b"ipsec0\0"), attribute(4, &1400u32.to_ne_bytes())].concat();
    let whole = [header, known, attribute(18, &info), more.to_vec()].concat();
    match decode(&message(16, &whole)).next() {
        Some(Message::Link(link)) => link,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_xfrm_interface_has_an_if_id_or_takes_that_of_each_packet() {
    let id =
        |id: u32| [attribute(1, &2u32.to_ne_bytes()), attribute(2, &id.to_ne_bytes())].concat();
    let link = xfrm_link(&id(42), &[]);
    assert_eq!((link.xfrm, link.is_tied_elsewhere), (Some(XfrmInterface::IfId(42)), false));
    assert!(link.up && link.kind.as_deref() == Some("xfrm"));
    assert_eq!(xfrm_link(&id(0), &[]).xfrm, None);
    assert_eq!(xfrm_link(&[], &[]).xfrm, None);
    assert_eq!(xfrm_link(&attribute(2, &[1, 2]), &[]).xfrm, None);
    let external = [id(42), attribute(3, &[])].concat();
    assert_eq!(xfrm_link(&external, &[]).xfrm, Some(XfrmInterface::External));
    // Made in another namespace: so are its policies.
    assert!(xfrm_link(&id(42), &attribute(37, &0u32.to_ne_bytes())).is_tied_elsewhere);
}

#[test]
fn a_vlan_has_a_tag_and_maps_priorities() {
    let id = attribute(1, &100u16.to_ne_bytes());
    let mapping =
        |from: u32, to: u32| attribute(1, &[from.to_ne_bytes(), to.to_ne_bytes()].concat());
    let egress = attribute(3 | 0x8000, &[mapping(6, 5), mapping(0, 1)].concat());
    let service = attribute(5, &0x88a8u16.to_be_bytes());
    let vlan = |data: &[u8]| link_of(b"vlan\0", data, &[]).vlan;
    let found = vlan(&[id.clone(), egress, service].concat()).expect("a VLAN");
    assert_eq!((found.tpid, found.id), (0x88a8, 100));
    assert_eq!(found.egress_qos.into_iter().collect::<Vec<_>>(), [(0, 1), (6, 5)]);
    let plain = vlan(&id).expect("a VLAN");
    assert_eq!((plain.tpid, plain.egress_qos.is_empty()), (0x8100, true));
    assert!(vlan(&[]).is_none() && vlan(&attribute(1, &[1])).is_none());
    assert!(vlan(&[id.clone(), attribute(5, &[0x81])].concat()).is_none());
    assert!(xfrm_link(&id, &[]).vlan.is_none());
}
