//! Whether policies that want protection have SAs for it: a tunnel that is configured, and down, is one without.

use std::collections::HashSet;
use std::net::IpAddr;

use esp::Mode;
use policy::{Action, Direction, PolicyConfig, SaConfig};

/// What SAs there are, by what templates ask for.
#[derive(Default)]
pub struct Served {
    tunnels: HashSet<(IpAddr, u32, u32)>,
    transports: HashSet<(u32, u32)>,
}

impl Served {
    /// Of these SAs, those that have expired left out.
    pub fn of<'a>(sas: impl IntoIterator<Item = &'a SaConfig>) -> Served {
        let mut served = Served::default();
        for SaConfig { params, reqid, if_id, .. } in sas {
            // A template without a reqid takes any SA.
            for reqid in [*reqid, 0] {
                match params.mode {
                    Mode::Tunnel => drop(served.tunnels.insert((params.dst, reqid, *if_id))),
                    Mode::Transport => drop(served.transports.insert((reqid, *if_id))),
                }
            }
        }
        served
    }

    /// Whether a policy has SAs for all its templates; none of a policy that needs none.
    pub fn has_sas(&self, policy: &PolicyConfig) -> Option<bool> {
        let needed = || policy.templates.iter().filter(|template| !template.optional);
        let is_asked = policy.direction == Direction::Out && policy.action == Action::Allow;
        (is_asked && needed().next().is_some()).then(|| {
            needed().all(|template| match template.mode {
                Mode::Tunnel => {
                    self.tunnels.contains(&(template.dst, template.reqid, policy.if_id))
                }
                Mode::Transport => self.transports.contains(&(template.reqid, policy.if_id)),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::sources::kernel::testing::policy;
    use crate::daemon::sources::testing::{HERE, THERE, config};

    #[test]
    fn a_policy_is_served_when_all_its_templates_are() {
        let out = policy(1, Direction::Out, (HERE, THERE), &[7]).config;
        let nested = policy(2, Direction::Out, (HERE, THERE), &[7, 8]).config;
        let back = config(1, (THERE, HERE), 7);
        let (seven, eight) = (config(2, (HERE, THERE), 7), config(3, (HERE, THERE), 8));
        assert_eq!(Served::of([]).has_sas(&out), Some(false));
        assert_eq!(Served::of([&back]).has_sas(&out), Some(false), "the SA back is none");
        let one = Served::of([&back, &seven]);
        assert_eq!(one.has_sas(&out), Some(true));
        assert_eq!(one.has_sas(&nested), Some(false));
        assert_eq!(Served::of([&seven, &eight]).has_sas(&nested), Some(true));
        let any = policy(3, Direction::Out, (HERE, THERE), &[0]).config;
        assert_eq!(one.has_sas(&any), Some(true), "without a reqid any SA will do");
        let other = PolicyConfig { if_id: 9, ..out.clone() };
        assert_eq!(one.has_sas(&other), Some(false), "of another interface");
    }

    #[test]
    fn what_needs_no_sa_is_not_asked() {
        let none = Served::of([]);
        assert_eq!(none.has_sas(&policy(1, Direction::In, (HERE, THERE), &[7]).config), None);
        assert_eq!(none.has_sas(&policy(2, Direction::Out, (HERE, THERE), &[]).config), None);
        let mut ipcomp = policy(3, Direction::Out, (HERE, THERE), &[7]).config;
        ipcomp.templates.iter_mut().for_each(|template| template.optional = true);
        assert_eq!(none.has_sas(&ipcomp), None, "optional");
    }
}
