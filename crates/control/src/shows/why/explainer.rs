//! Parts of the daemon that an explanation looks at.

use config::GuardConfig;

use crate::linux::Linux;
use crate::sa::Sas;
use crate::shows::Parts;
use crate::workers::Crew;

/// Explains packets, by these parts of the daemon.
#[derive(Clone, Copy)]
pub(crate) struct Explainer<'d> {
    pub(super) linux: &'d Linux,
    pub(super) sa: &'d Sas,
    pub(super) crew: &'d Crew,
    pub(super) guard: &'d GuardConfig,
}

impl<'d> Explainer<'d> {
    /// Explains by the parts as they are now.
    pub(crate) fn of(parts: Parts<'d>) -> Explainer<'d> {
        let Parts { config, linux, sa, crew, .. } = parts;
        Explainer { linux, sa, crew, guard: &config.guard }
    }
}
