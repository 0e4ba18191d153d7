//! Entry points for fuzz targets: any bytes may be given, nothing may panic.

use crypto::{AesKey, Cipher, IcvLen, Integrity, JobStatus, Session, Suite};
use wire::{Span, parse_ip, protocol};

use crate::ipcomp::Deflate;
use crate::iv::IvSource;
use crate::live_numbers::LiveNumbers;
use crate::open::Opened;
use crate::params::{Mode, Protocol, SaFlags, SaParams, UdpEncap};
use crate::sa::Sa;
use crate::size::MAX_IP_LEN;

/// Treats `data` as an outer IP packet whose ESP text is decrypted already, as if the sender knew
/// the keys. The first byte chooses the SA.
///
/// # Panics
/// When what is handed out does not lie inside the packet.
pub fn open(data: &[u8]) {
    let Some((choice, packet)) = data.split_first() else { return };
    let Ok(h) = parse_ip(packet) else { return };
    let Some(sa) = sa(*choice, h.src.is_ipv4()) else { return };
    let mut buf = packet.to_vec();
    let outer = Span { start: 0, len: usize::from(h.total_len) };
    let esp_at = usize::from(h.header_len) + if sa.params().encap.is_some() { 8 } else { 0 };
    let Some(esp_len) = outer.len.checked_sub(esp_at) else { return };
    let esp = Span { start: esp_at, len: esp_len };
    let Ok(opening) = sa.open_prepare(&buf, esp) else { return };
    match sa.open_finish(&mut buf, outer, &h, &opening, JobStatus::Done, 1) {
        Ok(Opened::Packet { span, headers }) => {
            assert!(span.end() <= outer.end());
            assert_eq!(headers, parse_ip(&buf[span.range()]));
            assert!(
                headers.is_err() || headers.is_ok_and(|h| usize::from(h.total_len) == span.len)
            );
        }
        Ok(Opened::Aggfrag(span)) => assert!(span.end() <= outer.end()),
        Ok(Opened::Dummy) => {}
        Err(_) => assert!(buf[esp.range()].iter().all(|b| *b == 0), "plaintext left behind"),
    }
}

/// Treats `data` as a cleartext packet to be sealed. The first byte chooses the SA, the second
/// the room in front of the packet.
///
/// # Panics
/// When the sealed packet does not parse, or its parts do not fit together.
pub fn seal(data: &[u8]) {
    let [choice, room, packet @ ..] = data else { return };
    let Ok(h) = parse_ip(packet) else { return };
    let Some(sa) = sa(*choice, choice & 0x80 == 0) else { return };
    let room = usize::from(*room);
    let mut buf = vec![0; room];
    buf.extend_from_slice(packet);
    buf.resize(buf.len() + room, 0);
    let span = Span { start: room, len: packet.len() };
    let mut ivs = IvSource::from_seed([0; 32]);
    let number = sa.lease(1).ok().and_then(|mut lease| lease.next());
    let Some(number) = number else { unreachable!("the first number") };
    let sealing = sa.seal_prepare(&mut buf, span, &h, number, &mut ivs, 1500);
    let Ok(sealing) = sealing else { return };
    let Ok(sealed) = sa.seal_finish(&mut buf, &sealing, JobStatus::Done) else {
        unreachable!("the job succeeded")
    };
    let outer = parse_ip(&buf[sealed.range()]);
    assert_eq!(outer.map(|h| usize::from(h.total_len)), Ok(sealed.len));
    assert_eq!(sealing.esp.end(), sealed.end());
}

/// Treats `data` as a packet with AH whose ICV is right, and as one that gets AH and loses it again. The
/// first byte chooses the SA.
///
/// # Panics
/// When a result does not lie inside the packet, or is not the packet that was put in.
pub fn ah(data: &[u8]) {
    let Some((choice, packet)) = data.split_first() else { return };
    let Ok(h) = parse_ip(packet) else { return };
    let is_v4 = if choice & 4 == 0 { choice & 8 == 0 } else { h.src.is_ipv4() };
    let behind = packet.len() + 100;
    if let Some(sa) = ah_sa(*choice, h.src.is_ipv4()) {
        let mut buf = packet.to_vec();
        buf.resize(packet.len() + behind, 0);
        let outer = Span { start: 0, len: h.total_len.into() };
        if let Some(Opened::Packet { span, headers }) = lose_ah(&sa, &mut buf, outer) {
            assert!(span.end() <= outer.end());
            assert_eq!(headers, parse_ip(&buf[span.range()]));
        }
    }
    let (Some(tx), Some(rx)) = (ah_sa(*choice, is_v4), ah_sa(*choice, is_v4)) else { return };
    let mut buf = vec![0; 128];
    buf.extend_from_slice(packet);
    buf.resize(buf.len() + behind, 0);
    let span = Span { start: 128, len: packet.len() };
    let number = tx.lease(1).ok().and_then(|mut lease| lease.next());
    let Some(number) = number else { unreachable!("the first number") };
    let mut ivs = IvSource::from_seed([0; 32]);
    let Ok(sealing) = tx.seal_prepare(&mut buf, span, &h, number, &mut ivs, 1500) else { return };
    let Ok(sealed) = tx.seal_finish(&mut buf, &sealing, JobStatus::Done) else {
        unreachable!("the job succeeded")
    };
    assert_eq!(parse_ip(&buf[sealed.range()]).map(|h| usize::from(h.total_len)), Ok(sealed.len));
    buf.resize(buf.len() + behind, 0);
    let Some(Opened::Packet { span, .. }) = lose_ah(&rx, &mut buf, sealed) else {
        unreachable!("it has AH now")
    };
    // The checksum of IPv4 is computed anew: it may be spelled in two ways.
    let (total, headers) = (usize::from(h.total_len), usize::from(h.header_len));
    assert_eq!(buf[span.range()][headers..], packet[headers..total]);
}

/// Treats `data` as a packet of IPComp, or of IP in IP, that has been decrypted, and as one that is compressed
/// and becomes itself again. The first byte chooses the SA.
///
/// # Panics
/// When a result does not lie inside the buffer, or is not the packet that was put in.
pub fn ipcomp(data: &[u8]) {
    let Some((choice, packet)) = data.split_first() else { return };
    let Ok(h) = parse_ip(packet) else { return };
    let mut deflate = Deflate::new();
    let is_plain = choice & 2 != 0;
    if let Some(sa) = comp_sa(*choice, is_plain, h.src.is_ipv4())
        && let Some((buf, Opened::Packet { span, headers })) = unpack(&sa, packet, &mut deflate)
    {
        assert_eq!(headers, buf.get(span.range()).map_or(headers, parse_ip));
        assert!(span.end() <= buf.len());
    }
    let is_v4 = if choice & 4 == 0 { choice & 8 == 0 } else { h.src.is_ipv4() };
    let Some(tx) = comp_sa(*choice, false, is_v4) else { return };
    let mut buf = vec![0; 64];
    buf.extend_from_slice(packet);
    let span = Span { start: 64, len: packet.len() };
    let Ok(sent) = tx.compress(&mut buf, span, &h, &mut deflate) else { return };
    let sent = &buf[sent.range()];
    let outer = parse_ip(sent);
    assert_eq!(outer.map(|h| usize::from(h.total_len)), Ok(sent.len()));
    // In transport mode: a packet that is not compressed is what it was, IPComp or not.
    if choice & 4 != 0 && Some(sent) == packet.get(..h.total_len.into()) {
        return;
    }
    let is_compressed = outer.is_ok_and(|h| h.protocol == protocol::IPCOMP);
    assert!(is_compressed || choice & 4 == 0, "it is neither what it was nor compressed");
    let Some(rx) = comp_sa(*choice, !is_compressed, is_v4) else { return };
    match unpack(&rx, sent, &mut deflate) {
        Some((buf, Opened::Packet { span, .. })) => {
            // The checksum of IPv4 is computed anew: it may be spelled in two ways.
            let (total, headers) = (usize::from(h.total_len), usize::from(h.header_len));
            assert_eq!(buf[span.range()][headers..], packet[headers..total]);
        }
        // ECN that no router could have made, which the tunnel's exit refuses.
        _ => assert!(choice & 4 == 0, "it is what was sent"),
    }
}

/// Unpacks IPComp, or IP in IP: the inner packet, and its kind.
fn unpack(sa: &Sa, packet: &[u8], deflate: &mut Deflate) -> Option<(Vec<u8>, Opened)> {
    let h = parse_ip(packet).ok()?;
    let (mut at, total) = (usize::from(h.header_len), usize::from(h.total_len));
    let mut buf = packet.get(..total)?.to_vec();
    if sa.is_ipcomp() {
        at += Sa::IPCOMP_HEADER_LEN;
        let payload = sa.decompress(packet, &h, deflate, MAX_IP_LEN).ok()?;
        buf.truncate(at);
        buf.extend_from_slice(payload);
    }
    let outer = Span { start: 0, len: buf.len() };
    let opening = sa.open_bare(Span { start: at, len: buf.len() - at });
    let opened = sa.open_finish(&mut buf, outer, &h, &opening, JobStatus::Done, 1).ok()?;
    Some((buf, opened))
}

fn comp_sa(choice: u8, is_plain: bool, v4: bool) -> Option<Sa> {
    let protocol = match (is_plain, v4) {
        (false, _) => Protocol::IpComp,
        (true, true) => Protocol::IpInV4,
        (true, false) => Protocol::IpInV6,
    };
    let params = params(Suite::None, choice, v4)?;
    sa_with(SaParams { protocol, esn: false, replay_window: 0, ..params })
}

/// Takes AH from a packet as if its ICV were right.
fn lose_ah(sa: &Sa, buf: &mut [u8], packet: Span) -> Option<Opened> {
    let h = parse_ip(buf.get(packet.range())?).ok()?;
    let opening = sa.open_ah(buf, packet, (&h).into()).ok()?;
    assert!(opening.blank(buf, (&h).into()).is_some(), "as it was seen");
    sa.open_finish(buf, packet, &h, &opening, JobStatus::Done, 1).ok()
}

/// The algorithms that the first byte of an input chooses from.
const HASHES: [Integrity; 4] =
    [Integrity::Sha1_96, Integrity::Sha256_128, Integrity::Sha384_192, Integrity::Sha512_256];

fn ah_sa(choice: u8, v4: bool) -> Option<Sa> {
    let suite = Suite::integrity_only(HASHES[usize::from(choice & 3)]);
    sa_with(SaParams {
        protocol: Protocol::Ah,
        flags: SaFlags { align4: choice & 32 != 0, ..SaFlags::default() },
        ..params(suite, choice, v4)?
    })
}

fn sa(choice: u8, v4: bool) -> Option<Sa> {
    let suite = match choice & 3 {
        0 => Suite::AesGcm { key: AesKey::Aes128, icv: IcvLen::Icv16 },
        1 => Suite::Separate {
            cipher: Cipher::AesCbc(AesKey::Aes128),
            integrity: Integrity::Sha256_128,
        },
        2 => Suite::ChaCha20Poly1305,
        _ => Suite::integrity_only(Integrity::Sha1_96),
    };
    sa_with(SaParams {
        encap: (choice & 8 != 0).then_some(UdpEncap { src_port: 4500, dst_port: 4500 }),
        tfc_pad_len: if choice & 32 != 0 { 200 } else { 0 },
        flags: SaFlags { decap_dscp: choice & 64 != 0, ..SaFlags::default() },
        ..params(suite, choice, v4)?
    })
}

/// Parameters that fit ESP and AH alike, chosen by the bits of `choice`.
fn params(suite: Suite, choice: u8, v4: bool) -> Option<SaParams> {
    let address = if v4 { "192.0.2.1" } else { "2001:db8::1" }.parse().ok()?;
    Some(SaParams {
        spi: 0x100,
        src: address,
        dst: address,
        protocol: Protocol::Esp,
        mode: if choice & 4 == 0 { Mode::Tunnel } else { Mode::Transport },
        suite,
        encap: None,
        esn: choice & 16 != 0,
        replay_window: 64,
        tfc_pad_len: 0,
        flags: SaFlags::default(),
    })
}

fn sa_with(params: SaParams) -> Option<Sa> {
    let session = Session::new(params.suite, Box::new(()));
    Sa::new(params, session, LiveNumbers::on_heap(64)).ok()
}
