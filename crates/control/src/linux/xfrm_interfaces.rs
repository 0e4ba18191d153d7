//! The kernel's own XFRM interfaces (`ip link add type xfrm`), while the kernel owns SAs and policies.
//!
//! A packet that Linux routes to one is protected by the policies and SAs with its `if_id`, or not sent. Where all of
//! these policies are the fast path's, ports and routes lead here what Linux's routes lead to the interface;
//! else nothing of it, so that one encryptor has these SAs. That is decided for each family.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use mirror::{Family, Link, Snapshot, XfrmInterface};
use policy::{Action, Direction, PolicyConfig};

use crate::sources::{Interface, Interfaces};
use crate::vrfs::Vrfs;

/// All of them.
#[derive(Default)]
pub struct XfrmInterfaces {
    /// Interfaces that are taken if their policies are: `if_id` by interface.
    usable: BTreeMap<u32, u32>,
    /// XFRM interfaces, by `if_id`.
    known: Interfaces,
    /// The outbound policies, by `if_id` and family.
    policies: HashMap<(u32, Family), Count>,
    /// Where all of them are the fast path's.
    led: BTreeSet<(u32, Family)>,
}

/// Outbound policies of one `if_id` and family.
#[derive(Clone, Copy, Default)]
struct Count {
    /// Policies that protect, and whose packets are led here.
    led: usize,
    /// Policies that Linux carries out alone.
    left: usize,
}

/// Kind of a policy, for the count.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Led,
    Left,
    /// A policy that blocks, or asks for no protection.
    Other,
}

impl XfrmInterfaces {
    /// Follows Linux's interfaces; whether something is new.
    pub fn follow_links(&mut self, snapshot: &Snapshot) -> bool {
        let links: Vec<&Link> = snapshot.links().collect();
        let vrfs = Vrfs::of(snapshot);
        let state = |link: &Link| state(link, vrfs.of_interface(link.index));
        let usable = links.iter().filter_map(|link| match state(link)? {
            (if_id, Interface::Up) => Some((link.index, if_id)),
            _ => None,
        });
        let usable: BTreeMap<u32, u32> = usable.collect();
        let is_external = |link: &&Link| link.xfrm == Some(XfrmInterface::External);
        let known = Interfaces {
            by_if_id: links.iter().filter_map(|link| state(link)).collect(),
            is_any_external: links.iter().any(|l| is_external(l) && !l.is_tied_elsewhere),
        };
        let is_new = self.usable != usable || self.known != known;
        (self.usable, self.known) = (usable, known);
        is_new
    }

    /// The interfaces, as the source of SAs is told them.
    pub fn known(&self) -> &Interfaces {
        &self.known
    }

    /// Follows a policy that was added, removed or replaced; whether other packets are led here than before.
    pub fn follow_policy(
        &mut self,
        old: Option<&PolicyConfig>,
        new: Option<&PolicyConfig>,
    ) -> bool {
        let mut is_new = false;
        for (policy, is_added) in [(new, true), (old, false)] {
            let Some((key, kind)) = policy.and_then(counted) else { continue };
            let count = self.policies.entry(key).or_default();
            let number = match kind {
                Kind::Led => &mut count.led,
                Kind::Left => &mut count.left,
                Kind::Other => continue,
            };
            *number = if is_added { *number + 1 } else { number.saturating_sub(1) };
            let Count { led, left } = *count;
            if led + left == 0 {
                self.policies.remove(&key);
            }
            is_new |= match led > 0 && left == 0 {
                true => self.led.insert(key),
                false => self.led.remove(&key),
            };
        }
        is_new
    }

    /// The `if_id` of an interface that is taken if its policies are.
    pub fn if_id(&self, ifindex: u32) -> Option<u32> {
        self.usable.get(&ifindex).copied()
    }

    /// The index of the interface with an `if_id`.
    pub fn ifindex(&self, if_id: u32) -> Option<u32> {
        self.all().find(|(_, id)| *id == if_id).map(|(ifindex, _)| ifindex)
    }

    /// Their indices, each with its `if_id`.
    pub fn all(&self) -> impl Iterator<Item = (u32, u32)> {
        self.usable.iter().map(|(ifindex, if_id)| (*ifindex, *if_id))
    }

    /// True if packets that are routed to an interface are led here.
    pub fn leads(&self, ifindex: u32, family: Family) -> bool {
        self.if_id(ifindex).is_some_and(|if_id| self.led.contains(&(if_id, family)))
    }

    /// True if packets of any interface are led here.
    pub fn is_any_led(&self) -> bool {
        !self.led.is_empty()
    }
}

/// The `if_id` and state of an interface, if it is an XFRM interface of this namespace's policies.
/// `vrf` is the one that it is in.
fn state(link: &Link, vrf: Option<&str>) -> Option<(u32, Interface)> {
    let Some(XfrmInterface::IfId(if_id)) = link.xfrm.filter(|_| !link.is_tied_elsewhere) else {
        return None;
    };
    Some((
        if_id,
        match link {
            Link { up: false, .. } => Interface::Down,
            // Workers do not follow its routes.
            _ if let Some(vrf) = vrf => Interface::Vrf(vrf.into()),
            Link { master: Some(_), .. } => Interface::Enslaved,
            _ => Interface::Up,
        },
    ))
}

fn counted(policy: &PolicyConfig) -> Option<((u32, Family), Kind)> {
    if policy.direction != Direction::Out || policy.if_id == 0 {
        return None;
    }
    let kind = match (policy.action, policy.templates.is_empty()) {
        (Action::Allow | Action::Leave, false) => Kind::Led,
        (Action::Leave, true) => Kind::Left,
        (Action::Allow, true) | (Action::Block, _) => Kind::Other,
    };
    Some(((policy.if_id, Family::of(policy.selector.dst.addr)), kind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::testing::{self, HERE, THERE, xfrm_interface};

    fn policy(if_id: u32, action: Action, is_protecting: bool) -> PolicyConfig {
        let reqids: &[u32] = if is_protecting { &[1] } else { &[] };
        let of_none = testing::policy(1, Direction::Out, (HERE, THERE), reqids);
        PolicyConfig { action, if_id, ..of_none }
    }

    #[test]
    fn what_is_led_is_what_no_policy_leaves() {
        let mut all = XfrmInterfaces::default();
        all.usable.insert(7, 42);
        let led = |all: &XfrmInterfaces| [all.leads(7, Family::V4), all.leads(7, Family::V6)];
        let protects = policy(42, Action::Allow, true);
        assert!(all.follow_policy(None, Some(&protects)));
        assert_eq!(led(&all), [true, false]);
        // On its way, and one that blocks.
        let way = policy(42, Action::Leave, true);
        assert!(!all.follow_policy(Some(&protects), Some(&way)));
        assert!(!all.follow_policy(None, Some(&policy(42, Action::Block, false))));
        assert_eq!(led(&all), [true, false]);
        // One that is Linux's keeps all; those of other interfaces, or of none, do not matter.
        let left = policy(42, Action::Leave, false);
        assert!(!all.follow_policy(None, Some(&policy(43, Action::Leave, false))));
        assert!(!all.follow_policy(None, Some(&policy(0, Action::Leave, false))));
        assert!(all.follow_policy(None, Some(&left)));
        assert_eq!(led(&all), [false, false]);
        assert!(all.follow_policy(Some(&left), None));
        assert_eq!(led(&all), [true, false]);
        assert!(all.follow_policy(Some(&way), None));
        assert!(!all.is_any_led() && !all.leads(7, Family::V4));
    }

    #[test]
    fn interfaces_that_are_not_taken_are_told_apart() {
        let link = xfrm_interface(7, 42);
        assert_eq!(state(&link, None), Some((42, Interface::Up)));
        assert_eq!(state(&Link { up: false, ..link.clone() }, None), Some((42, Interface::Down)));
        let slave = Link { master: Some(3), ..link.clone() };
        assert_eq!(state(&slave, None), Some((42, Interface::Enslaved)));
        assert_eq!(state(&slave, Some("red")), Some((42, Interface::Vrf("red".into()))));
        assert_eq!(state(&Link { is_tied_elsewhere: true, ..link.clone() }, None), None);
        let external = Link { xfrm: Some(XfrmInterface::External), ..link.clone() };
        assert_eq!(state(&external, None), None);
        assert_eq!(state(&Link { xfrm: None, ..link }, None), None);
    }
}
