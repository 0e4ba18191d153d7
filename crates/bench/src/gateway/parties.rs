//! The SAs of both ends: the gateway's in its databases, the peers' beside them.

use std::time::Instant;

use crypto::{Provider, Session, Suite};
use esp::{LiveNumbers, Sa};
use policy::Databases;

use crate::error::BenchError;
use crate::free_device::Holder;
use crate::machine::resident_bytes;
use crate::options::Direction;
use crate::traffic::Traffic;
use crate::world;

/// Cost of building a gateway.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Built {
    /// Seconds for keys, SAs and policies.
    pub(crate) seconds: f64,
    /// Bytes of each key schedule, if the engine tells.
    pub(crate) bytes_per_key: Option<f64>,
    /// Resident bytes of each SA without its key schedule.
    pub(crate) bytes_per_sa: Option<f64>,
}

/// Installs an SA pair and its policies for each tunnel; returns the keys of those that the traffic uses.
pub(super) fn install(
    (databases, holder): (&mut Databases<Sa>, &mut Holder),
    provider: &dyn Provider,
    suite: Suite,
    traffic: &Traffic,
) -> Result<(Vec<Session>, Built), BenchError> {
    const BOTH: [Direction; 2] = [Direction::Outbound, Direction::Inbound];
    let wrong = || BenchError::Wrong { suite };
    let count = traffic.sas;
    let tunnels = 0..count as u32;
    let begun = Instant::now();
    let before = resident_bytes();
    let mut used = Vec::with_capacity(count);
    // None as soon as the engine does not tell.
    let mut key_bytes = Some(0);
    for n in tunnels.clone() {
        // One SA after the other, as an IKE daemon installs them: what belongs to one is allocated in
        // turn.
        for direction in BOTH {
            for config in traffic.shape.sas(world::sa_config(suite, direction, n, 0)) {
                // SAs one inside the other have suites of their own; IPComp has none.
                let keys = world::keys(config.params.suite, direction, n);
                let session = match config.params.suite {
                    Suite::None => Session::none(),
                    suite => provider.session(suite, &keys)?,
                };
                key_bytes = key_bytes.zip(session.heap_len()).map(|(sum, len)| sum + len);
                if direction == traffic.direction {
                    used.push(session.clone());
                }
                let session = holder.session(direction, (&config, &keys), session)?;
                let live = LiveNumbers::on_heap(config.params.replay_window);
                let sa = Sa::new(config.params.clone(), session, live).map_err(|_| wrong())?;
                let added = match holder.has_whole_sas() {
                    false => databases.add_sa(config, sa),
                    true => databases.add_sa_of_device(config, sa),
                };
                added.map_err(|_| wrong())?;
            }
        }
    }
    let with_sas = resident_bytes();
    for n in tunnels {
        for policy in world::policies(n) {
            let mut policy = traffic.shape.policy(policy);
            holder.put_policy(&mut policy)?;
            databases.put_policy(policy);
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    let sas = (2 * count) as f64;
    let built = Built {
        seconds,
        bytes_per_key: key_bytes.map(|bytes| bytes as f64 / sas),
        bytes_per_sa: key_bytes
            .map(|keys| with_sas.saturating_sub(before).saturating_sub(keys as u64) as f64 / sas),
    };
    Ok((used, built))
}

/// The peers' ends of the SAs that the traffic uses, and of those around them. They share the keys.
pub(super) fn peers(
    sessions: &[Session],
    suite: Suite,
    traffic: &Traffic,
) -> Result<(Vec<Sa>, Vec<Sa>), BenchError> {
    let (mut peers, mut around) = (Vec::new(), Vec::new());
    let tunnels = 0..traffic.sas as u32;
    let configs = tunnels.flat_map(|n| {
        let config = world::sa_config(suite, traffic.direction, n, 0);
        traffic.shape.sas(config).into_iter().enumerate()
    });
    for (session, (layer, config)) in sessions.iter().zip(configs) {
        let live = LiveNumbers::on_heap(config.params.replay_window);
        let sa = Sa::new(config.params, session.clone(), live);
        let sa = sa.map_err(|_| BenchError::Wrong { suite })?;
        if layer == 0 { peers.push(sa) } else { around.push(sa) }
    }
    Ok((peers, around))
}
