//! Lifetimes that end: by time, by volume, and because the owner says so.

use policy::SaId;

use super::Database;
use super::call::Call;
use super::lifetime::{Due, Owner, Since, evaluate};
use super::output::{Group, Output};
use super::verify::policy_type;
use crate::backend::{Backend, SaEnd};
use crate::clock::Now;
use crate::codec::{Expire, PolicyExpire, SaId as SaIdInfo};
use crate::failure::Failure;

impl<B: Backend> Database<B> {
    /// Does what is due: announces soft limits, removes what reached a hard one. To be called when
    /// [`Database::next_deadline_ms`] is reached; calling it early or late does no harm.
    pub fn tick(&mut self, now: Now, out: &mut Vec<Output>) {
        while let Some(owner) = self.timers.pop_due(now.mono_ms) {
            match owner {
                Owner::Sa(serial) => {
                    if let Some(sa) = self.sad.get_mut(serial) {
                        sa.deadline = None;
                    }
                    match self.sa_due(serial, now) {
                        Some(Due::Hard) => self.expire_sa(serial, true, 0, out),
                        Some(Due::Soft(_)) => self.expire_sa(serial, false, 0, out),
                        Some(Due::Later(_)) | None => {}
                    }
                    self.rearm_sa(serial, now);
                }
                Owner::Policy(serial) => self.tick_policy(serial, now, out),
            }
        }
    }

    /// The data path counted an SA's bytes or packets to a limit. A soft limit is announced once,
    /// whichever of time and volume comes first.
    pub fn volume_expired(&mut self, id: &SaId, hard: bool, out: &mut Vec<Output>) {
        let Some((serial, sa)) = self.sad.find_exact(id) else { return };
        if sa.larval() || (!hard && sa.dying) {
            return;
        }
        self.expire_sa(serial, hard, 0, out);
    }

    /// Removes SAs and policies whose offload device is gone. Their owners hear of it as of a hard
    /// limit, so that they make new ones.
    pub fn device_gone(&mut self, sas: &[SaId], policies: &[u32], out: &mut Vec<Output>) {
        for index in policies {
            if let Some((serial, _)) = self.spd.by_index(*index) {
                self.expire_policy(serial, true, 0, out);
            }
        }
        for id in sas {
            self.volume_expired(id, true, out);
        }
    }

    /// Announces an SA's expiry; a hard one removes it, without a `DELSA`, as Linux does.
    fn expire_sa(&mut self, serial: u64, hard: bool, port_id: u32, out: &mut Vec<Output>) {
        let Some(sa) = self.sad.get(serial) else { return };
        let message = self.expire_message(sa, hard, port_id);
        if hard {
            if let Some(policy) = self.waiting_cpus.get(&serial) {
                // Nobody has answered: its flows, which other SAs protect meanwhile, may ask again.
                self.backend.ask_again(*policy);
            }
            self.remove_sa(serial, SaEnd::Expired, out);
        } else {
            if let Some(sa) = self.sad.get_mut(serial) {
                sa.dying = true;
            }
            out.extend(self.sa_change(serial).map(Output::Change));
        }
        out.push(Output::Event { group: Group::Expire, message });
    }

    /// `EXPIRE` from user space.
    pub(super) fn expire_request(&mut self, call: &mut Call<'_>) -> Result<(), Failure> {
        let (request, attributes) = call.parse::<Expire>()?;
        let id = SaIdInfo {
            dst: request.sa.id.dst,
            spi: request.sa.id.spi,
            family: request.sa.family,
            protocol: request.sa.id.protocol,
            ..SaIdInfo::default()
        };
        let serial = self.lookup(&id, &attributes).ok_or(Failure::NoSaEntry)?;
        match self.sad.get(serial) {
            Some(sa) if sa.is_companion() => return Err(Failure::Companion),
            Some(sa) if !sa.larval() => {}
            _ => return Err(Failure::NotValid),
        }
        // Linux does not mark it as dying: the timer's own soft expiry still comes.
        let hard = request.hard != 0;
        let port_id = call.header.port_id;
        if hard {
            self.expire_sa(serial, true, port_id, call.out);
        } else if let Some(sa) = self.sad.get(serial) {
            call.event(Group::Expire, self.expire_message(sa, false, port_id));
        }
        Ok(())
    }

    /// `POLEXPIRE` from user space.
    pub(super) fn policy_expire_request(&mut self, call: &mut Call<'_>) -> Result<(), Failure> {
        let (request, attributes) = call.parse::<PolicyExpire>()?;
        policy_type(&attributes)?;
        let p = &request.policy;
        let serial = self.find_policy(p.dir, p.index, &p.selector, &attributes)?;
        self.expire_policy(serial, request.hard != 0, call.header.port_id, call.out);
        Ok(())
    }

    fn expire_policy(&mut self, serial: u64, hard: bool, port_id: u32, out: &mut Vec<Output>) {
        let Some(policy) = self.spd.get(serial) else { return };
        let message = self.policy_expire_message(policy, hard, port_id);
        if hard {
            self.remove_policy(serial, out);
        }
        out.push(Output::Event { group: Group::Expire, message });
    }

    fn tick_policy(&mut self, serial: u64, now: Now, out: &mut Vec<Output>) {
        if let Some(policy) = self.spd.get_mut(serial) {
            policy.deadline = None;
        }
        let at = match self.policy_due(serial, now) {
            Some(Due::Hard) => {
                self.expire_policy(serial, true, 0, out);
                return;
            }
            Some(Due::Soft(at)) => {
                self.expire_policy(serial, false, 0, out);
                // A policy's soft expiry is announced again and again, as Linux does.
                let again = now.mono_ms.saturating_add(SOFT_POLICY_INTERVAL_MS);
                Some(at.map_or(again, |at| at.min(again)))
            }
            Some(Due::Later(at)) => at,
            None => return,
        };
        if let Some(policy) = self.spd.get_mut(serial) {
            self.timers.set(Owner::Policy(serial), &mut policy.deadline, at);
        }
    }

    /// Looks at a policy's limits by time for the first time.
    pub(super) fn arm_policy(&mut self, serial: u64, now: Now) {
        let at = match self.policy_due(serial, now) {
            Some(Due::Hard | Due::Soft(_)) => Some(now.mono_ms),
            Some(Due::Later(at)) => at,
            None => None,
        };
        if let Some(policy) = self.spd.get_mut(serial) {
            self.timers.set(Owner::Policy(serial), &mut policy.deadline, at);
        }
    }

    fn policy_due(&self, serial: u64, now: Now) -> Option<Due> {
        let policy = self.spd.get(serial)?;
        let l = &policy.info.limits;
        let by_use = l.soft_use_s != 0 || l.hard_use_s != 0;
        let live = by_use.then(|| self.backend.policy_live(policy.info.index)).flatten();
        // Linux counts the time of use from the addition until there is one.
        let used_ms = match live.map_or(0, |live| live.last_use_s) {
            0 => policy.added_mono_ms,
            last_use_s => now.mono_of(last_use_s),
        };
        let since = Since { added_ms: policy.added_mono_ms, used_ms: Some(used_ms) };
        Some(evaluate(l, since, false, now.mono_ms))
    }
}

const SOFT_POLICY_INTERVAL_MS: u64 = 30_000;
