//! Entry point of the fuzzer: copies from a peer that means no good.

use core::net::IpAddr;

use crate::{
    Content, FIRST_LABEL, Group, LABELS, LEN, LONGEST_COVERED, MOST_HELD, Memory, NUMBERS, Outside,
    PARITY_LEN, Parity, Recovery, SPAN, Unrecovered, overhead,
};

/// Reads bytes as a copy, and as a history of numbers and times of one stream.
///
/// # Panics
/// When something is wrong: that is the finding.
pub fn exercise(bytes: &[u8]) {
    if let Ok(content) = Content::parse(bytes) {
        again(content, bytes);
    }
    parity(bytes);
    let (mut recovery, mut now_ns, mut taken, mut out) = (Recovery::default(), 0u64, 0u64, 0u64);
    let (steps, _) = bytes.as_chunks::<6>();
    for [later, wait, a, b, c, d] in steps {
        now_ns += u64::from(*later) << 22;
        recovery.expire(now_ns, |()| out += 1);
        assert!(recovery.due_ns().is_none_or(|due_ns| due_ns > now_ns));
        let (number, wait_ns) = (u32::from_be_bytes([*a, *b, *c, *d]), u64::from(*wait) << 20);
        let is_taken = recovery.push(number, (), (now_ns, wait_ns), |()| out += 1).is_ok();
        taken += u64::from(is_taken);
        assert_eq!(out + u64::from(recovery.waiting()), taken);
        assert!(recovery.waiting() < MOST_HELD);
    }
    recovery.drain(|()| out += 1);
    assert_eq!((out, recovery.waiting()), (taken, 0));
}

/// Content that was read, written and read again.
fn again(content: Content, bytes: &[u8]) {
    let label = content.label();
    assert!((FIRST_LABEL..LABELS).contains(&label));
    let dst = IpAddr::from([192, 0, 2, 2]);
    let outside = Outside { src: IpAddr::from([192, 0, 2, 1]), dst, class: 0, src_port: 1 };
    let mut whole = vec![0; overhead(dst)];
    whole.extend(bytes.get(LEN..).unwrap_or_default());
    let is_short = whole.len() <= usize::from(u16::MAX);
    let is_written = match content {
        Content::Packet(numbered) => {
            assert!(numbered.number < NUMBERS);
            numbered.emit(outside, &mut whole)
        }
        Content::Parity(parity) => {
            assert!(parity.base < NUMBERS && parity.numbers().count() > 0);
            parity.emit(outside, &mut whole)
        }
    };
    assert_eq!(is_written, is_short);
    let written = whole.get(overhead(dst) - LEN..).unwrap_or_default();
    // The datagram may have ended before the payload did.
    let is_same = match (Content::parse(written), content) {
        (Ok(Content::Parity(parity)), Content::Parity(before)) => parity == before,
        (Err(_), Content::Parity(_)) => written.len() > LEN + PARITY_LEN + LONGEST_COVERED,
        (parsed, before) => parsed == Ok(before),
    };
    assert!(!is_short || is_same);
}

/// Group of an honest sender, of which the bytes lose some packets; and the same with a parity as the bytes have it.
fn parity(bytes: &[u8]) {
    let Some(([base @ .., span, lost, other], rest)) = bytes.split_first_chunk::<7>() else {
        return;
    };
    let base = u32::from_be_bytes(*base) % NUMBERS;
    let mut packets = Vec::new();
    let mut group = Group::new(FIRST_LABEL, base);
    let mut body = vec![0xa5; LONGEST_COVERED];
    let steps = rest.chunks(1 + usize::from(*span)).zip(0..SPAN);
    for (packet, step) in steps {
        let number = base.wrapping_add(step) % NUMBERS;
        assert!(group.add(number, packet, &mut body));
        packets.push((number, packet));
    }
    let count = packets.len();
    if count == 0 {
        return;
    }
    let is_lost = |at: usize| at == usize::from(*lost) % count || at == usize::from(*other) % count;
    let mut memory = Memory::default();
    let came = packets.iter().enumerate().filter(|(at, _)| !is_lost(*at));
    came.for_each(|(_, (number, packet))| memory.keep(*number, (), packet, 5));
    let len = group.body_len();
    let whole = body.get_mut(..len).unwrap_or_default();
    let recovered = memory.recover(&group.parity(), (), whole, 6);
    match packets.iter().enumerate().filter(|(at, _)| is_lost(*at)).count() {
        1 => {
            let packet = packets.get(usize::from(*lost) % count).copied();
            let (number, len) = recovered.expect("one is lost");
            assert_eq!(packet, Some((number, whole.get(..len).unwrap_or_default())));
        }
        _ => assert_eq!(recovered, Err(Unrecovered::Missing)),
    }
    if let Some((covered, forged)) = rest.split_first_chunk::<8>() {
        let covered = u64::from_be_bytes(*covered);
        let parity = Parity { label: FIRST_LABEL, base, covered, len: u16::from(*span) };
        let mut forged = forged.to_vec();
        if let Ok((number, len)) = memory.recover(&parity, (), &mut forged, 6) {
            assert!(parity.numbers().any(|covered| covered == number) && len <= forged.len());
        }
    }
}
