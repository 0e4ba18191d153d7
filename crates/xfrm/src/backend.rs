//! The data path that the database drives, behind a trait.

use crate::codec::{Offload, constant};
use crypto::Keys;
use policy::{Action, Direction, PolicyConfig, SaConfig, SaId};

/// The data path's side of the database. All calls come from the one control thread.
///
/// A call that returns an error has changed nothing; the database then changes nothing either and
/// hands the error to the client that asked.
pub trait Backend {
    /// Installs an SA. An SA of the same identity does not exist.
    ///
    /// # Errors
    /// The SA cannot be carried exactly as described.
    fn sa_add(&mut self, config: &SaConfig, keys: &Keys, start: &Start) -> Result<(), Refusal>;

    /// Installs an SA whose crypto a device is to do, if there is such a device and it takes the SA; software does it
    /// else. Whether the device has it. One that a device is to have as a whole (packet offload) software does not
    /// do in its place.
    ///
    /// # Errors
    /// As [`Backend::sa_add`], and what the device holds against the request itself; with packet offload, whatever the
    /// device does not carry out.
    fn sa_add_offloaded(
        &mut self,
        config: &SaConfig,
        keys: &Keys,
        start: &Start,
        wanted: &Offload,
    ) -> Result<bool, Refusal> {
        if wanted.flags & constant::OFFLOAD_PACKET != 0 {
            return Err(Refusal::new(libc::EINVAL, "packet offload is not supported"));
        }
        self.sa_add(config, keys, start).map(|()| false)
    }

    /// Installs a policy in the device that its owner wants (packet offload), or in the place of the one with this index.
    ///
    /// # Errors
    /// There is no such device, or it cannot carry the policy out exactly as described. Software does not do it in its
    /// place.
    fn policy_put_offloaded(
        &mut self,
        config: &PolicyConfig,
        wanted: &Offload,
    ) -> Result<(), Refusal> {
        let _ = (config, wanted);
        Err(Refusal::new(libc::EINVAL, "policy offload is not supported"))
    }

    /// Changes an SA's limits, encapsulation ports or interface id; the algorithms, keys, counters
    /// and numbers stay.
    ///
    /// # Errors
    /// The SA cannot be carried as described.
    fn sa_update(&mut self, config: &SaConfig) -> Result<(), Refusal>;

    /// Removes the SA of this identity, which was installed with these keys. From its return on, no
    /// packet uses it.
    fn sa_delete(&mut self, id: &SaId, keys: &Keys, end: SaEnd);

    /// The SA's live numbers, `None` where the SA is not known.
    fn sa_live(&self, id: &SaId) -> Option<SaLive>;

    /// Sets replay state, as `XFRM_MSG_NEWAE` does. The backend must refuse to let an outbound
    /// number come back that was used: that repeats a nonce.
    ///
    /// # Errors
    /// The numbers go back, or the SA is not known.
    fn sa_set_replay(&mut self, id: &SaId, replay: &Replay) -> Result<(), Refusal>;

    /// Sets the counters.
    ///
    /// # Errors
    /// The SA is not known.
    fn sa_set_counters(&mut self, id: &SaId, counters: &Counters) -> Result<(), Refusal>;

    /// Installs a policy, or replaces the one with this index.
    ///
    /// # Errors
    /// The policy cannot be carried exactly as described.
    fn policy_put(&mut self, config: &PolicyConfig) -> Result<(), Refusal>;

    /// Flows of this policy that go by SAs for all CPUs may ask once more for those of their own.
    fn ask_again(&mut self, index: u32);

    /// Removes a policy.
    fn policy_delete(&mut self, index: u32);

    /// The policy's live numbers, `None` where it is not known.
    fn policy_live(&self, index: u32) -> Option<PolicyLive>;

    /// Sets what happens to packets of this direction that no policy matches.
    fn set_default(&mut self, direction: Direction, action: Action);
}

/// Why the data path does not take something.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// Positive errno for the requester.
    pub errno: i32,
    /// One line for the requester (`NLMSGERR_ATTR_MSG`) and the log.
    pub message: String,
}

/// Where a new SA's numbers start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// With these, zero unless the owner said otherwise (moved SAs carry their numbers on).
    At {
        /// Sequence numbers to go on from.
        replay: Replay,
        /// Counters to go on from.
        counters: Counters,
    },
    /// With what the backend itself kept: the SA existed before this process started. A backend
    /// that kept nothing must refuse, or it repeats a nonce.
    Kept,
}

/// An SA's sequence numbers, 64 bits also where the SA has only 32.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replay {
    /// Last outbound number handed out.
    pub sent: u64,
    /// Highest inbound number accepted.
    pub edge: u64,
    /// Which inbound numbers were accepted: bit 0 of the first word is the edge itself, the next
    /// bit the number before it, as far as the window goes.
    pub received: Vec<u64>,
}

/// An SA's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Bytes that the SA has carried.
    pub bytes: u64,
    /// Packets that the SA has carried.
    pub packets: u64,
    /// Wall-clock second of the first use, 0 for never.
    pub first_use_s: u64,
}

/// An SA's live numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SaLive {
    /// Bytes and packets carried.
    pub counters: Counters,
    /// Wall-clock second of the last use, 0 for never.
    pub last_use_s: u64,
    /// Sequence numbers and replay window.
    pub replay: Replay,
    /// Packets dropped as older than the window.
    pub too_old: u32,
    /// Packets dropped as replayed.
    pub replays: u32,
    /// Packets dropped for a wrong ICV.
    pub integrity_failures: u32,
}

/// A policy's live numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PolicyLive {
    /// Bytes that it was applied to.
    pub bytes: u64,
    /// Packets that it was applied to.
    pub packets: u64,
    /// Wall-clock second of the last use, 0 for never.
    pub last_use_s: u64,
}

impl Refusal {
    /// A refusal with this errno and text.
    pub fn new(errno: i32, message: impl Into<String>) -> Refusal {
        Refusal { errno, message: message.into() }
    }
}

/// How an SA ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaEnd {
    /// The owner has deleted it.
    Deleted,
    /// A hard limit was reached (RFC 4301, section 4.4.2.1).
    Expired,
}
