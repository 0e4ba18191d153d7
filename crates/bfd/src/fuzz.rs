//! Entry points of the fuzzers.

use crate::dplane;
use crate::{Packet, Session, Settings};

/// A session gets packets cut out of `bytes`: the first byte of each says its length, and how much later it comes.
///
/// # Panics
/// If a packet is not what its bytes say, a session does not count it, or is due in the past for ever.
pub fn packets(bytes: &[u8]) {
    let settings = Settings {
        discr: 7,
        min_tx: 10_000,
        min_rx: 10_000,
        min_echo_rx: 0,
        detect_mult: 3,
        is_passive: false,
        is_shut: false,
        is_independent: false,
    };
    let (mut session, mut left, mut now_ns) = (Session::new(settings, 0), bytes, 0_u64);
    while let [head, rest @ ..] = left {
        let (payload, behind) = rest.split_at(rest.len().min(usize::from(*head & 0x3f)));
        left = behind;
        now_ns += u64::from(*head) * 1_000_000;
        session.expire(now_ns);
        if let Ok(packet) = Packet::parse(payload) {
            let before = session.counts().received;
            session.receive(&packet, now_ns);
            assert_eq!(session.counts().received, before + 1);
            // Reserved bits and what stands behind the fields are not read.
            assert_eq!(Packet::parse(&packet.to_bytes()), Ok(packet));
        }
        if let Some(sent) = session.send(now_ns, u32::from(*head)) {
            assert_eq!(Packet::parse(&sent.to_bytes()), Ok(sent));
        }
        session.take_news();
        let answer = dplane::state_change(1, &session.standing());
        assert_eq!(answer.len(), dplane::HEADER_LEN + 28);
        assert!(session.due_ns().is_none_or(|due_ns| due_ns > now_ns));
    }
}

/// A stream of `bfdd`, read message by message.
///
/// # Panics
/// If a message is longer than its stream, or is read differently once it stands alone.
pub fn stream(bytes: &[u8]) {
    let mut left = bytes;
    while let Ok(Some((message, len))) = dplane::parse(left) {
        assert!((dplane::HEADER_LEN..=left.len()).contains(&len));
        let (whole, behind) = left.split_at(len);
        assert_eq!(dplane::parse(whole), Ok(Some((message, len))));
        assert_eq!(dplane::parse(&whole[..len - 1]), Ok(None), "it is not all there");
        left = behind;
    }
}
