//! SAs in packet offload devices, and which of them the outbound policies lead to.

use std::sync::Arc;

use crypto::{Keys, Session};
use offload::{HandleError, Invalid, Live, NewPolicy, NewSa, PacketSa, PutError, SaDirection};
use policy::{OutboundKey, PolicyConfig, SaConfig, SaId, Template};
use tracing::warn;
use xfrm::Refusal;
use xfrm::codec::{Offload, constant as c};

use super::{PacketDevices, PlacedSa, Seen, no_device, number, refusal, spent};

impl PacketDevices {
    /// Puts an SA into the device of the interface that its owner wants; the session that stands for it.
    ///
    /// # Errors
    /// There is no such device, or it does not take the SA.
    pub fn put_sa(
        &mut self,
        config: &SaConfig,
        keys: &Keys,
        wanted: &Offload,
        start: &Live,
    ) -> Result<Session, Refusal> {
        let at = self.wanted(wanted, "state")?;
        let Some(attached) = self.attached.get_mut(at) else { return Err(no_device("state")) };
        let direction = match wanted.flags & c::OFFLOAD_INBOUND {
            0 => SaDirection::Outbound,
            _ => SaDirection::Inbound,
        };
        let mut offered = config.clone();
        let windows = &attached.device.capabilities().replay_windows;
        if direction == SaDirection::Outbound && !windows.contains(&config.params.replay_window) {
            // It means nothing there.
            offered.params.replay_window = *windows.start();
        }
        let new = NewSa { direction, config: &offered, keys, start };
        let put = attached.device.put_sa(new);
        let handle = put.map_err(|error| refusal(&attached.name, &error))?;
        let name = Arc::clone(&attached.name);
        let id = config.id();
        let (seen, config) = (Seen::default(), config.clone());
        let suite = config.params.suite;
        let key = OutboundKey::of_sa(&config);
        self.sas.insert(id, PlacedSa { at, handle, direction, config, seen });
        self.by_handle.insert((at, handle), id);
        if direction == SaDirection::Outbound {
            self.outbound.entry(key).or_default().push(id);
            let indices = self.choosing.get(&key).cloned().unwrap_or_default();
            for index in indices {
                if let Err(error) = self.lead(index, &id) {
                    self.remove_sa(&id);
                    return Err(refusal(&name, &error));
                }
            }
        }
        Ok(PacketSa::session(number(at), name, handle, suite))
    }

    /// Leads a policy to an SA of its device that it would choose.
    pub(super) fn lead(&mut self, index: u32, id: &SaId) -> Result<(), PutError> {
        let (Some(policy), Some(sa)) = (self.policies.get_mut(&index), self.sas.get(id)) else {
            return Ok(());
        };
        if policy.at != sa.at || !suits(&policy.config, &sa.config) {
            return Ok(());
        }
        let Some(attached) = self.attached.get_mut(sa.at) else { return Ok(()) };
        match policy.handle {
            Some(handle) => attached.device.switch_policy(handle, sa.handle).map_err(failed)?,
            None => {
                let new = NewPolicy { config: &policy.config, sa: Some(sa.handle) };
                policy.handle = Some(attached.device.put_policy(new)?);
            }
        }
        policy.sa = Some(*id);
        Ok(())
    }

    /// Takes an SA out of its device: which way it went and its last numbers, if it was in one. Of a device that has gone
    /// nobody knows them, and none may be used again.
    pub fn remove_sa(&mut self, id: &SaId) -> Option<(SaDirection, Live)> {
        let placed = self.sas.remove(id)?;
        self.by_handle.remove(&(placed.at, placed.handle));
        if placed.direction == SaDirection::Outbound {
            self.lead_elsewhere(id, &placed);
        }
        let attached = self.attached.get_mut(placed.at)?;
        let last = attached.device.remove_sa(placed.handle).unwrap_or_else(|error| {
            warn!(device = %attached.name, %error, "an SA's numbers are lost with the device");
            Live { number: spent(&placed.config), ..Live::default() }
        });
        Some((placed.direction, last))
    }

    /// Leads the policies of an SA that goes to another one, or takes them out of the device.
    fn lead_elsewhere(&mut self, id: &SaId, gone: &PlacedSa) {
        let key = OutboundKey::of_sa(&gone.config);
        let others = self.outbound.entry(key).or_default();
        others.retain(|other| other != id);
        let others: Vec<SaId> = others.iter().rev().copied().collect();
        if others.is_empty() {
            self.outbound.remove(&key);
        }
        for index in self.choosing.get(&key).cloned().unwrap_or_default() {
            let Some(policy) = self.policies.get_mut(&index) else { continue };
            if policy.sa.as_ref() != Some(id) {
                continue;
            }
            policy.sa = None;
            for other in &others {
                if let Err(error) = self.lead(index, other) {
                    warn!(policy = index, %error, "a policy is not led to another SA");
                }
                if self.policies.get(&index).is_some_and(|policy| policy.sa.is_some()) {
                    break;
                }
            }
            if let Some(policy) = self.policies.get_mut(&index)
                && policy.sa.is_none()
                && let (at, Some(handle)) = (policy.at, policy.handle.take())
            {
                self.take_out(at, handle);
            }
        }
    }

    /// An SA's numbers now, if it is in a device, and when it was in use.
    pub fn live(&mut self, id: &SaId, now_s: u64) -> Option<(SaDirection, Live, Seen)> {
        let placed = self.sas.get_mut(id)?;
        let attached = self.attached.get_mut(placed.at)?;
        let live = attached.device.live(placed.handle).ok()?;
        let seen = &mut placed.seen;
        if live.packets != seen.packets {
            seen.packets = live.packets;
            seen.last_use_s = now_s;
            if seen.first_use_s == 0 {
                seen.first_use_s = now_s;
            }
        }
        Some((placed.direction, live, *seen))
    }
}

/// True if an SA is one that a policy of one template chooses (`Databases::protecting`).
fn suits(policy: &PolicyConfig, sa: &SaConfig) -> bool {
    let [Template { src, spi, mode, .. }] = policy.templates.as_slice() else { return false };
    let params = &sa.params;
    let is_from = src.is_unspecified() || params.src.is_unspecified() || params.src == *src;
    params.mode == *mode && (*spi == 0 || *spi == params.spi) && is_from
}

fn failed(error: HandleError) -> PutError {
    match error {
        HandleError::Failed(failure) => failure.into(),
        _ => Invalid::PolicySa.into(),
    }
}
