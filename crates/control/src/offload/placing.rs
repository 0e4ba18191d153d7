//! SAs move between offload devices and software.

use offload::{PacketSa, SaDirection};

use crate::Daemon;
use crate::clock::Now;
use crate::devices::To;
use crate::sources::Owner;

impl Daemon {
    /// Moves the SAs of a device that has failed into software, back those that had asked for it when it works again, and the
    /// busiest ones into devices that are for them.
    pub(crate) fn place_sas(&mut self, now: Now) {
        if self.offload.devices.borrow().is_empty() {
            return;
        }
        let Some(builtin) = self.sa.source.builtin_mut() else { return };
        let fallen = self.offload.devices.borrow_mut().fallen();
        fallen.iter().for_each(|sa| builtin.move_sa(sa, To::Software));
        let restored = self.offload.devices.borrow_mut().restored();
        restored.iter().for_each(|(sa, to)| builtin.move_sa(sa, *to));
        let news = self.offload.devices.borrow_mut().news();
        news.into_iter().for_each(|news| self.shows.event_log.add(now, news));
        if self.offload.devices.borrow().round_in().is_none_or(|due| !due.is_zero()) {
            return;
        }
        let topology = self.crew.tables.topology.load();
        let is_local = |addr| topology.is_local_addr(addr);
        // Not those that a device has as a whole.
        let all = builtin.databases().sas();
        let sas: Vec<_> = all.filter(|sa| PacketSa::of(sa.esp.session()).is_none()).collect();
        let moves = self.offload.devices.borrow_mut().round(sas.iter(), |config| {
            match (is_local(config.params.src), is_local(config.params.dst)) {
                (true, false) => Some(SaDirection::Outbound),
                (false, true) => Some(SaDirection::Inbound),
                _ => None,
            }
        });
        moves.iter().for_each(|(sa, to)| builtin.move_sa(sa, *to));
    }
}
