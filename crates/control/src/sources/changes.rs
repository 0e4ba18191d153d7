//! Changes among an owner's SAs and policies, until those that follow have taken them.

use std::collections::BTreeSet;
use std::net::IpAddr;

use policy::{Marks, OutboundKey, SaConfig, SaId};
use report::Gone;
use wire::protocol;

use super::set_marks::SetMarks;

/// An SA that has come or gone, for people.
#[derive(Clone, Debug)]
pub struct SaChange {
    /// The SA that came or went.
    pub config: SaConfig,
    /// Why it is gone; `None` if it has come.
    pub gone: Option<Gone>,
}

/// An SA whose packets ports are to take, or to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaStep {
    /// Outer destination address.
    pub dst: IpAddr,
    /// SPI in host byte order.
    pub spi: u32,
    /// The SA was added; otherwise it was removed.
    pub is_added: bool,
}

impl SaStep {
    /// Step of the ports for an SA. `None` if packets from outside do not name it: packets inside
    /// others do not come to a port.
    pub fn of(id: &SaId, is_added: bool) -> Option<SaStep> {
        let is_named = matches!(id.protocol, protocol::ESP | protocol::AH);
        is_named.then_some(SaStep { dst: id.dst, spi: id.spi, is_added })
    }
}

/// Changes of SAs and policies, each kept until it is taken.
#[derive(Debug, Default)]
pub struct Changes {
    policies: BTreeSet<u32>,
    set_marks: SetMarks,
    chosen_by: BTreeSet<OutboundKey>,
    sas: u64,
    steps: Vec<SaStep>,
    history: Vec<SaChange>,
}

impl Changes {
    /// A policy was added, removed or replaced.
    pub fn policy(&mut self, index: u32) {
        self.policies.insert(index);
    }

    /// Packets can use an SA from now on.
    pub fn sa_added(&mut self, config: &SaConfig) {
        self.set_marks.add(config);
        self.chosen_by.insert(OutboundKey::of_sa(config));
        self.sas += 1;
        self.history.push(SaChange { config: config.clone(), gone: None });
    }

    /// An SA has other settings; its numbers go on.
    pub fn sa_replaced(&mut self, old: &SaConfig, new: &SaConfig) {
        self.set_marks.remove(old);
        self.set_marks.add(new);
        self.chosen_by.extend([old, new].map(OutboundKey::of_sa));
        self.sas += 1;
    }

    /// An SA has another session of the same keys.
    pub fn sa_moved(&mut self) {
        self.sas += 1;
    }

    /// Packets cannot use an SA any more.
    pub fn sa_removed(&mut self, config: &SaConfig, why: Gone) {
        self.set_marks.remove(config);
        self.chosen_by.insert(OutboundKey::of_sa(config));
        self.sas += 1;
        self.history.push(SaChange { config: config.clone(), gone: Some(why) });
    }

    /// Ports are to take an SA's packets, or to leave them.
    pub fn steer(&mut self, id: &SaId, is_added: bool) {
        self.steps.extend(SaStep::of(id, is_added));
    }

    /// Takes the indices of policies that have changed.
    pub fn take_policies(&mut self) -> BTreeSet<u32> {
        std::mem::take(&mut self.policies)
    }

    /// Takes the marks that SAs give to what they decrypt, with the `if_id` of these SAs, if any mark has come or gone.
    pub fn take_set_marks(&mut self) -> Option<Vec<Marks>> {
        self.set_marks.take()
    }

    /// Takes by what the SAs are chosen that have changed.
    pub fn take_chosen_by(&mut self) -> BTreeSet<OutboundKey> {
        std::mem::take(&mut self.chosen_by)
    }

    /// Number of changes of SAs so far.
    pub fn of_sas(&self) -> u64 {
        self.sas
    }

    /// Takes what ports are to be told of SAs, in order.
    pub fn take_steps(&mut self) -> Vec<SaStep> {
        std::mem::take(&mut self.steps)
    }

    /// Takes which SAs have come and gone, in order.
    pub fn take_history(&mut self) -> Vec<SaChange> {
        std::mem::take(&mut self.history)
    }
}
