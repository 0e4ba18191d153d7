//! The owner of SAs and policies, as the daemon sees it.
//!
//! | Module    | Who owns them                                                            |
//! |-----------|--------------------------------------------------------------------------|
//! | `builtin` | Linux's XFRM databases in this process, which IKE daemons reach by socket |
//! | `kernel`  | the kernel's own XFRM databases, from which packets are taken over        |
//!
//! Both need `owner` (what each of them does), `changes` (what others have to follow), `session` (the cipher's
//! state), `weak` (algorithms that are taken only when told), `live` (an SA's numbers), `last_numbers` (the alarm before
//! they end), `set_marks` (the marks that SAs give), `shared_keys` (SAs of one key), `errno`.
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
pub(crate) mod errno;
pub mod kernel;
mod last_numbers;
mod live;
mod owner;
mod session;
mod set_marks;
mod shared_keys;
#[cfg(test)]
pub(crate) mod testing;
mod weak;

use std::net::IpAddr;
use std::ops::{Deref, DerefMut};

use self::builtin::Builtin;
use self::kernel::KernelSource;

pub use changes::{Changes, SaChange, SaStep};
pub use owner::{Interface, Interfaces, LeftSa, Merge, Negotiations, Owner, SaRules};

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

    /// The owner's name.
    pub fn name(&self) -> report::Owner {
        match self {
            Source::Builtin(_) => report::Owner::Builtin,
            Source::Kernel(_) => report::Owner::Kernel,
        }
    }

    /// True if the owner goes on with SAs and policies while this process hangs, and after its end.
    pub fn carries_on(&self) -> bool {
        matches!(self, Source::Kernel(_))
    }

    /// True if the owner itself blocks what its policies protect, where nobody else carries them out.
    pub fn stands_guard(&self) -> bool {
        matches!(self, Source::Kernel(_))
    }

    /// True if the owner carries out policies of any `if_id`, by interfaces of its own.
    pub fn carries_if_ids(&self) -> bool {
        matches!(self, Source::Kernel(_))
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
