//! Messages of FRR's `bfdd`.

use core::net::IpAddr;

use bfd::dplane::{Body, Message, Peer, Wrong, counters, echo_reply, parse, state_change};
use bfd::{Session, Settings};
use proptest::prelude::*;

const SETTINGS: Settings = Settings {
    discr: 0x0102_0304,
    min_tx: 50_000,
    min_rx: 60_000,
    min_echo_rx: 50_000,
    detect_mult: 3,
    is_passive: false,
    is_shut: false,
    is_independent: false,
};

/// A session as `struct bfddp_session` of version 1 lies in memory: offsets counted by hand.
fn add(flags: u32, src: &[u8], dst: &[u8]) -> Vec<u8> {
    let mut bytes = vec![1, 0, 0, 2, 0, 0, 0, 140];
    bytes.extend_from_slice(&flags.to_be_bytes());
    for addr in [src, dst] {
        bytes.extend_from_slice(addr);
        bytes.resize(bytes.len() + 16 - addr.len(), 0);
    }
    for word in
        [SETTINGS.discr, SETTINGS.min_tx, SETTINGS.min_rx, 40_000, SETTINGS.min_echo_rx, 500]
    {
        bytes.extend_from_slice(&word.to_be_bytes());
    }
    bytes.extend_from_slice(&[254, SETTINGS.detect_mult, 0, 0]);
    bytes.extend_from_slice(&7_u32.to_be_bytes());
    bytes.extend_from_slice(b"wan");
    bytes.resize(140, 0);
    bytes
}

fn peer(bytes: &[u8]) -> Peer {
    match parse(bytes).expect("a message").expect("whole") {
        (Message { body: Body::Add(peer), .. }, _) => *peer,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_session_is_read_as_frr_lays_it_out() {
    let bytes = add(0b1000_0001 & 0x7f, &[192, 0, 2, 1], &[192, 0, 2, 2]);
    let wanted = Peer {
        settings: SETTINGS,
        src: "192.0.2.1".parse::<IpAddr>().unwrap(),
        dst: "192.0.2.2".parse().unwrap(),
        is_multi_hop: true,
        min_ttl: 254,
        hold_ms: 500,
        ifindex: 7,
        wants_echo: false,
        lacks: None,
    };
    assert_eq!(peer(&bytes), wanted);
    let v6: [u8; 16] = "2001:db8::2".parse::<core::net::Ipv6Addr>().unwrap().octets();
    let found = peer(&add(1 << 4 | 1 << 5 | 1 << 6, &v6, &v6));
    assert_eq!(found.dst, "2001:db8::2".parse::<IpAddr>().unwrap());
    assert!(found.settings.is_passive && found.settings.is_shut);
    let echo = peer(&add(1 << 3, &[0; 4], &[192, 0, 2, 2]));
    assert_eq!((echo.lacks, echo.wants_echo), (None, true));
}

#[test]
fn version_2_appends_what_is_named_as_lacking() {
    let mut bytes = add(0, &[192, 0, 2, 1], &[192, 0, 2, 2]);
    bytes.resize(8 + 348, 0);
    bytes[0] = 2;
    bytes[6..8].copy_from_slice(&356_u16.to_be_bytes());
    assert_eq!(peer(&bytes).lacks, None);
    bytes[140] = 2;
    assert_eq!(peer(&bytes).lacks, Some("seamless BFD, or BFD over SRv6"));
}

#[test]
fn bytes_that_are_no_message_are_refused_by_name() {
    let good = add(0, &[192, 0, 2, 1], &[192, 0, 2, 2]);
    let with = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        parse(&bytes)
    };
    assert_eq!(with(0, 3), Err(Wrong::Version(3)));
    assert_eq!(with(3, 4), Err(Wrong::Type(4)), "data planes send it");
    assert_eq!(with(7, 7), Err(Wrong::Length(7)));
    assert_eq!(with(6, 0xff), Err(Wrong::Length(0xff8c)));
    assert_eq!(with(7, 100), Err(Wrong::Length(100)));
    assert_eq!(with(8 + 61, 0), Err(Wrong::Session));
    assert_eq!(parse(&good[..7]), Ok(None));
    assert_eq!(parse(&good[..139]), Ok(None));
}

#[test]
fn answers_are_laid_out_as_frr_reads_them() {
    let session = Session::new(SETTINGS, 0);
    let bytes = state_change(1, &session.standing());
    assert_eq!(bytes[..8], [1, 0, 0, 4, 0, 0, 0, 36]);
    assert_eq!(bytes[8..12], SETTINGS.discr.to_be_bytes());
    assert_eq!(bytes[32..36], [1, 0, 0, 0], "down, and nothing heard");
    let bytes = counters(2, 9, SETTINGS.discr, session.counts());
    assert_eq!((bytes.len(), &bytes[..8]), (80, &[2, 0, 0, 6, 0, 9, 0, 80][..]));
    let bytes = echo_reply(1, 3, (0x11, 0x22));
    assert_eq!((bytes.len(), bytes[15], bytes[23]), (24, 0x11, 0x22));
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), kind in 0..8_u8, version in 0..4_u8) {
        let mut bytes = bytes;
        if bytes.len() >= 8 {
            (bytes[0], bytes[2], bytes[3]) = (version, 0, kind);
            let len = (bytes.len() as u16).to_be_bytes();
            bytes[6..8].copy_from_slice(&len);
        }
        if let Ok(Some((_, len))) = parse(&bytes) {
            prop_assert!(len <= bytes.len());
        }
    }
}
