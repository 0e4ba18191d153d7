//! Sessions of L2TPv3 with Ethernet inside (`ip l2tp`): what Linux says of them (`linux/l2tp.h`).
//!
//! An interface of L2TP has no kind and no settings among the links. Tunnels and sessions are a family of generic netlink
//! of their own, and a session says the name of its interface.

use core::net::IpAddr;
use std::collections::BTreeMap;

use netlink::Attributes;
use netlink::attribute::{as_ip, as_text, as_u32, u16_at};

use crate::generic::attributes;
use crate::overlay::{L2tpSession, Overlay, OverlayKind};

/// A tunnel, by what its outer headers have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tunnel {
    id: u32,
    local: IpAddr,
    remote: IpAddr,
    ports: Option<(u16, u16)>,
    has_udp_checksum: bool,
    has_zero_checksum6: bool,
    takes_zero_checksum6: bool,
}

/// A session with Ethernet inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Session {
    /// Name that its interface was made with.
    interface: String,
    tunnel: u32,
    numbers: L2tpSession,
    /// The first setting that is not in this model.
    more: Option<&'static str>,
}

/// A tunnel of version 3, from behind the netlink header. `None` for others.
pub(crate) fn tunnel(body: &[u8]) -> Option<Tunnel> {
    let about = attributes(body);
    let flag = |kind| about.find(kind).is_some();
    let addr = |v4, v6| about.find(v4).or_else(|| about.find(v6)).and_then(as_ip);
    let port = |kind| about.find(kind).and_then(|value| u16_at(value, 0));
    let ports = match number16(about, L2TP_ATTR_ENCAP_TYPE)? {
        L2TP_ENCAPTYPE_UDP => Some((port(L2TP_ATTR_UDP_SPORT)?, port(L2TP_ATTR_UDP_DPORT)?)),
        L2TP_ENCAPTYPE_IP => None,
        _ => return None,
    };
    let is_3 = byte(about, L2TP_ATTR_PROTO_VERSION) == Some(3);
    is_3.then_some(Tunnel {
        id: number32(about, L2TP_ATTR_CONN_ID)?,
        local: addr(L2TP_ATTR_IP_SADDR, L2TP_ATTR_IP6_SADDR)?,
        remote: addr(L2TP_ATTR_IP_DADDR, L2TP_ATTR_IP6_DADDR)?,
        ports,
        has_udp_checksum: byte(about, L2TP_ATTR_UDP_CSUM).is_some_and(|is| is != 0),
        has_zero_checksum6: flag(L2TP_ATTR_UDP_ZERO_CSUM6_TX),
        takes_zero_checksum6: flag(L2TP_ATTR_UDP_ZERO_CSUM6_RX),
    })
}

/// A session with Ethernet inside, from behind the netlink header. `None` for others.
pub(crate) fn session(body: &[u8]) -> Option<Session> {
    let about = attributes(body);
    if number16(about, L2TP_ATTR_PW_TYPE)? != L2TP_PWTYPE_ETH {
        return None;
    }
    let cookie = |kind| about.find(kind).unwrap_or_default().to_vec();
    let numbers = L2tpSession {
        id: number32(about, L2TP_ATTR_SESSION_ID)?,
        peer_id: number32(about, L2TP_ATTR_PEER_SESSION_ID)?,
        cookie: cookie(L2TP_ATTR_COOKIE),
        peer_cookie: cookie(L2TP_ATTR_PEER_COOKIE),
        ports: None,
        has_sublayer: None,
    };
    let is_on = |kind| byte(about, kind).is_some_and(|is| is != 0);
    let is_odd = |cookie: &Vec<u8>| !matches!(cookie.len(), 0 | 4 | 8);
    let more = if is_on(L2TP_ATTR_RECV_SEQ) || is_on(L2TP_ATTR_SEND_SEQ) {
        Some("seq")
    } else if is_odd(&numbers.cookie) {
        Some("cookie")
    } else if is_odd(&numbers.peer_cookie) {
        Some("peer_cookie")
    } else {
        None
    };
    let tunnel = number32(about, L2TP_ATTR_CONN_ID)?;
    let interface = about.find(L2TP_ATTR_IFNAME).map(as_text)?;
    Some(Session { interface, tunnel, numbers, more })
}

/// Overlays by the names of their interfaces. Of two sessions with one name, as one has stayed that its interface was
/// renamed from, nobody knows which is meant.
pub(crate) fn overlays(tunnels: &[Tunnel], sessions: Vec<Session>) -> BTreeMap<String, Overlay> {
    let mut overlays: BTreeMap<String, Overlay> = BTreeMap::new();
    for session in sessions {
        let Some(tunnel) = tunnels.iter().find(|tunnel| tunnel.id == session.tunnel) else {
            continue;
        };
        let Session { interface, numbers, more, .. } = session;
        let overlay = Overlay {
            local: Some(tunnel.local).filter(|addr| !addr.is_unspecified()),
            remote: Some(tunnel.remote).filter(|addr| !addr.is_unspecified()),
            has_udp_checksum: tunnel.has_udp_checksum,
            has_zero_checksum6: tunnel.has_zero_checksum6,
            takes_zero_checksum6: tunnel.takes_zero_checksum6,
            session: Some(L2tpSession { ports: tunnel.ports, ..numbers }),
            more,
            ..Overlay::new(OverlayKind::L2tp)
        };
        let place = overlays.entry(interface);
        place.and_modify(|other| other.more = Some("name (of two sessions)")).or_insert(overlay);
    }
    overlays
}

/// The same with what the interface's headroom says: Linux leaves that much in front of frames for the headers
/// (`l2tp_eth_adjust_mtu`), and does not tell of the sublayer otherwise.
pub(crate) fn with_headroom(overlay: &Overlay, headroom: Option<u16>) -> Overlay {
    let mut overlay = overlay.clone();
    if let Some(session) = &mut overlay.session {
        let in_udp = if session.ports.is_some() { UDP_HEADER_LEN + UDP_START_LEN } else { 0 };
        let without = in_udp + SESSION_LEN + session.cookie.len();
        session.has_sublayer = match headroom.map(usize::from) {
            Some(len) if len == without + SUBLAYER_LEN => Some(true),
            Some(len) if len == without => Some(false),
            _ => None,
        };
    }
    overlay
}

fn byte(about: Attributes<'_>, kind: u16) -> Option<u8> {
    about.find(kind)?.first().copied()
}

fn number16(about: Attributes<'_>, kind: u16) -> Option<u16> {
    u16_at(about.find(kind)?, 0)
}

fn number32(about: Attributes<'_>, kind: u16) -> Option<u32> {
    about.find(kind).and_then(as_u32)
}

/// Command whose dump lists all tunnels.
pub(crate) const L2TP_CMD_TUNNEL_GET: u8 = 4;
/// Command whose dump lists all sessions.
pub(crate) const L2TP_CMD_SESSION_GET: u8 = 8;

const UDP_HEADER_LEN: usize = 8;
/// Flags, version and a reserved word.
const UDP_START_LEN: usize = 4;
const SESSION_LEN: usize = 4;
const SUBLAYER_LEN: usize = 4;

const L2TP_ENCAPTYPE_UDP: u16 = 0;
const L2TP_ENCAPTYPE_IP: u16 = 1;
const L2TP_PWTYPE_ETH: u16 = 5;
const L2TP_ATTR_PW_TYPE: u16 = 1;
const L2TP_ATTR_ENCAP_TYPE: u16 = 2;
const L2TP_ATTR_PROTO_VERSION: u16 = 7;
const L2TP_ATTR_IFNAME: u16 = 8;
const L2TP_ATTR_CONN_ID: u16 = 9;
const L2TP_ATTR_SESSION_ID: u16 = 11;
const L2TP_ATTR_PEER_SESSION_ID: u16 = 12;
const L2TP_ATTR_UDP_CSUM: u16 = 13;
const L2TP_ATTR_COOKIE: u16 = 15;
const L2TP_ATTR_PEER_COOKIE: u16 = 16;
const L2TP_ATTR_RECV_SEQ: u16 = 18;
const L2TP_ATTR_SEND_SEQ: u16 = 19;
const L2TP_ATTR_IP_SADDR: u16 = 24;
const L2TP_ATTR_IP_DADDR: u16 = 25;
const L2TP_ATTR_UDP_SPORT: u16 = 26;
const L2TP_ATTR_UDP_DPORT: u16 = 27;
const L2TP_ATTR_IP6_SADDR: u16 = 31;
const L2TP_ATTR_IP6_DADDR: u16 = 32;
const L2TP_ATTR_UDP_ZERO_CSUM6_TX: u16 = 33;
const L2TP_ATTR_UDP_ZERO_CSUM6_RX: u16 = 34;

#[cfg(test)]
mod tests {
    use netlink::{Field as _, Header, MessageWriter};

    use super::*;

    /// A message's body, with these attributes.
    fn body(attributes: &[(u16, &[u8])]) -> Vec<u8> {
        let mut writer = MessageWriter::request(0, 0);
        writer.raw(&[0; 4]);
        for (kind, value) in attributes {
            writer.attribute(*kind, value);
        }
        writer.finish()[Header::LEN..].to_vec()
    }

    fn tunnel_with(more: &[(u16, &[u8])]) -> Vec<u8> {
        let all: &[(u16, &[u8])] = &[
            (L2TP_ATTR_PROTO_VERSION, &[3]),
            (L2TP_ATTR_CONN_ID, &7_u32.to_ne_bytes()),
            (L2TP_ATTR_ENCAP_TYPE, &L2TP_ENCAPTYPE_UDP.to_ne_bytes()),
            (L2TP_ATTR_UDP_CSUM, &[1]),
            (L2TP_ATTR_UDP_SPORT, &1701_u16.to_ne_bytes()),
            (L2TP_ATTR_UDP_DPORT, &1702_u16.to_ne_bytes()),
            (L2TP_ATTR_IP_SADDR, &[192, 0, 2, 1]),
            (L2TP_ATTR_IP_DADDR, &[192, 0, 2, 2]),
        ];
        body(&[all, more].concat())
    }

    fn session_with(more: &[(u16, &[u8])]) -> Vec<u8> {
        let all: &[(u16, &[u8])] = &[
            (L2TP_ATTR_CONN_ID, &7_u32.to_ne_bytes()),
            (L2TP_ATTR_SESSION_ID, &11_u32.to_ne_bytes()),
            (L2TP_ATTR_PEER_SESSION_ID, &12_u32.to_ne_bytes()),
            (L2TP_ATTR_PW_TYPE, &L2TP_PWTYPE_ETH.to_ne_bytes()),
            (L2TP_ATTR_IFNAME, b"l2tpeth0\0"),
            (L2TP_ATTR_COOKIE, &[1, 2, 3, 4]),
            (L2TP_ATTR_SEND_SEQ, &[0]),
            (L2TP_ATTR_RECV_SEQ, &[0]),
        ];
        body(&[all, more].concat())
    }

    fn only(tunnels: &[Vec<u8>], sessions: &[Vec<u8>]) -> Overlay {
        let tunnels: Vec<_> = tunnels.iter().filter_map(|body| tunnel(body)).collect();
        let sessions = sessions.iter().filter_map(|body| session(body)).collect();
        let all = overlays(&tunnels, sessions);
        assert_eq!(all.len(), 1, "{all:?}");
        all.get("l2tpeth0").expect("the one").clone()
    }

    #[test]
    fn a_session_has_the_addresses_of_its_tunnel_and_its_own_numbers() {
        let overlay = only(&[tunnel_with(&[])], &[session_with(&[])]);
        let ip = |n| Some(IpAddr::from([192, 0, 2, n]));
        assert_eq!((overlay.local, overlay.remote, overlay.more), (ip(1), ip(2), None));
        assert!(overlay.has_udp_checksum && !overlay.is_ip_inside);
        let session = overlay.session.expect("a session");
        assert_eq!((session.id, session.peer_id), (11, 12));
        assert_eq!(session.ports, Some((1701, 1702)));
        assert_eq!((session.cookie, session.peer_cookie), (vec![1, 2, 3, 4], vec![]));
    }

    #[test]
    fn over_ip_there_are_no_ports() {
        let tunnel = tunnel_with(&[(L2TP_ATTR_ENCAP_TYPE, &L2TP_ENCAPTYPE_IP.to_ne_bytes())]);
        let overlay = only(&[tunnel], &[session_with(&[])]);
        assert_eq!(overlay.session.expect("a session").ports, None);
    }

    #[test]
    fn headroom_tells_whether_there_is_a_sublayer() {
        let overlay = only(&[tunnel_with(&[])], &[session_with(&[])]);
        let told =
            |headroom| with_headroom(&overlay, headroom).session.expect("a session").has_sublayer;
        // UDP 8, version 4, session 4, cookie 4.
        let cases = [Some(20), Some(24), Some(8), None].map(told);
        assert_eq!(cases, [Some(false), Some(true), None, None]);
    }

    #[test]
    fn settings_that_are_not_in_the_model_are_named() {
        for (more, name) in [
            ((L2TP_ATTR_SEND_SEQ, &[1_u8][..]), "seq"),
            ((L2TP_ATTR_RECV_SEQ, &[1]), "seq"),
            ((L2TP_ATTR_COOKIE, &[1, 2, 3]), "cookie"),
            ((L2TP_ATTR_PEER_COOKIE, &[1]), "peer_cookie"),
        ] {
            let overlay = only(&[tunnel_with(&[])], &[session_with(&[more])]);
            assert_eq!(overlay.more, Some(name));
        }
        let two = [session_with(&[]), session_with(&[])];
        assert_eq!(only(&[tunnel_with(&[])], &two).more, Some("name (of two sessions)"));
    }

    #[test]
    fn ppp_and_version_2_are_others() {
        assert_eq!(session(&session_with(&[(L2TP_ATTR_PW_TYPE, &7_u16.to_ne_bytes())])), None);
        assert_eq!(tunnel(&tunnel_with(&[(L2TP_ATTR_PROTO_VERSION, &[2])])), None);
        assert_eq!(tunnel(&tunnel_with(&[(L2TP_ATTR_ENCAP_TYPE, &[2, 0])])), None);
        assert!(overlays(&[], vec![session(&session_with(&[])).expect("one")]).is_empty());
    }
}
