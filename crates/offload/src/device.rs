//! The device as the control thread has it.

use crypto::Keys;
use policy::{PolicyConfig, SaConfig};

use crate::attribute::Attribute;
use crate::capabilities::Capabilities;
use crate::error::{Failure, HandleError, PutError};
use crate::event::Event;
use crate::handle::{PolicyHandle, SaDirection, SaHandle};
use crate::queue::{Buffer, Queue};

/// An SA that is to be put in. The device copies what it needs.
#[derive(Clone, Copy, Debug)]
pub struct NewSa<'a> {
    /// Direction of the SA.
    pub direction: SaDirection,
    /// As the owner described it.
    pub config: &'a SaConfig,
    /// Keys of the SA. A device that keeps a copy zeroises it when the SA is removed.
    pub keys: &'a Keys,
    /// State of the SA from another place; [`Live::default`] for a new one.
    pub start: &'a Live,
}

/// A policy that is to be put in.
#[derive(Clone, Copy, Debug)]
pub struct NewPolicy<'a> {
    /// As the owner described it.
    pub config: &'a PolicyConfig,
    /// The SA that an outbound policy with a template protects by. An inbound policy asks for its
    /// template's reqid instead, and has none here.
    pub sa: Option<SaHandle>,
}

/// An SA's numbers at one moment.
///
/// With crypto offload `number` and `received` are not the device's and stay as they were put in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Live {
    /// Outbound the last number used, inbound the highest one accepted.
    pub number: u64,
    /// The replay window: bit `n % 64` of word `n / 64` says that `number - n` was received. Numbers beyond
    /// the last word count as received, so that nothing is accepted twice.
    pub received: Vec<u64>,
    /// Bytes inside ESP without padding, as Linux counts them.
    pub bytes: u64,
    /// Packets that the SA has carried.
    pub packets: u64,
}

/// How full a table is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableUse {
    /// Name of the table.
    pub name: &'static str,
    /// Entries that are taken.
    pub used: usize,
    /// Entries of the table.
    pub most: usize,
}

/// Counts of packets since the device was there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceCounters {
    /// Packets that were sealed.
    pub sealed: u64,
    /// Packets that were opened.
    pub opened: u64,
    /// Not opened, as the ICV was wrong.
    pub wrong_icv: u64,
    /// Not worked on: of no SA that the device has, or not of a form that it takes.
    pub refused: u64,
    /// Resets, which are no packets.
    pub resets: u64,
}

/// A device that does IPsec; `B` is the data path's packet buffer.
///
/// Owned by the control thread. Calls may wait for the device, for milliseconds at most.
pub trait Device<B: Buffer>: Send {
    /// The device's name, for people.
    fn name(&self) -> &str;

    /// Capabilities of the device.
    fn capabilities(&self) -> &Capabilities;

    /// Puts an SA in; its packets may come from now on.
    ///
    /// # Errors
    /// [`PutError`]; the first attribute that the device lacks is the one that
    /// [`Capabilities::check_sa`] names.
    fn put_sa(&mut self, sa: NewSa<'_>) -> Result<SaHandle, PutError>;

    /// Takes an SA out and returns its last numbers: the device uses none beyond them. Its packets that are
    /// still inside are dropped.
    ///
    /// # Errors
    /// [`HandleError::InUse`] while a policy leads to it.
    fn remove_sa(&mut self, sa: SaHandle) -> Result<Live, HandleError>;

    /// An SA's numbers as they are now.
    ///
    /// # Errors
    /// [`HandleError::Unknown`], [`HandleError::Failed`].
    fn live(&mut self, sa: SaHandle) -> Result<Live, HandleError>;

    /// Puts a policy in.
    ///
    /// # Errors
    /// [`PutError`]; with crypto offload always [`Attribute::Policy`], as here.
    fn put_policy(&mut self, _policy: NewPolicy<'_>) -> Result<PolicyHandle, PutError> {
        Err(PutError::Unsupported(Attribute::Policy))
    }

    /// Lets an outbound policy's packets go through another SA from the next one on.
    ///
    /// # Errors
    /// [`HandleError::Unknown`] for the policy or the SA, [`HandleError::Failed`].
    fn switch_policy(&mut self, _policy: PolicyHandle, _sa: SaHandle) -> Result<(), HandleError> {
        Err(HandleError::Unknown)
    }

    /// Takes a policy out.
    ///
    /// # Errors
    /// [`HandleError::Unknown`], [`HandleError::Failed`].
    fn remove_policy(&mut self, _policy: PolicyHandle) -> Result<(), HandleError> {
        Err(HandleError::Unknown)
    }

    /// A queue for one worker. One that is dropped takes its buffers along: a device that may still write to
    /// them keeps them until it cannot.
    ///
    /// # Errors
    /// [`PutError::Full`] when all queues are given away, [`PutError::Failed`].
    fn queue(&mut self) -> Result<Box<dyn Queue<B>>, PutError>;

    /// The oldest event that waits.
    fn event(&mut self) -> Option<Event>;

    /// Checks that the device still answers.
    ///
    /// # Errors
    /// [`Failure`].
    fn check(&mut self) -> Result<(), Failure>;

    /// How full its tables are, for people.
    fn tables(&self) -> Vec<TableUse> {
        Vec::new()
    }

    /// Counts of its work, for people.
    fn counters(&self) -> DeviceCounters {
        DeviceCounters::default()
    }

    /// Resets the device, and puts everything in again that was in it. Packets that it has meanwhile come back
    /// dropped.
    ///
    /// # Errors
    /// [`Failure`]; a device that counts sequence numbers by itself cannot be reset: they would be lost.
    fn reset(&mut self) -> Result<(), Failure> {
        Err(Failure::Broken("a reset would lose the sequence numbers of its SAs"))
    }
}
