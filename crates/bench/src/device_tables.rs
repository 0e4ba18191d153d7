//! Of the bench `offload`: what look-ups cost in the tables of a device with packet offload, as these grow.
//!
//! The tables are those of the model ([`nic::packet_offload`]), in memory; hardware has its own. What holds for both is the
//! number of probes, which is what is to stay as it is.

use core::hint::black_box;
use core::net::IpAddr;

use crypto::Suite;
use nic::{Policies, SaIndex};
use offload::{PolicyHandle, SaHandle};
use policy::Direction as PolicyDirection;

use crate::error::BenchError;
use crate::growth::{LOOK_UPS, look_ups, packets};
use crate::options::{Direction, Options};
use crate::random::Random;
use crate::row::Row;
use crate::world;

/// How many entries there are in turn.
pub(crate) const ENTRIES: [usize; 2] = [1000, 100_000];

/// Measures a table of policies, each of one tunnel's network.
pub(crate) fn policies(options: &Options<'_>, count: usize) -> Result<Row, BenchError> {
    let mut table = Policies::default();
    // Headers are of the networks behind.
    for n in 1..=count as u32 {
        let [out, ..] = world::policies(n);
        table.add(PolicyHandle(n), &out);
    }
    let mut random = Random::new(9);
    let headers = packets(|| random.below(count) as u32)?;
    let ns = look_ups(options, "the device's policies", &headers, |h| {
        black_box(table.find(PolicyDirection::Out, h)).is_some()
    })?;
    Ok(Row { policies: Some(count), ..row("look-up of a device's policy", ns) })
}

/// Measures a table of inbound SAs, by destination and SPI.
pub(crate) fn sas(options: &Options<'_>, suite: Suite, count: usize) -> Result<Row, BenchError> {
    let key = |n: u32| {
        let params = world::sa_config(suite, Direction::Inbound, n, 0).params;
        (params.dst, params.spi)
    };
    let mut table = SaIndex::default();
    for n in 0..count as u32 {
        let (dst, spi) = key(n);
        table.add(dst, spi, SaHandle(n));
    }
    let mut random = Random::new(10);
    let keys: Vec<(IpAddr, u32)> = (0..LOOK_UPS).map(|_| key(random.below(count) as u32)).collect();
    let ns = look_ups(options, "the device's SAs", &keys, |(dst, spi)| {
        black_box(table.find(*dst, *spi)).is_some()
    })?;
    Ok(Row { sas: Some(count), ..row("look-up of a device's SA", ns) })
}

fn row(case: &'static str, ns: f64) -> Row {
    Row { bench: "offload", case: Some(case), ns_per_lookup: Some(ns), ..Row::default() }
}
