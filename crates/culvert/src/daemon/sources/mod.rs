//! The owner of SAs and policies, as the daemon sees it.
//!
//! | Module    | Who owns them                                                            |
//! |-----------|--------------------------------------------------------------------------|
//! | `builtin` | Linux's XFRM databases in this process, which IKE daemons reach by socket |
//! | `kernel`  | the kernel's own XFRM databases, from which packets are taken over        |
//!
//! What both need: `session` (the cipher's state), `weak` (algorithms that are taken only when told), `live` (an
//! SA's numbers), `last_numbers` (the alarm before they end), `set_marks` (the marks that SAs give), `shared_keys`
//! (SAs of one key), `errno`.
//!
//! The daemon's loop serves a source when a descriptor or a deadline says so, lets guard, steering
//! and routes follow what changed, and has it confirmed then:
//!
//! ```text
//!   serve ──> databases ──────────────> workers, by their readers
//!     │  └──> take_changed_policies ──> guard, steering, routes
//!     │  └──> take_sa_steps ──────────> steering
//!     │  └──> take_samples ───────────> steering
//!     │  └──> take_sa_history ────────> events
//!     └─────> confirm: the owner gets its answers
//!   workers' events ──> acquire, volume_reached, mapping_changed
//! ```
//!
//! A source that gives counters and numbers back to its owner without being asked does so in
//! [`Source::serve`], when its deadline has passed.

pub mod builtin;
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

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use crypto::Keys;
use esp::{Sa, TunnelHeaders};
use policy::{Databases, Marks, OutboundKey, SaConfig, SaId};
use wire::{Headers, protocol};
use xfrm::codec::LifetimeConfig;
use xfrm::{Counters, Handed, Replay};

use super::devices::To;
use super::vrfs::Vrfs;
use crate::config::IptfsRates;
use crate::report::Gone;

/// The owner of SAs and policies. For one thread.
pub trait Source {
    /// Adds the descriptors that become readable when there is something to serve.
    fn add_fds<'a>(&'a self, fds: &mut Vec<BorrowedFd<'a>>);

    /// How long [`Source::serve`] may be put off while no descriptor is readable; `None` for ever.
    fn due_in(&self) -> Option<Duration>;

    /// Takes over what the owner changed, and does what is due by time.
    fn serve(&mut self);

    /// Answers the owner's requests: guard, steering and routes have followed.
    fn confirm(&mut self);

    /// A policy wants protection for this packet, and there is no SA yet; or none of the worker's own,
    /// where a `cpu` is given.
    fn acquire(&mut self, policy: u32, cpu: Option<u32>, packet: &Headers);

    /// An SA has reached its soft or hard limit by volume.
    fn volume_reached(&mut self, sa: &SaId, hard: bool);

    /// The peer of an inbound SA in UDP sends from another address or port.
    fn mapping_changed(&mut self, sa: &SaId, src: IpAddr, src_port: u16);

    /// What the data path reads.
    fn databases(&self) -> &Databases<Sa>;

    /// The indices of policies that were added, removed or changed since the last call.
    fn take_changed_policies(&mut self) -> BTreeSet<u32>;

    /// The marks that SAs give to what they decrypt, and the `if_id` of these SAs, if any has come or gone
    /// since the last call.
    fn take_set_marks(&mut self) -> Option<Vec<Marks>>;

    /// By what the SAs are chosen that were added, removed or changed since the last call.
    fn take_changed_sas(&mut self) -> BTreeSet<OutboundKey>;

    /// Grows with each change of an SA.
    fn sa_changes(&self) -> u64;

    /// SAs that packets can use or cannot use any more since the last call, in order.
    fn take_sa_history(&mut self) -> Vec<SaChange>;

    /// Whether all ESP to this host is this source's; else only that of its SAs. Once it is not, it
    /// stays so.
    fn owns_all_esp(&self) -> bool;

    /// Destination and SPI of all SAs; from here on [`Source::take_sa_steps`] returns what was added
    /// and removed.
    fn follow_sas(&mut self) -> Vec<(IpAddr, u32)>;

    /// SAs added and removed since the last call, in order; none unless SAs are followed.
    fn take_sa_steps(&mut self) -> Vec<SaStep>;

    /// Inbound SAs whose next packet is to be left to Linux, by destination and SPI, since the last call: it
    /// has these SAs too, and sees that they are in use.
    fn take_samples(&mut self) -> Vec<(IpAddr, u32)> {
        Vec::new()
    }

    /// An SA's keys, for an operator who asks for them explicitly; zeroised when dropped.
    fn keys_of(&self, sa: &SaId) -> Option<Keys>;

    /// An SA's limits, by volume and by time.
    fn limits_of(&self, sa: &SaId) -> Option<LifetimeConfig>;

    /// Has an offload device do an SA's crypto, or software again.
    fn move_sa(&mut self, _sa: &SaId, _to: To) {}

    /// SAs and policies that were there before this process.
    fn restored(&self) -> usize;

    /// Programs that are connected.
    fn client_count(&self) -> usize;

    /// What is known of IKE negotiations; nothing where the kernel owns SAs.
    fn negotiations(&self) -> Negotiations {
        Negotiations::default()
    }

    /// What an operator should know.
    fn warnings(&self) -> Vec<String>;

    /// Tries again what failed.
    fn retry(&mut self);

    /// These SAs and policies were in an offload device that is not there any more, and go with it.
    fn lose(&mut self, _sas: &[SaId], _policies: &[u32]) {}

    /// Reads what devices have counted of their SAs.
    fn read_devices(&mut self) {}

    /// Whether the kernel owns SAs and policies: it stands guard itself, and carries on when this process ends
    /// or hangs.
    fn is_beside_kernel(&self) -> bool {
        false
    }

    /// The addresses of this host are these, and these of its interfaces and addresses are in VRFs.
    fn set_local(&mut self, _local: HashSet<IpAddr>, _vrfs: Vrfs) {}

    /// The kernel's XFRM interfaces are these. Returns the `if_id`s of those by which Linux takes what was decrypted
    /// for this host: with the mark of what was judged.
    fn set_interfaces(&mut self, _interfaces: &Interfaces) -> BTreeSet<u32> {
        BTreeSet::new()
    }

    /// The interfaces that are ports are these.
    fn set_ports(&mut self, _names: BTreeSet<String>) {}

    /// What the kernel has received by SAs of the fast path.
    fn take_merges(&mut self) -> Vec<Merge> {
        Vec::new()
    }

    /// SAs that the fast path does not have.
    fn left(&self) -> Vec<LeftSa> {
        Vec::new()
    }

    /// Why a policy is carried out by its owner, if it is.
    fn why_left(&self, _policy: u32) -> Option<String> {
        None
    }

    /// Brings what [`Source::left`] tells up to date.
    fn refresh(&mut self) {}

    /// Whether workers have to let go of an SA before [`Source::serve`] goes on with it.
    fn awaits_workers(&self) -> bool {
        false
    }

    /// Gives back what was taken from the owner, with [`Source::serve`]; whether all of it is.
    fn release(&mut self) -> bool {
        true
    }

    /// Takes UDP sockets from programs from now on, for ESP in UDP.
    fn want_sockets(&mut self) {}

    /// The sockets that programs have handed over since the last call; each is to be answered.
    fn take_sockets(&mut self) -> Vec<Handed> {
        Vec::new()
    }

    /// Tells a program what became of its socket: 0, or an errno.
    fn answer_socket(&mut self, _client: u64, _errno: i32) {}

    /// Whether the program is still there that handed a socket over.
    fn is_connected(&self, _client: u64) -> bool {
        false
    }

    /// Ends in order. No worker runs. SAs and policies that are left are kept for the next start.
    fn shut_down(self: Box<Self>);
}

/// What an IKE daemon's requests tell of its negotiations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Negotiations {
    /// A program listens that would be asked for SAs.
    pub has_ike: bool,
    /// A peer has answered the first exchange of IKE, and no SA has come since: it, and how long ago.
    pub answered: Option<(IpAddr, Duration)>,
    /// Such a negotiation was given up: its peer, and how long ago.
    pub given_up: Option<(IpAddr, Duration)>,
}

/// An SA that has come or gone, for people.
#[derive(Clone, Debug)]
pub struct SaChange {
    /// It.
    pub config: SaConfig,
    /// Why it is gone; `None` if it has come.
    pub gone: Option<Gone>,
}

/// An SA that was added or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaStep {
    /// Outer destination address.
    pub dst: IpAddr,
    /// SPI in host byte order.
    pub spi: u32,
    /// It was added; otherwise it was removed.
    pub is_added: bool,
}

impl SaStep {
    /// What ports are told of an SA; nothing, if packets from outside do not name it: what is inside of others
    /// does not come to a port.
    pub fn of(id: &SaId, is_added: bool) -> Option<SaStep> {
        let is_named = matches!(id.protocol, protocol::ESP | protocol::AH);
        is_named.then_some(SaStep { dst: id.dst, spi: id.spi, is_added })
    }
}

/// The kernel's XFRM interfaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interfaces {
    /// By `if_id`.
    pub by_if_id: BTreeMap<u32, Interface>,
    /// Whether there is one that takes the `if_id` from each packet.
    pub is_any_external: bool,
}

/// What an XFRM interface is like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Interface {
    /// Usable.
    Up,
    /// Not up.
    Down,
    /// It is in the VRF of this name.
    Vrf(String),
    /// It belongs to a bridge or the like.
    Enslaved,
}

/// Numbers that were received by an SA elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merge {
    /// The SA.
    pub sa: SaId,
    /// The highest of them.
    pub edge: u64,
    /// Bit 0 of the first word is the highest, the next bit the number before it.
    pub received: Vec<u64>,
}

/// An SA that is left to the kernel.
#[derive(Clone, Debug)]
pub struct LeftSa {
    /// Its identity.
    pub id: SaId,
    /// Outer source address.
    pub src: IpAddr,
    /// Ties it to policies.
    pub reqid: u32,
    /// XFRM interface id, 0 for none.
    pub if_id: u32,
    /// `XFRM_MODE_*`.
    pub mode: u8,
    /// It, where culvert could carry it.
    pub config: Option<SaConfig>,
    /// Its counters.
    pub counters: Counters,
    /// Its sequence numbers.
    pub replay: Replay,
    /// Why it is left.
    pub why: String,
}

/// What the configuration says about all SAs.
#[derive(Clone, Debug, Default)]
pub struct SaRules {
    /// Whether DES, 3DES and MD5 are taken.
    pub allow_weak: bool,
    /// The headers of tunnels.
    pub tunnel_headers: TunnelHeaders,
    /// Constant rates of IP-TFS.
    pub iptfs: IptfsRates,
    /// Whether ESP has to be in UDP.
    pub only_in_udp: bool,
}
