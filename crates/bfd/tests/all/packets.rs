//! Control packets of BFD: read and written, and what is refused.

use bfd::{Diagnostic, PACKET_LEN, Packet, Refused, State};
use proptest::prelude::*;

/// The layout of RFC 5880 §4.1, by hand.
const BYTES: [u8; PACKET_LEN] = [
    0x21, 0xe8, 3, 24, // version 1, expired; Up, poll, independent
    0, 0, 0, 7, 0, 0, 0, 9, //
    0, 0x0f, 0x42, 0x40, // 1 s
    0, 0, 0xc3, 0x50, // 50 ms
    0, 0, 0, 0,
];

const PACKET: Packet = Packet {
    diagnostic: Diagnostic::EXPIRED,
    state: State::Up,
    poll: true,
    is_final: false,
    is_independent: true,
    demand: false,
    detect_mult: 3,
    my_discr: 7,
    your_discr: 9,
    desired_min_tx: 1_000_000,
    required_min_rx: 50_000,
    required_min_echo_rx: 0,
};

#[test]
fn a_packet_is_as_the_rfc_draws_it() {
    assert_eq!(Packet::parse(&BYTES), Ok(PACKET));
    assert_eq!(PACKET.to_bytes(), BYTES);
}

#[test]
fn each_rule_of_reception_refuses_by_name() {
    let with = |at: usize, byte: u8| {
        let mut bytes = BYTES;
        bytes[at] = byte;
        Packet::parse(&bytes)
    };
    assert_eq!(with(0, 0x41), Err(Refused::Version));
    assert_eq!(with(3, 23), Err(Refused::Length));
    assert_eq!(with(3, 25), Err(Refused::Length), "beyond the payload");
    assert_eq!(Packet::parse(&BYTES[..23]), Err(Refused::Length));
    assert_eq!(with(2, 0), Err(Refused::DetectMult));
    assert_eq!(with(1, 0xc1), Err(Refused::Multipoint));
    assert_eq!(with(7, 0), Err(Refused::MyDiscr));
    assert_eq!(with(11, 0), Err(Refused::YourDiscr));
    let mut authenticated = [0; 26];
    authenticated[..PACKET_LEN].copy_from_slice(&BYTES);
    (authenticated[1], authenticated[3]) = (0xc4, 26);
    assert_eq!(Packet::parse(&authenticated), Err(Refused::Authenticated));
    authenticated[3] = 24;
    assert_eq!(Packet::parse(&authenticated), Err(Refused::Length), "no room for its section");
}

proptest! {
    #[test]
    fn what_is_parsed_is_written_the_same(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        if let Ok(packet) = Packet::parse(&bytes) {
            prop_assert_eq!(Packet::parse(&packet.to_bytes()), Ok(packet));
        }
    }
}
