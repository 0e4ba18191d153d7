//! A meter is equal to the model, packet for packet.

use limit::{Algorithm, Colour, Fill, Meter, Settings, Sharing, Treatments, Unit};
use proptest::prelude::*;

use crate::model::Model;

pub fn fills() -> impl Strategy<Value = Fill> {
    // From a bit a second to 100 Gbit/s, and primes.
    let rate = prop_oneof![
        1..1000u64,
        (1..1000u64).prop_map(|k| k * 1_000_000),
        Just(999_999_937),
        1..100_000_000_000u64
    ];
    (rate, 1500 * 8..4_000_000u64).prop_map(|(rate, burst)| Fill { rate, burst })
}

pub fn algorithms() -> impl Strategy<Value = Algorithm> {
    prop_oneof![
        fills().prop_map(Algorithm::Single),
        (fills(), 1500 * 8..4_000_000u64)
            .prop_map(|(committed, excess_burst)| Algorithm::OneRate { committed, excess_burst }),
        (fills(), fills()).prop_map(|(a, b)| {
            let (committed, peak) = if a.rate <= b.rate { (a, b) } else { (b, a) };
            Algorithm::TwoRates { committed, peak }
        }),
        (fills(), fills())
            .prop_map(|(committed, excess)| Algorithm::Differentiated { committed, excess }),
    ]
}

pub fn settings() -> impl Strategy<Value = Settings> {
    let unit = prop_oneof![3 => Just(Unit::Bits), 1 => Just(Unit::Packets)];
    (algorithms(), unit, any::<bool>(), 0..100u16).prop_map(
        |(algorithm, unit, is_aware, overhead)| Settings {
            unit,
            algorithm,
            is_aware,
            overhead,
            treatments: Treatments::default(),
            queue: None,
            sharing: Sharing::Leases,
        },
    )
}

fn colours() -> impl Strategy<Value = Colour> {
    prop::sample::select(&Colour::ALL[..])
}

/// Gaps from none to seconds, so that buckets are empty, half full and full.
pub fn gaps() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 0..2000u64, 0..5_000_000u64, 0..3_000_000_000u64]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn every_packet_has_the_models_colour(
        settings in settings(),
        packets in prop::collection::vec((gaps(), 20..1500usize, colours()), 1..200),
    ) {
        let (mut model, mut meter) = (Model::new(settings), Meter::full(&settings, 0));
        let mut now_ns = 0;
        for (gap, len, came) in packets {
            now_ns += gap;
            let tokens = match settings.unit {
                Unit::Bits => (len as u64 + u64::from(settings.overhead)) * 8,
                Unit::Packets => 1,
            };
            meter.refill(&settings, now_ns);
            let colour = meter.colour(&settings, settings.cost(len), came);
            meter.take(&settings, settings.cost(len), colour);
            prop_assert_eq!(colour, model.meter(tokens, came, now_ns));
        }
    }
}

#[test]
fn a_packet_as_long_as_the_burst_passes_once() {
    let settings = Settings::single(8_000_000_000, 1500);
    let mut meter = Meter::full(&settings, 0);
    let mut pass = |now_ns| {
        meter.refill(&settings, now_ns);
        let colour = meter.colour(&settings, settings.cost(1500), Colour::Green);
        meter.take(&settings, settings.cost(1500), colour);
        colour
    };
    // A byte a nanosecond: after 1499 of them one is missing.
    assert_eq!([0, 1499, 1500, 2999, 3000].map(&mut pass), {
        use Colour::{Green, Red};
        [Green, Red, Green, Red, Green]
    });
}
