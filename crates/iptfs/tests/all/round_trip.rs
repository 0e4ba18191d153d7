//! Packets through payloads, a network that loses, repeats and overtakes, and back.

use iptfs::{Collected, Deaggregator, Filling, Window};
use proptest::prelude::*;

/// How packets are put into payloads.
#[derive(Clone, Copy, Debug)]
struct Rules {
    size: usize,
    is_split: bool,
    is_padded: bool,
    reports: bool,
}

/// Payloads of these packets, none with room left where packets may be split.
fn aggregate(packets: &[Vec<u8>], rules: Rules) -> Vec<Vec<u8>> {
    let begin = |carried| match rules.reports {
        false => Filling::new(rules.size, carried),
        true => Filling::with_congestion(rules.size, carried),
    };
    let (mut filling, mut buffer, mut payloads) = (begin(0), vec![0xee; rules.size], Vec::new());
    let mut end = |filling: &mut Filling, buffer: &mut Vec<u8>, carried| {
        let mut payload = core::mem::replace(buffer, vec![0xee; rules.size]);
        let len = core::mem::replace(filling, begin(carried)).finish_with(
            &mut payload,
            rules.is_padded,
            rules.reports.then(Default::default),
        );
        payload.truncate(len);
        payloads.push(payload);
    };
    for packet in packets {
        let mut rest = &packet[..];
        if !rules.is_split && rest.len() > filling.room() {
            end(&mut filling, &mut buffer, 0);
        }
        loop {
            let put = filling.put(&mut buffer, rest);
            rest = &rest[put..];
            if rest.is_empty() {
                break;
            }
            let carried = if rest.len() == packet.len() { 0 } else { rest.len() };
            end(&mut filling, &mut buffer, carried);
        }
    }
    end(&mut filling, &mut buffer, 0);
    payloads
}

/// A packet that says which it is.
fn packet(number: usize, is_v4: bool, len: usize) -> Vec<u8> {
    let mut packet = vec![number as u8; len];
    match is_v4 {
        true => packet[..4].copy_from_slice(&[0x45, 0, (len >> 8) as u8, len as u8]),
        false => {
            let [high, low] = ((len - 40) as u16).to_be_bytes();
            packet[..7].copy_from_slice(&[0x60, 0, 0, 0, high, low, 59]);
        }
    }
    packet[10..14].copy_from_slice(&(number as u32).to_be_bytes());
    packet
}

fn packets() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let len = prop_oneof![4 => 40usize..120, 1 => 40usize..3000];
    prop::collection::vec((any::<bool>(), len), 1..60).prop_map(|all| {
        let numbered = all.into_iter().enumerate();
        numbered.map(|(number, (is_v4, len))| packet(number, is_v4, len)).collect()
    })
}

fn rules() -> impl Strategy<Value = Rules> {
    (60usize..400, any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
        |(size, is_split, is_padded, reports)| {
            // What is not split has to fit.
            let size = if is_split { size } else { size + 3000 };
            Rules { size, is_split, is_padded, reports }
        },
    )
}

fn back(payloads: impl IntoIterator<Item = (u64, Vec<u8>)>, window: u16) -> Vec<Vec<u8>> {
    let (mut window, mut deaggregator, mut got) =
        (Window::new(window, 1), Deaggregator::default(), Collected::default());
    for (number, payload) in payloads {
        let _ = window.push(number, payload, 0, |number, payload: Vec<u8>| {
            deaggregator.payload(number, &payload, &mut got);
        });
    }
    window.drain(|number, payload| {
        deaggregator.payload(number, &payload, &mut got);
    });
    got.packets
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn all_packets_come_back(packets in packets(), rules in rules(), window in 0u16..5) {
        let payloads = aggregate(&packets, rules);
        for (n, payload) in payloads.iter().enumerate() {
            prop_assert!(payload.len() <= rules.size);
            let is_full = rules.is_padded || rules.is_split && n + 1 < payloads.len();
            prop_assert!(!is_full || payload.len() == rules.size);
        }
        prop_assert_eq!(back((1..).zip(payloads), window), packets);
    }

    /// The packets that were sent come back in their order, and with a window as wide as payloads are out of place
    /// nothing is lost but what lay in payloads that were.
    #[test]
    fn through_a_bad_network_what_comes_is_right_and_in_order(
        packets in packets(),
        rules in rules(),
        window in 1u16..6,
        fates in prop::collection::vec((0u8..12, 0u64..4, 0u8..8), 400),
    ) {
        let payloads = aggregate(&packets, rules);
        let mut sent = Vec::new();
        let mut is_lost = false;
        for ((number, payload), (loss, shift, twice)) in (1u64..).zip(payloads).zip(fates) {
            is_lost |= loss == 0;
            if loss != 0 {
                // The first one sets where the window begins.
                let shift = if number == 1 { 0 } else { shift };
                sent.push((number + shift, number, payload.clone()));
                if twice == 0 {
                    sent.push((number + shift + 2, number, payload));
                }
            }
        }
        sent.sort_by_key(|(at, number, _)| (*at, *number));
        let got = back(sent.into_iter().map(|(_, number, payload)| (number, payload)), window);
        let mut left = packets.iter();
        prop_assert!(got.iter().all(|packet| left.any(|sent| sent == packet)));
        if !is_lost && window >= 3 {
            prop_assert_eq!(got, packets);
        }
    }
}
