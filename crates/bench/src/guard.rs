//! Work that the instruction guard counts: a few suites' paths, the same in each run.
//!
//! `scripts/instructions` runs this under callgrind, which counts only inside `counted`, and holds
//! the counts against `bench/instructions.toml`. Counts do not depend on how busy the machine is.

use crypto::Provider;
use dataplane::Now;

use crate::error::BenchError;
use crate::esp::plan;
use crate::gateway::{Gateway, Path};
use crate::options::Direction::{self, Inbound, Outbound};
use crate::options::{Options, suite_by_name};
use crate::overlay::gateway;
use crate::shape::{Nested, Overlay, Shape};
use crate::traffic::{Choice, Traffic};
use crate::world;

/// One case of the record.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The case's name in the record.
    pub name: &'static str,
    /// None in clear.
    suite: Option<&'static str>,
    direction: Direction,
    /// Length of the inner packet, in bytes.
    size: usize,
    shape: Shape,
    /// Packets are of one after the other.
    sas: usize,
    /// True if each packet is of a new flow; else each flow has a plan.
    is_full_way: bool,
}

impl Case {
    const fn of(
        name: &'static str,
        suite: &'static str,
        direction: Direction,
        size: usize,
    ) -> Case {
        let shape = Shape {
            v6: false,
            encap: false,
            ah: false,
            in_two: false,
            nested: Nested::No,
            iptfs: false,
            overlay: None,
        };
        Case { name, suite: Some(suite), direction, size, shape, sas: 1, is_full_way: false }
    }

    const fn gcm(name: &'static str, direction: Direction, size: usize) -> Case {
        Case::of(name, "aes128gcm16", direction, size)
    }

    const fn v6(self) -> Case {
        Case { shape: Shape { v6: true, ..self.shape }, ..self }
    }

    const fn in_udp(self) -> Case {
        Case { shape: Shape { encap: true, ..self.shape }, ..self }
    }

    const fn ah(self) -> Case {
        Case { shape: Shape { ah: true, ..self.shape }, ..self }
    }

    const fn in_two(self) -> Case {
        Case { shape: Shape { in_two: true, ..self.shape }, ..self }
    }

    const fn in_ah(self) -> Case {
        Case { shape: Shape { nested: Nested::InAh, ..self.shape }, ..self }
    }

    const fn compressed(self) -> Case {
        Case { shape: Shape { nested: Nested::Compressed, ..self.shape }, ..self }
    }

    const fn over(self, overlay: Overlay) -> Case {
        Case { shape: Shape { overlay: Some(overlay), ..self.shape }, ..self }
    }

    const fn spread(self) -> Case {
        Case { sas: 1024, ..self }
    }

    const fn full_way(self) -> Case {
        Case { is_full_way: true, ..self }
    }

    const fn in_clear(self) -> Case {
        Case { suite: None, ..self }
    }
}

/// All cases of the record.
pub const CASES: [Case; 28] = [
    Case::gcm("gcm-outbound-64", Outbound, 64),
    Case::gcm("gcm-outbound-1400", Outbound, 1400),
    Case::gcm("gcm-inbound-64", Inbound, 64),
    Case::gcm("gcm-inbound-1400", Inbound, 1400),
    Case::of("cbc-sha1-outbound-512", "aes128-sha1", Outbound, 512),
    Case::of("cbc-sha1-inbound-512", "aes128-sha1", Inbound, 512),
    Case::of("ccm-outbound-512", "aes128ccm16", Outbound, 512),
    Case::of("ccm-inbound-512", "aes128ccm16", Inbound, 512),
    Case::of("ctr-sha256-outbound-512", "aes128ctr-sha256", Outbound, 512),
    Case::of("ah-sha256-outbound-512", "null-sha256", Outbound, 512).ah(),
    Case::of("ah-sha256-inbound-512", "null-sha256", Inbound, 512).ah(),
    Case::gcm("esp-in-ah-inbound-512", Inbound, 512).in_ah(),
    Case::gcm("ipcomp-inbound-512", Inbound, 512).compressed(),
    Case::gcm("two-fragments-inbound-1400", Inbound, 1400).in_two(),
    Case::gcm("v6-outbound-64", Outbound, 64).v6(),
    Case::gcm("v6-inbound-64", Inbound, 64).v6(),
    Case::gcm("udp-outbound-64", Outbound, 64).in_udp(),
    Case::gcm("udp-inbound-64", Inbound, 64).in_udp(),
    Case::gcm("spread-outbound-64", Outbound, 64).spread(),
    Case::gcm("spread-inbound-64", Inbound, 64).spread(),
    Case::gcm("gre-outbound-64", Outbound, 64).over(Overlay::Gre),
    Case::gcm("gre-inbound-64", Inbound, 64).over(Overlay::Gre),
    Case::gcm("vxlan-outbound-64", Outbound, 64).over(Overlay::Vxlan),
    Case::gcm("vxlan-inbound-64", Inbound, 64).over(Overlay::Vxlan),
    Case::gcm("full-way-outbound-64", Outbound, 64).full_way(),
    Case::gcm("full-way-inbound-64", Inbound, 64).full_way(),
    Case::gcm("forward-64", Inbound, 64).in_clear(),
    Case::gcm("full-way-forward-64", Inbound, 64).in_clear().full_way(),
];

/// Moves packets through a gateway, those that count within `counted`; returns how many count.
///
/// # Errors
/// As the benchmarks; [`BenchError::Option`] if there is no such case, [`BenchError::Cached`] if
/// packets did not take the way that the case is about.
pub fn run(provider: &dyn Provider, case: &str) -> Result<usize, BenchError> {
    let Some(case) = CASES.iter().find(|known| known.name == case) else {
        let allowed = "a case of bench::guard::CASES";
        return Err(BenchError::Option { what: "case", given: 0, allowed });
    };
    let Some(algorithms) = suite_by_name(case.suite.unwrap_or("aes128gcm16")) else {
        return Err(BenchError::Option { what: "suite", given: 0, allowed: "a known suite" });
    };
    let mut options = Options::new(provider);
    options.frames = FRAMES;
    if case.is_full_way {
        options.flows = 2 * FRAMES as usize;
    }
    let mut packets = 0;
    // Hashes are keyed anew in each gateway: several even out where keys collide.
    for _ in 0..GATEWAYS {
        let Case { direction, size, sas, shape, .. } = *case;
        let traffic = Traffic::new(direction, size, sas, options.flows, Choice::InTurn(0));
        let path = if case.suite.is_some() { Path::Esp } else { Path::Clear };
        let mut plan = plan(&options, algorithms, path, traffic.shaped(shape));
        if path == Path::Clear {
            plan.policies = vec![world::bypass()];
        }
        let mut gateway = gateway(plan)?;
        // Every flow once before, or the first half of them.
        gateway.prove()?;
        gateway.load()?;
        packets += gateway.packets();
        let (hits_before, _) = gateway.cached();
        counted(&mut gateway);
        let (hits, _) = gateway.cached();
        let (given, hits) = (gateway.packets() as u64, hits - hits_before);
        gateway.unload()?;
        // Packets through several SAs have no plan.
        let is_resolved = case.is_full_way || shape.nested != Nested::No;
        // Of an overlay's there are two, one inside and one around it.
        let each = if shape.overlay.is_some() { 2 } else { 1 };
        let allowed = if is_resolved { 0 } else { each * given };
        if hits != allowed {
            return Err(BenchError::Cached { given, hits, allowed });
        }
    }
    Ok(packets)
}

/// The part that counts: rounds until nothing comes any more.
#[inline(never)]
pub(crate) fn counted(gateway: &mut Gateway) {
    // The clock is not asked: how long that takes is the system's business.
    let now = Now { wall_s: 1_000_000_000, ns: u64::MAX / 4 };
    while gateway.worker.round_at(now) > 0 {}
}

/// Every flow has two packets in a pass, unless all are new.
const FRAMES: u32 = 2048;
const GATEWAYS: usize = 4;
