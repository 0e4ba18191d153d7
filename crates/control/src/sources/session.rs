//! The cipher's state for an SA's keys.

use crypto::{EngineError, Keys, Providers, Session};
use policy::SaConfig;
use xfrm::Refusal;

use super::{errno, weak};

/// The session of the first engine that has the suite.
///
/// # Errors
/// The suite is weak, and these are not allowed; or no engine has it, or its keys do not fit. With what Linux
/// answers then.
pub fn of(
    config: &SaConfig,
    keys: &Keys,
    providers: &Providers,
    allow_weak: bool,
) -> Result<Session, Refusal> {
    let suite = config.params.suite;
    weak::check(suite, allow_weak)?;
    if config.params.protocol.is_bare() {
        return Ok(Session::none());
    }
    providers.session(suite, keys).map_err(|error| {
        let errno = match error {
            EngineError::NoProvider { .. } => errno::ENOSYS,
            _ => errno::EINVAL,
        };
        Refusal::new(errno, format!("culvert: {error}"))
    })
}
