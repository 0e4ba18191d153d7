//! State that outlives the process: SAs with their keys, policies, default actions.
//!
//! A record is a netlink message as a dump would have it, so it says all by itself what it is:
//! `NEWSA` (with one private attribute), `NEWPOLICY` with its index, `SETDEFAULT`. Live numbers in
//! it are those of the moment and are not taken back: the data path keeps its own.

use super::Database;
use super::call::bad_attribute;
use super::envelope::Envelope;
use super::fields::{if_id_of, mark_of};
use super::offload::wanted_for_policy;
use super::output::{Change, RecordKey};
use super::spd::{DIR_MASK, INDEX_STEP, Policy};
use super::verify::{new_policy, new_sa};
use crate::backend::{Backend, Start};
use crate::clock::Now;
use crate::codec::{
    Attributes, Field, Header, Message, Messages, PolicyDefault, PolicyInfo, SaInfo, kind,
};
use crate::failure::Failure;

impl<B: Backend> Database<B> {
    /// Everything that a restart needs, as changes: default actions, policies, SAs, each oldest
    /// first. Larval SAs are not among them.
    pub fn records(&self) -> impl Iterator<Item = Change> {
        let policies = self.spd.iter().filter_map(|(serial, _)| self.policy_change(serial));
        let sas = self.sad.iter().filter_map(|(serial, _)| self.sa_change(serial));
        [self.defaults_change()].into_iter().chain(policies).chain(sas)
    }

    /// Restores one record, without notifications. The data path takes the SA's numbers from
    /// where it kept them ([`Start::Kept`]); times go on from where they were. SAs of one second
    /// should come oldest first, as [`Database::records`] gives them.
    ///
    /// # Errors
    /// The record is damaged, is there already, or the data path refuses it; nothing has changed.
    pub fn restore(&mut self, record: &[u8], now: Now) -> Result<(), Failure> {
        let (header, whole) = Messages::new(record).next().ok_or(Failure::HeaderLength)?;
        let body = whole.get(Header::LEN..).unwrap_or_default();
        match header.kind {
            kind::NEWSA => self.restore_sa(body, now),
            kind::NEWPOLICY => self.restore_policy(body, now),
            kind::SETDEFAULT => {
                let wanted = PolicyDefault::decode(body).map_err(|_| Failure::HeaderLength)?;
                self.apply_defaults(&wanted);
                Ok(())
            }
            _ => Err(Failure::MessageType),
        }
    }

    fn restore_sa(&mut self, body: &[u8], now: Now) -> Result<(), Failure> {
        let (info, attributes) = parse::<SaInfo>(body)?;
        let added_s = info.current.add_time_s;
        let mut sa = new_sa(info, &attributes)?.into_sa(added_s, now);
        sa.dying = has_dying(body);
        if self.sad.find(&sa.spi_key(), sa.mark_value()).is_some() {
            return Err(Failure::SaExists);
        }
        let serial = self.install(sa, &Start::Kept, None)?;
        self.rearm_sa(serial, now);
        Ok(())
    }

    fn restore_policy(&mut self, body: &[u8], now: Now) -> Result<(), Failure> {
        let (mut info, attributes) = parse::<PolicyInfo>(body)?;
        let templates = new_policy(&info, &attributes)?;
        let add_time_s = info.current.add_time_s;
        info.current = crate::codec::LifetimeCurrent { add_time_s, ..Default::default() };
        let policy = Policy {
            info,
            templates,
            mark: mark_of(&attributes),
            if_id: if_id_of(&attributes),
            offload: wanted_for_policy(&attributes)?,
            added_mono_ms: now.mono_of(add_time_s),
            deadline: None,
        };
        let index = policy.info.index;
        let taken = index == 0 || self.spd.by_index(index).is_some();
        if taken || self.spd.by_key(&policy.key()).is_some() {
            return Err(Failure::PolicyExists);
        }
        self.put_in_data_path(&policy)?;
        let generator = self.spd.generator().max((index & !DIR_MASK).wrapping_add(INDEX_STEP));
        let serial = self.spd.insert(policy, generator);
        self.arm_policy(serial, now);
        Ok(())
    }

    /// The record of an SA with keys.
    pub(super) fn sa_change(&self, serial: u64) -> Option<Change> {
        let sa = self.sad.get(serial).filter(|sa| !sa.larval() && !sa.is_companion())?;
        let message = self.sa_message(kind::NEWSA, sa, Envelope::default());
        let record = if sa.dying { with_dying(&message) } else { message };
        Some(Change { key: RecordKey::Sa(sa.id()), record: Some(record) })
    }

    /// The record of a policy.
    pub(super) fn policy_change(&self, serial: u64) -> Option<Change> {
        let policy = self.spd.get(serial)?;
        let record = self.policy_message(kind::NEWPOLICY, policy, Envelope::default());
        Some(Change { key: RecordKey::Policy(policy.info.index), record: Some(record) })
    }

    /// The record of the default actions.
    pub(super) fn defaults_change(&self) -> Change {
        let mut w = Envelope::default().writer(kind::SETDEFAULT);
        w.fixed(&self.defaults_info());
        Change { key: RecordKey::Defaults, record: Some(w.finish()) }
    }
}

/// The fixed part and the attributes of a body.
pub(super) fn parse<T: Field>(body: &[u8]) -> Result<(T, Attributes<'_>), Failure> {
    let fixed = T::decode(body).map_err(|_| Failure::HeaderLength)?;
    let rest = body.get(T::LEN..).unwrap_or_default();
    Ok((fixed, Attributes::parse(rest).map_err(|e| bad_attribute(e, T::LEN))?))
}

/// Appends the private attribute that says that the soft limit was announced.
fn with_dying(message: &Message) -> Message {
    let mut record = Message::new(Vec::with_capacity(message.len() + DYING.len()));
    record.extend_from_slice(message);
    record.extend_from_slice(&DYING);
    let len = u32::try_from(record.len()).unwrap_or(u32::MAX);
    if let Some(field) = record.first_chunk_mut::<4>() {
        *field = len.to_ne_bytes();
    }
    record
}

fn has_dying(body: &[u8]) -> bool {
    body.ends_with(&DYING)
}

/// An attribute without value, of a type that Linux will hardly reach; always the last one.
const DYING: [u8; 4] = {
    let [a, b] = 4u16.to_ne_bytes();
    let [c, d] = 0x3fff_u16.to_ne_bytes();
    [a, b, c, d]
};
