//! Requests about policies: add, update, delete, read.

use super::Database;
use super::call::Call;
use super::fields::{if_id_of, mark_of};
use super::lifetime::Owner;
use super::offload::wanted_for_policy;
use super::output::{Change, Group, Output};
use super::spd::{DIR_MASK, Policy, PolicyKey, direction};
use super::verify::{new_policy, policy_type, security_context};
use crate::backend::Backend;
use crate::clock::Now;
use crate::codec::{Attributes, LifetimeCurrent, PolicyId, PolicyInfo, SelectorInfo, kind};
use crate::failure::Failure;

/// A policy, what it replaces, and where the generator of indexes then stands.
pub(super) struct Replacement {
    pub old: Option<u64>,
    pub policy: Policy,
    pub generator: u32,
}

impl<B: Backend> Database<B> {
    /// `NEWPOLICY` and `UPDPOLICY`. An update replaces what has the same selector, direction, mark
    /// and interface id, under its index; where there is none, it adds.
    pub(super) fn put_policy(&mut self, call: &mut Call<'_>) -> Result<(), Failure> {
        let (info, attributes) = call.parse::<PolicyInfo>()?;
        let templates = new_policy(&info, &attributes)?;
        let mut policy = Policy {
            info,
            templates,
            mark: mark_of(&attributes),
            if_id: if_id_of(&attributes),
            offload: wanted_for_policy(&attributes)?,
            added_mono_ms: call.now.mono_ms.cast_signed(),
            deadline: None,
        };
        let add_time_s = call.now.wall_s;
        policy.info.current = LifetimeCurrent { add_time_s, ..LifetimeCurrent::default() };
        let old = self.spd.by_key(&policy.key()).map(|(serial, old)| (serial, old.info.index));
        if old.is_some() && call.header.kind == kind::NEWPOLICY {
            return Err(Failure::PolicyExists);
        }
        let (index, generator) = match old {
            Some((_, index)) => (index, self.spd.generator()),
            None => self.spd.free_index(policy.info.dir, policy.info.index),
        };
        policy.info.index = index;
        let old = old.map(|(serial, _)| serial);
        let serial = self.replace_policy(Replacement { old, policy, generator }, call.now)?;
        if let Some(policy) = self.spd.get(serial) {
            call.event(Group::Policy, self.policy_message(call.header.kind, policy, call.notice()));
        }
        call.out.extend(self.policy_change(serial).map(Output::Change));
        Ok(())
    }

    /// Installs a policy, in the data path first, instead of an old one; returns its serial number.
    pub(super) fn replace_policy(
        &mut self,
        Replacement { old, policy, generator }: Replacement,
        now: Now,
    ) -> Result<u64, Failure> {
        self.put_in_data_path(&policy)?;
        if let Some(serial) = old {
            self.forget_policy(serial);
        }
        let serial = self.spd.insert(policy, generator);
        self.arm_policy(serial, now);
        Ok(serial)
    }

    /// Gives the data path a policy, for a device or for software.
    pub(super) fn put_in_data_path(&mut self, policy: &Policy) -> Result<(), Failure> {
        let config = policy.config()?;
        match &policy.offload {
            Some(wanted) => self.backend.policy_put_offloaded(&config, wanted)?,
            None => self.backend.policy_put(&config)?,
        }
        Ok(())
    }

    /// `DELPOLICY`: deletes a policy.
    pub(super) fn delete_policy(&mut self, call: &mut Call<'_>) -> Result<(), Failure> {
        let (id, attributes) = call.parse::<PolicyId>()?;
        policy_type(&attributes)?;
        let serial = self.find_policy(id.dir, id.index, &id.selector, &attributes)?;
        let policy = self.spd.get(serial).ok_or(Failure::NoPolicy)?;
        let message = self.policy_deleted_message(policy, id.index != 0, call.notice());
        self.remove_policy(serial, call.out);
        call.event(Group::Policy, message);
        Ok(())
    }

    /// `GETPOLICY` for one policy.
    pub(super) fn get_policy(&mut self, call: &mut Call<'_>) -> Result<(), Failure> {
        let (id, attributes) = call.parse::<PolicyId>()?;
        policy_type(&attributes)?;
        let serial = self.find_policy(id.dir, id.index, &id.selector, &attributes)?;
        let policy = self.spd.get(serial).ok_or(Failure::NoPolicy)?;
        let message = self.policy_message(kind::NEWPOLICY, policy, call.answer());
        call.reply(message);
        Ok(())
    }

    /// The policy that a request names: by index where it gives one, else by selector; mark and
    /// interface id must be the same in both cases.
    pub(super) fn find_policy(
        &self,
        dir: u8,
        index: u32,
        selector: &SelectorInfo,
        attributes: &Attributes<'_>,
    ) -> Result<u64, Failure> {
        direction(dir)?;
        let (mark, if_id) = (mark_of(attributes), if_id_of(attributes));
        if index != 0 {
            if index & DIR_MASK != u32::from(dir) {
                return Err(Failure::NoPolicy);
            }
            let (serial, policy) = self.spd.by_index(index).ok_or(Failure::NoPolicy)?;
            let same = policy.mark == mark && policy.if_id == if_id;
            return if same { Ok(serial) } else { Err(Failure::NoPolicy) };
        }
        security_context(attributes)?;
        let key = PolicyKey { selector: selector.clone(), dir, mark, if_id };
        self.spd.by_key(&key).map(|(serial, _)| serial).ok_or(Failure::NoPolicy)
    }

    /// Removes a policy everywhere and tells the journal.
    pub(super) fn remove_policy(&mut self, serial: u64, out: &mut Vec<Output>) {
        if let Some(policy) = self.forget_policy(serial) {
            self.backend.policy_delete(policy.info.index);
            out.push(Output::Change(Change::policy_gone(&policy)));
        }
    }

    fn forget_policy(&mut self, serial: u64) -> Option<Policy> {
        let mut policy = self.spd.remove(serial)?;
        self.timers.set(Owner::Policy(serial), &mut policy.deadline, None);
        Some(policy)
    }
}
