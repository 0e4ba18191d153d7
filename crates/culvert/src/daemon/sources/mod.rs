//! The owner of SAs and policies, as the daemon sees it.
//!
//! | Module    | Who owns them                                                            |
//! |-----------|--------------------------------------------------------------------------|
//! | `builtin` | Linux's XFRM databases in this process, which IKE daemons reach by socket |
//! | `kernel`  | the kernel's own XFRM databases, from which packets are taken over        |
//!
//! What both need: `changes` (what others have to follow), `session` (the cipher's state), `weak` (algorithms that are taken only when told), `live` (an
//! SA's numbers), `last_numbers` (the alarm before they end), `set_marks` (the marks that SAs give), `shared_keys`
//! (SAs of one key), `errno`.
//!
//! The daemon's loop serves a source when a descriptor or a deadline says so, lets guard, steering
//! and routes follow what changed, and has it confirmed then:
//!
//! ```text
//!   serve ──> databases ──> workers, by their readers
//!     └─────> changes ────> guard, steering, routes, events
//!   workers' events ──> volume_reached, mapping_changed
//! ```
//!
//! | alone          | does |
//! |----------------|------|
//! | [`Builtin`]      | confirms to its clients, acquires, moves SAs to devices, takes UDP sockets |
//! | [`KernelSource`] | merges windows, samples, tells what is left to the kernel, follows interfaces, gives back |
//!
//! A source that gives counters and numbers back to its owner without being asked does so in
//! [`Owner::serve`], when its deadline has passed.

pub mod builtin;
mod changes;
pub(in crate::daemon) mod errno;
pub mod kernel;
mod last_numbers;
mod live;
mod session;
mod set_marks;
mod shared_keys;
#[cfg(test)]
pub(in crate::daemon) mod testing;
mod weak;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::{Deref, DerefMut};
use std::os::fd::BorrowedFd;
use std::time::Duration;

use crypto::Keys;
use esp::{Sa, TunnelHeaders};
use policy::{Databases, SaConfig, SaId};
use xfrm::codec::LifetimeConfig;
use xfrm::{Counters, Replay};

use self::builtin::Builtin;
use self::kernel::KernelSource;
use crate::config::IptfsRates;

pub use changes::{Changes, SaChange, SaStep};

/// What each owner of SAs and policies does. For one thread.
pub trait Owner {
    /// Adds the descriptors that become readable when there is something to serve.
    fn add_fds<'a>(&'a self, fds: &mut Vec<BorrowedFd<'a>>);

    /// How long [`Owner::serve`] may be put off while no descriptor is readable; `None` for ever.
    fn due_in(&self) -> Option<Duration>;

    /// Takes over what the owner changed, and does what is due by time.
    fn serve(&mut self);

    /// An SA has reached its soft or hard limit by volume.
    fn volume_reached(&mut self, sa: &SaId, hard: bool);

    /// The peer of an inbound SA in UDP sends from another address or port.
    fn mapping_changed(&mut self, sa: &SaId, src: IpAddr, src_port: u16);

    /// Databases that the data path reads.
    fn databases(&self) -> &Databases<Sa>;

    /// What has changed in the databases, and nobody has taken yet.
    fn changes(&mut self) -> &mut Changes;

    /// An SA's keys, for an operator who asks for them explicitly; zeroised when dropped.
    fn keys_of(&self, sa: &SaId) -> Option<Keys>;

    /// An SA's limits, by volume and by time.
    fn limits_of(&self, sa: &SaId) -> Option<LifetimeConfig>;

    /// Warnings for the operator.
    fn warnings(&self) -> Vec<String>;

    /// Tries again what failed.
    fn retry(&mut self);
}

/// The owner that there is. What one of the two does alone is asked of it by [`Source::builtin`] or [`Source::kernel`].
pub enum Source {
    /// Linux's XFRM databases in this process.
    Builtin(Box<Builtin>),
    /// The kernel: it stands guard itself, and carries on when this process ends or hangs.
    Kernel(Box<KernelSource>),
}

impl Deref for Source {
    type Target = dyn Owner + 'static;

    fn deref(&self) -> &(dyn Owner + 'static) {
        match self {
            Source::Builtin(builtin) => &**builtin,
            Source::Kernel(kernel) => &**kernel,
        }
    }
}

impl DerefMut for Source {
    fn deref_mut(&mut self) -> &mut (dyn Owner + 'static) {
        match self {
            Source::Builtin(builtin) => &mut **builtin,
            Source::Kernel(kernel) => &mut **kernel,
        }
    }
}

impl Source {
    /// The databases in this process, if they are the owner.
    pub fn builtin(&self) -> Option<&Builtin> {
        match self {
            Source::Builtin(builtin) => Some(builtin),
            Source::Kernel(_) => None,
        }
    }

    /// [`Source::builtin`], to be changed.
    pub fn builtin_mut(&mut self) -> Option<&mut Builtin> {
        match self {
            Source::Builtin(builtin) => Some(builtin),
            Source::Kernel(_) => None,
        }
    }

    /// The kernel, if it is the owner.
    pub fn kernel(&self) -> Option<&KernelSource> {
        match self {
            Source::Builtin(_) => None,
            Source::Kernel(kernel) => Some(kernel),
        }
    }

    /// [`Source::kernel`], to be changed.
    pub fn kernel_mut(&mut self) -> Option<&mut KernelSource> {
        match self {
            Source::Builtin(_) => None,
            Source::Kernel(kernel) => Some(kernel),
        }
    }

    /// True if the kernel owns SAs and policies.
    pub fn is_beside_kernel(&self) -> bool {
        self.kernel().is_some()
    }

    /// Destination and SPI of the SAs whose ESP alone is this source's; from here on [`Changes::take_steps`] says what was
    /// added and removed. `None` while all ESP to this host is.
    pub fn own_esp(&mut self) -> Option<Vec<(IpAddr, u32)>> {
        match self {
            Source::Builtin(builtin) => builtin.own_esp(),
            // SAs that are taken are told as steps, from the first one on.
            Source::Kernel(_) => Some(Vec::new()),
        }
    }

    /// Ends in order. No worker runs. SAs and policies that are left are kept for the next start.
    pub fn shut_down(self) {
        match self {
            Source::Builtin(builtin) => builtin.shut_down(),
            Source::Kernel(kernel) => kernel.shut_down(),
        }
    }
}

/// State of negotiations, by an IKE daemon's requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Negotiations {
    /// A program listens that would be asked for SAs.
    pub has_ike: bool,
    /// A peer has answered the first exchange of IKE, and no SA has come since: it, and how long ago.
    pub answered: Option<(IpAddr, Duration)>,
    /// Such a negotiation was given up: its peer, and how long ago.
    pub given_up: Option<(IpAddr, Duration)>,
}

/// The kernel's XFRM interfaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interfaces {
    /// Interfaces by their `if_id`.
    pub by_if_id: BTreeMap<u32, Interface>,
    /// True if there is one that takes the `if_id` from each packet.
    pub is_any_external: bool,
}

/// State of an XFRM interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Interface {
    /// Up, and usable.
    Up,
    /// Down: its packets are dropped.
    Down,
    /// A member of the VRF of this name.
    Vrf(String),
    /// A member of a bridge or the like.
    Enslaved,
}

/// Numbers that were received by an SA elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merge {
    /// Identity of the SA.
    pub sa: SaId,
    /// The highest of them.
    pub edge: u64,
    /// Bit 0 of the first word is the highest, the next bit the number before it.
    pub received: Vec<u64>,
}

/// An SA that is left to the kernel.
#[derive(Clone, Debug)]
pub struct LeftSa {
    /// Identity of the SA.
    pub id: SaId,
    /// Outer source address.
    pub src: IpAddr,
    /// Ties it to policies.
    pub reqid: u32,
    /// XFRM interface id, 0 for none.
    pub if_id: u32,
    /// Mode of the SA (`XFRM_MODE_*`).
    pub mode: u8,
    /// Configuration of the SA, where culvert could carry it.
    pub config: Option<SaConfig>,
    /// Counters of the SA.
    pub counters: Counters,
    /// Sequence numbers of the SA.
    pub replay: Replay,
    /// Why it is left.
    pub why: String,
}

/// Settings for all SAs.
#[derive(Clone, Debug, Default)]
pub struct SaRules {
    /// True if DES, 3DES and MD5 are taken.
    pub allow_weak: bool,
    /// The headers of tunnels.
    pub tunnel_headers: TunnelHeaders,
    /// Constant rates of IP-TFS.
    pub iptfs: IptfsRates,
    /// True if ESP has to be in UDP.
    pub only_in_udp: bool,
}
