//! What the instruction guard counts: a few suites' paths, the same in each run.
//!
//! `scripts/instructions` runs this under callgrind, which counts only inside `counted`, and holds
//! the counts against `bench/instructions.toml`. Counts do not depend on how busy the machine is.

use crypto::Provider;
use dataplane::Now;

use crate::error::BenchError;
use crate::esp::plan;
use crate::gateway::{Gateway, Path};
use crate::options::{Direction, Options, suite_by_name};
use crate::traffic::{Choice, Traffic};
use crate::world;

/// The cases, by name: suite (none in clear), direction, size of the inner packet in bytes.
pub const CASES: [(&str, Option<&str>, Direction, usize); 7] = [
    ("gcm-outbound-64", Some("aes128gcm16"), Direction::Outbound, 64),
    ("gcm-outbound-1400", Some("aes128gcm16"), Direction::Outbound, 1400),
    ("gcm-inbound-64", Some("aes128gcm16"), Direction::Inbound, 64),
    ("gcm-inbound-1400", Some("aes128gcm16"), Direction::Inbound, 1400),
    ("cbc-sha1-outbound-512", Some("aes128-sha1"), Direction::Outbound, 512),
    ("cbc-sha1-inbound-512", Some("aes128-sha1"), Direction::Inbound, 512),
    ("forward-64", None, Direction::Inbound, 64),
];

/// Moves packets through a gateway, those that count within `counted`; returns how many count.
///
/// # Errors
/// As the benchmarks; [`BenchError::Option`] if there is no such case.
pub fn run(provider: &dyn Provider, case: &str) -> Result<usize, BenchError> {
    let known = CASES.iter().find(|(name, ..)| *name == case);
    let Some((_, suite, direction, size)) = known else {
        let allowed = "a case of bench::guard::CASES";
        return Err(BenchError::Option { what: "case", given: 0, allowed });
    };
    let name = suite.unwrap_or("aes128gcm16");
    let Some(algorithms) = suite_by_name(name) else {
        return Err(BenchError::Option { what: "suite", given: 0, allowed: "a known suite" });
    };
    let mut options = Options::new(provider);
    options.frames = FRAMES;
    let mut packets = 0;
    // Hashes are keyed anew in each gateway: several even out where keys collide.
    for _ in 0..GATEWAYS {
        let traffic = Traffic::new(*direction, *size, 1, options.flows, Choice::InTurn(0));
        let path = if suite.is_some() { Path::Esp } else { Path::Clear };
        let mut plan = plan(&options, algorithms, path, traffic);
        if path == Path::Clear {
            plan.policies = vec![world::bypass()];
        }
        let mut gateway = Gateway::new(plan)?;
        // Every flow once before.
        gateway.prove()?;
        gateway.load()?;
        packets += gateway.packets();
        counted(&mut gateway);
        gateway.unload()?;
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

/// Every flow has two packets in a pass.
const FRAMES: u32 = 2048;
const GATEWAYS: usize = 4;
