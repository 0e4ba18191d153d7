//! The SPD as its owners see it.

use std::collections::{BTreeMap, HashMap};

use policy::{Action, Direction, PolicyConfig, PolicyFlags};

use super::convert::{mark, mode, selector};
use crate::codec::{MarkAttribute, Offload, PolicyInfo, SelectorInfo, Template, constant as c};
use crate::failure::Failure;

/// One policy of the database.
#[derive(Clone, Debug)]
pub(super) struct Policy {
    /// As the owner sent it; counters zero, the time of addition kept.
    pub info: PolicyInfo,
    pub templates: Vec<Template>,
    pub mark: MarkAttribute,
    pub if_id: u32,
    /// The device that has it.
    pub offload: Option<Offload>,
    pub added_mono_ms: i64,
    pub deadline: Option<u64>,
}

/// Name of a policy beside its index.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct PolicyKey {
    pub selector: SelectorInfo,
    pub dir: u8,
    pub mark: MarkAttribute,
    pub if_id: u32,
}

impl Policy {
    pub fn key(&self) -> PolicyKey {
        PolicyKey {
            selector: self.info.selector.clone(),
            dir: self.info.dir,
            mark: self.mark.clone(),
            if_id: self.if_id,
        }
    }

    /// The policy as the data path needs it.
    pub fn config(&self) -> Result<PolicyConfig, Failure> {
        Ok(PolicyConfig {
            index: self.info.index,
            direction: direction(self.info.dir)?,
            selector: selector(&self.info.selector).ok_or(Failure::SelectorFamily)?,
            priority: self.info.priority,
            action: match self.info.action {
                c::POLICY_ALLOW => Action::Allow,
                c::POLICY_BLOCK => Action::Block,
                _ => return Err(Failure::PolicyAction),
            },
            templates: self.templates.iter().map(template).collect::<Result<_, _>>()?,
            flags: PolicyFlags {
                per_cpu: self.info.flags & c::POLICY_CPU_ACQUIRE != 0,
                icmp: self.info.flags & c::POLICY_ICMP != 0,
                device: None,
            },
            mark: mark(&self.mark),
            if_id: self.if_id,
        })
    }
}

/// The direction of this number. Those of sockets' own policies are refused, as Linux does.
pub(super) fn direction(dir: u8) -> Result<Direction, Failure> {
    match dir {
        0 => Ok(Direction::In),
        1 => Ok(Direction::Out),
        2 => Ok(Direction::Forward),
        _ => Err(Failure::PolicyDirection),
    }
}

fn template(t: &Template) -> Result<policy::Template, Failure> {
    Ok(policy::Template {
        src: t.src.ip(t.family).ok_or(Failure::TemplateFamily)?,
        dst: t.id.dst.ip(t.family).ok_or(Failure::TemplateFamily)?,
        spi: t.id.spi.0,
        protocol: t.id.protocol,
        mode: mode(t.mode)?,
        reqid: t.reqid,
        optional: t.optional != 0,
    })
}

/// All policies. Serial numbers count up in the order of installation or replacement.
#[derive(Debug, Default)]
pub(super) struct Spd {
    /// In boxes: a tree that grows at its end has half of its places empty.
    entries: BTreeMap<u64, Box<Policy>>,
    by_key: HashMap<PolicyKey, u64>,
    by_index: HashMap<u32, u64>,
    counts: [u32; 3],
    last_serial: u64,
    generator: u32,
}

impl Spd {
    /// How many policies of each direction: in, out, forward.
    pub fn counts(&self) -> [u32; 3] {
        self.counts
    }

    /// A free index for this direction, the wanted one if it is free, and where the generator of
    /// indexes then stands. Nothing changes until [`Spd::insert`].
    pub fn free_index(&self, dir: u8, wanted: u32) -> (u32, u32) {
        let mut generator = self.generator;
        let mut candidate = wanted;
        loop {
            if candidate == 0 {
                candidate = generator | u32::from(dir);
                generator = generator.wrapping_add(INDEX_STEP);
            }
            let index = if candidate == 0 { FIRST_INDEX } else { candidate };
            if !self.by_index.contains_key(&index) {
                return (index, generator);
            }
            candidate = 0;
        }
    }

    /// Where the generator of indexes stands.
    pub fn generator(&self) -> u32 {
        self.generator
    }

    /// Inserts a policy whose key and index are free, and moves the generator there.
    pub fn insert(&mut self, policy: Policy, generator: u32) -> u64 {
        self.last_serial += 1;
        let serial = self.last_serial;
        self.generator = generator;
        self.by_key.insert(policy.key(), serial);
        self.by_index.insert(policy.info.index, serial);
        if let Some(n) = self.counts.get_mut(usize::from(policy.info.dir)) {
            *n += 1;
        }
        self.entries.insert(serial, Box::new(policy));
        serial
    }

    /// Removes a policy.
    pub fn remove(&mut self, serial: u64) -> Option<Policy> {
        let policy = self.entries.remove(&serial)?;
        self.by_key.remove(&policy.key());
        self.by_index.remove(&policy.info.index);
        if let Some(n) = self.counts.get_mut(usize::from(policy.info.dir)) {
            *n -= 1;
        }
        Some(*policy)
    }

    /// The policy with this serial number.
    pub fn get(&self, serial: u64) -> Option<&Policy> {
        self.entries.get(&serial).map(|policy| &**policy)
    }

    /// The policy with this serial number, for changes that no index depends on.
    pub fn get_mut(&mut self, serial: u64) -> Option<&mut Policy> {
        self.entries.get_mut(&serial).map(|policy| &mut **policy)
    }

    /// The policy of this name.
    pub fn by_key(&self, key: &PolicyKey) -> Option<(u64, &Policy)> {
        let serial = *self.by_key.get(key)?;
        Some((serial, self.get(serial)?))
    }

    /// The policy with this index.
    pub fn by_index(&self, index: u32) -> Option<(u64, &Policy)> {
        let serial = *self.by_index.get(&index)?;
        Some((serial, self.get(serial)?))
    }

    /// The youngest policy with a serial number below this.
    pub fn before(&self, serial: u64) -> Option<(u64, &Policy)> {
        self.entries.range(..serial).next_back().map(|(&s, p)| (s, &**p))
    }

    /// All policies, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Policy)> {
        self.entries.iter().map(|(&s, p)| (s, &**p))
    }
}

/// The bits of an index that hold the direction.
pub(super) const DIR_MASK: u32 = 7;

/// The distance of two indexes of one direction.
pub(super) const INDEX_STEP: u32 = 8;

/// Index 0 means none, so the first inbound policy gets this.
const FIRST_INDEX: u32 = 8;
