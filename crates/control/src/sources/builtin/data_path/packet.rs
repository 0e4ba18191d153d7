//! SAs and policies that a device has as a whole (packet offload).
//!
//! The device counts, so the numbers in the vault are what it said last, and the outbound one is spent: neither this process nor the
//! next one can use a number that the device may have used. They are brought back where the daemon ends in order. After
//! a crash nobody knows them, and such an SA is not taken up again.

use core::sync::atomic::Ordering::Relaxed;

use crypto::{Keys, Session};
use esp::{LiveNumbers, Sa};
use offload::{Live, PacketSa, SaDirection};
use policy::{PolicyConfig, SaConfig, SaId};
use xfrm::codec::{Offload, constant as c};
use xfrm::{Refusal, Replay, SaLive, Start};

use super::DataPath;
use crate::packet_devices::spent;
use crate::sources::{errno, live, weak};

impl DataPath {
    /// Adds an SA to the device that its owner wants.
    pub(super) fn add_to_device(
        &mut self,
        config: &SaConfig,
        keys: &Keys,
        start: &Start,
        wanted: &Offload,
    ) -> Result<(), Refusal> {
        let params = &config.params;
        weak::check(params.suite, self.rules.allow_weak)?;
        let (fingerprint, owner) = self.identity(config, keys)?;
        let numbers = self.live_numbers(config, start, owner)?;
        let is_inbound = wanted.flags & c::OFFLOAD_INBOUND != 0;
        let least = if is_inbound { 0 } else { self.numbers.resume(fingerprint, owner) };
        let result = begin(config, &numbers, start, (is_inbound, least)).and_then(|begin| {
            let packet = &mut self.devices.borrow_mut().packet;
            packet.put_sa(config, keys, wanted, &begin).map(|session| (begin, session))
        });
        let (begin, session) = result.inspect_err(|_| self.vault.borrow_mut().release(owner))?;
        let id = config.id();
        let give_up = |text: String| {
            self.devices.borrow_mut().packet.remove_sa(&id);
            self.vault.borrow_mut().release(owner);
            Refusal::new(errno::EINVAL, format!("culvert: {text}"))
        };
        let sa = Sa::new(params.clone(), session, numbers)
            .map_err(|error| give_up(error.to_string()))?
            .with_tunnel_headers(self.rules.tunnel_headers);
        sa.live().bytes().store(begin.bytes, Relaxed);
        sa.live().packets().store(begin.packets, Relaxed);
        sa.live().sent().store(spent(config), Relaxed);
        self.databases
            .add_sa_of_device(config.clone(), sa)
            .map_err(|error| give_up(error.to_string()))?;
        self.note_added(config, keys);
        Ok(())
    }

    /// Takes an SA out of its device, if it is in one, for good: its last number is what its owner may go on from.
    pub(super) fn remove_from_device(&mut self, id: &SaId, numbers: &LiveNumbers) {
        match self.devices.borrow_mut().packet.remove_sa(id) {
            Some((SaDirection::Outbound, last)) => numbers.sent().store(last.number, Relaxed),
            Some((SaDirection::Inbound, _)) => numbers.sent().store(0, Relaxed),
            None => {}
        }
    }

    /// Reads what devices have counted.
    pub fn read_devices(&mut self) {
        if !self.devices.borrow().packet.has_sas() {
            return;
        }
        for sa in self.databases.sas() {
            if PacketSa::of(sa.esp.session()).is_none() {
                continue;
            }
            let read = self.devices.borrow_mut().live(&sa.config.id());
            if let Some((_, live, seen)) = read {
                let numbers = sa.esp.live();
                numbers.bytes().store(live.bytes, Relaxed);
                numbers.packets().store(live.packets, Relaxed);
                numbers.first_use().store(seen.first_use_s, Relaxed);
                numbers.last_use().store(seen.last_use_s, Relaxed);
            }
        }
    }

    /// The numbers of an SA that is in a device, as the device has them.
    pub(super) fn live_in_device(&self, id: &SaId) -> Option<SaLive> {
        let (direction, live, seen) = self.devices.borrow_mut().live(id)?;
        let replay = match direction {
            SaDirection::Outbound => Replay { sent: live.number, ..Replay::default() },
            SaDirection::Inbound => Replay { edge: live.number, received: live.received, sent: 0 },
        };
        Some(SaLive {
            counters: xfrm::Counters {
                bytes: live.bytes,
                packets: live.packets,
                first_use_s: seen.first_use_s,
            },
            last_use_s: seen.last_use_s,
            replay,
            ..SaLive::default()
        })
    }

    /// Brings the numbers of all SAs back from their devices, for the next start. No worker runs.
    pub fn take_back(&mut self) {
        for sa in self.databases.sas() {
            if PacketSa::of(sa.esp.session()).is_none() {
                continue;
            }
            let taken = self.devices.borrow_mut().packet.remove_sa(&sa.config.id());
            let Some((direction, last)) = taken else { continue };
            let numbers = sa.esp.live();
            numbers.bytes().store(last.bytes, Relaxed);
            numbers.packets().store(last.packets, Relaxed);
            match direction {
                SaDirection::Outbound => numbers.sent().store(last.number, Relaxed),
                SaDirection::Inbound => {
                    let Live { number: edge, received, .. } = last;
                    live::set_received(&sa.esp, &Replay { sent: 0, edge, received });
                    numbers.sent().store(0, Relaxed);
                }
            }
        }
    }

    /// Puts a policy into the device that its owner wants, and into the databases.
    pub(super) fn put_to_device(
        &mut self,
        config: &PolicyConfig,
        wanted: &Offload,
    ) -> Result<(), Refusal> {
        let device = self.devices.borrow_mut().packet.put_policy(config, wanted)?;
        let mut config = config.clone();
        config.flags.device = Some(device);
        self.changes.policy(config.index);
        self.databases.put_policy(config);
        Ok(())
    }
}

/// State with which a device begins an SA; an outbound one not below the number `least`.
fn begin(
    config: &SaConfig,
    numbers: &LiveNumbers,
    start: &Start,
    (is_inbound, least): (bool, u64),
) -> Result<Live, Refusal> {
    let number = |replay: &Replay| match is_inbound {
        true => replay.edge,
        false => replay.sent.max(least),
    };
    match start {
        Start::At { replay, counters } => Ok(Live {
            number: number(replay),
            received: replay.received.clone(),
            bytes: counters.bytes,
            packets: counters.packets,
        }),
        Start::Kept if numbers.sent().load(Relaxed) == spent(config) => {
            let text =
                "culvert: the numbers of the SA were in a device; using it would repeat a nonce";
            Err(Refusal::new(errno::EINVAL, text))
        }
        Start::Kept => {
            let none = Session::new(config.params.suite, Box::new(()));
            let kept = Sa::new(config.params.clone(), none, numbers.clone())
                .map_err(|error| Refusal::new(errno::EINVAL, format!("culvert: {error}")))?;
            let replay = live::replay_of(&kept);
            Ok(Live {
                number: number(&replay),
                received: replay.received,
                bytes: numbers.bytes().load(Relaxed),
                packets: numbers.packets().load(Relaxed),
            })
        }
    }
}
