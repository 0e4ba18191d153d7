//! How long packets were here is measured, of one in so many, by workers and helpers alike.

use dataplane::EVERY;

use crate::packets::Ip;
use crate::pool::pooled;
use crate::support::{Gateway, Pair, Side, Spec};

fn flow() -> Ip {
    Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10))
}

/// Sends so many packets, a burst and a bit at a time.
fn send(pair: &mut Pair, count: usize) {
    for n in 0..count {
        pair.a.put_lan(&flow().sized(100, n as u16));
        if n % 77 == 76 || n + 1 == count {
            pair.a.run();
            pair.carry(Side::A);
            pair.b.lan_out();
        }
    }
}

#[test]
fn what_leaves_is_measured_on_both_ways() {
    for threads in [0, 2] {
        let mut pair = Pair::new(&Spec::default());
        let mut helpers = Vec::new();
        if threads > 0 {
            helpers.extend(pooled(&mut pair.a, threads));
            helpers.extend(pooled(&mut pair.b, threads));
        }
        send(&mut pair, 5 * EVERY);
        for gateway in [&pair.a, &pair.b] {
            let times = gateway.counters.latency.times();
            assert_eq!(times.count(), 5, "{threads} threads");
            assert!(times.sum_ns > 0);
            assert!(times.quantile_ns(500) <= times.quantile_ns(990));
        }
        drop(pair);
        helpers.into_iter().for_each(|helper| helper.join().expect("no panic"));
    }
}

#[test]
fn what_does_not_leave_is_not_measured() {
    // The device takes nothing.
    let mut g = Gateway::new(Side::A);
    g.protect(&Spec::default());
    g.wan.lock().set_limit(0);
    for n in 0..64 {
        g.put_lan(&flow().sized(100, n));
    }
    g.run();
    assert_eq!(g.counters.totals().dropped, 64);
    assert_eq!(g.counters.latency.times().count(), 0);
    // The next one is chosen by what came, and not by what left.
    g.wan.lock().set_limit(4096);
    for n in 64..=EVERY {
        g.put_lan(&flow().sized(100, n as u16));
        if n % 64 == 0 {
            g.run();
            g.wan_out();
        }
    }
    g.run();
    g.wan_out();
    assert_eq!(g.counters.latency.times().count(), 1);
}
