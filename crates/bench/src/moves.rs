//! The bench `moves`: a path dies, and all flows on it take another one.
//!
//! ```text
//!  Linux ------ gateway ===[ path a ]=== 10.1.0.0/16
//!                       ===[ path b ]===
//! ```
//!
//! Half of the flows are under a rule that prefers path a; the others are under none. Then the control thread's rules say
//! path b, as they do once a path is dead, and each flow is decided on anew with its next packet. The packets that come
//! then are one of each flow: the worst that there is.

use core::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use crypto::Provider;
use dataplane::{PathExit, SteerRule, Steering, TrafficDirection, TrafficMatch};
use forward::{NeighbourEntry, NeighbourState};
use policy::Prefix;
use selection::{Candidate, Choice as Paths};
use serde::Serialize;
use wire::MacAddr;

use crate::error::BenchError;
use crate::esp::plan;
use crate::gateway::{Gateway, Path};
use crate::options::{Direction, Options, suite_by_name};
use crate::pin::pinned;
use crate::timing::own_time;
use crate::traffic::{Choice, LOCAL_HOSTS, Traffic, local_host};
use crate::world::{self, LAN};

/// Parameters of the measurement.
#[derive(Clone, Copy)]
pub struct MoveOptions<'p> {
    /// Makes the gateway's engine, which has nothing to do.
    pub provider: &'p dyn Provider,
    /// Flows that move; as many others stay.
    pub flows: usize,
    /// Length of a packet in bytes.
    pub size: usize,
    /// How often the path dies.
    pub repeat: usize,
    /// Core to run on. `None`: any.
    pub cpu: Option<usize>,
}

/// One move of all flows.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct MoveRow {
    /// Flows that were on the path.
    pub flows: usize,
    /// Flows that were on none, whose packets came between those of the others.
    pub others: usize,
    /// Time of the worker until each of these flows had sent a packet, and had been decided on, in milliseconds.
    pub all_ms: f64,
    /// Flows that were decided on anew meanwhile: those that moved, and the few that had no place in the flow cache.
    pub decided: u64,
    /// The same packets before, by plans that hold, in milliseconds.
    pub before_ms: f64,
    /// 99th percentile of the time of a round, which is that of a packet that comes by itself, before, in microseconds.
    pub before_p99_us: f64,
    /// The same while flows move.
    pub during_p99_us: f64,
    /// The longest round while flows move, in microseconds.
    pub during_most_us: f64,
}

/// Moves all flows from one path to the other, and tells each move.
///
/// # Errors
/// [`BenchError`]; also if a flow has not moved, or another one has.
pub fn moves(
    options: &MoveOptions<'_>,
    mut tell: impl FnMut(&MoveRow) + Send,
) -> Result<(), BenchError> {
    if options.flows == 0 || !options.flows.is_multiple_of(LOCAL_HOSTS / 2) {
        let allowed = "a multiple of 500: each local host has as many";
        return Err(BenchError::Option { what: "flows", given: options.flows, allowed });
    }
    pinned(options.cpu, || {
        let of_gateway = Options { cpu: options.cpu, ..Options::new(options.provider) };
        let Some(suite) = suite_by_name("aes128gcm16") else { return Ok(()) };
        let flows = 2 * options.flows;
        let traffic = Traffic::new(Direction::Inbound, options.size, 1, flows, Choice::InTurn(0));
        let mut plan = plan(&of_gateway, suite, Path::Clear, traffic);
        plan.policies = vec![world::bypass()];
        let mut gateway = Gateway::new(plan)?;
        let shape = gateway.traffic.shape;
        let mut topology = world::topology(shape, []);
        if let Some(first) = topology.interfaces.get(&LAN).cloned() {
            topology.interfaces.insert(SECOND, first);
        }
        gateway.tables.topology.store(Arc::new(topology));
        let mut neighbours = world::neighbours(shape);
        for n in 0..LOCAL_HOSTS {
            neighbours.insert(NeighbourEntry {
                ifindex: SECOND,
                addr: local_host(n).into(),
                mac: Some(MAC_SECOND),
                state: NeighbourState::Reachable,
            });
        }
        gateway.tables.neighbours.store(Arc::new(neighbours));
        gateway.tables.steer(steering(0));
        // Each flow gets its plan.
        pass(&mut gateway, flows)?;
        for turn in 0..options.repeat {
            let before = pass(&mut gateway, flows)?;
            let path = (turn as u16 + 1) % 2;
            gateway.tables.steer(steering(path));
            let (_, misses) = gateway.cached();
            let during = pass(&mut gateway, flows)?;
            let anew = gateway.cached().1 - misses;
            let moved = if path == 1 { options.flows } else { 0 };
            if during.by_second != moved {
                return Err(BenchError::Moved { moved: during.by_second, wanted: moved });
            }
            tell(&MoveRow {
                flows: options.flows,
                others: options.flows,
                decided: anew,
                all_ms: ms(during.rounds.iter().sum()),
                before_ms: ms(before.rounds.iter().sum()),
                before_p99_us: 1000.0 * ms(before.at(99)),
                during_p99_us: 1000.0 * ms(during.at(99)),
                during_most_us: 1000.0 * ms(during.at(100)),
            });
        }
        Ok(())
    })
}

/// Rounds in which a packet of each flow came.
struct Pass {
    /// The worker's own time for each, ascending.
    rounds: Vec<Duration>,
    /// Flows that went by the second path.
    by_second: usize,
}

impl Pass {
    /// A percentile of the rounds.
    fn at(&self, percent: usize) -> Duration {
        let last = self.rounds.len().saturating_sub(1);
        self.rounds.get(last * percent / 100).copied().unwrap_or_default()
    }
}

/// A packet of each flow, in turn.
fn pass(gateway: &mut Gateway, flows: usize) -> Result<Pass, BenchError> {
    let mut pass = Pass { rounds: Vec::new(), by_second: 0 };
    let (mut left, all) = (flows, gateway.packets());
    // By flow: the last packets are of the first flows again.
    let mut went = vec![false; flows];
    while left > 0 {
        gateway.load()?;
        loop {
            let before = own_time();
            let came = gateway.worker.round();
            if came == 0 {
                break;
            }
            pass.rounds.push(own_time().saturating_sub(before));
        }
        gateway.unload()?;
        let second = |packet: &&io::Packet| packet.data().starts_with(&MAC_SECOND.0);
        for packet in gateway.stock.iter().filter(second) {
            let flow = gateway.flows.get(packet.frame.index() as usize).map(|flow| *flow as usize);
            if let Some(went) = flow.and_then(|flow| went.get_mut(flow)) {
                pass.by_second += usize::from(!core::mem::replace(went, true));
            }
        }
        left -= left.min(all);
    }
    // The next pass begins with the first flow.
    gateway.traffic = gateway.traffic.clone().chosen(Choice::InTurn(0));
    pass.rounds.sort_unstable();
    Ok(pass)
}

/// Rules by which half of the local hosts are reached by one of the paths.
fn steering(path: u16) -> Steering {
    let rule = SteerRule {
        name: "half".into(),
        matches: TrafficMatch {
            direction: TrafficDirection::Both,
            dst: Some(Prefix { addr: IpAddr::V4(world::LOCAL), len: HALF_LEN }),
            ..TrafficMatch::default()
        },
        choice: Paths::new([Candidate { path, lot: 0, weight: 1 }]),
        copies: None,
    };
    let exit = |name: &str, ifindex| Some(PathExit { name: name.into(), ifindex, clear: None });
    Steering::new(vec![rule], vec![exit("a", LAN), exit("b", SECOND)])
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// Length of the prefix that has half of the local hosts.
const HALF_LEN: u8 = 23;
/// Index of the interface that the second path leaves by; its port is that of the first.
const SECOND: u32 = 5;
/// Address of all hosts behind it.
const MAC_SECOND: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flow_moves_and_no_other_does() {
        let provider = engine_openssl::OpensslProvider::new().unwrap();
        let options =
            MoveOptions { provider: &provider, flows: 2000, size: 64, repeat: 3, cpu: None };
        let mut rows = Vec::new();
        moves(&options, |row| rows.push(*row)).expect("each flow is where it belongs");
        assert_eq!(rows.len(), 3);
        assert!(rows.iter().all(|row| row.flows == 2000 && row.all_ms > 0.0), "{rows:?}");
        // A few have no place in the flow cache.
        assert!(rows.iter().all(|row| (2000..2100).contains(&row.decided)), "no other: {rows:?}");
        let error = moves(&MoveOptions { flows: 7, ..options }, |_| {}).unwrap_err();
        assert!(error.to_string().contains("flows is 7"), "{error}");
    }
}
