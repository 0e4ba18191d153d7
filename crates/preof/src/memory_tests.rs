use super::*;
use crate::parity::Group;
use proptest::prelude::*;

/// Parity of packets with consecutive numbers, and its body.
fn parity(base: u32, packets: &[Vec<u8>]) -> (Parity, Vec<u8>) {
    let mut body = vec![0x5a; LONGEST_COVERED];
    let mut group = Group::new(16, base);
    for (packet, step) in packets.iter().zip(0..) {
        assert!(group.add(base.wrapping_add(step), packet, &mut body));
    }
    body.truncate(group.body_len());
    (group.parity(), body)
}

fn keep_all(memory: &mut Memory<u8>, base: u32, packets: &[Vec<u8>], lost: &[usize]) {
    for (at, (packet, step)) in packets.iter().zip(0..).enumerate() {
        if !lost.contains(&at) {
            memory.keep(base.wrapping_add(step), 1, packet, 0);
        }
    }
}

fn three() -> Vec<Vec<u8>> {
    vec![vec![1; 40], vec![2; 90], vec![3; 60]]
}

#[test]
fn what_came_otherwise_does_not_count() {
    let (parity, body) = parity(10, &three());
    let mut memory = Memory::default();
    keep_all(&mut memory, 10, &three(), &[1]);
    assert_eq!(memory.recover(&parity, 2, &mut body.clone(), 0), Err(Unrecovered::Missing));
    assert_eq!(memory.recover(&parity, 1, &mut body.clone(), 0), Ok((11, 90)));
    assert_eq!(memory.recover(&parity, 1, &mut body.clone(), KEPT_NS), Err(Unrecovered::Missing));
    memory.keep(11, 1, &[2; 90], 0);
    assert_eq!(memory.recover(&parity, 1, &mut body.clone(), 0), Err(Unrecovered::Complete));
}

#[test]
fn parity_with_lies_recovers_nothing() {
    let (parity, body) = parity(10, &three());
    let mut memory = Memory::default();
    keep_all(&mut memory, 10, &three(), &[0]);
    for (parity, body) in [
        (Parity { len: parity.len ^ 1, ..parity }, body.clone()),
        (Parity { len: parity.len ^ 40, ..parity }, body.clone()),
        (Parity { len: u16::MAX, ..parity }, body.clone()),
        (parity, body[..89].to_vec()),
        (parity, Vec::new()),
        (Parity { covered: 3, ..parity }, body.clone()),
    ] {
        let mut body = body;
        let recovered = memory.recover(&parity, 1, &mut body, 0);
        // One byte less or more is another packet, as far as lengths tell: its reader judges it.
        assert!(recovered == Err(Unrecovered::Wrong) || recovered == Ok((10, 41)), "{recovered:?}");
    }
    let nothing = Parity { covered: 0, ..parity };
    assert_eq!(memory.recover(&nothing, 1, &mut body.clone(), 0), Err(Unrecovered::Complete));
}

/// A packet without a byte is none, though all sums are right.
#[test]
fn parity_of_nothing_recovers_nothing() {
    let mut memory = Memory::default();
    memory.keep(10, 1, &[7; 40], 0);
    let nothing = Parity { label: 16, base: 10, covered: 3, len: 40 };
    assert_eq!(memory.recover(&nothing, 1, &mut [7; 40], 0), Err(Unrecovered::Wrong));
}

#[test]
fn numbers_go_round_in_the_memory() {
    let (parity, mut body) = parity(NUMBERS - 1, &three());
    let mut memory = Memory::default();
    keep_all(&mut memory, NUMBERS - 1, &three(), &[1]);
    assert_eq!(memory.recover(&parity, 1, &mut body, 0), Ok((0, 90)));
}

#[test]
fn the_first_packet_with_a_number_stays() {
    let (parity, body) = parity(10, &three());
    let mut memory = Memory::default();
    keep_all(&mut memory, 10, &three(), &[2]);
    memory.keep(10, 9, &[7; 40], 0);
    memory.keep(11, 1, &[7; 90], 0);
    memory.keep(12, 1, &[7; LONGEST_COVERED + 1], 0);
    let mut body = body;
    assert_eq!(memory.recover(&parity, 1, &mut body, 0), Ok((12, 60)));
    assert_eq!(body[..60], [3; 60]);
}

proptest! {
    /// Any one packet of a group is recovered byte for byte, and of two none.
    #[test]
    fn one_loss_is_recovered_and_two_are_not(
        packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..200), 1..=SPAN as usize),
        base in 0..NUMBERS,
        lost in any::<prop::sample::Index>(),
        other in any::<prop::sample::Index>(),
    ) {
        let (parity, body) = parity(base, &packets);
        let (lost, other) = (lost.index(packets.len()), other.index(packets.len()));
        let mut memory = Memory::default();
        keep_all(&mut memory, base, &packets, &[lost]);
        let mut recovered = body.clone();
        let (number, len) = memory.recover(&parity, 1, &mut recovered, 0).expect("one");
        prop_assert_eq!(number, base.wrapping_add(lost as u32) % NUMBERS);
        prop_assert_eq!(&recovered[..len], &packets[lost][..]);
        if lost != other {
            let mut memory = Memory::default();
            keep_all(&mut memory, base, &packets, &[lost, other]);
            prop_assert_eq!(memory.recover(&parity, 1, &mut body.clone(), 0), Err(Unrecovered::Missing));
        }
    }

    /// The fuzzer's entry point, with parity of any content and with any bytes.
    #[test]
    fn any_bytes_are_judged(
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        base in 0..NUMBERS,
        covered in any::<u64>(),
        len in any::<u16>(),
    ) {
        crate::fuzz::exercise(&bytes);
        let (src, dst) = ([192, 0, 2, 1].into(), [192, 0, 2, 2].into());
        let outside = crate::Outside { src, dst, class: 0, src_port: 1 };
        let mut whole = vec![0; crate::overhead(dst) + crate::PARITY_LEN];
        whole.extend(&bytes);
        let parity = Parity { label: 16, base, covered, len };
        prop_assert!(parity.emit(outside, &mut whole));
        crate::fuzz::exercise(&whole[20..]);
    }
}
