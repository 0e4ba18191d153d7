//! Packets made by scapy's IPsec layer: they open, and sealing gives the same bytes.

use crate::common::vector::{Vector, hex, lines};
use crate::common::{Bench, sa_with};
use crypto::{Keys, Suite};
use esp::{LiveNumbers, Mode, SaParams};
use wire::parse_ip;

fn vectors() -> Vec<Vector> {
    let mut all = Vec::new();
    let mut of = None;
    for (line, fields) in lines(include_str!("../vectors/scapy.txt")) {
        match fields[..] {
            ["suite", name, cipher, salt, auth] => {
                let suite = Suite::all().find(|s| s.to_string() == name).expect("a known suite");
                let keys = Keys { cipher: hex(cipher), salt: hex(salt), auth: hex(auth) };
                of = Some((suite, keys));
            }
            [mode, udp, esn, seq, clear, sealed] => {
                let (suite, keys) = of.clone().expect("a suite's line before its packets");
                let sealed = hex(sealed);
                let params = SaParams {
                    mode: if mode == "tunnel" { Mode::Tunnel } else { Mode::Transport },
                    encap: if udp == "1" { crate::common::NATT } else { None },
                    esn: esn == "1",
                    ..crate::common::params(suite, sealed[0] >> 4 == 4)
                };
                let seq = seq.parse().unwrap();
                all.push(Vector { line, params, keys, seq, clear: hex(clear), sealed });
            }
            _ => panic!("line {line} has {} fields", fields.len()),
        }
    }
    all
}

#[test]
fn the_file_covers_every_suite_and_form() {
    let all = vectors();
    // scapy has neither SM4 nor SM3.
    let is_scapys = |suite: &Suite| !suite.to_string().contains("sm");
    for suite in Suite::all().filter(is_scapys) {
        let of = || all.iter().filter(|v| v.params.suite == suite);
        assert!(of().next().is_some(), "{suite}");
    }
    for suite in crate::common::suites().filter(is_scapys) {
        let of = || all.iter().filter(|v| v.params.suite == suite);
        for mode in [Mode::Tunnel, Mode::Transport] {
            for v4 in [true, false] {
                let form =
                    || of().filter(|v| v.params.mode == mode && v.params.dst.is_ipv4() == v4);
                assert!(form().any(|v| v.params.encap.is_some()), "{suite} {mode:?} UDP");
                assert!(form().any(|v| v.params.encap.is_none()), "{suite} {mode:?} bare");
                assert!(form().any(|v| v.params.esn), "{suite} {mode:?} ESN");
            }
        }
        for inner in [4, 6] {
            for v4 in [true, false] {
                assert!(of().any(|v| v.params.mode == Mode::Tunnel
                    && v.params.dst.is_ipv4() == v4
                    && v.clear[0] >> 4 == inner));
            }
        }
    }
}

#[test]
fn opens_what_scapy_seals() {
    let mut bench = Bench::new();
    for v in vectors() {
        let sa = sa_with(v.params, &v.keys, LiveNumbers::on_heap(64));
        if sa.params().esn {
            sa.replay().restore(v.seq - 1, |_| true);
        }
        let opened = bench.open(&sa, &v.sealed);
        assert_eq!(opened, Ok(Some(v.clear)), "line {}", v.line);
    }
}

#[test]
fn seals_the_bytes_that_scapy_seals() {
    let mut bench = Bench::new();
    for v in vectors() {
        // Scapy's packets have the number as IV.
        let sa = sa_with(v.params.clone(), &v.keys, LiveNumbers::on_heap(64)).with_iv_salt(0);
        sa.live().sent().store(v.seq - 1, std::sync::atomic::Ordering::Relaxed);
        let h = parse_ip(&v.sealed).unwrap();
        let udp_at = usize::from(h.header_len);
        let esp_at = udp_at + if v.params.encap.is_some() { 8 } else { 0 };
        // The only thing that is not determined: CBC's IV.
        let iv = &v.sealed[esp_at + 8..esp_at + 8 + v.params.suite.iv_len_bytes()];
        let mut sealed = bench
            .seal_in(&sa, &v.clear, 120, 120, |buf, esp| {
                if v.params.suite.needs_random_iv() {
                    buf[esp.start + 8..][..iv.len()].copy_from_slice(iv);
                }
            })
            .unwrap();
        if v.params.encap.is_some() && !v.params.dst.is_ipv4() {
            // Scapy sends UDP over IPv6 without a checksum, culvert and Linux with one.
            assert_eq!(crate::common::udp_over_v6_sum(&sealed, udp_at), 0xffff, "line {}", v.line);
            sealed[udp_at + 6..udp_at + 8].fill(0);
        }
        assert_eq!(sealed, v.sealed, "line {}", v.line);
    }
}
