//! A file and a machine: the one place at which `culvert run`, `check`, `doctor` and a reload look, so that what one of them
//! accepts the others take.

use std::path::Path;

use config::{Config, ConfigError, Examined, Problem};

use super::machine::{Look, Looker};
use super::running::Running;
use super::{Plan, plan};

/// A file, and the plan that leads to it if nothing is wrong.
pub struct Planned {
    /// The file, with all that is wrong.
    pub examined: Examined,
    plan: Option<Plan>,
}

impl Planned {
    /// The plan, and warnings with their places in the file.
    ///
    /// # Errors
    /// All that is wrong with the file.
    pub fn accept(self, path: &Path) -> Result<(Plan, Vec<Problem>), ConfigError> {
        let (_, warnings) = self.examined.accept(path)?;
        match self.plan {
            Some(plan) => Ok((plan, warnings)),
            None => Err(ConfigError { path: path.into(), problems: Vec::new() }),
        }
    }
}

/// Reads a file, and plans the way to it.
pub fn plan_file(path: &Path, running: &Running, look: &dyn Look) -> Planned {
    let mut planned = None;
    let examined = Config::examine_file(path, |wanted| {
        match plan(running, wanted, &look.look(running, wanted)) {
            Ok(plan) => (Vec::new(), planned.insert(plan).warnings.clone()),
            Err(refusal) => (refusal.problems, refusal.warnings),
        }
    });
    Planned { examined, plan: planned }
}

/// Everything that is wrong with a file for a start on this machine.
pub fn examine(path: &Path, is_unprivileged: bool) -> Examined {
    plan_file(path, &Running::nothing(), &Looker::new(is_unprivileged)).examined
}
