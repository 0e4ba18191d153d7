//! The security association and policy databases, as the data path reads them.
#![forbid(unsafe_code)]

mod model;
mod selector;

pub use model::{Action, Direction, Mark, PolicyConfig, SaConfig, SaId, Template, VolumeLimits};
pub use selector::{PortMask, Prefix, Selector};
