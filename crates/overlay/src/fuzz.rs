//! The entry point of fuzzers and noise tests: what arrives, and what is put in front of whatever it is.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::MacAddr;

use crate::arrived::{Inner, PortKind, look};
use crate::{
    Class, Cookie, DontFragment, EcnMode, Encap, Macs, Outer, Ports, Session, Shape, Ttl, Udp,
};

/// Looks at bytes as at a tunnel's packet, and puts each kind of headers in front of them. What was put in front is
/// found again.
///
/// # Panics
/// When something is wrong: that is the finding.
pub fn exercise(bytes: &[u8]) {
    let kind = |port| match port {
        4789 => Some(PortKind::Vxlan),
        6081 => Some(PortKind::Geneve),
        1701 => Some(PortKind::L2tp),
        _ => None,
    };
    let session = Session { id: 7, cookie: Cookie::new(&[1; 4]).expect("4"), has_sublayer: true };
    let Ok(h) = wire::parse_ip(bytes) else { return };
    if let Ok(arrived) = look(bytes, &h, kind) {
        let whole = usize::from(h.total_len);
        assert!(arrived.cut <= whole, "{arrived:?}");
        if let Ok(arrived) = arrived.of_session(bytes, &session) {
            assert!(arrived.cut <= bytes.len(), "{arrived:?}");
        }
    }
    let packet = bytes.get(..usize::from(h.total_len)).unwrap_or_default();
    for (outer, shape) in all(session) {
        let encap = Encap::new(outer, &shape).expect("fits");
        let mut all = vec![0; encap.overhead()];
        all.extend(packet);
        if !encap.apply(&mut all, (&h).into(), u32::from(h.src_port), 9) {
            assert!(all.len() > 65535);
            continue;
        }
        let outer_h = wire::parse_ip(&all).expect("headers of ours");
        assert_eq!(usize::from(outer_h.total_len), all.len());
        let found = look(&all, &outer_h, kind).expect("a tunnel's");
        let found = match found.inner {
            None => found.of_session(&all, &session).expect("the session's"),
            Some(_) => found,
        };
        assert_eq!(found.cut, encap.overhead());
        assert_eq!(found.inner == Some(Inner::Ip), !encap.is_frame());
        assert_eq!(&all[found.cut..], packet);
    }
}

fn all(session: Session) -> Vec<(Outer, Shape)> {
    let v4 = (Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2));
    let v6 = (Ipv6Addr::LOCALHOST, Ipv6Addr::from_bits(2));
    let outer = |src: IpAddr, dst: IpAddr, encap_limit| Outer {
        src,
        dst,
        class: Class::Inherit,
        ttl: Ttl::Inherit,
        dont_fragment: DontFragment::Inherit,
        encap_limit,
        ecn: EcnMode::Normal,
    };
    let outers = [
        outer(v4.0.into(), v4.1.into(), None),
        outer(v6.0.into(), v6.1.into(), None),
        outer(v6.0.into(), v6.1.into(), Some(4)),
    ];
    let frame = Macs { dst: MacAddr([2; 6]), src: MacAddr([4; 6]) };
    let ports = Ports { from: 32768, below: 60999 };
    let udp = |dst, has_checksum| Udp { src: ports, dst, has_checksum };
    let mut all = Vec::new();
    for outer in outers {
        // Without a checksum nothing is read over IPv6.
        let checksums: &[bool] = if outer.dst.is_ipv4() { &[false, true] } else { &[true] };
        let mut add = |shape| all.push((outer.clone(), shape));
        for key in [None, Some(5)] {
            for (has_checksum, frame) in [(false, None), (true, None), (true, Some(frame))] {
                add(Shape::Gre { key, has_checksum, frame });
            }
        }
        for has_checksum in checksums.iter().copied() {
            add(Shape::Vxlan { vni: 42, udp: udp(4789, has_checksum), frame });
            for frame in [None, Some(frame)] {
                add(Shape::Geneve { vni: 42, udp: udp(6081, has_checksum), frame });
            }
            add(Shape::L2tp { session, udp: Some(udp(1701, has_checksum)), frame });
        }
        add(Shape::L2tp { session, udp: None, frame });
    }
    all
}
