use proptest::prelude::*;
use wire::{FragmentFields, ipv4, ipv6, parse_ip, protocol};

use super::join::{Join, JoinError};
use super::*;
use crate::{fragment, fragment_v6};

const LIMITS: ReassemblyLimits = ReassemblyLimits {
    fragments: 32,
    packets: 16,
    per_source: 16,
    per_packet: 12,
    timeout_ns: 1000,
};

type Reass = Reassembler<u32, u8>;

fn key(src: u8, ident: u32) -> FragmentKey {
    let (src, dst) = ([10, 0, 0, src].into(), [10, 0, 1, 1].into());
    FragmentKey { src, dst, protocol: 50, ident, scope: 0 }
}

fn piece(offset: usize, len: usize, more: bool) -> Piece {
    Piece { offset, len, more, head_len: 20 }
}

fn push(r: &mut Reass, key: FragmentKey, piece: Piece, n: u32) -> Result<(), Unjoined> {
    r.push(key, piece, n, 0, |_| Treatment::Join).map_err(|(item, reason)| {
        assert_eq!(item, n);
        reason
    })
}

fn gone(r: &mut Reass) -> Vec<(u32, Unjoined)> {
    core::iter::from_fn(|| r.pop_gone()).collect()
}

fn done(r: &mut Reass) -> Option<(Fate<u8>, Vec<u32>)> {
    let mut done = r.next_done()?;
    let items: Vec<u32> = core::iter::from_fn(|| r.pop_piece(&mut done)).map(|p| p.1).collect();
    assert_eq!(items.len(), done.count);
    Some((done.fate, items))
}

#[test]
fn any_order_of_three() {
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let mut r = Reass::new(LIMITS);
        let pieces = [piece(0, 16, true), piece(16, 8, true), piece(24, 5, false)];
        for (n, at) in order.into_iter().enumerate() {
            assert_eq!(r.len(), n);
            assert!(done(&mut r).is_none());
            push(&mut r, key(1, 1), pieces[at], at as u32).unwrap();
        }
        let (fate, items) = done(&mut r).unwrap();
        assert_eq!(fate, Fate::Join { head_len: 20, len: 29 });
        assert_eq!(items, order.map(|at| at as u32));
        assert!(r.is_empty());
    }
}

#[test]
fn what_differs_in_the_key_is_not_put_together() {
    let mut r = Reass::new(LIMITS);
    push(&mut r, key(1, 1), piece(0, 8, true), 0).unwrap();
    let other_dst = FragmentKey { dst: [10, 0, 1, 2].into(), ..key(1, 1) };
    let other_protocol = FragmentKey { protocol: 17, ..key(1, 1) };
    let other_scope = FragmentKey { scope: 1, ..key(1, 1) };
    for other in [key(2, 1), key(1, 2), other_dst, other_protocol, other_scope] {
        push(&mut r, other, piece(8, 8, false), 1).unwrap();
        assert!(done(&mut r).is_none());
    }
    push(&mut r, key(1, 1), piece(8, 8, false), 2).unwrap();
    assert_eq!(done(&mut r).unwrap().1, [0, 2]);
}

#[test]
fn a_repeated_fragment_is_refused_alone() {
    let mut r = Reass::new(LIMITS);
    push(&mut r, key(1, 1), piece(8, 8, false), 0).unwrap();
    assert_eq!(push(&mut r, key(1, 1), piece(8, 8, false), 1), Err(Unjoined::Duplicate));
    push(&mut r, key(1, 1), piece(0, 8, true), 2).unwrap();
    assert_eq!(done(&mut r).unwrap().1, [0, 2]);
    assert_eq!(gone(&mut r), []);
}

/// RFC 5722 §3: what overlaps discards the whole packet, and what comes of it later.
#[test]
fn overlaps_discard_all() {
    let first = piece(0, 16, true);
    let last = piece(32, 10, false);
    for wrong in [
        piece(8, 16, true),  // the end of the first
        piece(8, 8, true),   // inside of it
        piece(0, 8, true),   // the beginning
        piece(0, 24, true),  // all of it and more
        piece(24, 16, true), // the last
        piece(40, 8, true),  // behind the end
        piece(16, 8, false), // another end
        piece(32, 9, false), // a nearer end
        piece(64, 8, false), // a farther end
    ] {
        let mut r = Reass::new(LIMITS);
        push(&mut r, key(1, 1), first, 0).unwrap();
        push(&mut r, key(1, 1), last, 1).unwrap();
        assert_eq!(push(&mut r, key(1, 1), wrong, 2), Err(Unjoined::Overlap), "{wrong:?}");
        assert_eq!(gone(&mut r), [(0, Unjoined::Overlap), (1, Unjoined::Overlap)]);
        // Not even what would have fitted, until its time is up.
        assert_eq!(push(&mut r, key(1, 1), piece(16, 16, true), 3), Err(Unjoined::Overlap));
        assert!(r.is_empty());
        r.expire(1000);
        push(&mut r, key(1, 1), first, 4).unwrap();
        assert_eq!(r.len(), 1);
    }
}

#[test]
fn pieces_that_cannot_be() {
    let mut r = Reass::new(LIMITS);
    for wrong in [piece(0, 0, true), piece(8, 0, false), piece(0, 12, true)] {
        assert_eq!(push(&mut r, key(1, 1), wrong, 1), Err(Unjoined::Malformed));
    }
    push(&mut r, key(1, 1), piece(0, 8, true), 2).unwrap();
    push(&mut r, key(1, 1), piece(8, 1, false), 3).unwrap();
    assert_eq!(done(&mut r).unwrap().1, [2, 3]);
}

#[test]
fn time_runs_from_the_first_arrival() {
    let mut r = Reass::new(LIMITS);
    r.push(key(1, 1), piece(0, 8, true), 0, 5, |_| Treatment::Join).unwrap();
    r.push(key(1, 1), piece(8, 8, true), 1, 900, |_| Treatment::Join).unwrap();
    r.push(key(1, 2), piece(0, 8, true), 2, 900, |_| Treatment::Join).unwrap();
    r.expire(1004);
    assert_eq!(gone(&mut r), []);
    r.expire(1005);
    assert_eq!(gone(&mut r), [(0, Unjoined::Timeout), (1, Unjoined::Timeout)]);
    r.clear();
    assert_eq!(gone(&mut r), [(2, Unjoined::Timeout)]);
}

#[test]
fn a_packet_has_so_many_pieces() {
    let mut r = Reass::new(LIMITS);
    for n in 0..12 {
        push(&mut r, key(1, 1), piece(8 * n, 8, true), n as u32).unwrap();
    }
    assert_eq!(push(&mut r, key(1, 1), piece(96, 8, true), 12), Err(Unjoined::Limit));
    assert_eq!(gone(&mut r).len(), 12);
}

/// A flood of one source costs no other source anything.
#[test]
fn a_source_that_floods_pushes_out_its_own() {
    let mut r = Reass::new(LIMITS);
    push(&mut r, key(2, 1), piece(0, 8, true), 1000).unwrap();
    for n in 0..500 {
        push(&mut r, key(1, n), piece(0, 8, true), n).unwrap();
        assert!(
            gone(&mut r).iter().all(|(item, reason)| *item < 500 && *reason == Unjoined::Limit)
        );
    }
    push(&mut r, key(2, 1), piece(8, 8, false), 1001).unwrap();
    assert_eq!(done(&mut r).unwrap().1, [1000, 1001]);
    // The youngest of the flood is there.
    push(&mut r, key(1, 499), piece(8, 8, false), 2000).unwrap();
    assert_eq!(done(&mut r).unwrap().1, [499, 2000]);
}

/// From ever other sources: what comes at once is still put together.
#[test]
fn a_flood_from_everywhere_leaves_the_youngest() {
    let mut r = Reass::new(LIMITS);
    for n in 0..1000u32 {
        let mut one = key(0, n);
        one.src = (n | 0x0b00_0000).to_be_bytes().into();
        push(&mut r, one, piece(0, 8, true), n).unwrap();
        gone(&mut r);
        assert!(r.len() <= LIMITS.fragments);
    }
    push(&mut r, key(1, 1), piece(8, 8, false), 5000).unwrap();
    push(&mut r, key(1, 1), piece(0, 8, true), 5001).unwrap();
    assert_eq!(done(&mut r).unwrap().1, [5000, 5001]);
}

#[test]
fn passing_lets_go_in_order_of_arrival() {
    let mut r = Reass::new(LIMITS);
    let pass = |r: &mut Reass, piece, n| r.push(key(1, 1), piece, n, 0, |_| Treatment::Pass(7));
    pass(&mut r, piece(16, 8, true), 0).unwrap();
    pass(&mut r, piece(8, 8, true), 1).unwrap();
    assert!(done(&mut r).is_none());
    pass(&mut r, piece(0, 8, true), 2).unwrap();
    assert_eq!(done(&mut r), Some((Fate::Pass(7), vec![0, 1, 2])));
    // Nothing may change what the first said.
    assert_eq!(pass(&mut r, piece(0, 8, true), 3), Err((3, Unjoined::Duplicate)));
    pass(&mut r, piece(32, 8, true), 4).unwrap();
    assert_eq!(done(&mut r), Some((Fate::Pass(7), vec![4])));
    pass(&mut r, piece(24, 8, true), 5).unwrap();
    pass(&mut r, piece(40, 3, false), 6).unwrap();
    assert_eq!(done(&mut r), Some((Fate::Pass(7), vec![5])));
    assert_eq!(done(&mut r), Some((Fate::Pass(7), vec![6])));
    // All have gone: the packet is forgotten, and the next one of that key is another.
    pass(&mut r, piece(8, 8, false), 7).unwrap();
    assert_eq!((done(&mut r), r.len()), (None, 1));
}

#[test]
fn passing_is_over_with_a_fragment_over_the_first() {
    let mut r = Reass::new(LIMITS);
    let pass = |r: &mut Reass, piece, n| r.push(key(1, 1), piece, n, 0, |_| Treatment::Pass(7));
    pass(&mut r, piece(0, 16, true), 0).unwrap();
    assert!(done(&mut r).is_some());
    assert_eq!(pass(&mut r, piece(8, 16, true), 1), Err((1, Unjoined::Overlap)));
    assert_eq!(pass(&mut r, piece(24, 16, true), 2), Err((2, Unjoined::Overlap)));
}

fn packet(v6: bool, payload: &[u8], class: u8) -> Vec<u8> {
    let len = payload.len() as u16;
    let header = match v6 {
        false => ipv4::Ipv4Fields {
            traffic_class: class,
            total_len: 20 + len,
            ident: 99,
            dont_fragment: false,
            ttl: 64,
            protocol: protocol::ESP,
            src: [10, 0, 0, 1].into(),
            dst: [10, 0, 0, 2].into(),
        }
        .to_bytes()
        .to_vec(),
        true => ipv6::Ipv6Fields {
            traffic_class: class,
            flow_label: 5,
            payload_len: len,
            next_header: protocol::ESP,
            hop_limit: 64,
            src: 1.into(),
            dst: 2.into(),
        }
        .to_bytes()
        .to_vec(),
    };
    [&header[..], payload].concat()
}

fn cut(whole: &[u8], mtu: usize) -> Vec<Vec<u8>> {
    let h = parse_ip(whole).unwrap();
    let mut out = vec![0; 70_000];
    let mut all = Vec::new();
    if whole[0] >> 4 == 4 {
        let plan = fragment::plan(&h, whole, mtu).unwrap();
        for n in 0..plan.count() {
            let len = plan.write(n, &mut out).unwrap();
            all.push(out[..len].to_vec());
        }
    } else {
        let plan = fragment_v6::plan(&h, whole, mtu, 77).unwrap();
        for n in 0..plan.count() {
            let len = plan.write(n, &mut out).unwrap();
            all.push(out[..len].to_vec());
        }
    }
    all
}

/// Puts fragments together as the data path does; what came out, and what was refused.
fn join(fragments: &[Vec<u8>], limits: ReassemblyLimits) -> (Vec<Vec<u8>>, Vec<Unjoined>) {
    let mut r: Reassembler<Vec<u8>, ()> = Reassembler::new(limits);
    let (mut wholes, mut refused) = (Vec::new(), Vec::new());
    for packet in fragments {
        let h = parse_ip(packet).unwrap();
        let f = FragmentFields::of(packet).unwrap();
        let key = FragmentKey { src: h.src, dst: h.dst, protocol: 0, ident: f.ident, scope: 0 };
        let piece = Piece::from(f);
        if let Err((_, reason)) = r.push(key, piece, packet.clone(), 0, |_| Treatment::Join) {
            refused.push(reason);
        }
        while let Some((_, reason)) = r.pop_gone() {
            refused.push(reason);
        }
        while let Some(mut done) = r.next_done() {
            let Fate::Join { head_len, len } = done.fate else { panic!("none passes") };
            let mut out = vec![0xee; head_len + len];
            let mut join = Join::new(head_len, len, &mut out).unwrap();
            while let Some((_, packet)) = r.pop_piece(&mut done) {
                join.add(&packet).unwrap();
            }
            let len = join.finish().unwrap();
            wholes.push(out[..len].to_vec());
        }
    }
    (wholes, refused)
}

const WIDE: ReassemblyLimits = ReassemblyLimits {
    fragments: 4096,
    packets: 64,
    per_source: 4096,
    per_packet: 2048,
    timeout_ns: 1,
};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Fragment, then reassemble, is the identity: for any order, for repetitions, for packets of both
    /// families, and for fragments that were cut once more on the way.
    #[test]
    fn what_was_cut_is_put_together(
        v6: bool,
        payload in prop::collection::vec(any::<u8>(), 100..6000),
        mtus in (80usize..1500, 48usize..400),
        order in any::<prop::sample::Index>(),
        shuffle in any::<u64>(),
        repeat in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
        class: u8,
    ) {
        let whole = packet(v6, &payload, class);
        let mut fragments = cut(&whole, mtus.0);
        prop_assume!(fragments.len() > 1);
        if !v6 {
            // A router further on has a narrower link still.
            let at = order.index(fragments.len());
            let again = cut(&fragments[at], mtus.1);
            fragments.splice(at..=at, again);
        }
        let mut state = shuffle | 1;
        for at in (1..fragments.len()).rev() {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            fragments.swap(at, (state >> 33) as usize % (at + 1));
        }
        let last = fragments.len() - 1;
        let copies: Vec<usize> = repeat.iter().map(|i| i.index(last)).collect();
        let repeated = copies.len();
        for at in copies {
            let copy = fragments[at].clone();
            fragments.insert(last.min(at), copy);
        }
        let (wholes, refused) = join(&fragments, WIDE);
        // Nothing that was repeated was the last to come.
        prop_assert_eq!(&wholes, &[whole]);
        prop_assert_eq!(refused, vec![Unjoined::Duplicate; repeated]);
    }

    /// A model that keeps all bytes agrees: what overlaps gives nothing, what does not gives all.
    #[test]
    fn random_pieces_agree_with_a_model(
        pieces in prop::collection::vec((0usize..6, 1usize..4, any::<bool>()), 1..12),
    ) {
        let mut r = Reass::new(ReassemblyLimits { per_packet: 64, ..LIMITS });
        let mut model: Vec<(usize, usize, bool)> = Vec::new();
        let mut is_dead = false;
        for (n, (at, len, more)) in pieces.into_iter().enumerate() {
            let one = (at * 8, len * 8, more);
            let result = push(&mut r, key(1, 1), piece(one.0, one.1, more), n as u32);
            let expected = if is_dead {
                Err(Unjoined::Overlap)
            } else if model.contains(&one) {
                Err(Unjoined::Duplicate)
            } else {
                let end = model.iter().find(|p| !p.2).map(|p| p.0 + p.1);
                let overlaps = model.iter().any(|p| p.0 < one.0 + one.1 && one.0 < p.0 + p.1);
                let reach = model.iter().map(|p| p.0 + p.1).max().unwrap_or(0);
                let past = match end {
                    Some(end) => one.0 + one.1 > end || !more,
                    None => !more && reach > one.0 + one.1,
                };
                if overlaps || past { Err(Unjoined::Overlap) } else { Ok(()) }
            };
            prop_assert_eq!(result, expected);
            is_dead |= expected == Err(Unjoined::Overlap);
            if expected.is_ok() {
                model.push(one);
            }
            gone(&mut r);
            let end = model.iter().find(|p| !p.2).map(|p| p.0 + p.1);
            let bytes: usize = model.iter().map(|p| p.1).sum();
            match done(&mut r) {
                Some((fate, items)) => {
                    prop_assert_eq!(fate, Fate::Join { head_len: 20, len: bytes });
                    prop_assert!(!is_dead && end == Some(bytes) && items.len() == model.len());
                    // The next one of that key is another packet.
                    model.clear();
                }
                None => prop_assert!(is_dead || end != Some(bytes) || model.is_empty()),
            }
        }
    }

    /// Whatever comes, nothing is lost or doubled, and the limits hold.
    #[test]
    fn every_fragment_comes_out_once(
        steps in prop::collection::vec((0u8..4, 0u32..6, 0usize..5, 1usize..3, any::<bool>(), any::<bool>(), 0u64..400), 1..300),
    ) {
        let mut r = Reass::new(LIMITS);
        let mut out = std::collections::HashSet::new();
        let mut now = 0;
        let total = steps.len();
        for (n, (src, ident, at, len, more, joins, pause)) in steps.into_iter().enumerate() {
            now += pause;
            r.expire(now);
            let fate = if joins { Treatment::Join } else { Treatment::Pass(1) };
            let one = piece(at * 8, len * 8, more);
            if let Err((item, _)) = r.push(key(src, ident), one, n as u32, now, |_| fate) {
                prop_assert!(out.insert(item));
            }
            for (item, _) in gone(&mut r) {
                prop_assert!(out.insert(item));
            }
            while let Some((_, items)) = done(&mut r) {
                for item in items {
                    prop_assert!(out.insert(item));
                }
            }
            prop_assert_eq!(r.len() + out.len(), n + 1);
            prop_assert!(r.len() < LIMITS.fragments);
        }
        r.clear();
        for (item, _) in gone(&mut r) {
            prop_assert!(out.insert(item));
        }
        prop_assert_eq!((out.len(), r.len()), (total, 0));
    }
}

/// RFC 3168 §5.3.
#[test]
fn congestion_marks_of_fragments() {
    let (not_ect, ect1, ect0, ce) = (0, 1, 2, 3);
    for v6 in [false, true] {
        for (marks, whole) in [
            ([ect0, ce], Ok(ce)),
            ([ce, ect1], Ok(ce)),
            ([ce, ce], Ok(ce)),
            ([ect0, ect0], Ok(ect0)),
            ([ect1, ect0], Ok(ect1)),
            ([not_ect, ect0], Ok(not_ect)),
            ([not_ect, ce], Err(JoinError::Ecn)),
        ] {
            let mut fragments = cut(&packet(v6, &[7; 200], 0xb8), 160);
            let mut out = [0; 300];
            let head_len = if v6 { 40 } else { 20 };
            let mut join = Join::new(head_len, 200, &mut out).unwrap();
            for (fragment, mark) in fragments.iter_mut().zip(marks) {
                wire::set_traffic_class(fragment, 0xb8 | mark);
                join.add(fragment).unwrap();
            }
            let joined = join.finish();
            let class = joined.map(|len| parse_ip(&out[..len]).unwrap().traffic_class & 3);
            assert_eq!(class, whole, "{marks:?}");
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    assert_eq!(Join::new(20, 100, &mut [0; 119]).unwrap_err(), JoinError::TooLong);
    assert_eq!(Join::new(20, 65516, &mut [0; 70_000]).unwrap_err(), JoinError::TooLong);
    let fragments = cut(&packet(false, &[7; 200], 0), 160);
    let mut out = [0; 300];
    let mut join = Join::new(20, 200, &mut out).unwrap();
    join.add(&fragments[1]).unwrap();
    assert_eq!(join.finish(), Err(JoinError::Malformed), "the first is missing");
    let mut join = Join::new(20, 100, &mut out).unwrap();
    assert_eq!(join.add(&fragments[1]), Err(JoinError::Malformed));
}

/// The headers in front of the fragment header stay; it goes, and is named by none of them.
#[test]
fn extension_headers_stay_in_front() {
    let mut parts = Vec::new();
    for (offset, more, data) in [(0u16, 1u16, [1; 8]), (8, 0, [2; 8])] {
        let fields = ipv6::Ipv6Fields {
            traffic_class: 0,
            flow_label: 0,
            payload_len: 24,
            next_header: protocol::DESTINATION_OPTIONS,
            hop_limit: 9,
            src: 1.into(),
            dst: 2.into(),
        };
        let mut part = fields.to_bytes().to_vec();
        part.extend([protocol::FRAGMENT, 0, 1, 4, 0, 0, 0, 0]);
        let [high, low] = (offset | more).to_be_bytes();
        part.extend([protocol::ESP, 0, high, low, 0, 0, 0, 5]);
        part.extend(data);
        parts.push(part);
    }
    let (wholes, refused) = join(&parts, WIDE);
    assert_eq!((wholes.len(), refused.len()), (1, 0));
    let h = parse_ip(&wholes[0]).unwrap();
    assert_eq!((h.protocol, h.header_len, h.total_len), (protocol::ESP, 48, 64));
    assert_eq!(h.fragment, wire::Fragment::Whole);
    assert_eq!(wholes[0][48..], [[1; 8], [2; 8]].concat());
}
