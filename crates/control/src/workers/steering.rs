//! Steering: packets that the programs take from their interfaces.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::IpAddr;

use policy::{Action, Direction, PolicyConfig};
use steer::{Prefix, SteerError};

use crate::overlays::OverlayTraffic;
use crate::ports::program::Program;

/// Packets that the steering programs take from their interfaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steering {
    /// Addresses of this host.
    pub local: HashSet<IpAddr>,
    /// Destinations that policies protect or block, and how many do.
    pub protected: HashMap<Prefix, usize>,
    /// Which ESP to this host is taken.
    pub esp: TakenEsp,
    /// Marks that packets get that arrive at a port.
    pub marks: BTreeSet<u32>,
    /// True if fragments of UDP to this host are taken: some may be of ESP.
    pub udp_fragments: bool,
    /// True if ICMPv6 errors to this host are taken that may be about packets with segments.
    pub segment_errors: bool,
    /// Packets in clear of overlays to this host.
    pub overlays: OverlayTraffic,
    /// The kernel has SAs and policies too. It judges what arrives: only what leaves by a policy that protects
    /// is taken. And it carries on: everything passes once `Ports::beat` was not called for too long.
    pub is_beside_kernel: bool,
}

/// Which ESP to this host is taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TakenEsp {
    /// All of it: the kernel has no SAs, and would answer an unknown SPI with an ICMP error.
    #[default]
    All,
    /// ESP of culvert's SAs, by destination and SPI, with the number of SAs that have these. The
    /// rest is for the kernel, which has SAs of its own.
    Own(HashMap<(IpAddr, u32), usize>),
}

impl Steering {
    /// For these addresses of this host, these policies, and these destinations of tunnel interfaces; ESP
    /// stays as it is in `self`.
    pub fn with<'a>(
        &self,
        local: HashSet<IpAddr>,
        policies: impl IntoIterator<Item = &'a PolicyConfig>,
        tunnelled: impl IntoIterator<Item = Prefix>,
    ) -> Steering {
        let mut protected = HashMap::new();
        let policies = policies.into_iter().filter_map(|policy| self.taken(policy));
        for prefix in policies.chain(tunnelled) {
            *protected.entry(prefix).or_default() += 1;
        }
        Steering { local, protected, ..self.clone() }
    }

    /// The destination whose packets a policy needs taken.
    pub fn taken(&self, policy: &PolicyConfig) -> Option<Prefix> {
        let dst = policy.selector.dst;
        let protects = policy.action != Action::Block && !policy.templates.is_empty();
        let stops = match self.is_beside_kernel {
            true => protects && policy.direction == Direction::Out,
            false => protects || policy.action == Action::Block,
        };
        // What arrives has no mark but by culvert's own rules; another one is Linux's to give.
        let mut marks = self.marks.iter().chain([&0]);
        let is_taken = stops && policy.if_id == 0 && marks.any(|mark| policy.mark.matches(*mark));
        is_taken.then(|| Prefix::new(dst.addr, dst.len)).flatten()
    }

    /// Writes what is taken of overlays into a program's tables.
    ///
    /// # Errors
    ///
    /// The kernel refuses.
    pub fn apply_overlays(&self, steer: &mut dyn Program) -> Result<(), SteerError> {
        steer.set_take_overlays(&self.overlays)
    }

    /// Writes it into a program's tables, all of them, even if one fails.
    pub fn apply(&self, steer: &mut dyn Program) -> Result<(), String> {
        let protected = steer.set_protected(&mut self.protected.keys().copied());
        let esp = match &self.esp {
            TakenEsp::All => steer.set_take_unknown_esp(true),
            // Known SPIs first, before unknown ones are left to the kernel.
            TakenEsp::Own(sas) => steer
                .set_sas(&mut sas.keys().copied())
                .and_then(|()| steer.set_take_unknown_esp(false)),
        };
        let local = steer.set_local(&mut self.local.iter().copied());
        let fragments = steer.set_take_udp_fragments(self.udp_fragments);
        let errors = steer.set_take_segment_errors(self.segment_errors);
        let overlays = self.apply_overlays(steer);
        let watchdog = steer.set_watchdog(self.is_beside_kernel);
        let all =
            protected.and(esp).and(local).and(fragments).and(errors).and(overlays).and(watchdog);
        all.map_err(|e| e.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::testing::{self, HERE, THERE};
    use policy::Selector;

    #[test]
    fn beside_the_kernel_only_what_leaves_under_protection_is_taken() {
        let net = |n: u8| policy::Prefix { addr: [10, n, 0, 0].into(), len: 16 };
        let template = testing::template((HERE, THERE), 1);
        let with = |direction, action, templates: &[policy::Template]| PolicyConfig {
            selector: Selector::between(net(1), net(2)),
            action,
            templates: templates.to_vec(),
            ..testing::policy(1, direction, (HERE, THERE), &[])
        };
        let taken = |is_beside_kernel, direction, action, templates: &[policy::Template]| {
            let steering = Steering { is_beside_kernel, ..Steering::default() };
            let policy = with(direction, action, templates);
            steering.with(HashSet::new(), &[policy], []).protected.len()
        };
        let actions = [Action::Allow, Action::Block, Action::Leave];
        let of = |beside, direction, templates: &[policy::Template]| {
            actions.map(|action| taken(beside, direction, action, templates))
        };
        assert_eq!(of(false, Direction::Out, &[template]), [1, 1, 1]);
        assert_eq!(of(false, Direction::Out, &[]), [0, 1, 0]);
        // On its way between the kernel and the fast path it is led here, too.
        assert_eq!(of(true, Direction::Out, &[template]), [1, 0, 1]);
        assert_eq!(of(true, Direction::Out, &[]), [0, 0, 0]);
        assert_eq!(of(true, Direction::Forward, &[template]), [0, 0, 0]);
    }
}
