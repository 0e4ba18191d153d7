//! The meaning of entries, and refusals.

use super::*;
use crate::Config;
use limit::Fill;

fn parse(entries: &str) -> Result<Vec<LimitConfig>, String> {
    Config::parse(entries, std::path::Path::new("culvert.toml"))
        .map(|config| config.limits)
        .map_err(|error| error.to_string())
}

#[test]
fn keys_decide_the_algorithm() {
    let of = |keys: &str| {
        let text = format!("[[limit]]\nname = \"a\"\nall = true\nrate = \"8Mbit\"\n{keys}");
        parse(&text).unwrap().remove(0).settings().algorithm
    };
    let committed = Fill { rate: 8_000_000, burst: 120_000 };
    assert_eq!(of(""), Algorithm::Single(committed));
    assert_eq!(
        of("excess_burst = \"3kB\""),
        Algorithm::OneRate { committed, excess_burst: 24_000 }
    );
    let peak = Fill { rate: 16_000_000, burst: 160_000 };
    assert_eq!(of("peak = \"16Mbit\""), Algorithm::TwoRates { committed, peak });
    let excess = Fill { rate: 1_000_000, burst: 16_000 };
    assert_eq!(
        of("excess = \"1Mbit\"\nexcess_burst = \"2kB\""),
        Algorithm::Differentiated { committed, excess }
    );
}

#[test]
fn a_hierarchy_is_read() {
    let limits = parse(
        "[[limit]]\nname = \"total\"\nrate = \"1.5Gbit\"\nburst = \"1MB\"\n\
         [[limit]]\nname = \"voice\"\nrate = \"10kpps\"\nburst = \"32packets\"\ndscp = \"EF\"\n\
         parent = \"total\"\ngreen = \"EF\"\nred = \"drop\"\neach = \"flow\"\n\
         [[limit]]\nname = \"rest\"\nrate = \"100Mbit\"\nparent = \"total\"\nif_id = 7\n\
         direction = \"both\"\nred = 8\n",
    )
    .unwrap();
    assert!(!limits[0].is_about_packets());
    assert_eq!((limits[1].about(), limits[2].about()), ("dscp 46".into(), "if_id 0x7".into()));
    assert_eq!(limits[2].red, Action(Treatment::Mark(8)));
}

const SHAPE: &str = "mode = \"shape\"\n";
const ATOMIC: &str = "by = \"atomic\"\n";

#[test]
fn workers_share_by_leases_unless_told() {
    let of = |keys: &str| {
        let text = format!("[[limit]]\nname = \"a\"\nall = true\nrate = \"8Mbit\"\n{keys}");
        parse(&text).unwrap().remove(0).settings().sharing
    };
    assert_eq!((of(""), of("by = \"leases\"\n")), (Sharing::Leases, Sharing::Leases));
    assert_eq!(of(ATOMIC), Sharing::Atomic);
}

#[test]
fn what_waits_has_bounds() {
    let of = |keys: &str| {
        let text = format!("[[limit]]\nname = \"a\"\nall = true\n{SHAPE}{keys}");
        parse(&text).unwrap().remove(0).settings().queue
    };
    let bounds = |packets, bytes| Some(limit::Bounds { packets, bytes });
    assert_eq!(of("rate = \"80Mbit\""), bounds(1000, 1_000_000), "100 ms");
    assert_eq!(of("rate = \"8kbit\""), bounds(1000, 15_000));
    let keys = "rate = \"10kpps\"\nqueue = \"90kB\"\nqueue_packets = 64";
    assert_eq!(of(keys), bounds(64, 90_000));
}

/// Between what is wrong and what would be right.
const CANNOT: &str = "this cannot be\n  ";

#[test]
fn what_cannot_be_is_refused_by_its_key() {
    let one = "name = \"a\"\nall = true\nrate = \"1Mbit\"\n";
    for (entries, named) in [
        ("name = \"a\"\nall = true\nrate = \"0Mbit\"", "limit[0].rate = \"0bit\": above 0"),
        ("name = \"a\"\nall = true\nrate = \"1M\"", "write for instance \"100Mbit\""),
        ("name = \"a b\"\nall = true\nrate = \"1Mbit\"", "limit[0].name"),
        ("name = \"a\"\nrate = \"1Mbit\"", "limit[0].all = false: true; or say which"),
        (&format!("{one}burst = \"1kB\""), "limit[0].burst = \"1kB\": at least tun.mtu"),
        (&format!("{one}burst = \"2GB\""), "at most 1GiB"),
        (&format!("{one}burst = \"3packets\""), "bytes where rate is in bits"),
        (&format!("{one}peak = \"10kpps\""), "limit[0].peak = \"10kpps\": bits or packets"),
        (&format!("{one}peak = \"10kbit\""), "limit[0].peak = \"10kbit\": not below rate"),
        (&format!("{one}peak_burst = \"9kB\""), "limit[0].peak_burst"),
        (&format!("{one}peak = \"2Mbit\"\nexcess_burst = \"9kB\""), "RFC 4115"),
        (&format!("{one}parent = \"b\""), "limit[0].parent = \"b\": the name of another"),
        (&format!("{one}parent = \"a\""), "no loops"),
        (&format!("{one}dscp = 46"), "limit[0].all"),
        (&format!("{one}red = \"mark\""), "AF12"),
        (&format!("{one}each = \"host\""), "this value is not known"),
        (&format!("{one}vlan = 4095"), "limit[0].vlan"),
        (&format!("{one}by = \"queues\""), "there is leases, atomic"),
        (
            &format!("{one}{ATOMIC}{SHAPE}"),
            "limit[0].by = \"atomic\": \"leases\" where packets wait",
        ),
        (
            &format!("{one}{ATOMIC}each = \"flow\""),
            "limit[0].by = \"atomic\": \"leases\" where each flow or tunnel",
        ),
        (
            &format!("{one}{ATOMIC}parent = \"b\"\n[[limit]]\nname = \"b\"\nrate = \"2Mbit\""),
            "limit[0].by = \"atomic in a, leases in b\": the same in a limit and all above it",
        ),
        (
            &format!("{one}parent = \"b\"\n[[limit]]\nname = \"b\"\nrate = \"2Mbit\"\n{ATOMIC}"),
            "limit[0].by = \"leases in a, atomic in b\"",
        ),
        ("name = \"a\"\nall = true\nrate = \"0pps\"", "limit[0].rate = \"0pps\": above 0"),
        (&format!("{one}burst = \"0B\""), "limit[0].burst = \"0B\": at least tun.mtu"),
        (&format!("{one}burst = \"1499B\""), "or the longest packets never pass"),
        (&format!("{one}burst = \"1500B\"\noverhead = 1"), "limit[0].burst = \"1.5kB\""),
        (&format!("{one}excess = \"0bit\""), "limit[0].excess = \"0bit\": above 0"),
        (&format!("{one}mode = \"queue\""), "this value is not known"),
        (&format!("{one}queue = \"9kB\""), "limit[0].queue = \"9kB\": leave it out, or say mode"),
        (&format!("{one}queue_packets = 9"), "limit[0].queue_packets"),
        (&format!("{one}{SHAPE}queue = \"1kB\""), "limit[0].queue = \"1kB\": bytes: at least"),
        (&format!("{one}{SHAPE}queue = \"9packets\""), "limit[0].queue = \"9packets\": bytes"),
        (&format!("{one}{SHAPE}queue_packets = 0"), "limit[0].queue_packets = 0: 1 to"),
        (&format!("{one}{SHAPE}peak = \"2Mbit\""), "limit[0].mode = \"shape\": \"police\" where"),
        (&format!("{one}{SHAPE}aware = true"), "three colours"),
        (&format!("{one}{SHAPE}red = \"pass\""), "where red packets pass"),
        (&format!("{one}{SHAPE}each = \"flow\""), "a queue is a limit's"),
        (
            &format!(
                "{one}parent = \"b\"\n[[limit]]\nname = \"b\"\nrate = \"2Mbit\"\n{SHAPE}mark = 1"
            ),
            "limit[0].parent = \"b\": a limit that polices",
        ),
        (&format!("{one}[[limit]]\n{one}"), "limit[1].name = \"a\": another name"),
        (
            "name = \"a\"\nrate = \"1Mbit\"\nparent = \"b\"\nmark = 1\n\
             [[limit]]\nname = \"b\"\nrate = \"1Mbit\"\nparent = \"a\"",
            "limit[0].parent = \"b\": a limit that is not below",
        ),
        (
            "name = \"a\"\nrate = \"1Mbit\"\nparent = \"b\"\nmark = 1\n\
             [[limit]]\nname = \"b\"\nrate = \"1Mbit\"\neach = \"flow\"\nmark = 2",
            "a limit without each",
        ),
        (
            "name = \"a\"\nrate = \"1Mbit\"\nmark = 1\nsrc = \"::/0\"\ndst = \"10.0.0.0/8\"",
            "limit[0].dst",
        ),
    ] {
        let error = parse(&format!("[[limit]]\n{entries}")).unwrap_err().replace(CANNOT, "");
        assert!(error.contains(named), "{entries}: {error}");
    }
    let chain: String = (0..5)
        .map(|n| {
            let parent = if n < 4 { format!("parent = \"l{}\"\n", n + 1) } else { String::new() };
            format!("[[limit]]\nname = \"l{n}\"\nrate = \"1Mbit\"\nmark = 1\n{parent}")
        })
        .collect();
    assert!(
        parse(&chain)
            .unwrap_err()
            .replace(CANNOT, "")
            .contains("limit[0].parent = \"l1\": at most 4")
    );
}
