//! Entry point of the fuzzer: copies from a peer that means no good.

use core::net::IpAddr;

use crate::{FIRST_LABEL, LABELS, LEN, MOST_HELD, NUMBERS, Numbered, Outside, Recovery, overhead};

/// Reads bytes as a copy, and as a history of numbers and times of one stream.
///
/// # Panics
/// When something is wrong: that is the finding.
pub fn exercise(bytes: &[u8]) {
    if let Ok(numbered) = Numbered::parse(bytes) {
        assert!((FIRST_LABEL..LABELS).contains(&numbered.label) && numbered.number < NUMBERS);
        let dst = IpAddr::from([192, 0, 2, 2]);
        let outside = Outside { src: IpAddr::from([192, 0, 2, 1]), dst, class: 0, src_port: 1 };
        let mut whole = vec![0; overhead(dst)];
        whole.extend(bytes.get(LEN..).unwrap_or_default());
        let is_short = whole.len() <= usize::from(u16::MAX);
        assert_eq!(numbered.emit(outside, &mut whole), is_short);
        let again = whole.get(overhead(dst) - LEN..).unwrap_or_default();
        assert!(!is_short || Numbered::parse(again) == Ok(numbered));
    }
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
