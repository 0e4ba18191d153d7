//! Short runs give sane rows, and impossible ones are refused with a reason.

use core::sync::atomic::AtomicBool;
use core::time::Duration;
use std::sync::{Mutex, PoisonError};

use bench::{Bench, BenchError, Direction, Listener, Options, Peer, Row, suite_by_name};
use crypto::Provider;
use engine_openssl::OpensslProvider;

/// Fields of every row, so that a reader of rows need not ask.
const FIELDS: [&str; 15] = [
    "bench",
    "suite",
    "direction",
    "size_bytes",
    "sas",
    "cores",
    "mpps_median",
    "mpps_min",
    "mpps_max",
    "cycles_per_packet",
    "raw_mpps",
    "ratio_raw",
    "peer_mpps",
    "ratio_peer",
    "allocations_per_packet",
];

fn short(bench: Bench, provider: &dyn Provider) -> Options<'_> {
    let mut options = bench.defaults(provider);
    options.frames = 256;
    options.duration = Duration::from_micros(10);
    // Rows need not be good here, so nothing waits for quiet neighbours.
    options.patience = Some(options.duration);
    options.repeat = 3;
    options.sizes = vec![64, 1400];
    options.suites.truncate(1);
    options.allocations = Some(|| 0);
    options
}

/// One measurement at a time: those beside one another wait for a quiet core.
fn run(bench: Bench, options: &Options<'_>) -> Vec<Row> {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    bench.run(options, &Peer::default()).unwrap()
}

#[test]
fn rows_are_sane() {
    let provider = OpensslProvider::new().unwrap();
    for bench in [Bench::Esp, Bench::Forward, Bench::Crypto, Bench::Sas] {
        let mut options = short(bench, &provider);
        options.sas = vec![1, 40];
        let rows = run(bench, &options);
        let expected = match bench {
            Bench::Esp => 2 * 2 * 2,
            Bench::Forward => 2,
            Bench::Crypto => 2 * 2 * 2,
            _ => 2 * 2 * 2 * 2,
        };
        assert_eq!(rows.len(), expected, "{bench:?}");
        for row in &rows {
            let (median, least) = (row.mpps_median.unwrap(), row.mpps_min.unwrap());
            assert!(0.0 < least && least <= median, "{row:?}");
            assert!(median <= row.mpps_max.unwrap() && median < 1000.0, "{row:?}");
            if let Some(ratio) = row.ratio_raw {
                assert!((ratio - median / row.raw_mpps.unwrap()).abs() < 1e-9);
            }
            let gbps = median * row.size_bytes.unwrap() as f64 * 8.0 / 1000.0;
            assert!((row.gbps_median.unwrap() - gbps).abs() < 1e-9);
            assert_eq!((row.bench, row.cores), (bench.name(), Some(1)));
            assert_eq!(row.allocations_per_packet, Some(0.0));
            assert_eq!(row.cycles_per_packet.is_some(), cfg!(target_arch = "x86_64"));
            let json = serde_json::to_value(row).unwrap();
            let missing: Vec<_> = FIELDS.iter().filter(|f| json.get(**f).is_none()).collect();
            assert!(missing.is_empty(), "{missing:?}");
        }
        assert!(!bench.charts(&rows).is_empty());
        assert!(bench.charts(&rows).iter().all(|chart| !chart.series.is_empty()));
    }
}

/// A listener's record: measurements that began, by number, and rows.
#[derive(Default)]
struct Heard(Mutex<(Vec<usize>, Vec<Row>)>);

impl Heard {
    /// Holds what was heard against the rows that the measurement returned.
    fn told(self, rows: &[Row]) {
        let (begun, told) = self.0.into_inner().unwrap();
        assert_eq!(told, rows);
        assert!(begun.len() > 1 && begun.iter().copied().eq(1..=begun.len()), "{begun:?}");
    }
}

impl Listener for Heard {
    fn begins(&self, what: &str, number: usize, of: usize) {
        assert!(!what.is_empty() && number <= of, "{what}: {number} of {of}");
        let (begun, rows) = &mut *self.0.lock().unwrap();
        assert!(number == 1 || !rows.is_empty(), "nothing was told before measurement {number}");
        begun.push(number);
    }

    fn done(&self, rows: &[Row]) {
        self.0.lock().unwrap().1.extend_from_slice(rows);
    }
}

#[test]
fn rows_are_told_before_the_next_one_is_measured() {
    let provider = OpensslProvider::new().unwrap();
    for bench in [Bench::Esp, Bench::Forward, Bench::Crypto, Bench::Sas, Bench::Rekey] {
        let heard = Heard::default();
        let mut options = Options { listener: &heard, ..short(bench, &provider) };
        options.sas.truncate(1);
        let rows = run(bench, &options);
        heard.told(&rows);
    }
}

#[test]
fn who_asks_to_stop_need_not_wait_for_the_end() {
    let provider = OpensslProvider::new().unwrap();
    let stop = AtomicBool::new(true);
    for bench in [Bench::Esp, Bench::Forward, Bench::Crypto, Bench::Sas, Bench::Scale] {
        let mut options = short(bench, &provider);
        options.duration = Duration::from_secs(3600);
        options.stop = Some(&stop);
        let stopped = bench.run(&options, &Peer::default());
        assert!(matches!(stopped, Err(BenchError::Stopped)), "{bench:?}");
    }
}

#[test]
fn many_sas_are_told_in_order_with_both_choices() {
    let provider = OpensslProvider::new().unwrap();
    let mut options = short(Bench::Sas, &provider);
    options.sizes = vec![100];
    options.directions = vec![Direction::Inbound];
    options.sas = vec![1, 500, 20];
    let rows = run(Bench::Sas, &options);
    let found: Vec<_> = rows.iter().map(|r| (r.case.unwrap(), r.sas.unwrap())).collect();
    let expected = [
        ("uniform", 1),
        ("uniform", 20),
        ("uniform", 500),
        ("zipf", 1),
        ("zipf", 20),
        ("zipf", 500),
    ];
    assert_eq!(found, expected);
    assert!(rows.iter().all(|r| r.flows.unwrap() >= 1024 && r.raw_mpps.is_some()));
}

#[test]
fn the_cipher_with_many_keys_is_held_against_one() {
    let provider = OpensslProvider::new().unwrap();
    let mut options = short(Bench::Crypto, &provider);
    options.sizes = vec![100];
    let one = run(Bench::Crypto, &options);
    assert!(one.len() == 2 && one.iter().all(|r| r.sas.is_none() && r.gain_median.is_none()));
    options.sas = vec![1, 300];
    for of_direction in run(Bench::Crypto, &options).chunks(2) {
        let [one, many] = of_direction else { panic!("{of_direction:?}") };
        assert_eq!((one.sas, many.sas, one.gain_median), (Some(1), Some(300), None));
        assert_eq!(one.direction, many.direction);
        let (least, gain) = (many.gain_min.unwrap(), many.gain_median.unwrap());
        assert!(0.0 < least && least <= gain && gain <= many.gain_max.unwrap());
    }
    options.sas = vec![300];
    let alone = run(Bench::Crypto, &options);
    assert!(alone.iter().all(|r| r.sas == Some(300) && r.gain_median.is_none()));
}

#[test]
fn the_other_engine_too() {
    // Where the library is not there, there is nothing to try.
    let Ok(provider) = ipsec_mb::IpsecMbProvider::new() else { return };
    let rows = run(Bench::Esp, &short(Bench::Esp, &provider));
    assert!(rows.iter().all(|row| row.engine == Some("ipsec-mb")));
}

#[test]
fn every_algorithm_can_be_measured() {
    let provider = OpensslProvider::new().unwrap();
    let mut options = short(Bench::Esp, &provider);
    // Each cipher and each integrity algorithm at least once: all pairs of them are the engines' tests.
    let mut seen = std::collections::HashSet::new();
    let is_new = |suite: &crypto::Suite| {
        let name = suite.to_string();
        // Each half is asked for: `any` would leave the second out once the first is new.
        name.split('-').filter(|half| seen.insert((*half).to_owned())).count() > 0
    };
    // OpenSSL 3.0 has no SM4-GCM.
    let suites = crypto::Suite::all().filter(|suite| provider.supports(*suite));
    options.suites = suites.filter(is_new).collect();
    let suites = options.suites.len();
    assert!((30..60).contains(&suites), "{suites}");
    options.repeat = 1;
    options.frames = 64;
    options.sizes = vec![64];
    assert_eq!(run(Bench::Esp, &options).len(), 2 * suites);
}

#[test]
fn what_cannot_be_is_refused() {
    let provider = OpensslProvider::new().unwrap();
    let refused = |change: &dyn Fn(&mut Options<'_>)| {
        let mut options = short(Bench::Esp, &provider);
        change(&mut options);
        Bench::Esp.run(&options, &Peer::default()).unwrap_err()
    };
    let what = |error| match error {
        BenchError::Option { what, .. } => what,
        other => panic!("{other}"),
    };
    assert_eq!(what(refused(&|o| o.sizes = vec![27])), "size");
    assert_eq!(what(refused(&|o| o.repeat = 0)), "repeat");
    assert_eq!(what(refused(&|o| o.sas = vec![1, 0])), "sas");
    assert_eq!(what(refused(&|o| o.flows = 0)), "flows");
    assert_eq!(what(refused(&|o| o.frames = 63)), "frames");
    assert_eq!(what(refused(&|o| o.cpu = Some(usize::MAX))), "cpu");
    let error = refused(&|o| o.sizes = vec![1447]);
    assert!(matches!(error, BenchError::TooLong { size: 1447, max: 1446, .. }), "{error}");
}

#[test]
fn a_missing_peer_says_how_to_get_it() {
    let provider = OpensslProvider::new().unwrap();
    let peer = Peer { program: "/nowhere/ipsec-secgw".into(), ..Peer::default() };
    let error = Bench::Peer.run(&short(Bench::Peer, &provider), &peer).unwrap_err().to_string();
    assert!(
        error.contains("/nowhere/ipsec-secgw") && error.contains("bench/peer/build"),
        "{error}"
    );
}

#[test]
fn names_of_suites_and_directions() {
    assert_eq!(suite_by_name("aes128gcm16").unwrap().to_string(), "aes128gcm16");
    assert_eq!(suite_by_name("rot13"), None);
    assert_eq!(Direction::Inbound.name(), "inbound");
}

#[test]
fn several_cores_are_held_against_one() {
    let provider = OpensslProvider::new().unwrap();
    let heard = Heard::default();
    let mut options = Options { listener: &heard, ..short(Bench::Scale, &provider) };
    // Threads that spin on every core wait long for one another where others work too.
    (options.sizes, options.repeat) = (vec![64], 1);
    let rows = run(Bench::Scale, &options);
    heard.told(&rows);
    let cores = std::thread::available_parallelism().unwrap().get();
    assert_eq!(
        rows.len(),
        2 * 4 * 2 * cores,
        "in caches or not, four ways to share, both directions"
    );
    for row in &rows {
        assert_eq!(row.bench, "scale");
        assert!(row.mpps_min.unwrap() <= row.mpps_median.unwrap());
        let is_one = row.cores == Some(1);
        assert_eq!(row.gain_median.is_none(), is_one, "{row:?}");
        if !is_one {
            let (least, most) = (row.gain_min.unwrap(), row.gain_max.unwrap());
            assert!(0.0 < least && least <= row.gain_median.unwrap(), "{row:?}");
            assert!(row.gain_median.unwrap() <= most, "{row:?}");
        }
        let is_handed_over = row.case.is_some_and(|case| case.starts_with("workers, handed over"));
        assert_eq!(row.lost.is_some(), is_handed_over && !is_one, "{row:?}");
        let is_shared = row.case.is_some_and(|case| case.starts_with("the same SAs"));
        assert_eq!(row.round_trip_ns.is_some(), is_shared && !is_one, "{row:?}");
    }
    let one = |case| rows.iter().find(|r| r.case == Some(case)).unwrap().mpps_median;
    for (pool, own) in [
        ("the same SAs, in order", "SAs of their own"),
        ("the same SAs, in order", "workers, SAs of their own"),
        ("the same SAs, in order", "workers, handed over"),
        ("the same SAs, from memory", "SAs of their own, from memory"),
        ("the same SAs, from memory", "workers, SAs of their own, from memory"),
        ("the same SAs, from memory", "workers, handed over, from memory"),
    ] {
        assert_eq!(one(pool), one(own), "measured once");
    }
}

#[test]
fn packets_in_payloads_are_held_against_the_same_ones_in_esp_each() {
    let provider = OpensslProvider::new().unwrap();
    let mut options = short(Bench::Iptfs, &provider);
    options.sizes = vec![64];
    let rows = run(Bench::Iptfs, &options);
    let found: Vec<_> =
        rows.iter().map(|row| (row.direction.unwrap(), row.case.unwrap())).collect();
    let both = [Direction::Outbound, Direction::Inbound];
    assert_eq!(found, both.map(|way| [(way, "tunnel"), (way, "iptfs")]).concat());
    for row in &rows {
        assert!(row.mpps_median.unwrap() > 0.0, "{row:?}");
        assert_eq!(row.gain_median.is_some(), row.case == Some("iptfs"));
    }
}

#[test]
fn packets_with_segments_are_held_against_the_same_ones_without() {
    let provider = OpensslProvider::new().unwrap();
    let mut options = short(Bench::Srv6, &provider);
    options.sizes = vec![60];
    let rows = run(Bench::Srv6, &options);
    assert_eq!(rows.len(), 4);
    for row in &rows {
        assert!(row.mpps_median.unwrap() > 0.0 && row.ratio_clear.unwrap() > 0.0, "{row:?}");
        let is_published = row.case == Some("H.Encaps.Red, 1 SID");
        assert_eq!(row.published_mpps.is_some(), is_published, "{row:?}");
    }
    for size in [47, 1421] {
        let options = Options { sizes: vec![size], ..options.clone() };
        let error = Bench::Srv6.run(&options, &Peer::default()).unwrap_err().to_string();
        assert!(error.contains("48 to 1420 bytes"), "{error}");
    }
}

#[test]
fn overlays_inside_of_esp_are_held_against_esp_alone() {
    let provider = OpensslProvider::new().unwrap();
    let mut options = short(Bench::Overlay, &provider);
    options.sizes = vec![64, 1400];
    let rows = run(Bench::Overlay, &options);
    let cases: Vec<_> = rows.iter().map(|row| row.case.unwrap()).collect();
    assert_eq!(cases, ["tunnel", "GRE in ESP", "VXLAN in ESP"].repeat(2 * 2));
    for row in &rows {
        assert!(row.mpps_median.unwrap() > 0.0, "{row:?}");
        assert_eq!(row.gain_median.is_some(), row.case != Some("tunnel"), "{row:?}");
    }
    let options = Options { sizes: vec![1401], ..options.clone() };
    let error = Bench::Overlay.run(&options, &Peer::default()).unwrap_err().to_string();
    assert!(error.contains("at most 1400 bytes"), "{error}");
}

#[test]
fn packets_go_to_an_application_and_back_through_ipsec() {
    let provider = OpensslProvider::new().unwrap();
    let mut options = short(Bench::SmallCell, &provider);
    (options.sizes, options.flows) = (vec![128, 1400], 4);
    let rows = run(Bench::SmallCell, &options);
    assert_eq!(rows.len(), 3 * 2);
    for row in &rows {
        assert_eq!((row.bench, row.flows), ("small-cell", Some(4)));
        assert!(row.mpps_median.unwrap() > 0.0 && row.published_mpps.unwrap() > 1.0, "{row:?}");
        // No upper bound: the two clocks of a share are read one after the other, in which time a
        // busy machine does other things.
        let shares = [row.busy_share.unwrap(), row.application_share.unwrap()];
        assert!(shares.iter().all(|share| *share > 0.0), "{row:?}");
    }
    for (size, says) in [(35, "36 bytes and more"), (1450, "the most that aes128gcm16 leaves")] {
        let options = Options { sizes: vec![size], ..options.clone() };
        let error = Bench::SmallCell.run(&options, &Peer::default()).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}
