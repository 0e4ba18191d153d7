//! Short runs give sane rows, and impossible ones are refused with a reason.

use core::time::Duration;

use bench::{BenchError, Direction, EspOptions, suite_by_name};
use crypto::Provider;
use engine_openssl::OpensslProvider;

fn short(provider: &dyn Provider) -> EspOptions<'_> {
    let mut options = EspOptions::new(provider);
    options.frames = 256;
    options.duration = Duration::from_micros(100);
    options.repeat = 3;
    options.sizes = vec![64, 1400];
    options
}

#[test]
fn rows_are_sane() {
    let provider = OpensslProvider::new().unwrap();
    for sas in [1, 4] {
        let mut options = short(&provider);
        options.sas = sas;
        options.suites.push(suite_by_name("aes128-sha256").unwrap());
        options.allocations = Some(|| 0);
        let rows = bench::esp(&options).unwrap();
        assert_eq!(rows.len(), 2 * 2 * 2);
        for row in &rows {
            assert!(0.0 < row.mpps_min && row.mpps_min <= row.mpps_median, "{row:?}");
            assert!(row.mpps_median <= row.mpps_max && row.mpps_max < 1000.0, "{row:?}");
            assert!((row.ratio_raw - row.mpps_median / row.raw_mpps).abs() < 1e-9);
            let gbps = row.mpps_median * row.size_bytes as f64 * 8.0 / 1000.0;
            assert!((row.gbps_median - gbps).abs() < 1e-9);
            assert_eq!((row.bench, row.engine, row.sas, row.cores), ("esp", "openssl", sas, 1));
            assert_eq!(row.allocations_per_packet, Some(0.0));
            assert_eq!(row.cycles_per_packet.is_some(), cfg!(target_arch = "x86_64"));
        }
        let json = serde_json::to_value(&rows[0]).unwrap();
        assert_eq!((&json["direction"], &json["size_bytes"]), (&"outbound".into(), &64.into()));
    }
}

#[test]
fn the_other_engine_too() {
    // Where the library is not there, there is nothing to try.
    let Ok(provider) = ipsec_mb::IpsecMbProvider::new() else { return };
    let rows = bench::esp(&short(&provider)).unwrap();
    assert!(rows.iter().all(|row| row.engine == "ipsec-mb" && row.mpps_median > 0.0));
}

#[test]
fn every_suite_can_be_measured() {
    let provider = OpensslProvider::new().unwrap();
    let mut options = short(&provider);
    options.suites = crypto::Suite::all().collect();
    options.repeat = 1;
    options.frames = 64;
    assert_eq!(bench::esp(&options).unwrap().len(), 26 * 2 * 2);
}

#[test]
fn what_cannot_be_is_refused() {
    let provider = OpensslProvider::new().unwrap();
    let refused = |change: &dyn Fn(&mut EspOptions<'_>)| {
        let mut options = short(&provider);
        change(&mut options);
        bench::esp(&options).unwrap_err()
    };
    let what = |error| match error {
        BenchError::Option { what, .. } => what,
        other => panic!("{other}"),
    };
    assert_eq!(what(refused(&|o| o.sizes = vec![27])), "size");
    assert_eq!(what(refused(&|o| o.repeat = 0)), "repeat");
    assert_eq!(what(refused(&|o| o.sas = 0)), "sas");
    assert_eq!(what(refused(&|o| o.sas = 3)), "sas");
    assert_eq!(what(refused(&|o| o.frames = 63)), "frames");
    assert_eq!(what(refused(&|o| o.cpu = Some(usize::MAX))), "cpu");
    let error = refused(&|o| o.sizes = vec![1447]);
    assert!(matches!(error, BenchError::TooLong { size: 1447, max: 1446, .. }), "{error}");
}

#[test]
fn names_of_suites_and_directions() {
    assert_eq!(suite_by_name("aes128gcm16").unwrap().to_string(), "aes128gcm16");
    assert_eq!(suite_by_name("rot13"), None);
    assert_ne!(Direction::Inbound, Direction::Outbound);
}
