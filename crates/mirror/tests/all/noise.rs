//! Whatever bytes come: no panic, no endless loop, and what is understood stays understood.

use mirror::{Message, OverlayDf, OverlayKind, XfrmInterface, decode};
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

#[test]
fn gre_says_its_keys_and_what_is_left_to_linux() {
    let be16 = |kind, value: u16| attribute(kind, &value.to_be_bytes());
    let be32 = |kind, value: u32| attribute(kind, &value.to_be_bytes());
    let ends = [attribute(6, &[192, 0, 2, 1]), attribute(7, &[192, 0, 2, 2])].concat();
    let plain =
        [ends.clone(), attribute(8, &[0]), attribute(9, &[1]), attribute(10, &[1])].concat();
    let gre = |data: &[u8]| link_of(b"gre\0", data, &[]).overlay.expect("an overlay");
    let found = gre(&plain);
    assert_eq!((found.kind, found.is_ip_inside), (OverlayKind::Gre, true));
    assert_eq!((found.ikey, found.okey, found.more), (None, None, None));
    assert_eq!((found.ttl, found.class, found.df), (None, None, OverlayDf::Set));
    assert_eq!(found.remote, Some([192, 0, 2, 2].into()));
    let keys = [be16(2, 0x2000), be16(3, 0xa000), be32(4, 7), be32(5, 8)].concat();
    let found = gre(&[plain.clone(), keys].concat());
    assert_eq!((found.ikey, found.okey), (Some(7), Some(8)));
    assert_eq!((found.has_icsum, found.has_ocsum, found.more), (false, true, None));
    // A key of 0 is one where the flag says so.
    let zero = [be16(2, 0x2000), be32(4, 0)].concat();
    assert_eq!(gre(&[plain.clone(), zero].concat()).ikey, Some(0));
    // Any far end.
    assert_eq!(gre(&[attribute(6, &[192, 0, 2, 1]), attribute(7, &[0; 4])].concat()).remote, None);
    for (more, name) in [
        (be16(2, 0x1000), "seq"),
        (attribute(18, &[]), "external"),
        (attribute(14, &1u16.to_ne_bytes()), "encap fou"),
        (attribute(20, &5u32.to_ne_bytes()), "fwmark"),
        (attribute(19, &[1]), "ignore-df"),
    ] {
        assert_eq!(gre(&[plain.clone(), more].concat()).more, Some(name));
    }
    let ends = [attribute(6, &[1; 16]), attribute(7, &[2; 16])].concat();
    let limit = [attribute(11, &[4]), attribute(8, &[64]), be32(12, 0x0b80_0000)].concat();
    let ip6gre = |data: &[u8]| link_of(b"ip6gre\0", data, &[]).overlay.expect("an overlay");
    let found = ip6gre(&[ends.clone(), limit.clone()].concat());
    assert_eq!((found.encap_limit, found.ttl, found.class), (Some(4), Some(64), Some(0xb8)));
    let flags = attribute(13, &3u32.to_ne_bytes());
    let found = ip6gre(&[ends, limit, flags].concat());
    assert_eq!((found.encap_limit, found.class), (None, None));
}

#[test]
fn vxlan_and_geneve_say_what_is_left_to_linux() {
    let of = |kind: &[u8], data: &[u8]| link_of(kind, data, &[]).overlay.expect("an overlay");
    let vxlan = |more: &[u8]| of(b"vxlan\0", &[&attribute(1, &42u32.to_ne_bytes()), more].concat());
    let found = vxlan(&[attribute(15, &4789u16.to_be_bytes()), attribute(6, &[0xb8])].concat());
    assert_eq!((found.vni, found.port, found.class, found.more), (42, 4789, Some(0xb8), None));
    for (kind, name) in
        [(11, "proxy"), (12, "rsc"), (23, "gbp"), (25, "external"), (27, "gpe"), (30, "vnifilter")]
    {
        assert_eq!(vxlan(&attribute(kind, &[1])).more, Some(name));
    }
    assert_eq!(vxlan(&attribute(25, &[0])).more, None);
    let geneve = |more: &[u8]| of(b"geneve\0", &[&attribute(2, &[192, 0, 2, 2]), more].concat());
    assert_eq!(geneve(&attribute(6, &[])).more, Some("external"));
    let found = geneve(&[attribute(14, &[]), attribute(12, &[1])].concat());
    assert_eq!((found.kind, found.is_ip_inside, found.ttl), (OverlayKind::Geneve, true, None));
}
