//! The entry of the fuzz target: a datagram of any bytes.

use netlink::{Field as _, Header, Messages};

use crate::{decode, generic, l2tp};

/// Reads the messages of a datagram as rtnetlink's, as a family's, and as tunnels and sessions of L2TP.
pub fn exercise(datagram: &[u8]) {
    for message in decode(datagram) {
        let _ = format!("{message:?}");
    }
    let (mut tunnels, mut sessions) = (Vec::new(), Vec::new());
    for (_, whole) in Messages::new(datagram) {
        let body = whole.get(Header::LEN..).unwrap_or_default();
        let _ = format!("{:?}", generic::family(body));
        tunnels.extend(l2tp::tunnel(body));
        sessions.extend(l2tp::session(body));
    }
    let count = sessions.len();
    let overlays = l2tp::overlays(&tunnels, sessions);
    assert!(overlays.len() <= count);
    for overlay in overlays.values() {
        for headroom in [None, Some(0), Some(8), Some(24), Some(u16::MAX)] {
            let session = l2tp::with_headroom(overlay, headroom).session;
            let has_sublayer = session.expect("a session").has_sublayer;
            assert!(headroom.is_some() || has_sublayer.is_none());
        }
    }
}
