//! The owner of SAs and policies: one trait for both kinds, and the nouns in which they and the daemon speak of it.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use config::IptfsRates;
use crypto::Keys;
use esp::{Sa, TunnelHeaders};
use policy::{Databases, SaConfig, SaId};
use report::Warning;
use xfrm::codec::LifetimeConfig;
use xfrm::{Counters, Replay};

use super::changes::Changes;
use crate::clock::Now;

/// Work of each owner of SAs and policies. For one thread.
pub trait Owner {
    /// Adds the descriptors that become readable when there is something to serve.
    fn add_fds<'a>(&'a self, fds: &mut Vec<BorrowedFd<'a>>);

    /// How long [`Owner::serve`] may be put off while no descriptor is readable; `None` for ever.
    fn due_in(&self, now: Now) -> Option<Duration>;

    /// Takes over what the owner changed, and does what is due by time.
    fn serve(&mut self, now: Now);

    /// An SA has reached its soft or hard limit by volume.
    fn volume_reached(&mut self, sa: &SaId, hard: bool);

    /// The peer of an inbound SA in UDP sends from another address or port.
    fn mapping_changed(&mut self, now: Now, sa: &SaId, src: IpAddr, src_port: u16);

    /// Databases that the data path reads.
    fn databases(&self) -> &Databases<Sa>;

    /// Changes in the databases that nobody has taken yet.
    fn changes(&mut self) -> &mut Changes;

    /// An SA's keys, for an operator who asks for them explicitly; zeroised when dropped.
    fn keys_of(&self, sa: &SaId) -> Option<Keys>;

    /// An SA's limits, by volume and by time.
    fn limits_of(&self, sa: &SaId) -> Option<LifetimeConfig>;

    /// Warnings for the operator.
    fn warnings(&self) -> Vec<Warning>;

    /// Tries again what failed.
    fn retry(&mut self);
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
