//! IPComp (RFC 3173): what zlib has compressed is what it was; what is compressed becomes itself again, whatever
//! it is; and what is no deflate stream, or too long a one, is refused.

use crate::common::params;
use crate::common::vector::{hex, lines};
use crypto::{JobStatus, Session, Suite};
use esp::{Deflate, LiveNumbers, Mode, Opened, Protocol, Sa, SaError, SaParams};
use outcome::DropReason;
use proptest::prelude::*;
use wire::{Span, parse_ip, protocol};

/// As long as any packet.
const MOST: usize = u16::MAX as usize;

const CPI: u32 = 0x1234;

/// A packet that a tunnel carries.
fn inner(v4: bool, payload: &[u8]) -> Vec<u8> {
    let (src, dst) = if v4 { ("10.1.0.5", "10.2.0.9") } else { ("2001:db8:1::5", "2001:db8:2::9") };
    let udp = crate::common::udp(1000, 2000, payload);
    let mut packet =
        crate::common::ip(src.parse().unwrap(), dst.parse().unwrap(), 0, true, protocol::UDP, &udp);
    let h = parse_ip(&packet).unwrap();
    wire::fill_l4_checksum(&mut packet, &h);
    packet
}

/// A packet between the SA's own end points.
fn own(v4: bool, payload: &[u8]) -> Vec<u8> {
    crate::common::own(
        &params(Suite::None, v4),
        protocol::UDP,
        &crate::common::udp(1000, 2000, payload),
    )
}

fn comp(v4: bool, mode: Mode) -> SaParams {
    let bare = SaParams { spi: CPI, protocol: Protocol::IpComp, mode, ..params(Suite::None, v4) };
    SaParams { replay_window: 0, ..bare }
}

/// The SA beside a tunnel.
fn plain(v4: bool) -> SaParams {
    let protocol = if v4 { Protocol::IpInV4 } else { Protocol::IpInV6 };
    SaParams { protocol, spi: 1, ..comp(v4, Mode::Tunnel) }
}

fn sa(params: SaParams) -> Sa {
    Sa::new(params, Session::none(), LiveNumbers::on_heap(0)).unwrap()
}

fn compress(sa: &Sa, packet: &[u8], deflate: &mut Deflate) -> Result<Vec<u8>, DropReason> {
    let mut buf = vec![0x5a; 64];
    buf.extend_from_slice(packet);
    buf.extend([0x5a; 8]);
    let span = Span { start: 64, len: packet.len() };
    let sent = sa.compress(&mut buf, span, &parse_ip(packet).unwrap(), deflate)?;
    assert!(sent.end() <= span.end(), "it never becomes longer behind");
    assert!(buf[..sent.start].iter().chain(&buf[span.end()..]).all(|b| *b == 0x5a));
    Ok(buf[sent.range()].to_vec())
}

fn unpack(sa: &Sa, packet: &[u8], deflate: &mut Deflate) -> Result<Vec<u8>, DropReason> {
    let h = parse_ip(packet).unwrap();
    let mut at = usize::from(h.header_len);
    let mut buf = packet.to_vec();
    if sa.is_ipcomp() {
        let payload = sa.decompress(packet, &h, deflate, MOST)?;
        at += Sa::IPCOMP_HEADER_LEN;
        buf.truncate(at);
        buf.extend_from_slice(payload);
    }
    let outer = Span { start: 0, len: buf.len() };
    let opening = sa.open_bare(Span { start: at, len: buf.len() - at });
    assert!(!opening.has_job() && !opening.is_esp());
    match sa.open_finish(&mut buf, outer, &h, &opening, JobStatus::Done, 1)? {
        Opened::Packet { span, headers } => {
            assert!(headers.is_ok());
            Ok(buf[span.range()].to_vec())
        }
        Opened::Dummy | Opened::Aggfrag(_) => panic!("there are no such"),
    }
}

#[test]
fn what_zlib_has_compressed_is_what_it_was() {
    let mut deflate = Deflate::new();
    let mut count = 0;
    for (line, fields) in lines(include_str!("../vectors/zlib_ipcomp.txt")) {
        let [mode, next_header, clear, packet] = fields[..] else { panic!("line {line}") };
        let mode = if mode == "tunnel" { Mode::Tunnel } else { Mode::Transport };
        let (clear, packet) = (hex(clear), hex(packet));
        let rx = sa(comp(packet[0] >> 4 == 4, mode));
        let at = usize::from(parse_ip(&packet).unwrap().header_len);
        assert_eq!(packet[at].to_string(), next_header);
        assert_eq!(unpack(&rx, &packet, &mut deflate), Ok(clear), "line {line}");
        count += 1;
    }
    assert_eq!(count, 48);
}

/// Bytes of which a part repeats: from noise to what shrinks to almost nothing.
fn payload() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop::collection::vec(any::<u8>(), 1..40);
    let repeated = (piece, 1usize..60).prop_map(|(piece, times)| piece.repeat(times));
    prop::collection::vec(repeated, 0..6).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn what_is_compressed_becomes_itself_again(
        payload in payload(), v4: bool, inner_v4: bool, is_tunnel: bool,
    ) {
        let mut deflate = Deflate::new();
        let mode = if is_tunnel { Mode::Tunnel } else { Mode::Transport };
        let packet = match is_tunnel {
            true => inner(inner_v4, &payload),
            false => own(v4, &payload),
        };
        let tx = sa(comp(v4, mode));
        let sent = compress(&tx, &packet, &mut deflate).unwrap();
        let h = parse_ip(&sent).unwrap();
        prop_assert_eq!(usize::from(h.total_len), sent.len());
        if h.protocol == protocol::IPCOMP {
            prop_assert!(sent.len() < packet.len() + tx.headroom(), "compression saves something");
            let at = usize::from(h.header_len);
            prop_assert_eq!(&sent[at + 1..at + 4], &[0, 0x12, 0x34][..]);
            prop_assert_eq!(unpack(&sa(comp(v4, mode)), &sent, &mut deflate), Ok(packet));
        } else if is_tunnel {
            prop_assert_eq!(h.protocol, if inner_v4 { protocol::IPV4 } else { protocol::IPV6 });
            prop_assert_eq!(unpack(&sa(plain(v4)), &sent, &mut deflate), Ok(packet));
        } else {
            prop_assert_eq!(sent, packet);
        }
    }

    /// A receiver that trusts nobody: whatever bytes follow the header, nothing panics, and what comes out
    /// is no longer than an IP packet.
    #[test]
    fn any_stream_is_taken_or_refused(stream in prop::collection::vec(any::<u8>(), 0..200)) {
        let payload = [&[protocol::UDP, 0, 0x12, 0x34][..], &stream].concat();
        let packet = crate::common::own(&params(Suite::None, true), protocol::IPCOMP, &payload);
        let rx = sa(comp(true, Mode::Transport));
        let h = parse_ip(&packet).unwrap();
        if let Ok(payload) = rx.decompress(&packet, &h, &mut Deflate::new(), MOST) {
            prop_assert!(payload.len() + 20 <= 65535);
        }
    }
}

/// A packet below Linux's threshold goes as it is, however well it would compress.
#[test]
fn short_ones_are_not_compressed() {
    let tx = sa(comp(true, Mode::Transport));
    for (len, is_compressed) in [(81, false), (82, true)] {
        let sent = compress(&tx, &own(true, &vec![7; len]), &mut Deflate::new()).unwrap();
        let protocol = parse_ip(&sent).unwrap().protocol;
        assert_eq!(protocol == protocol::IPCOMP, is_compressed, "{len} bytes behind UDP's header");
    }
}

#[test]
fn sas_have_neither_numbers_nor_algorithms() {
    let make = |params: SaParams| {
        let session = match params.suite {
            Suite::None => Session::none(),
            suite => Session::new(suite, Box::new(())),
        };
        Sa::new(params, session, LiveNumbers::on_heap(64)).map(|_| ())
    };
    let good = comp(true, Mode::Tunnel);
    assert_eq!(make(good.clone()), Ok(()));
    let bad = [
        SaParams { spi: 0x1_0000, ..good.clone() },
        SaParams { esn: true, ..good.clone() },
        SaParams { replay_window: 32, ..good.clone() },
        SaParams { encap: crate::common::NATT, ..good.clone() },
        SaParams { tfc_pad_len: 9, ..good.clone() },
        SaParams { suite: crate::common::GCM, ..good },
        SaParams { mode: Mode::Transport, ..plain(true) },
    ];
    for params in bad {
        assert_eq!(make(params.clone()), Err(SaError::IpComp), "{params:?}");
    }
    let esp = params(Suite::None, true);
    assert_eq!(make(esp), Err(SaError::NoAlgorithm));
}
