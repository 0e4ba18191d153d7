//! Which SAs can be carried where everything leaves by a UDP socket (`culvert run --unprivileged`).

use policy::SaConfig;
use wire::protocol;
use xfrm::Refusal;

use crate::sources::errno;

/// Refuses what has no UDP header around it.
///
/// # Errors
/// Bare ESP, and AH, which has no form in UDP.
pub fn check(config: &SaConfig) -> Result<(), Refusal> {
    let params = &config.params;
    let text = match config.id().protocol {
        protocol::ESP if params.encap.is_none() => {
            "culvert: --unprivileged carries ESP in UDP alone; set encap = yes in swanctl.conf"
        }
        protocol::AH => "culvert: --unprivileged carries ESP in UDP alone, and AH has no such form",
        // What is inside of another SA's packet leaves with it.
        _ => return Ok(()),
    };
    Err(Refusal::new(errno::EOPNOTSUPP, text))
}
