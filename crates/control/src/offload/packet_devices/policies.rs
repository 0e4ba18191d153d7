//! Policies in packet offload devices.

use std::sync::Arc;

use offload::{Attribute, Failure, NewPolicy, PutError};
use policy::{Direction, OutboundKey, PolicyConfig};
use tracing::error;
use xfrm::Refusal;
use xfrm::codec::Offload;

use super::{PacketDevices, PlacedPolicy, no_device, number, refusal};

impl PacketDevices {
    /// Puts a policy into the device of the interface that its owner wants, in the place of one with its index; the device's
    /// number.
    ///
    /// # Errors
    /// There is no such device, or it does not take the policy.
    pub fn put_policy(&mut self, config: &PolicyConfig, wanted: &Offload) -> Result<u8, Refusal> {
        let at = self.wanted(wanted, "policy")?;
        let Some(attached) = self.attached.get_mut(at) else { return Err(no_device("policy")) };
        let name = Arc::clone(&attached.name);
        let refused = |error: PutError| refusal(&name, &error);
        let capabilities = attached.device.capabilities();
        let lacks = |lacked| refused(PutError::Unsupported(lacked));
        capabilities.check_policy(config).map_err(lacks)?;
        let most = capabilities.most_policies;
        let is_replaced = self.policies.get(&config.index).is_some_and(|old| old.at == at);
        let used = attached.policies.get(config.direction as usize).copied().unwrap_or(0);
        if !is_replaced && used >= most {
            return Err(refused(PutError::Full { what: "policies", most }));
        }
        let needs_sa = config.direction == Direction::Out && !config.templates.is_empty();
        let key = match needs_sa {
            false => None,
            // The device leads a policy to one SA, whatever the packet.
            true => match OutboundKey::of_policy(config).as_deref() {
                Some([key]) => Some(*key),
                _ => return Err(lacks(Attribute::Templates)),
            },
        };
        let old = self.take_policy(config.index);
        let mut policy = PlacedPolicy { at, config: config.clone(), handle: None, sa: None, key };
        let result = match key {
            None => {
                let new = NewPolicy { config, sa: None };
                let put = self.attached.get_mut(at).map(|attached| attached.device.put_policy(new));
                match put {
                    Some(Ok(handle)) => {
                        policy.handle = Some(handle);
                        self.insert_policy(policy);
                        Ok(())
                    }
                    Some(Err(error)) => Err(error),
                    None => Err(Failure::Gone.into()),
                }
            }
            Some(key) => {
                self.insert_policy(policy);
                self.lead_to_youngest(config.index, &key)
            }
        };
        if let Err(error) = result {
            self.take_policy(config.index);
            if let Some(old) = old {
                self.restore_policy(old);
            }
            return Err(refused(error));
        }
        Ok(number(at))
    }

    fn lead_to_youngest(&mut self, index: u32, key: &OutboundKey) -> Result<(), PutError> {
        let sas = self.outbound.get(key).cloned().unwrap_or_default();
        for id in sas.iter().rev() {
            self.lead(index, id)?;
            if self.policies.get(&index).is_some_and(|policy| policy.sa.is_some()) {
                break;
            }
        }
        Ok(())
    }

    fn insert_policy(&mut self, policy: PlacedPolicy) {
        let index = policy.config.index;
        if let Some(key) = policy.key {
            self.choosing.entry(key).or_default().insert(index);
        }
        self.count(&policy, 1);
        self.policies.insert(index, policy);
    }

    /// One policy more in its device, or one less.
    fn count(&mut self, policy: &PlacedPolicy, by: isize) {
        let attached = self.attached.get_mut(policy.at);
        let side = policy.config.direction as usize;
        if let Some(count) = attached.and_then(|attached| attached.policies.get_mut(side)) {
            *count = count.saturating_add_signed(by);
        }
    }

    /// Puts a policy back that another one should have replaced.
    fn restore_policy(&mut self, mut old: PlacedPolicy) {
        let (index, key) = (old.config.index, old.key);
        old.sa = None;
        if key.is_none() {
            let new = NewPolicy { config: &old.config, sa: None };
            let attached = self.attached.get_mut(old.at);
            old.handle = attached.and_then(|attached| attached.device.put_policy(new).ok());
        }
        self.insert_policy(old);
        if let Some(key) = key
            && let Err(error) = self.lead_to_youngest(index, &key)
        {
            error!(policy = index, %error, "a device has lost a policy that was to be replaced");
        }
    }

    /// Takes a policy out of its device, if it is one's.
    pub fn remove_policy(&mut self, index: u32) {
        self.take_policy(index);
    }

    fn take_policy(&mut self, index: u32) -> Option<PlacedPolicy> {
        let mut policy = self.policies.remove(&index)?;
        self.count(&policy, -1);
        if let Some(key) = policy.key
            && let Some(indices) = self.choosing.get_mut(&key)
        {
            indices.remove(&index);
            if indices.is_empty() {
                self.choosing.remove(&key);
            }
        }
        if let Some(handle) = policy.handle.take() {
            self.take_out(policy.at, handle);
        }
        Some(policy)
    }
}
