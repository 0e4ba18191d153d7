//! Set-up of the tests of migration.

use xfrm::codec::{SaInfo, kind};
use xfrm::{Replay, SaLive};

use super::*;

/// The source that the usual SA gets.
pub const NEW: &str = "198.51.100.7";

/// A policy, and an SA in use.
pub fn lab() -> Lab {
    let mut lab = Lab::new();
    let info = SaInfo { mode: 1, reqid: 7, ..sa_info(0x100) };
    lab.ok(&gcm_sa(kind::NEWSA, &info).finish());
    lab.ok(&policy(kind::NEWPOLICY, &policy_info(1), &[template()]).finish());
    let live = lab.db.backend_mut().live.get_mut(&path_id(0x100)).unwrap();
    live.replay = Replay { sent: 1000, edge: 5, received: vec![0b10111] };
    live.counters.bytes = 123;
    lab
}

/// The only SA, and its numbers.
pub fn only_sa(lab: &Lab) -> (policy::SaConfig, SaLive) {
    let path = lab.db.backend();
    assert_eq!(path.sas.len(), 1);
    let (id, (config, ..)) = path.sas.iter().next().unwrap();
    (config.clone(), path.live[id].clone())
}
