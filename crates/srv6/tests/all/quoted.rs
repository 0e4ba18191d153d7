//! Which packets that ICMPv6 errors quote a headend has made.

use std::net::Ipv6Addr;

use srv6::{Behaviour, Done, Flavours, Headend, Mode, Quoted, Sid};
use wire::ipv6::Ipv6Fields;
use wire::protocol;

fn a(text: &str) -> Ipv6Addr {
    text.parse().expect("an address")
}

fn headend(mode: Mode, segments: &[&str], source: &str) -> Headend {
    let segments: Vec<Ipv6Addr> = segments.iter().map(|s| a(s)).collect();
    Headend::new(mode, &segments, a(source)).expect("few")
}

fn made_by(headend: &Headend) -> Vec<u8> {
    let fields = Ipv6Fields {
        traffic_class: 0,
        flow_label: 0,
        payload_len: 100,
        next_header: protocol::UDP,
        hop_limit: 64,
        src: a("2001:db8:a::1"),
        dst: a("2001:db8:b::1"),
    };
    let mut packet = vec![0; headend.overhead()];
    packet.extend(fields.to_bytes());
    packet.extend([7; 100]);
    headend.apply(&mut packet).expect("IPv6");
    packet
}

fn at_segment(mut packet: Vec<u8>, psp: bool) -> Vec<u8> {
    let flavours = Flavours { psp, ..Flavours::default() };
    let sid = Sid { flavours, ..Sid::new(Behaviour::End) };
    let Ok(Done::Onward { cut }) = sid.process(&mut packet) else { panic!("goes on") };
    packet.split_off(cut)
}

#[test]
fn a_packet_is_known_wherever_it_is() {
    for mode in [Mode::Encap, Mode::EncapRed] {
        let own = headend(mode, &["fc00::1", "fc00::2", "fc00::3"], "fc00::ff");
        let others = [
            headend(mode, &["fc00::1", "fc00::4", "fc00::3"], "fc00::ff"),
            headend(mode, &["fc00::1", "fc00::2"], "fc00::ff"),
            headend(mode, &["fc00::1", "fc00::2", "fc00::3", "fc00::3"], "fc00::ff"),
            headend(mode, &["fc00::1", "fc00::2", "fc00::3"], "fc00::fe"),
            headend(Mode::Inline, &["fc00::1", "fc00::2", "fc00::3"], "fc00::ff"),
        ];
        let mut packet = made_by(&own);
        for left in [2, 1, 0] {
            // Errors quote 1232 bytes, and at least the headers.
            for len in [packet.len(), 40 + 8 + 48] {
                let quoted = Quoted::parse(&packet[..len]).expect("headers");
                assert!(own.has_made(&quoted), "{left}");
                assert!(!others.iter().any(|other| other.has_made(&quoted)));
                assert_eq!((quoted.src(), quoted.has_list()), (a("fc00::ff"), true));
                assert_eq!(quoted.total_len(), packet.len());
            }
            if left != 0 {
                packet = at_segment(packet, false);
            }
        }
        // Without its list it is known by the last segment.
        let packet = at_segment(at_segment(made_by(&own), false), true);
        let quoted = Quoted::parse(&packet).expect("headers");
        assert!(own.has_made(&quoted) && !quoted.has_list());
        assert_eq!(quoted.dst(), a("fc00::3"));
        assert!(!others[1].has_made(&quoted));
    }
}

#[test]
fn the_first_segment_tells_lists_apart_that_do_not_have_it() {
    let one = headend(Mode::EncapRed, &["fc00::1", "fc00::3"], "fc00::ff");
    let two = headend(Mode::EncapRed, &["fc00::2", "fc00::3"], "fc00::ff");
    let packet = made_by(&one);
    let quoted = Quoted::parse(&packet).expect("headers");
    assert!(one.has_made(&quoted) && !two.has_made(&quoted));
    // Behind it they are the same.
    let packet = at_segment(packet, false);
    let quoted = Quoted::parse(&packet).expect("headers");
    assert!(one.has_made(&quoted) && two.has_made(&quoted));
}

#[test]
fn what_is_no_packet_with_segments_is_nobodys() {
    let own = headend(Mode::Encap, &["fc00::1", "fc00::2"], "fc00::ff");
    let packet = made_by(&own);
    assert!(Quoted::parse(&packet[..79]).is_none(), "half a list");
    assert!(Quoted::parse(&packet[..39]).is_none());
    let changed = |at: usize, to: u8| {
        let mut packet = packet.clone();
        packet[at] = to;
        packet
    };
    for (at, to) in
        [(6, protocol::UDP), (6, protocol::FRAGMENT), (42, 3), (43, 9), (44, 7), (0, 0x45)]
    {
        assert!(Quoted::parse(&changed(at, to)).is_none(), "byte {at}");
    }
    // More left than it had, another segment, another source.
    for (at, to) in [(43, 2), (63, 9), (79, 9), (39, 9), (23, 9)] {
        let packet = changed(at, to);
        let quoted = Quoted::parse(&packet).expect("headers");
        assert!(!own.has_made(&quoted), "byte {at}");
    }
    // A list of one's own has none of it in another's packet.
    let bare = headend(Mode::EncapRed, &["fc00::1"], "fc00::ff");
    assert!(!bare.has_made(&Quoted::parse(&packet).expect("headers")));
    assert!(bare.has_made(&Quoted::parse(&made_by(&bare)).expect("headers")));
}
