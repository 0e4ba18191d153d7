//! The settings of IP-TFS mode (`XFRMA_IPTFS_*`), as Linux checks and tells them.

use core::net::IpAddr;

use policy::Iptfs;

use crate::codec::{Attributes, MessageWriter, SaInfo, attr, constant as c};
use crate::failure::Failure;
use crate::suite::Algorithms;

/// True if a request has a setting of inbound IP-TFS.
pub(super) fn is_inbound(a: &Attributes<'_>) -> bool {
    [attr::IPTFS_DROP_TIME, attr::IPTFS_REORDER_WINDOW].into_iter().any(|kind| a.has(kind))
}

/// True if a request has a setting of outbound IP-TFS.
pub(super) fn is_outbound(a: &Attributes<'_>) -> bool {
    let of_outbound = [
        attr::IPTFS_DONT_FRAG,
        attr::IPTFS_INIT_DELAY,
        attr::IPTFS_MAX_QSIZE,
        attr::IPTFS_PKT_SIZE,
    ];
    of_outbound.into_iter().any(|kind| a.has(kind))
}

/// Checks protocol and direction of an SA of the mode.
pub(super) fn fits(info: &SaInfo, direction: Option<u8>) -> Result<(), Failure> {
    match info.mode {
        c::MODE_IPTFS if info.id.protocol != c::IPPROTO_ESP => Err(Failure::IptfsProtocol),
        c::MODE_IPTFS if direction.is_none() => Err(Failure::IptfsDirection),
        _ => Ok(()),
    }
}

/// The settings of an SA of the mode, Linux's defaults where the request has none.
pub(super) fn settings(
    info: &SaInfo,
    a: &Attributes<'_>,
    algorithms: &Algorithms,
    has_udp: bool,
) -> Result<Option<Iptfs>, Failure> {
    if info.mode != c::MODE_IPTFS {
        return Ok(None);
    }
    let default = Iptfs::default();
    let number = |kind, default| a.value::<u32>(kind).unwrap_or(default);
    let settings = Iptfs {
        drop_time_us: number(attr::IPTFS_DROP_TIME, default.drop_time_us),
        reorder_window: a.value(attr::IPTFS_REORDER_WINDOW).unwrap_or(default.reorder_window),
        dont_fragment: a.has(attr::IPTFS_DONT_FRAG),
        init_delay_us: number(attr::IPTFS_INIT_DELAY, default.init_delay_us),
        max_queue_bytes: number(attr::IPTFS_MAX_QSIZE, default.max_queue_bytes),
        packet_len: number(attr::IPTFS_PKT_SIZE, default.packet_len),
        rate: None,
    };
    let (suite, _) = algorithms.suite()?;
    let outer_ip = match info.id.dst.ip(info.family) {
        Some(IpAddr::V6(_)) => 40,
        _ => 20,
    };
    let udp = if has_udp { 8 } else { 0 };
    let headers = outer_ip + udp + ESP_AND_AGGFRAG + suite.iv_len_bytes();
    match settings.packet_len {
        0 => Ok(Some(settings)),
        len if len as usize > headers => Ok(Some(settings)),
        _ => Err(Failure::IptfsPacketSize),
    }
}

/// Appends an SA's settings: those of its direction.
pub(super) fn put(w: &mut MessageWriter, settings: &Iptfs, direction: Option<u8>) {
    if direction == Some(c::SA_DIR_IN) {
        w.field(attr::IPTFS_DROP_TIME, &settings.drop_time_us);
        w.field(attr::IPTFS_REORDER_WINDOW, &settings.reorder_window);
        return;
    }
    if settings.dont_fragment {
        w.attribute(attr::IPTFS_DONT_FRAG, &[]);
    }
    w.field(attr::IPTFS_INIT_DELAY, &settings.init_delay_us);
    w.field(attr::IPTFS_MAX_QSIZE, &settings.max_queue_bytes);
    w.field(attr::IPTFS_PKT_SIZE, &settings.packet_len);
}

/// Bytes of ESP's header, and of that of AGGFRAG payloads (RFC 9347, section 6.1.1).
const ESP_AND_AGGFRAG: usize = 8 + 4;

#[cfg(test)]
mod tests {
    use super::super::direction::direction_of;
    use super::super::verify::new_sa;
    use super::*;
    use crate::codec::{AF_INET, Be32, Field, Header, Id, SelectorInfo, kind};

    fn info(mode: u8) -> SaInfo {
        let ip = |last| IpAddr::from([192, 0, 2, last]).into();
        SaInfo {
            id: Id { dst: ip(2), spi: Be32(0x1001), protocol: c::IPPROTO_ESP, ..Id::default() },
            src: ip(1),
            family: AF_INET,
            selector: SelectorInfo { family: AF_INET, ..SelectorInfo::default() },
            mode,
            ..SaInfo::default()
        }
    }

    /// The settings of an SA of AES-GCM with these attributes.
    fn settle(info: SaInfo, attributes: impl FnOnce(&mut MessageWriter)) -> Result<Iptfs, Failure> {
        let mut aead = b"rfc4106(gcm(aes))".to_vec();
        aead.resize(64, 0);
        aead.extend(160u32.to_ne_bytes());
        aead.extend(128u32.to_ne_bytes());
        aead.extend([5; 20]);
        let mut w = MessageWriter::new(kind::NEWSA, 0, 1, 0);
        w.attribute(attr::ALG_AEAD, &aead);
        attributes(&mut w);
        let message = w.finish();
        let a = Attributes::parse(&message[Header::LEN..]).map_err(|e| Failure::Attribute {
            kind: e.kind,
            offset: 0,
            errno: e.errno,
        })?;
        let direction = direction_of(&a);
        let settings = new_sa(info, &a)?.options.iptfs.map_or_else(Iptfs::default, |boxed| *boxed);
        // Reports the requested settings, not the effective ones.
        let mut w = MessageWriter::new(kind::NEWSA, 0, 1, 0);
        put(&mut w, &settings, direction);
        let told = w.finish();
        let told = Attributes::parse(&told[Header::LEN..]).expect("sound");
        let inbound = direction == Some(c::SA_DIR_IN);
        assert_eq!((is_inbound(&told), is_outbound(&told)), (inbound, !inbound));
        Ok(settings)
    }

    fn sent(dir: u8, kind: u16, value: &[u8]) -> Result<Iptfs, Failure> {
        settle(info(c::MODE_IPTFS), |w| {
            w.field(attr::SA_DIR, &dir);
            w.attribute(kind, value);
        })
    }

    #[test]
    fn settings_are_of_their_direction() {
        let [inbound, outbound] = [c::SA_DIR_IN, c::SA_DIR_OUT];
        let word = |value: u32| value.to_ne_bytes();
        let default = Iptfs::default();
        let drop_time = sent(inbound, attr::IPTFS_DROP_TIME, &word(7));
        assert_eq!(drop_time, Ok(Iptfs { drop_time_us: 7, ..default }));
        let window = sent(inbound, attr::IPTFS_REORDER_WINDOW, &9u16.to_ne_bytes());
        assert_eq!(window, Ok(Iptfs { reorder_window: 9, ..default }));
        let whole = sent(outbound, attr::IPTFS_DONT_FRAG, &[]);
        assert_eq!(whole, Ok(Iptfs { dont_fragment: true, ..default }));
        let delay = sent(outbound, attr::IPTFS_INIT_DELAY, &word(7));
        assert_eq!(delay, Ok(Iptfs { init_delay_us: 7, ..default }));
        let queue = sent(outbound, attr::IPTFS_MAX_QSIZE, &word(0));
        assert_eq!(queue, Ok(Iptfs { max_queue_bytes: 0, ..default }));
        // 20 of IPv4, 8 of ESP, 8 of its IV, 4 of AGGFRAG, and something.
        let len = |len| sent(outbound, attr::IPTFS_PKT_SIZE, &word(len));
        assert_eq!(len(41), Ok(Iptfs { packet_len: 41, ..default }));
        assert_eq!(len(40), Err(Failure::IptfsPacketSize));
        assert_eq!(len(0), Ok(default));
        assert_eq!(sent(outbound, attr::IPTFS_DROP_TIME, &word(7)), Err(Failure::OutboundIptfs));
        assert_eq!(sent(inbound, attr::IPTFS_INIT_DELAY, &word(7)), Err(Failure::InboundIptfs));
        assert_eq!(sent(inbound, attr::IPTFS_DONT_FRAG, &[]), Err(Failure::InboundIptfs));
    }

    #[test]
    fn the_mode_asks_for_esp_and_a_direction() {
        let out = |w: &mut MessageWriter| {
            w.field(attr::SA_DIR, &c::SA_DIR_OUT);
        };
        assert_eq!(settle(info(c::MODE_IPTFS), |_| {}), Err(Failure::IptfsDirection));
        assert_eq!(
            settle(info(c::MODE_TUNNEL), |w| {
                w.attribute(attr::IPTFS_DONT_FRAG, &[]);
            }),
            Err(Failure::IptfsOptions)
        );
        let mut other_family = info(c::MODE_IPTFS);
        other_family.selector.family = crate::codec::AF_INET6;
        assert_eq!(settle(other_family, out), Ok(Iptfs::default()));
        let direction = Some(c::SA_DIR_OUT);
        let mut ah = info(c::MODE_IPTFS);
        ah.id.protocol = c::IPPROTO_AH;
        assert_eq!(fits(&ah, direction), Err(Failure::IptfsProtocol));
        ah.mode = c::MODE_TUNNEL;
        assert_eq!(fits(&ah, direction), Ok(()));
    }

    #[test]
    fn lengths_are_strict() {
        let errno = |kind, value: &[u8]| sent(c::SA_DIR_OUT, kind, value).map_err(|f| f.errno());
        assert_eq!(errno(attr::IPTFS_INIT_DELAY, &[0; 5]), Err(libc::EINVAL));
        assert_eq!(errno(attr::IPTFS_REORDER_WINDOW, &[0; 4]), Err(libc::EINVAL));
        assert_eq!(errno(attr::IPTFS_DONT_FRAG, &[0]), Err(libc::ERANGE));
    }
}
