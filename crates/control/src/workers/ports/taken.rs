//! Packets that the steering programs of all ports take.

use std::collections::HashMap;
use std::net::IpAddr;

use config::MarkConfig;
use policy::PolicyConfig;
use steer::{Prefix, SteerError};

use super::Ports;
use super::program::Program;
use crate::clock::Now;
use crate::nat::FlowStep;
use crate::overlays::OverlayTraffic;
use crate::sources::SaStep;
use crate::steering::{Steering, TakenEsp};
use crate::vlans::Vlans;

impl Ports {
    /// Packets that the steering programs take.
    pub fn steering(&self) -> &Steering {
        &self.steering
    }

    /// Packets that arrive at a port get these marks. Steering has to be set anew then.
    pub fn set_marks(&mut self, rules: &[MarkConfig]) {
        self.steering.marks = rules.iter().map(|rule| rule.mark).collect();
    }

    /// Follows a direction of a connection.
    pub fn steer_flow(&mut self, step: FlowStep) {
        let working = self.entries.iter_mut().filter_map(|entry| entry.working.as_mut());
        working.for_each(|working| self.flows.follow(&mut *working.steer, &step));
    }

    /// Tells the steering programs what to take.
    pub fn steer(&mut self, steering: Steering) {
        if steering == self.steering {
            return;
        }
        self.steering = steering;
        for entry in &mut self.entries {
            entry.steer(&self.steering);
        }
    }

    /// Tells the steering programs whose frames are taken beside those without tags. A port that opens later is told
    /// then.
    pub fn steer_vlans(&mut self, vlans: &Vlans) {
        for entry in &mut self.entries {
            let Some(working) = &mut entry.working else { continue };
            let ifindex = working.ifindex;
            entry.vlans =
                vlans.taken().filter(|vlan| vlan.port == ifindex).map(|vlan| vlan.tags).collect();
            if let Err(error) = working.steer.set_vlans(&mut entry.vlans.iter().copied()) {
                entry.stale(&error.to_string());
            }
        }
    }

    /// The kernel has SAs and policies too. To be told before policies are, and before a port is open.
    pub fn set_beside_kernel(&mut self) {
        self.steering.is_beside_kernel = true;
    }

    /// Follows a policy that was added, removed or replaced.
    pub fn steer_policy(&mut self, old: Option<&PolicyConfig>, new: Option<&PolicyConfig>) {
        // Additions come before removals.
        if let Some(prefix) = new.and_then(|policy| self.steering.taken(policy)) {
            self.take_prefix(prefix);
        }
        if let Some(prefix) = old.and_then(|policy| self.steering.taken(policy)) {
            self.leave_prefix(prefix);
        }
    }

    /// One reason more to take what goes to a destination: a policy, or a route to a tunnel interface.
    pub fn take_prefix(&mut self, prefix: Prefix) {
        let users = self.steering.protected.entry(prefix).or_default();
        *users += 1;
        if *users == 1 {
            self.each_program(|steer| steer.add_protected(prefix));
        }
    }

    /// The longest prefix around an address whose packets ports take.
    pub fn taken_by(&self, addr: IpAddr) -> Option<Prefix> {
        let longest = match addr {
            IpAddr::V4(_) => 32,
            IpAddr::V6(_) => 128,
        };
        let prefixes = (0..=longest).rev().filter_map(|len| Prefix::new(addr, len));
        prefixes.into_iter().find(|prefix| self.steering.protected.contains_key(prefix))
    }

    /// One reason less.
    pub fn leave_prefix(&mut self, prefix: Prefix) {
        let Some(users) = self.steering.protected.get_mut(&prefix) else { return };
        *users -= 1;
        if *users == 0 {
            self.steering.protected.remove(&prefix);
            self.each_program(|steer| steer.remove_protected(prefix));
        }
    }

    /// The kernel has SAs: from now on only ESP of culvert's own is taken.
    pub fn leave_unknown_esp(&mut self, own: impl IntoIterator<Item = (IpAddr, u32)>) {
        let mut sas = HashMap::new();
        for sa in own {
            *sas.entry(sa).or_default() += 1;
        }
        let esp = TakenEsp::Own(sas);
        self.steer(Steering { esp, ..self.steering.clone() });
    }

    /// Takes fragments of UDP to this host, or leaves them to Linux.
    pub fn steer_udp_fragments(&mut self, are_taken: bool) {
        if self.steering.udp_fragments != are_taken {
            self.steering.udp_fragments = are_taken;
            self.each_program(|steer| steer.set_take_udp_fragments(are_taken));
        }
    }

    /// Takes ICMPv6 errors that may be about packets with segments, or leaves them to Linux.
    pub fn steer_segment_errors(&mut self, are_taken: bool) {
        if self.steering.segment_errors != are_taken {
            self.steering.segment_errors = are_taken;
            self.each_program(|steer| steer.set_take_segment_errors(are_taken));
        }
    }

    /// Takes packets in clear of overlays to this host, or leaves them to Linux.
    pub fn steer_overlays(&mut self, traffic: OverlayTraffic) {
        if self.steering.overlays != traffic {
            self.steering.overlays = traffic;
            let steering = self.steering.clone();
            self.each_program(|steer| steering.apply_overlays(steer));
        }
    }

    /// Follows an SA of culvert's that was added or removed.
    pub fn steer_sa(&mut self, SaStep { dst, spi, is_added }: SaStep) {
        let TakenEsp::Own(sas) = &mut self.steering.esp else { return };
        let users = sas.entry((dst, spi)).or_default();
        *users = if is_added { *users + 1 } else { users.saturating_sub(1) };
        match (*users, is_added) {
            (1, true) => self.each_program(|steer| steer.add_sa(dst, spi)),
            (0, _) => {
                sas.remove(&(dst, spi));
                self.each_program(|steer| steer.remove_sa(dst, spi));
            }
            _ => {}
        }
    }

    /// Tells the watchdog, if there is one, that the control thread works. To be called in each round.
    pub fn beat(&mut self, now: Now) {
        if !self.steering.is_beside_kernel {
            return;
        }
        for entry in &mut self.entries {
            if let Some(working) = &mut entry.working
                && let Some(until_ns) = working.heartbeat.due(now)
                && let Err(error) = working.steer.beat(until_ns)
            {
                entry.stale(&error.to_string());
            }
        }
    }

    /// Leaves the next packet of an SA to Linux, which sees by it that the SA is in use. Each port has tables
    /// of its own, and the SA's packets may come by any: one packet passes at each port where one comes, so
    /// at one port as a rule, and at another, if the way changes, one more that was asked for earlier.
    /// Does nothing at a port that does not have the SA.
    pub fn sample_sa(&mut self, dst: IpAddr, spi: u32) {
        self.each_program(|steer| steer.sample_sa(dst, spi));
    }

    fn each_program(&mut self, mut change: impl FnMut(&mut dyn Program) -> Result<(), SteerError>) {
        for entry in &mut self.entries {
            if let Some(working) = &mut entry.working
                && let Err(error) = change(&mut *working.steer)
            {
                entry.stale(&error.to_string());
            }
        }
    }
}
