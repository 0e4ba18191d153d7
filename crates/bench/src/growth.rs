//! The bench `growth`: what look-ups and packets cost as tables grow.

use core::net::Ipv4Addr;

use forward::{Hop, RouteEntry, RouteKind, RouteResult, table};
use policy::{Action, Flow, Mark, PolicyConfig, PortMask, Prefix, Selector};
use wire::{Headers, parse_ip};

use crate::error::BenchError;
use crate::esp::{plan, repetition, row};
use crate::gateway::{Gateway, Path};
use crate::machine::resident_bytes;
use crate::options::{Direction, Options};
use crate::pin::pinned;
use crate::random::Random;
use crate::row::Row;
use crate::rows::Rows;
use crate::timing::{Repetitions, Timed};
use crate::traffic::{Choice, LOCAL_LEN, REMOTE_LEN, Traffic, remote_network};
use crate::world::{self, WAN};

/// The bench `growth`: policies, routes and flows, each alone.
///
/// # Errors
/// [`BenchError`]; what was measured before is lost then.
pub fn growth(options: &Options<'_>) -> Result<Vec<Row>, BenchError> {
    options.check()?;
    pinned(options.cpu, || {
        let counts = POLICIES.len() + ROUTES.len() + FLOWS.len();
        let cases = options.directions.len() * options.sizes.len() * counts;
        let mut rows = Rows::new(options, cases);
        for direction in &options.directions {
            for size in &options.sizes {
                for count in POLICIES {
                    rows.begin(&format!("{count} policies"));
                    rows.push(policies(options, *direction, *size, count)?);
                }
                for count in ROUTES {
                    rows.begin(&format!("{count} routes"));
                    rows.push(routes(options, *direction, *size, count)?);
                }
                for count in FLOWS {
                    rows.begin(&format!("{count} flows"));
                    rows.push(flows(options, *direction, *size, count)?);
                }
            }
        }
        Ok(rows.into_vec())
    })
}

/// The path and the look-up of outbound policies, with so many of them beside the tunnel's own.
fn policies(
    options: &Options<'_>,
    direction: Direction,
    size: usize,
    count: usize,
) -> Result<Row, BenchError> {
    let mut gateway = gateway(options, direction, size, options.flows, Vec::new())?;
    let before = resident_bytes();
    let begun = std::time::Instant::now();
    for n in 0..count as u32 {
        gateway.databases.put_policy(other_policy(n));
    }
    let build_seconds = begun.elapsed().as_secs_f64();
    let bytes = resident_bytes().saturating_sub(before);
    gateway.prove()?;
    let mut row = path(options, &mut gateway)?;
    row.case = Some("policies");
    row.policies = Some(count + 3);
    row.build_seconds = Some(build_seconds);
    row.bytes_per_entry = (count >= ENOUGH_TO_WEIGH).then(|| bytes as f64 / count as f64);

    // Packets of the networks that the policies are about, one after the other at random.
    let mut random = Random::new(7);
    let headers = packets(|| random.below(count.max(1)) as u32)?;
    let reader = gateway.databases.reader();
    row.ns_per_lookup = Some(look_ups(options, "the policy database", &headers, |h| {
        reader.policy(policy::Direction::Out, &Flow::new(h, WAN)).is_some()
    })?);
    Ok(row)
}

/// The path and the look-up of routes, with so many of them beside those of the traffic.
fn routes(
    options: &Options<'_>,
    direction: Direction,
    size: usize,
    count: usize,
) -> Result<Row, BenchError> {
    let before = resident_bytes();
    let begun = std::time::Instant::now();
    let more = (0..count as u32).map(other_route).collect();
    let mut gateway = gateway(options, direction, size, options.flows, more)?;
    let build_seconds = begun.elapsed().as_secs_f64();
    let bytes = resident_bytes().saturating_sub(before);
    gateway.prove()?;
    let mut row = path(options, &mut gateway)?;
    row.case = Some("routes");
    row.routes = Some(count + 5);
    row.build_seconds = Some(build_seconds);
    row.bytes_per_entry = (count >= ENOUGH_TO_WEIGH).then(|| bytes as f64 / count as f64);

    let mut random = Random::new(8);
    let addresses: Vec<Ipv4Addr> = (0..LOOK_UPS)
        .map(|_| {
            let network = network(random.below(count.max(1)) as u32);
            Ipv4Addr::from_bits(network.to_bits() + 1 + random.below(250) as u32)
        })
        .collect();
    let topology = gateway.tables.topology.load_full();
    let src = world::GATEWAY.into();
    row.ns_per_lookup = Some(look_ups(options, "the routes", &addresses, |dst| {
        let result = topology.fib.lookup((*dst).into(), src, 0, world::LAN);
        matches!(result, RouteResult::Unicast { .. })
    })?);
    Ok(row)
}

/// The path with so many inner flows in one SA.
fn flows(
    options: &Options<'_>,
    direction: Direction,
    size: usize,
    count: usize,
) -> Result<Row, BenchError> {
    let mut gateway = gateway(options, direction, size, count, Vec::new())?;
    // Until every flow has been seen.
    for _ in 0..=count / gateway.packets() {
        gateway.prove()?;
    }
    let mut row = path(options, &mut gateway)?;
    row.case = Some("flows");
    Ok(row)
}

fn gateway(
    options: &Options<'_>,
    direction: Direction,
    size: usize,
    flows: usize,
    routes: Vec<RouteEntry>,
) -> Result<Gateway, BenchError> {
    let Some(suite) = options.suites.first().copied() else {
        let allowed = "one suite";
        return Err(BenchError::Option { what: "suite", given: 0, allowed });
    };
    let choice = Choice::Uniform(Random::new(6));
    let traffic = Traffic::new(direction, size, 1, flows, choice);
    let mut plan = plan(options, suite, Path::Esp, traffic);
    plan.routes = routes;
    Gateway::new(plan)
}

fn path(options: &Options<'_>, gateway: &mut Gateway) -> Result<Row, BenchError> {
    let all = Repetitions::of(options.repeat, || repetition(gateway, options))?;
    let mut row = row(options, "growth", gateway);
    all.fill(&mut row, options.allocations.is_some());
    Ok(row)
}

/// The median time of a look-up in nanoseconds, over all of `keys` again and again.
pub(crate) fn look_ups<K>(
    options: &Options<'_>,
    what: &'static str,
    keys: &[K],
    find: impl Fn(&K) -> bool,
) -> Result<f64, BenchError> {
    let mut found = 0;
    let mut pass = |timed: &mut Timed| {
        timed.quiet_piece(keys.len(), None, || {
            found = keys.iter().filter(|key| find(core::hint::black_box(key))).count();
        });
        if found == keys.len() { Ok(()) } else { Err(BenchError::NotFound { what }) }
    };
    pass(&mut Timed::default())?;
    let all = Repetitions::of(options.repeat, || {
        let mut timed = Timed::within(options.patience);
        while timed.has_time(options.duration) {
            pass(&mut timed)?;
        }
        Ok(timed)
    })?;
    Ok(all.ns_per_packet())
}

/// Headers of packets to the networks of tunnels: to that behind the one whose number comes next.
pub(crate) fn packets(mut next: impl FnMut() -> u32) -> Result<Vec<Headers>, BenchError> {
    let traffic =
        Traffic::new(Direction::Outbound, 64, crate::options::MAX_SAS, 1, Choice::InTurn(0));
    let mut packet = [0; 64];
    (0..LOOK_UPS)
        .map(|_| {
            // The flow's number is its SA's, as there is one for each.
            traffic.write(next() as usize + 1, &mut packet);
            parse_ip(&packet).map_err(|_| BenchError::NotFound { what: "a packet" })
        })
        .collect()
}

/// Policies as a gateway of many customers has them, not of the tunnel that has the traffic.
///
/// Of ten: six networks of a tunnel each, two that hold four of those at a lower priority, one for
/// one port of a tunnel's network at a higher, one that lets a host of a tunnel's network pass in
/// clear at a higher still.
fn other_policy(n: u32) -> PolicyConfig {
    // Network 0 has the traffic.
    let (network, own) = (remote_network(n + 1), world::policies(n + 1));
    let [mut policy, ..] = own;
    let local = Prefix { addr: world::LOCAL.into(), len: LOCAL_LEN };
    let to = |len| Selector::between(local, Prefix { addr: network.into(), len });
    // Beyond the indices of the tunnels.
    policy.index = (1 << 24) + n;
    match n % 10 {
        6 | 7 => {
            policy.selector = to(REMOTE_LEN - 2);
            policy.priority += 500;
        }
        8 => {
            policy.selector.protocol = wire::protocol::UDP;
            policy.selector.dst_port = PortMask { value: 2000, mask: 0xffff };
            policy.priority -= 500;
        }
        9 => {
            policy = PolicyConfig {
                index: policy.index,
                // The first host, whose packets look it up.
                selector: Selector::between(
                    local,
                    Prefix { addr: Ipv4Addr::from_bits(network.to_bits() + 1).into(), len: 32 },
                ),
                priority: 100,
                action: Action::Allow,
                templates: Vec::new(),
                mark: Mark::default(),
                ..policy
            };
        }
        _ => {}
    }
    policy
}

/// A route as a table of the Internet has them: prefixes of 16 to 24 bits, the longer ones inside
/// the shorter ones.
fn other_route(n: u32) -> RouteEntry {
    let len = match n % 8 {
        0 => 20,
        1 => 22,
        _ => 24,
    };
    let hops = vec![Hop { ifindex: WAN, gateway: Some(next_hop(n).into()), weight: 1 }];
    world::route(table::MAIN, network(n), len, RouteKind::Unicast, hops)
}

/// Networks of 256 addresses from 16.0.0.0 on, in no order; a million of them are below 32.0.0.0.
const fn network(n: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(0x1000_0000 + ((n.wrapping_mul(0x9_e377) & 0xf_ffff) << 8))
}

/// One of 16 routers.
const fn next_hop(n: u32) -> Ipv4Addr {
    Ipv4Addr::new(192, 0, 2, 240 + (n % 16) as u8)
}

const POLICIES: [usize; 5] = [10, 100, 1000, 10_000, 100_000];
const ROUTES: [usize; 6] = [10, 100, 1000, 10_000, 100_000, 1_000_000];
const FLOWS: [usize; 7] = [1, 10, 100, 1000, 10_000, 100_000, 1_000_000];
/// Keys of look-ups that follow one another.
pub(crate) const LOOK_UPS: usize = 1 << 16;
/// The fewest entries whose memory can be told from the process's own.
const ENOUGH_TO_WEIGH: usize = 100_000;

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn routes_differ_and_stay_below_32() {
        let all: HashSet<Ipv4Addr> = (0..1 << 20).map(network).collect();
        assert_eq!(all.len(), 1 << 20);
        assert!(all.iter().all(|a| (16..32).contains(&a.octets()[0])));
    }

    #[test]
    fn policies_overlap_and_leave_the_traffic_alone() {
        let traffic = world::policies(0)[0].selector;
        let all: Vec<PolicyConfig> = (0..1000).map(other_policy).collect();
        let indices: HashSet<u32> = all.iter().map(|p| p.index).collect();
        assert_eq!(indices.len(), 1000);
        let first = |len| all.iter().filter(|p| p.selector.dst.len == len).count();
        assert_eq!((first(26), first(24), first(32)), (700, 200, 100));
        let better = all.iter().filter(|p| p.priority <= 1000);
        for policy in better {
            assert!(!policy.selector.dst.contains(traffic.dst.addr), "{policy:?}");
        }
    }
}
