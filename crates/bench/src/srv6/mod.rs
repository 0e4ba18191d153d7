//! The bench `srv6`: segments on packets, and off, in turns with the same packets as they are, and with Linux.
//!
//! ```text
//!  local network ── gateway ── fc00:2::1 ── fc00:2::d6 ── other networks
//!      outbound:    H.Encaps
//!      inbound:     End.DX6 (here the gateway is fc00:2::d6)
//! ```

pub(crate) mod case;
mod linux;

use core::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use dataplane::{FIRST_SEGMENTS, Function, SegmentRoute, Segments, Topology};
use forward::{Hop, RouteEntry, RouteKind, Subnet, table};
use io::HEADROOM;
use policy::{Direction as PolicyDirection, PolicyConfig, Selector};
use srv6::{Behaviour, Sid};
use wire::ethernet::HEADER_LEN;
use wire::{ipv6, udp};

use self::case::{CASES, Case, DOMAIN, DOMAIN_LEN, LAST, REMOTE_LEN, arrive, headend};
use self::linux::Linux;
use crate::error::BenchError;
use crate::esp::{plan, ports_alone, repetition, row};
use crate::gateway::{Gateway, Path};
use crate::options::{Direction, Options, suite_by_name};
use crate::pin::pinned;
use crate::row::Row;
use crate::rows::Rows;
use crate::shape::Shape;
use crate::timing::{Repetitions, gains, median};
use crate::traffic::local_host;
use crate::world::{self, LAN, MTU, WAN};

/// The bench `srv6`.
///
/// # Errors
/// [`BenchError`]; what was measured before is lost then.
pub(crate) fn srv6(options: &Options<'_>) -> Result<Vec<Row>, BenchError> {
    options.check()?;
    if let Some(size) = options.sizes.iter().copied().find(|size| !SIZES.contains(size)) {
        let allowed =
            "48 to 1420 bytes: there are headers of IPv6 and UDP, and those of two segments";
        return Err(BenchError::Option { what: "size", given: size, allowed });
    }
    // The thread's network namespace becomes that of Linux's part, and ends with it.
    pinned(options.cpu, || {
        let mut rows = Rows::new(options, options.sizes.len());
        for size in &options.sizes {
            let linux = Linux::new();
            rows.begin(&match &linux {
                Ok(_) => format!("{size} bytes"),
                Err(why) => format!("{size} bytes, without Linux: {why}"),
            });
            rows.extend(of_size(options, *size, linux.ok())?);
        }
        Ok(rows.into_vec())
    })
}

fn of_size(
    options: &Options<'_>,
    size: usize,
    mut linux: Option<Linux>,
) -> Result<Vec<Row>, BenchError> {
    let one = |case: Case| {
        let mut gateway = gateway(options, case, size)?;
        gateway.prove()?;
        Ok((case, gateway, Repetitions::default(), Repetitions::default()))
    };
    let mut all = CASES.into_iter().map(one).collect::<Result<Vec<_>, BenchError>>()?;
    let mut sending = Repetitions::default();
    for _ in 0..options.repeat {
        for (case, gateway, ours, theirs) in &mut all {
            ours.0.push(repetition(gateway, options)?);
            if let Some(linux) = &mut linux {
                theirs.0.push(linux.repetition(options, *case, size)?);
            }
        }
        if let Some(linux) = &mut linux {
            sending.0.push(linux.sending(options, CASES[0], size)?);
        }
    }
    let io_cycles = ports_alone(options, size)?;
    let clear = all.first().map(|(_, _, ours, _)| ours.clone()).unwrap_or_default();
    let rows = all.iter().map(|(case, gateway, ours, theirs)| {
        let mut row = row(options, "srv6", gateway);
        (row.suite, row.engine, row.sas, row.direction) = (None, None, None, None);
        ours.fill(&mut row, options.allocations.is_some());
        (row.case, row.io_cycles) = (Some(case.name), io_cycles);
        row.ratio_clear = Some(median(gains(ours.rates().zip(clear.rates()))));
        if (case.direction, case.segments) == (Direction::Outbound, 1) {
            (row.published_mpps, row.published_cores) = (Some(PUBLISHED_MPPS), Some(1));
        }
        if linux.is_some() {
            let ns = theirs.ns_per_packet() - sending.ns_per_packet();
            // On a busy machine nothing may be left: no number is better than a wrong one.
            row.peer_mpps = (ns > 0.0).then_some(1000.0 / ns);
            row.ratio_peer = row.peer_mpps.map(|peer| ours.mpps() / peer);
        }
        row
    });
    Ok(rows.collect())
}

fn gateway(options: &Options<'_>, case: Case, size: usize) -> Result<Gateway, BenchError> {
    let suite = suite_by_name("aes128gcm16").or(options.suites.first().copied());
    let nothing = BenchError::Option { what: "suite", given: 0, allowed: "a known suite" };
    let traffic = case.traffic(size, options.flows);
    let shape = traffic.shape;
    // No packet is encrypted; the gateway has a tunnel all the same.
    let path = if case.segments == 0 { Path::Clear } else { Path::Segments(case.segments) };
    let mut plan = plan(options, suite.ok_or(nothing)?, path, traffic);
    plan.policies = bypasses().map(|policy| shape.policy(policy)).to_vec();
    let gateway = Gateway::new(plan)?;
    gateway.tables.topology.store(Arc::new(topology(shape, case)));
    Ok(gateway)
}

/// Policies that let packets between both networks pass in clear.
fn bypasses() -> [PolicyConfig; 3] {
    let back = world::bypass();
    let Selector { src, dst, .. } = back.selector;
    [
        PolicyConfig { index: back.index + 2, direction: PolicyDirection::Forward, ..back.clone() },
        PolicyConfig {
            index: back.index + 1,
            selector: Selector::between(dst, src),
            ..back.clone()
        },
        back,
    ]
}

/// The world, with the routes that a case needs.
fn topology(shape: Shape, case: Case) -> Topology {
    let on = |ifindex, gateway| vec![Hop { ifindex, gateway, weight: 1 }];
    let route = |addr: Ipv6Addr, len, hops| RouteEntry {
        table: table::MAIN,
        dst: Subnet { addr: addr.into(), len },
        kind: RouteKind::Unicast,
        priority: 0,
        hops,
        mtu: None,
        src: None,
    };
    let (IpAddr::V6(remote), router) = (shape.addr(world::REMOTE), shape.addr(world::ROUTER))
    else {
        return Topology::default();
    };
    let mut functions = Vec::new();
    let mut routes = Vec::new();
    match (case.direction, headend(case.segments)) {
        (Direction::Outbound, Some(headend)) => {
            functions.push((Function::Headend(headend), WAN));
            routes.push(route(remote, REMOTE_LEN, on(FIRST_SEGMENTS, None)));
            routes.push(route(DOMAIN, DOMAIN_LEN, on(WAN, Some(router))));
        }
        (Direction::Inbound, Some(_)) => {
            if let IpAddr::V6(host) = shape.addr(local_host(0)) {
                functions.push((Function::Sid(Sid::new(Behaviour::EndDx6(host))), LAN));
            }
            routes.push(route(LAST, 128, on(FIRST_SEGMENTS, None)));
        }
        (_, None) => {}
    }
    let mut topology = world::topology(shape, routes);
    let some = |(function, ifindex)| Some(SegmentRoute { function, ifindex });
    topology.segments = functions.into_iter().map(some).collect::<Segments>().with_domain([WAN]);
    topology
}

impl Gateway {
    /// Writes every packet as it arrives at its last segment; the span is the IP packet.
    pub(crate) fn write_segments(&mut self, count: usize) -> Result<(), BenchError> {
        let wrong = BenchError::NotFound { what: "segments" };
        let Some(headend) = headend(count) else { return Err(wrong) };
        let overhead = headend.overhead();
        self.write_cleartext(HEADROOM + HEADER_LEN + overhead);
        let packets = self.stock.iter_mut().map(|packet| {
            packet.span.start -= overhead;
            packet.span.len += overhead;
            arrive(&headend, packet.data_mut())
        });
        packets.collect::<Option<()>>().ok_or(wrong)
    }
}

/// Lengths of a packet in bytes.
const SIZES: core::ops::RangeInclusive<usize> =
    ipv6::HEADER_LEN + udp::HEADER_LEN..=MTU as usize - 80;
/// VPP's rate without loss, frames of 78 bytes, both directions together, two threads of one core of an Ice Lake
/// (CSIT 22.10, 3n-icx, xxv710, avf, srv6enc1sid).
const PUBLISHED_MPPS: f64 = 13.37;
