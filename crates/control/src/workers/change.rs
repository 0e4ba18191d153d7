//! Another set of workers.

use config::Config;
use esp::Sa;
use policy::Databases;
use tracing::info;

use super::{ChangeError, Crew};
use crate::layout::Layout;
use crate::linux::Linux;

impl Crew {
    /// Changes to another set of workers, each with a queue of the private interface.
    ///
    /// # Errors
    /// The workers of before go on, or all are lost.
    pub(crate) fn change(
        &mut self,
        layout: &Layout,
        config: &Config,
        linux: &mut Linux,
        databases: &Databases<Sa>,
    ) -> Result<(), ChangeError> {
        let workers = layout.workers.len();
        let queues = self.private.more(workers, config, linux);
        let counters: Vec<_> = queues.iter().map(|queue| queue.counters()).collect();
        let are_first = self.workers.count() == 0;
        self.workers.change(layout.clone(), databases, linux.private.ifindex(), queues)?;
        self.private.add(counters);
        if !are_first {
            info!(workers, "other workers");
        }
        Ok(())
    }
}
