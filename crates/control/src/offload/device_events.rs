//! Events of devices for packet offload: those of their SAs, and ports that go down.

use policy::SaState;
use report::Occurrence;
use tracing::warn;

use crate::clock::Now;
use crate::packet_devices::SaEvent;
use crate::texts::spi_text;
use crate::{Daemon, TICK};

impl Daemon {
    /// Handles what packet offload devices report, and reads their counters.
    pub(crate) fn hear_devices(&mut self, now: Now) {
        if !self.offload.devices.borrow().packet.has_sas() {
            return;
        }
        let events = self.offload.devices.borrow_mut().packet.events();
        for (sa, event) in events {
            let hard = event == SaEvent::Hard;
            if let Some(entry) = self.sa.source.databases().sa(&sa) {
                entry.advance(if hard { SaState::Expired } else { SaState::Dying });
            }
            let spi = spi_text(sa.spi);
            self.shows.event_log.add(now, Occurrence::SaLimit { spi, dst: sa.dst, hard });
            self.sa.source.volume_reached(&sa, hard);
        }
        if now.since(self.offload.read_at) >= TICK {
            self.offload.read_at = now.at;
            if let Some(builtin) = self.sa.source.builtin_mut() {
                builtin.read_devices();
            }
        }
    }

    /// Removes SAs and policies from a device behind a port that is down (`xfrm_dev_down`).
    pub(crate) fn follow_device_ports(&mut self) {
        let snapshot = self.linux.observer.snapshot();
        let is_up = |port: &str| snapshot.links().any(|link| link.name == port && link.up);
        let (sas, policies) = self.offload.devices.borrow().packet.behind_ports_down(is_up);
        if sas.is_empty() && policies.is_empty() {
            return;
        }
        let (sa_count, policy_count) = (sas.len(), policies.len());
        warn!(sas = sa_count, policies = policy_count, "went with the port of their device");
        if let Some(builtin) = self.sa.source.builtin_mut() {
            builtin.lose(&sas, &policies);
        }
    }
}
