//! Requests about SAs: add, update, delete, read.

use super::Database;
use super::call::Call;
use super::fields::mark_of;
use super::lifetime::{Due, Owner, Since, evaluate};
use super::output::{Change, Group, Output};
use super::sad::Sa;
use super::verify::new_sa;
use crate::backend::{Backend, SaEnd, Start};
use crate::clock::Now;
use crate::codec::{Attributes, MarkAttribute, SaId, SaInfo, constant as c, kind};
use crate::failure::Failure;

impl<B: Backend> Database<B> {
    /// `NEWSA` and `UPDSA`.
    ///
    /// 1. Check.
    /// 2. Find what has this identity: none may exist for `NEWSA`, one must for `UPDSA`.
    /// 3. An update of an SA with keys changes limits, ports and the like.
    /// 4. Otherwise the SA is installed, in the data path first, instead of its larval one.
    pub(super) fn put_sa(&mut self, call: &mut Call<'_>) -> Result<(), Failure> {
        let (info, attributes) = call.parse::<SaInfo>()?;
        let new = new_sa(info, &attributes)?;
        if new.options.cpu.is_some_and(|cpu| cpu >= self.settings.cpus) {
            return Err(Failure::Cpu);
        }
        let start = Start::At { replay: new.start.clone(), counters: new.counters };
        let added_s = new.added_s.unwrap_or(call.now.wall_s);
        let sa = new.into_sa(added_s, call.now);
        let update = call.header.kind == kind::UPDSA;
        let found = self.sad.find(&sa.spi_key(), sa.mark_value());
        if update && found.is_some_and(|(_, old)| !has_direction_of(&sa, old)) {
            return Err(Failure::OtherDirection);
        }
        let serial = match found.map(|(serial, old)| (serial, old.larval())) {
            None if update => return Err(Failure::NoSa),
            Some(_) if !update => return Err(Failure::SaExists),
            Some((serial, false)) => {
                self.update_sa(serial, &sa)?;
                serial
            }
            larval => {
                let larval = larval.map(|(serial, _)| serial).or_else(|| self.waiting_for(&sa));
                self.install(sa, &start, larval)?
            }
        };
        self.rearm_sa(serial, call.now);
        if let Some(sa) = self.sad.get(serial) {
            call.event(Group::Sa, self.sa_message(call.header.kind, sa, call.notice()));
        }
        call.out.extend(self.sa_change(serial).map(Output::Change));
        Ok(())
    }

    /// Installs an SA whose identity is free but for a larval one, which goes.
    pub(super) fn install(
        &mut self,
        mut sa: Sa,
        start: &Start,
        larval: Option<u64>,
    ) -> Result<u64, Failure> {
        let (config, keys) = sa.config(self.sad.next_serial())?;
        self.attach_companion(&sa)?;
        let added = match &sa.options.offload {
            Some(wanted) => self.backend.sa_add_offloaded(&config, &keys, start, wanted),
            None => self.backend.sa_add(&config, &keys, start).map(|()| false),
        };
        match added {
            Ok(true) => {}
            // It is told of no device that has not taken it.
            Ok(false) => sa.options.offload = None,
            Err(refusal) => {
                self.detach_companion(&sa, SaEnd::Deleted);
                return Err(refusal.into());
            }
        }
        if let Some(larval) = larval {
            self.forget_sa(larval);
        }
        Ok(self.sad.insert(sa))
    }

    /// The larval SA that this one answers: by the acquire's number, else by addresses and reqid.
    fn waiting_for(&self, sa: &Sa) -> Option<u64> {
        if sa.info.seq != 0
            && let Some((serial, larval)) = self.sad.by_seq(sa.info.seq)
            && larval.dst() == sa.dst()
            && larval.info.id.protocol == sa.info.id.protocol
            && larval.options.cpu == sa.options.cpu
        {
            return Some(serial);
        }
        self.sad.larval(&sa.larval_key())
    }

    /// Updates an SA that has keys: limits, ports, care-of address, set-mark and interface id. All
    /// else of the request is ignored, keys too.
    fn update_sa(&mut self, serial: u64, new: &Sa) -> Result<(), Failure> {
        let Some(old) = self.sad.get(serial) else { return Err(Failure::NoSa) };
        let mut sa = old.clone();
        match (&mut sa.options.encap, &new.options.encap) {
            (Some(old), Some(new)) if old.kind == new.kind => *old = new.clone(),
            (None, None) => {}
            _ => return Err(Failure::EncapChange),
        }
        if let (Some(old), Some(new)) = (&mut sa.options.care_of, &new.options.care_of) {
            **old = **new;
        }
        sa.info.limits = new.info.limits.clone();
        sa.dying = false;
        if new.options.set_mark != MarkAttribute::default() {
            sa.options.set_mark = new.options.set_mark.clone();
        }
        if new.options.if_id != 0 {
            sa.options.if_id = new.options.if_id;
        }
        let (config, _) = sa.config(serial)?;
        self.backend.sa_update(&config)?;
        if let Some(slot) = self.sad.get_mut(serial) {
            *slot = sa;
        }
        Ok(())
    }

    /// `DELSA`: deletes an SA.
    pub(super) fn delete_sa(&mut self, call: &mut Call<'_>) -> Result<(), Failure> {
        let (id, attributes) = call.parse::<SaId>()?;
        let serial = self.find_requested(&id, &attributes)?;
        let message = match self.sad.get(serial) {
            Some(sa) if sa.is_companion() => return Err(Failure::Companion),
            Some(sa) => self.sa_deleted_message(sa, call.notice()),
            None => return Err(Failure::NoSa),
        };
        self.remove_sa(serial, SaEnd::Deleted, call.out);
        call.event(Group::Sa, message);
        Ok(())
    }

    /// `GETSA` for one SA.
    pub(super) fn get_sa(&mut self, call: &mut Call<'_>) -> Result<(), Failure> {
        let (id, attributes) = call.parse::<SaId>()?;
        let serial = self.find_requested(&id, &attributes)?;
        let sa = self.sad.get(serial).ok_or(Failure::NoSa)?;
        let message = self.sa_message(kind::NEWSA, sa, call.answer());
        call.reply(message);
        Ok(())
    }

    /// The SA that a request names.
    pub(super) fn find_requested(
        &self,
        id: &SaId,
        attributes: &Attributes<'_>,
    ) -> Result<u64, Failure> {
        if !matches!(id.protocol, c::IPPROTO_ESP | c::IPPROTO_AH | c::IPPROTO_COMP) {
            return self.find_by_ends(id, attributes);
        }
        self.lookup(id, attributes).ok_or(Failure::NoSa)
    }

    /// The SA of this destination, SPI and protocol under the request's mark.
    pub(super) fn lookup(&self, id: &SaId, attributes: &Attributes<'_>) -> Option<u64> {
        let mark = mark_of(attributes);
        let key = (id.dst.ip(id.family)?, id.spi.0, id.protocol);
        self.sad.find(&key, mark.value).map(|(serial, _)| serial)
    }

    /// Removes an SA everywhere and tells the journal.
    pub(super) fn remove_sa(&mut self, serial: u64, end: SaEnd, out: &mut Vec<Output>) {
        let Some(sa) = self.forget_sa(serial) else { return };
        if end == SaEnd::Deleted {
            self.given_back.note(&sa);
        }
        if let Some(algorithms) = &sa.algorithms {
            // An installed SA has keys that fit.
            let keys = algorithms.suite().map(|(_, keys)| keys).unwrap_or_default();
            self.backend.sa_delete(&sa.id(), &keys, end);
            self.detach_companion(&sa, end);
            out.push(Output::Change(Change::sa_gone(&sa)));
        }
    }

    /// Removes an SA from the tables and timers, not from the data path.
    fn forget_sa(&mut self, serial: u64) -> Option<Sa> {
        let mut sa = self.sad.remove(serial)?;
        self.timers.set(Owner::Sa(serial), &mut sa.deadline, None);
        self.waiting_cpus.remove(&serial);
        Some(sa)
    }

    /// Looks at an SA's limits by time again.
    pub(super) fn rearm_sa(&mut self, serial: u64, now: Now) {
        // The next tick finds a limit that is due already.
        let Some(due) = self.sa_due(serial, now) else { return };
        let at = match due {
            Due::Hard | Due::Soft(_) => Some(now.mono_ms),
            Due::Later(at) => at,
        };
        if let Some(sa) = self.sad.get_mut(serial) {
            self.timers.set(Owner::Sa(serial), &mut sa.deadline, at);
        }
    }

    /// State of an SA's limits by time.
    pub(super) fn sa_due(&self, serial: u64, now: Now) -> Option<Due> {
        let sa = self.sad.get(serial)?;
        let l = &sa.info.limits;
        let by_use = l.soft_use_s != 0 || l.hard_use_s != 0;
        let first_use_s = if by_use { self.live(sa).counters.first_use_s } else { 0 };
        let used_ms = (first_use_s != 0).then(|| now.mono_of(first_use_s));
        let since = Since { added_ms: sa.added_mono_ms, used_ms };
        Some(evaluate(l, since, sa.dying, now.mono_ms))
    }
}

/// True if an update may be of this SA (`xfrm_state_update`). A direction is the SA's for good,
/// and a reservation without a direction takes none.
fn has_direction_of(new: &Sa, old: &Sa) -> bool {
    let direction = new.options.direction;
    direction == old.options.direction || old.larval() && direction.is_none()
}
