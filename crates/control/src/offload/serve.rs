//! Offload devices in a round of the control thread.

use std::time::Duration;

use offload::{PacketSa, SaDirection};
use policy::SaState;
use report::Occurrence;
use tracing::warn;

use super::Offload;
use crate::TICK;
use crate::clock::Now;
use crate::devices::To;
use crate::events::EventLog;
use crate::linux::Linux;
use crate::packet_devices::SaEvent;
use crate::sa::Sas;
use crate::sources::Owner as _;
use crate::texts::spi_text;
use crate::workers::Crew;

/// How often devices that have SAs are asked for events.
const DEVICE_WAIT: Duration = Duration::from_millis(50);

impl Offload {
    /// Sets the time of the round.
    pub(crate) fn set_time(&self, now: Now) {
        self.devices.borrow_mut().set_time(now);
    }

    /// Handles what devices report, and moves SAs between them and software.
    pub(crate) fn serve(&mut self, now: Now, sa: &mut Sas, crew: &Crew, log: &mut EventLog) {
        self.hear(now, sa, log);
        self.place(now, sa, crew, log);
    }

    /// How long the next round may be put off.
    pub(crate) fn due_in(&self) -> Option<Duration> {
        let devices = self.devices.borrow();
        let packet = devices.packet.has_sas().then_some(DEVICE_WAIT);
        devices.due_in().into_iter().chain(packet).min()
    }

    /// Handles what packet offload devices report, and reads their counters.
    fn hear(&mut self, now: Now, sa: &mut Sas, log: &mut EventLog) {
        if !self.devices.borrow().packet.has_sas() {
            return;
        }
        let events = self.devices.borrow_mut().packet.events();
        for (id, event) in events {
            let hard = event == SaEvent::Hard;
            if let Some(entry) = sa.source.databases().sa(&id) {
                entry.advance(if hard { SaState::Expired } else { SaState::Dying });
            }
            let spi = spi_text(id.spi);
            log.add(now, Occurrence::SaLimit { spi, dst: id.dst, hard });
            sa.source.volume_reached(&id, hard);
        }
        if now.since(self.read_at) >= TICK {
            self.read_at = now.at;
            if let Some(builtin) = sa.source.builtin_mut() {
                builtin.read_devices();
            }
        }
    }

    /// Moves the SAs of a device that has failed into software, back those that had asked for it when it works again, and the
    /// busiest ones into devices that are for them.
    fn place(&mut self, now: Now, sa: &mut Sas, crew: &Crew, log: &mut EventLog) {
        if self.devices.borrow().is_empty() {
            return;
        }
        let Some(builtin) = sa.source.builtin_mut() else { return };
        let fallen = self.devices.borrow_mut().fallen();
        fallen.iter().for_each(|sa| builtin.move_sa(sa, To::Software));
        let restored = self.devices.borrow_mut().restored();
        restored.iter().for_each(|(sa, to)| builtin.move_sa(sa, *to));
        let news = self.devices.borrow_mut().news();
        news.into_iter().for_each(|news| log.add(now, news));
        if self.devices.borrow().round_in().is_none_or(|due| !due.is_zero()) {
            return;
        }
        let topology = crew.tables.topology.load();
        let is_local = |addr| topology.is_local_addr(addr);
        // Not those that a device has as a whole.
        let all = builtin.databases().sas();
        let sas: Vec<_> = all.filter(|sa| PacketSa::of(sa.esp.session()).is_none()).collect();
        let moves = self.devices.borrow_mut().round(sas.iter(), |config| {
            match (is_local(config.params.src), is_local(config.params.dst)) {
                (true, false) => Some(SaDirection::Outbound),
                (false, true) => Some(SaDirection::Inbound),
                _ => None,
            }
        });
        moves.iter().for_each(|(sa, to)| builtin.move_sa(sa, *to));
    }

    /// Removes SAs and policies from a device behind a port that is down (`xfrm_dev_down`).
    pub(crate) fn follow_ports(&mut self, linux: &Linux, sa: &mut Sas) {
        let snapshot = linux.observer.snapshot();
        let is_up = |port: &str| snapshot.links().any(|link| link.name == port && link.up);
        let (sas, policies) = self.devices.borrow().packet.behind_ports_down(is_up);
        if sas.is_empty() && policies.is_empty() {
            return;
        }
        let (sa_count, policy_count) = (sas.len(), policies.len());
        warn!(sas = sa_count, policies = policy_count, "went with the port of their device");
        if let Some(builtin) = sa.source.builtin_mut() {
            builtin.lose(&sas, &policies);
        }
    }
}
