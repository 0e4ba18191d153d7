//! Where a policy has an SA for each CPU (RFC 9611), what Linux sends to the private interface comes by the
//! queue of the CPU that sends it, as Linux's own SAs are chosen.
//!
//! Otherwise Linux keeps each flow in one queue, whichever CPU its program happens to run on, which keeps its
//! packets in order: so it is while no policy is like that. CPU `c` has queue `c` modulo their number, and that is
//! a worker's (`slots::worker_of`).

use io::{QueueChoice, Tun};
use policy::{Direction, PolicyConfig};
use steer::SenderCpu;
use tracing::{info, warn};

/// Program that chooses the queue by the sender's CPU, and the number of policies that need it.
pub struct BySender {
    interface: String,
    choice: Option<QueueChoice>,
    policies: usize,
    /// Why Linux goes on by flows though a policy has SAs for CPUs.
    trouble: Option<String>,
}

impl BySender {
    /// Linux chooses by flows, as it does for a new interface.
    pub fn new(interface: &str, queue: Option<&Tun>) -> BySender {
        let choice = queue.map(Tun::choice).transpose();
        let mut by_sender =
            BySender { interface: interface.to_owned(), choice: None, policies: 0, trouble: None };
        match choice {
            Ok(choice) => by_sender.choice = choice,
            Err(error) => by_sender.fail(&error),
        }
        by_sender
    }

    /// Follows a policy that was added, removed or replaced.
    pub fn follow_policy(&mut self, old: Option<&PolicyConfig>, new: Option<&PolicyConfig>) {
        let before = self.policies;
        self.policies += usize::from(new.is_some_and(is_for_cpus));
        self.policies = self.policies.saturating_sub(usize::from(old.is_some_and(is_for_cpus)));
        if (before > 0) != (self.policies > 0) {
            self.set(self.policies > 0);
        }
    }

    /// Lets go of the interface, which ends with its last queue.
    pub fn close(&mut self) {
        self.choice = None;
    }

    fn set(&mut self, is_on: bool) {
        let Some(choice) = &self.choice else { return };
        let done = match is_on {
            true => by_cpu(choice, &self.interface),
            false => choice.by_program(None).map_err(|error| refused(&self.interface, &error)),
        };
        self.trouble = None;
        match done {
            Ok(()) if is_on => info!("packets of this host's go by the worker of their CPU"),
            Ok(()) => info!("packets of this host's go by the worker of their flow"),
            Err(error) => self.fail(&error),
        }
    }

    fn fail(&mut self, why: &dyn std::fmt::Display) {
        let trouble = format!(
            "{why}; which worker's SA packets of this host's leave by depends on their flow, not on their CPU"
        );
        warn!("{trouble}");
        self.trouble = Some(trouble);
    }

    /// Warnings for the operator.
    pub fn warnings(&self) -> impl Iterator<Item = &String> {
        self.trouble.iter().filter(|_| self.policies > 0)
    }
}

fn by_cpu(choice: &QueueChoice, interface: &str) -> Result<(), String> {
    let mut program = SenderCpu::load(interface).map_err(|error| error.to_string())?;
    let fd = program.fd().map_err(|error| error.to_string())?;
    choice.by_program(Some(fd)).map_err(|error| refused(interface, &error))
}

fn refused(interface: &str, error: &std::io::Error) -> String {
    format!("{interface}: TUNSETSTEERINGEBPF failed: {error}")
}

fn is_for_cpus(policy: &PolicyConfig) -> bool {
    policy.direction == Direction::Out && policy.flags.per_cpu
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::testing::{HERE, THERE, policy};

    #[test]
    fn policies_for_cpus_are_counted() {
        let plain = policy(1, Direction::Out, (HERE, THERE), &[1]);
        let mut per_cpu = plain.clone();
        per_cpu.flags.per_cpu = true;
        let inbound = PolicyConfig { direction: Direction::In, ..per_cpu.clone() };
        let mut by_sender = BySender::new("culvert0", None);
        by_sender.follow_policy(None, Some(&plain));
        by_sender.follow_policy(None, Some(&inbound));
        assert_eq!(by_sender.policies, 0);
        by_sender.follow_policy(None, Some(&per_cpu));
        by_sender.follow_policy(Some(&per_cpu), Some(&per_cpu));
        by_sender.follow_policy(Some(&plain), Some(&per_cpu));
        assert_eq!(by_sender.policies, 2);
        by_sender.follow_policy(Some(&per_cpu), Some(&plain));
        by_sender.follow_policy(Some(&per_cpu), None);
        assert_eq!((by_sender.policies, by_sender.warnings().count()), (0, 0));
    }

    #[test]
    fn trouble_is_a_warning_while_it_matters() {
        let mut per_cpu = policy(1, Direction::Out, (HERE, THERE), &[1]);
        per_cpu.flags.per_cpu = true;
        let mut by_sender = BySender::new("culvert0", None);
        by_sender.fail(&"no program");
        assert_eq!(by_sender.warnings().count(), 0);
        by_sender.follow_policy(None, Some(&per_cpu));
        assert!(by_sender.warnings().next().unwrap().starts_with("no program; which worker's SA"));
    }
}
