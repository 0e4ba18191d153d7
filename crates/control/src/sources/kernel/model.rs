//! The kernel's SAs and policies, and which of them belong together.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use esp::{LiveNumbers, Sa};
use policy::{Direction, PolicyConfig, SaEntry, SaId};
use xfrm::{Counters, KernelNumbers, LearntPolicy, LearntSa, Wanted};

use super::firewall::Firewalls;
use super::moved::Inherited;
use super::why::{Why, interface};
use crate::sources::live::counters_of;
use crate::sources::{Interface, Interfaces};
use crate::vrfs::Vrfs;

/// Which way an SA's packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// To this host: it decrypts.
    In,
    /// From this host: it encrypts.
    Out,
}

/// Where an SA's packets are worked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the kernel.
    Kernel,
    /// On its way to the fast path, since then.
    Entering(Instant),
    /// In the fast path.
    Fast,
    /// On its way back to the kernel, since then.
    Leaving(Instant),
}

/// An SA, and where it is.
pub struct KnownSa {
    /// As the kernel told it.
    pub learnt: LearntSa,
    /// Which way its packets go; `None` where that cannot be told.
    pub side: Option<Side>,
    /// Where it is.
    pub place: Place,
    /// Why it is not in the fast path.
    pub why: Option<Why>,
    /// Numbers that the kernel was told last, while the SA is in the fast path.
    pub written: KernelNumbers,
    /// When that was.
    pub written_at: Instant,
    /// Counts of the kernel itself, while the SA is in the fast path.
    pub kernels: Counters,
    /// How often the kernel has encrypted by it lately, and the last time that it did.
    pub strikes: (u32, Instant),
    /// When it came into the fast path.
    pub arrived_at: Option<Instant>,
    /// Until when it is left to the kernel, which uses it as well.
    pub left_until: Option<Instant>,
    /// How long it was left to the kernel the last time.
    pub left_for: Option<Duration>,
    /// On its way in, outbound: since when the kernel is quiet, and since when packets are held.
    pub quiet: Option<(Instant, Instant)>,
    /// On its way: how often it was looked at since its place changed, or the kernel's last packet.
    pub looks: u32,
    /// The last number that the fast path may use, where it has some.
    pub ceiling: Option<u64>,
    /// State from the time when it had other ends, until it is in the fast path again.
    pub inherited: Option<Inherited>,
    /// Set once it was taken from packets, until its last number is told.
    pub closing: Option<Arc<SaEntry<Sa>>>,
    /// Set once nobody gets a number any more, until the last one is told.
    pub closed: Option<Closed>,
}

/// Numbers of an outbound SA on its way back.
pub struct Closed {
    /// The last one that the fast path has used.
    pub last: u64,
    /// Numbers and counts that the kernel has, up to the ceiling, once it was told the counts.
    pub leased: Option<KernelNumbers>,
}

impl KnownSa {
    /// Notes what the kernel has counted since it was told something.
    pub fn note_kernels(&mut self, now: &KernelNumbers) {
        let told = &mut self.written.counters;
        self.kernels.packets += now.counters.packets.saturating_sub(told.packets);
        self.kernels.bytes += now.counters.bytes.saturating_sub(told.bytes);
        *told = now.counters;
    }

    /// True if the kernel's numbers lie behind those that it was told. It never goes back by itself: another SA has taken
    /// the place of this one, which nobody has told, or somebody has set the numbers.
    pub fn is_ahead_of(&self, now: &KernelNumbers) -> bool {
        let (told, now) = (&self.written.replay, &now.replay);
        self.place != Place::Kernel && (now.sent < told.sent || now.edge < told.edge)
    }

    /// Counts with other ends that the kernel was not told.
    pub fn untold(&self) -> Counters {
        self.inherited.as_ref().map(|before| before.untold).unwrap_or_default()
    }

    /// All that was counted: here, and by the kernel.
    pub fn counters(&self, live: &LiveNumbers) -> Counters {
        let ours = counters_of(live);
        Counters {
            bytes: ours.bytes + self.kernels.bytes,
            packets: ours.packets + self.kernels.packets,
            first_use_s: match ours.first_use_s {
                0 => self.written.counters.first_use_s,
                first => first,
            },
        }
    }
}

/// Tie between SAs and policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Link {
    /// Of SAs and templates that may fit each other: the reqid.
    Reqid(u32),
    /// The same where the reqid is 0: the far end.
    End(Option<IpAddr>),
    /// Of outbound policies: their XFRM interface.
    Interface(u32),
}

/// SAs and policies with one link.
#[derive(Default)]
struct Group {
    sas: BTreeSet<SaKey>,
    policies: BTreeSet<u32>,
}

/// An SA's identity in an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SaKey {
    dst: IpAddr,
    spi: u32,
    protocol: u8,
    mark: (u32, u32),
}

impl SaKey {
    /// SPI, host byte order.
    pub fn spi(&self) -> u32 {
        self.spi
    }
}

impl From<&SaId> for SaKey {
    fn from(id: &SaId) -> SaKey {
        let mark = (id.mark.value, id.mark.mask);
        SaKey { dst: id.dst, spi: id.spi, protocol: id.protocol, mark }
    }
}

/// All that the kernel has.
#[derive(Default)]
pub struct Model {
    sas: HashMap<SaKey, KnownSa>,
    policies: HashMap<u32, LearntPolicy>,
    groups: HashMap<Link, Group>,
    local: HashSet<IpAddr>,
    firewalls: Firewalls,
    interfaces: Interfaces,
    vrfs: Vrfs,
}

/// SAs and policies that are to be decided about together.
#[derive(Default)]
pub struct Component {
    /// SAs of the component.
    pub sas: Vec<SaKey>,
    /// Policies of the component.
    pub policies: Vec<u32>,
}

impl Model {
    /// Sets the addresses of this host; whether they are others than before.
    pub fn set_local(&mut self, local: HashSet<IpAddr>) -> bool {
        if self.local == local {
            return false;
        }
        self.local = local;
        for sa in self.sas.values_mut() {
            // What is in the fast path keeps its direction: Linux goes on with such an SA, too.
            if sa.place == Place::Kernel {
                sa.side = side(&self.local, &sa.learnt);
            }
        }
        true
    }

    /// True if an address is this host's.
    pub fn is_local(&self, addr: IpAddr) -> bool {
        self.local.contains(&addr)
    }

    /// Sets the firewalls that packets of the fast path would pass by; whether they are others than before.
    pub fn set_firewalls(&mut self, firewalls: Firewalls) -> bool {
        let has_changed = self.firewalls != firewalls;
        self.firewalls = firewalls;
        has_changed
    }

    /// Sets what is in VRFs; whether that is another than before.
    pub fn set_vrfs(&mut self, vrfs: Vrfs) -> bool {
        let has_changed = self.vrfs != vrfs;
        self.vrfs = vrfs;
        has_changed
    }

    /// Members of VRFs.
    pub fn vrfs(&self) -> &Vrfs {
        &self.vrfs
    }

    /// Sets the XFRM interfaces.
    pub fn set_interfaces(&mut self, interfaces: Interfaces) {
        self.interfaces = interfaces;
    }

    /// The `if_id`s of XFRM interfaces that are usable.
    pub fn usable_interfaces(&self) -> Vec<u32> {
        let all = self.interfaces.by_if_id.iter();
        all.filter(|(_, is)| **is == Interface::Up).map(|(if_id, _)| *if_id).collect()
    }

    /// Why what has an `if_id` stays with the kernel, if its interface keeps it there.
    pub fn without_interface(&self, if_id: u32) -> Option<Cow<'static, str>> {
        match self.interfaces.by_if_id.get(&if_id) {
            _ if if_id == 0 => None,
            Some(Interface::Up) => None,
            Some(Interface::Down) => Some(interface::DOWN.into()),
            Some(Interface::Vrf(name)) => Some(interface::in_vrf(name).into()),
            Some(Interface::Enslaved) => Some(interface::ENSLAVED.into()),
            None if self.interfaces.is_any_external => Some(interface::EXTERNAL.into()),
            None => Some(interface::MISSING.into()),
        }
    }

    /// The firewalls that packets of the fast path would pass by.
    pub fn firewalls(&self) -> &Firewalls {
        &self.firewalls
    }

    /// An SA came or changed; returns its link. One that has no keys is none.
    pub fn put_sa(&mut self, learnt: LearntSa, now: Instant) -> Option<Link> {
        let key = SaKey::from(&learnt.id);
        if learnt.is_larval {
            return None;
        }
        let link = link_of_sa(&learnt);
        if let Some(known) = self.sas.get_mut(&key) {
            let old = link_of_sa(&known.learnt);
            known.learnt = learnt;
            if old != link {
                self.unlink_sa(old, &key);
            }
        } else {
            let side = side(&self.local, &learnt);
            let written = learnt.numbers.clone();
            let known = KnownSa {
                learnt,
                side,
                place: Place::Kernel,
                why: None,
                written,
                written_at: now,
                kernels: Counters::default(),
                strikes: (0, now),
                arrived_at: None,
                left_until: None,
                left_for: None,
                quiet: None,
                looks: 0,
                ceiling: None,
                inherited: None,
                closing: None,
                closed: None,
            };
            self.sas.insert(key, known);
        }
        self.groups.entry(link).or_default().sas.insert(key);
        Some(link)
    }

    /// An SA went.
    pub fn remove_sa(&mut self, key: &SaKey) -> Option<(KnownSa, Link)> {
        let known = self.sas.remove(key)?;
        let link = link_of_sa(&known.learnt);
        self.unlink_sa(link, key);
        Some((known, link))
    }

    fn unlink_sa(&mut self, link: Link, key: &SaKey) {
        if let Some(group) = self.groups.get_mut(&link) {
            group.sas.remove(key);
            self.forget_if_empty(link);
        }
    }

    /// A policy came or changed; returns its links, those before included.
    pub fn put_policy(&mut self, policy: LearntPolicy) -> Vec<Link> {
        let index = policy.config.index;
        let mut links = self.remove_policy(index);
        for link in links_of(&policy) {
            self.groups.entry(link).or_default().policies.insert(index);
            links.push(link);
        }
        self.policies.insert(index, policy);
        links
    }

    /// A policy went; returns its links.
    pub fn remove_policy(&mut self, index: u32) -> Vec<Link> {
        let Some(old) = self.policies.remove(&index) else { return Vec::new() };
        let links: Vec<Link> = links_of(&old).collect();
        for link in &links {
            if let Some(group) = self.groups.get_mut(link) {
                group.policies.remove(&index);
                self.forget_if_empty(*link);
            }
        }
        links
    }

    fn forget_if_empty(&mut self, link: Link) {
        let is_empty = |group: &Group| group.sas.is_empty() && group.policies.is_empty();
        if self.groups.get(&link).is_some_and(is_empty) {
            self.groups.remove(&link);
        }
    }

    /// The SA of this key.
    pub fn sa(&self, key: &SaKey) -> Option<&KnownSa> {
        self.sas.get(key)
    }

    /// An SA, to be changed.
    pub fn sa_mut(&mut self, key: &SaKey) -> Option<&mut KnownSa> {
        self.sas.get_mut(key)
    }

    /// SAs with their keys.
    pub fn sas(&self) -> impl Iterator<Item = (&SaKey, &KnownSa)> {
        self.sas.iter()
    }

    /// The policy of this index.
    pub fn policy(&self, index: u32) -> Option<&LearntPolicy> {
        self.policies.get(&index)
    }

    /// The indices of all policies.
    pub fn policy_indices(&self) -> impl Iterator<Item = u32> {
        self.policies.keys().copied()
    }

    /// Links of all SAs and policies.
    pub fn links(&self) -> impl Iterator<Item = Link> {
        self.groups.keys().copied()
    }

    /// An SA's link.
    pub fn link_of(&self, key: &SaKey) -> Option<Link> {
        self.sas.get(key).map(|known| link_of_sa(&known.learnt))
    }

    /// The SAs that a policy's templates may choose.
    pub fn candidates<'m>(&'m self, policy: &'m LearntPolicy) -> impl Iterator<Item = &'m SaKey> {
        policy.wanted.iter().flat_map(|wanted| self.candidates_for(policy, wanted))
    }

    /// The SAs that one template of a policy may choose.
    pub fn candidates_for<'m>(
        &'m self,
        policy: &'m LearntPolicy,
        wanted: &'m Wanted,
    ) -> impl Iterator<Item = &'m SaKey> {
        let side = side_of(policy.config.direction);
        let group = self.groups.get(&link_of_wanted(wanted));
        group.into_iter().flat_map(|group| &group.sas).filter(move |key| {
            self.sas.get(key).is_some_and(|sa| {
                sa.side == Some(side) && fits(policy.config.if_id, wanted, &sa.learnt)
            })
        })
    }

    /// The policies that may choose an SA.
    pub fn users(&self, key: &SaKey) -> impl Iterator<Item = &LearntPolicy> {
        let sa = self.sas.get(key);
        let group = sa.and_then(|sa| self.groups.get(&link_of_sa(&sa.learnt)));
        let policies = group.into_iter().flat_map(|group| &group.policies);
        policies.filter_map(|index| self.policies.get(index)).filter(move |policy| {
            let chooses = |sa: &KnownSa| {
                sa.side == Some(side_of(policy.config.direction))
                    && policy.wanted.iter().any(|w| fits(policy.config.if_id, w, &sa.learnt))
            };
            sa.is_some_and(chooses)
        })
    }

    /// Everything that has to be decided about with a link: what policies with several templates tie
    /// together. Adds the links to those that are done with.
    pub fn component(&self, link: Link, done: &mut HashSet<Link>) -> Component {
        let mut component = Component::default();
        let (mut policies, mut todo) = (BTreeSet::new(), vec![link]);
        while let Some(link) = todo.pop() {
            if !done.insert(link) {
                continue;
            }
            let Some(group) = self.groups.get(&link) else { continue };
            component.sas.extend(&group.sas);
            for index in &group.policies {
                if policies.insert(*index)
                    && let Some(policy) = self.policies.get(index)
                {
                    todo.extend(links_of(policy));
                }
            }
        }
        component.policies = policies.into_iter().collect();
        component
    }
}

/// The side of a policy's SAs.
pub fn side_of(direction: Direction) -> Side {
    match direction {
        Direction::Out => Side::Out,
        Direction::In | Direction::Forward => Side::In,
    }
}

fn side(local: &HashSet<IpAddr>, sa: &LearntSa) -> Option<Side> {
    match (local.contains(&sa.src), local.contains(&sa.id.dst)) {
        (true, false) => Some(Side::Out),
        (false, true) => Some(Side::In),
        _ => None,
    }
}

/// True if a template of a policy with an `if_id` may choose an SA. Inbound Linux takes policies
/// without one for any, but only where no interface has it: packets that come in by one belong to
/// that interface.
fn fits(if_id: u32, wanted: &Wanted, sa: &LearntSa) -> bool {
    if_id == sa.if_id
        && wanted.protocol == sa.id.protocol
        && wanted.mode == sa.mode
        && wanted.reqid == sa.reqid
        && (wanted.spi == 0 || wanted.spi == sa.id.spi)
        && wanted.ends.is_none_or(|ends| ends == (sa.src, sa.id.dst))
}

fn link_of_sa(sa: &LearntSa) -> Link {
    link(sa.reqid, (sa.mode != TRANSPORT).then_some(sa.id.dst))
}

fn link_of_wanted(wanted: &Wanted) -> Link {
    link(wanted.reqid, wanted.ends.map(|(_, dst)| dst))
}

fn link(reqid: u32, dst: Option<IpAddr>) -> Link {
    match reqid {
        0 => Link::End(dst),
        reqid => Link::Reqid(reqid),
    }
}

fn links_of(policy: &LearntPolicy) -> impl Iterator<Item = Link> {
    let PolicyConfig { direction, if_id, .. } = policy.config;
    let is_tied = direction == Direction::Out && if_id != 0;
    let interface = is_tied.then_some(Link::Interface(if_id));
    policy.wanted.iter().map(link_of_wanted).chain(interface)
}

/// Transport mode (`XFRM_MODE_TRANSPORT`).
const TRANSPORT: u8 = 0;
