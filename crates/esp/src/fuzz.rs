//! Entry points for fuzz targets: any bytes may be given, nothing may panic.

use crypto::{AesKey, Cipher, IcvLen, Integrity, JobStatus, Session, Suite};
use wire::{Span, parse_ip};

use crate::iv::IvSource;
use crate::live_numbers::LiveNumbers;
use crate::open::Opened;
use crate::params::{Mode, SaFlags, SaParams, UdpEncap};
use crate::sa::Sa;

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
    let address = if v4 { "192.0.2.1" } else { "2001:db8::1" }.parse().ok()?;
    let params = SaParams {
        spi: 0x100,
        src: address,
        dst: address,
        mode: if choice & 4 == 0 { Mode::Tunnel } else { Mode::Transport },
        suite,
        encap: (choice & 8 != 0).then_some(UdpEncap { src_port: 4500, dst_port: 4500 }),
        esn: choice & 16 != 0,
        replay_window: 64,
        tfc_pad_len: if choice & 32 != 0 { 200 } else { 0 },
        flags: SaFlags { decap_dscp: choice & 64 != 0, ..SaFlags::default() },
    };
    Sa::new(params, Session::new(suite, Box::new(())), LiveNumbers::on_heap(64)).ok()
}
