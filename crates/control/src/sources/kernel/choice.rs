//! Which SAs and policies the fast path takes: decisions alone.
//!
//! A policy is taken if culvert can carry it out with every SA that the kernel might choose for it, and
//! an SA is taken if every policy that might choose it is. So for no packet the kernel and the fast path
//! both encrypt by one SA. What is routed to an XFRM interface comes here as a whole, or not at all: its outbound
//! policies of one family are taken together. The rules are applied until nothing changes any more.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use esp::Mode;
use policy::{Action, Direction};
use xfrm::LearntPolicy;

use super::model::{Component, KnownSa, Model, SaKey};
use super::why::{Why, policy as reason};

/// Decision about a component.
#[derive(Debug, Default)]
pub struct Choice {
    /// Each SA: `None` for those that the fast path takes, else why not.
    pub sas: BTreeMap<SaKey, Option<Why>>,
    /// Each policy: `None` for those that the fast path takes, else why not.
    pub policies: BTreeMap<u32, Option<Cow<'static, str>>>,
}

impl Choice {
    /// Decides about a component. `is_stopping`: everything goes back.
    pub fn of(model: &Model, component: &Component, is_stopping: bool, now: Instant) -> Choice {
        let mut choice = Choice::default();
        for key in &component.sas {
            let known = model.sa(key);
            let why = match known {
                _ if is_stopping => Some(Why::Stopping),
                Some(known) => own_reason(model, known, now),
                None => None,
            };
            choice.sas.insert(*key, why);
        }
        for index in &component.policies {
            choice.policies.insert(*index, policy_reason(model, *index));
        }
        while choice.step(model) {}
        choice
    }

    /// Applies the rules once; returns whether something has changed.
    fn step(&mut self, model: &Model) -> bool {
        let mut has_changed = self.step_interfaces(model);
        for (index, why) in self.policies.iter_mut().filter(|(_, why)| why.is_none()) {
            let Some(policy) = model.policy(*index) else { continue };
            let stays = |key: &SaKey| Some((key.spi(), self.sas.get(key)?.as_ref()?));
            if let Some((spi, of_sa)) = model.candidates(policy).find_map(stays) {
                let reason = match of_sa {
                    Why::Policy { .. } => reason::SA.into(),
                    of_sa => reason::sa(spi, of_sa).into(),
                };
                (*why, has_changed) = (Some(reason), true);
            }
        }
        for (key, why) in self.sas.iter_mut().filter(|(_, why)| why.is_none()) {
            let stays = |policy: &LearntPolicy| {
                let index = policy.config.index;
                let reason = self.policies.get(&index).cloned().flatten()?;
                Some(Why::Policy { index, reason })
            };
            let mut users = model.users(key).peekable();
            *why = match users.peek() {
                None => Some(Why::NoPolicy),
                Some(_) => users.find_map(stays),
            };
            has_changed |= why.is_some();
        }
        has_changed
    }

    /// Outbound policies of an XFRM interface stay where one of their family does.
    fn step_interfaces(&mut self, model: &Model) -> bool {
        let of = |index: &u32| interface_of(model.policy(*index)?);
        let stay: BTreeSet<_> = self
            .policies
            .iter()
            .filter(|(_, why)| why.is_some())
            .filter_map(|(index, _)| of(index))
            .collect();
        let mut has_changed = false;
        for (index, why) in self.policies.iter_mut().filter(|(_, why)| why.is_none()) {
            if of(index).is_some_and(|interface| stay.contains(&interface)) {
                (*why, has_changed) = (Some(reason::TOGETHER.into()), true);
            }
        }
        has_changed
    }
}

/// The XFRM interface of an outbound policy that is routed to one, and whether it is for IPv4.
fn interface_of(policy: &LearntPolicy) -> Option<(u32, bool)> {
    let config = &policy.config;
    let is_routed = config.direction == Direction::Out && config.if_id != 0;
    is_routed.then_some((config.if_id, config.selector.dst.addr.is_ipv4()))
}

/// Why an SA stays with the kernel, whatever policies there are.
fn own_reason(model: &Model, known: &KnownSa, now: Instant) -> Option<Why> {
    let learnt = &known.learnt;
    match &learnt.carried {
        Err(failure) => return Some(Why::Failure(failure.clone())),
        Ok(_) if learnt.is_offloaded => return Some(Why::Offloaded),
        Ok((config, _)) if config.params.mode == Mode::Iptfs => return Some(Why::Iptfs),
        Ok((config, _)) if config.mark.mask != 0 => return Some(Why::Mark),
        Ok((config, _)) if config.if_id != 0 && config.set_mark.mask != 0 => {
            return Some(Why::SetMark);
        }
        Ok(_) => {}
    }
    if let Some(why) = model.without_interface(learnt.if_id) {
        return Some(Why::Interface(why));
    }
    let (vrfs, selector) = (model.vrfs(), selector(known));
    let vrf = selector.and_then(|ifindex| vrfs.of_interface(ifindex));
    let ends = [learnt.src, learnt.id.dst];
    if let Some(vrf) = vrf.or_else(|| ends.into_iter().find_map(|end| vrfs.of_address(end))) {
        return Some(Why::Vrf(vrf.into()));
    }
    match known.side {
        None => Some(Why::Ends),
        Some(_) if selector.is_some() => Some(Why::Selector),
        Some(_) if known.left_until.is_some_and(|until| until > now) => Some(Why::InUse),
        // What the fast path refused before it will refuse again.
        Some(_) => known.why.clone().filter(|why| matches!(why, Why::Refused(_))),
    }
}

/// The interface that an SA's own selector names.
fn selector(known: &KnownSa) -> Option<u32> {
    let (config, _) = known.learnt.carried.as_ref().ok()?;
    config.selector.map(|selector| selector.ifindex).filter(|ifindex| *ifindex != 0)
}

/// Why a policy stays with the kernel, whatever SAs there are.
pub fn policy_reason(model: &Model, index: u32) -> Option<Cow<'static, str>> {
    let policy = model.policy(index)?;
    let config = &policy.config;
    if let Some(failure) = &policy.failure {
        return Some(reason::failed(failure).into());
    }
    if config.action == Action::Block {
        return None;
    }
    if config.mark.mask != 0 {
        return Some(reason::MARK.into());
    }
    if let Some(why) = model.without_interface(config.if_id) {
        return Some(why);
    }
    if let Some(vrf) = model.vrfs().of_interface(config.selector.ifindex) {
        return Some(reason::of_vrf(vrf).into());
    }
    if config.templates.iter().any(|template| template.optional) {
        return Some(reason::OPTIONAL.into());
    }
    if let Some(firewall) = model.firewalls().of(config.selector.dst.addr) {
        return Some(firewall.clone());
    }
    let is_out = config.direction == Direction::Out;
    let src = config.selector.src;
    if is_out
        && config.if_id == 0
        && src.addr.is_ipv6()
        && src.len == 128
        && model.is_local(src.addr)
    {
        return Some(reason::OWN_IPV6.into());
    }
    let has_sa = |wanted| model.candidates_for(policy, wanted).next().is_some();
    (is_out && !policy.wanted.iter().all(has_sa)).then_some(reason::NO_SA.into())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::net::IpAddr;
    use std::time::Duration;

    use policy::Direction::{In, Out};

    use super::super::firewall::Firewalls;
    use super::super::model::Link;
    use super::super::testing::{HERE, THERE, beet, policy, sa};
    use super::super::why::interface;
    use super::*;
    use crate::sources::{Interface, Interfaces};
    use crate::vrfs::Vrfs;

    const TO: (std::net::IpAddr, std::net::IpAddr) = (HERE, THERE);
    const FROM: (std::net::IpAddr, std::net::IpAddr) = (THERE, HERE);

    fn model(sas: Vec<xfrm::LearntSa>, policies: Vec<xfrm::LearntPolicy>) -> Model {
        let mut model = Model::default();
        model.set_local(HashSet::from([HERE]));
        sas.into_iter().for_each(|sa| {
            model.put_sa(sa, Instant::now());
        });
        policies.into_iter().for_each(|policy| {
            model.put_policy(policy);
        });
        model
    }

    /// The SPIs and the policies that are taken, over all components.
    fn taken(model: &Model) -> (Vec<u32>, Vec<u32>) {
        let (mut done, mut sas, mut policies) = (HashSet::new(), Vec::new(), Vec::new());
        let mut links: Vec<Link> = model.links().collect();
        links.sort();
        for link in links {
            if done.contains(&link) {
                continue;
            }
            let component = model.component(link, &mut done);
            let choice = Choice::of(model, &component, false, Instant::now());
            let spi = |key: &SaKey| model.sa(key).expect("known").learnt.id.spi;
            sas.extend(choice.sas.iter().filter(|(_, why)| why.is_none()).map(|(key, _)| spi(key)));
            policies.extend(choice.policies.iter().filter(|(_, w)| w.is_none()).map(|(i, _)| *i));
        }
        sas.sort_unstable();
        policies.sort_unstable();
        (sas, policies)
    }

    #[test]
    fn a_tunnel_is_taken_with_its_policies() {
        let sas = vec![sa(1, TO, 7), sa(2, FROM, 7), sa(3, TO, 7)];
        let model = model(sas, vec![policy(9, Out, TO, &[7]), policy(8, In, FROM, &[7])]);
        assert_eq!(taken(&model), (vec![1, 2, 3], vec![8, 9]));
    }

    #[test]
    fn an_sa_that_no_policy_asks_for_stays() {
        let model = model(vec![sa(1, TO, 7), sa(2, TO, 8)], vec![policy(9, Out, TO, &[7])]);
        assert_eq!(taken(&model), (vec![1], vec![9]));
    }

    #[test]
    fn a_policy_without_an_sa_stays_and_the_kernel_asks_for_one() {
        let model = model(Vec::new(), vec![policy(9, Out, TO, &[7])]);
        assert_eq!(taken(&model), (vec![], vec![]));
    }

    #[test]
    fn what_shares_an_sa_with_a_policy_that_stays_stays_too() {
        // Policy 9 could be taken, but 17 asks for its SA as well, and has one that cannot.
        let sas = vec![sa(1, TO, 7), beet(2, TO, 8), sa(3, TO, 6)];
        let mixed = policy(17, Out, TO, &[7, 8]);
        let model = model(sas, vec![policy(9, Out, TO, &[7]), mixed, policy(25, Out, TO, &[6])]);
        assert_eq!(taken(&model), (vec![3], vec![25]));
    }

    #[test]
    fn an_sa_that_cannot_be_carried_keeps_its_siblings() {
        let mut offloaded = sa(2, TO, 7);
        offloaded.is_offloaded = true;
        let model = model(vec![sa(1, TO, 7), offloaded], vec![policy(9, Out, TO, &[7])]);
        assert_eq!(taken(&model), (vec![], vec![]));
    }

    #[test]
    fn marks_interfaces_optional_templates_and_foreign_ends_stay() {
        let policies = |change: &dyn Fn(&mut xfrm::LearntPolicy)| {
            let mut changed = policy(9, Out, TO, &[7]);
            change(&mut changed);
            taken(&model(vec![sa(1, TO, 7)], vec![changed]))
        };
        assert_eq!(policies(&|_| {}), (vec![1], vec![9]));
        let none = (vec![], vec![]);
        assert_eq!(policies(&|p| p.config.mark = policy::Mark { value: 1, mask: 1 }), none);
        assert_eq!(policies(&|p| p.config.if_id = 3), none);
        assert_eq!(policies(&|p| p.config.templates[0].optional = true), none);
        assert_eq!(policies(&|p| p.failure = Some(xfrm::Failure::TemplateMode)), none);
        let foreign = (THERE, std::net::IpAddr::from([203, 0, 113, 1]));
        let model = model(vec![sa(1, foreign, 7)], vec![policy(9, Out, foreign, &[7])]);
        assert_eq!(taken(&model), none);
    }

    #[test]
    fn an_sa_of_iptfs_stays() {
        let mut aggregating = sa(1, TO, 7);
        aggregating.carried.as_mut().expect("carried").0.params.mode = Mode::Iptfs;
        let policies = vec![policy(9, Out, TO, &[7]), policy(17, Out, TO, &[8])];
        assert_eq!(taken(&model(vec![aggregating, sa(2, TO, 8)], policies)), (vec![2], vec![17]));
    }

    fn of_interface(if_id: u32, mut policy: xfrm::LearntPolicy) -> xfrm::LearntPolicy {
        policy.config.if_id = if_id;
        policy
    }

    fn sa_of_interface(if_id: u32, mut sa: xfrm::LearntSa) -> xfrm::LearntSa {
        sa.if_id = if_id;
        sa.carried.as_mut().expect("carried").0.if_id = if_id;
        sa
    }

    fn interfaces(of: &[(u32, Interface)]) -> Interfaces {
        Interfaces { by_if_id: of.iter().cloned().collect(), is_any_external: false }
    }

    #[test]
    fn what_has_an_if_id_is_taken_with_its_interface() {
        let sas = vec![
            sa_of_interface(42, sa(1, TO, 7)),
            sa_of_interface(42, sa(2, FROM, 7)),
            sa_of_interface(43, sa(3, TO, 7)),
            sa(4, TO, 7),
        ];
        let policies = vec![
            of_interface(42, policy(9, Out, TO, &[7])),
            of_interface(42, policy(8, In, FROM, &[7])),
            of_interface(43, policy(17, Out, TO, &[7])),
            policy(25, Out, TO, &[7]),
        ];
        let mut model = model(sas, policies);
        // The same reqid and ends are another tunnel's where the if_id is another one.
        assert_eq!(taken(&model), (vec![4], vec![25]));
        model.set_interfaces(interfaces(&[(42, Interface::Up)]));
        assert_eq!(taken(&model), (vec![1, 2, 4], vec![8, 9, 25]));
        model.set_interfaces(interfaces(&[(42, Interface::Up), (43, Interface::Down)]));
        assert_eq!(taken(&model), (vec![1, 2, 4], vec![8, 9, 25]));
        assert_eq!(model.without_interface(43), Some(interface::DOWN.into()));
        model.set_interfaces(interfaces(&[(42, Interface::Enslaved), (43, Interface::Up)]));
        assert_eq!(taken(&model), (vec![3, 4], vec![17, 25]));
        assert_eq!(model.without_interface(42), Some(interface::ENSLAVED.into()));
        let external = Interfaces { is_any_external: true, ..Interfaces::default() };
        model.set_interfaces(external);
        assert_eq!(model.without_interface(42), Some(interface::EXTERNAL.into()));
    }

    #[test]
    fn ipv6_of_this_host_alone_stays() {
        let (here, there) = (IpAddr::from([1u16; 8]), IpAddr::from([2u16; 8]));
        let ends = (here, there);
        let with_source = |src: IpAddr, len| {
            let mut policy = policy(9, Out, ends, &[7]);
            let [src, dst] =
                [(src, len), (there, 128)].map(|(addr, len)| policy::Prefix { addr, len });
            policy.config.selector = policy::Selector::between(src, dst);
            let mut model = model(vec![sa(1, ends, 7), sa(2, (there, here), 7)], vec![policy]);
            model.put_policy(super::super::testing::policy(8, In, (there, here), &[7]));
            model.set_local(HashSet::from([here]));
            taken(&model)
        };
        assert_eq!(with_source(here, 128), (vec![2], vec![8]));
        // What others send by these is forwarded.
        assert_eq!(with_source(here, 64), (vec![1, 2], vec![8, 9]));
        assert_eq!(with_source([3u16; 8].into(), 128), (vec![1, 2], vec![8, 9]));
    }

    #[test]
    fn what_is_in_a_vrf_stays_and_says_which() {
        let selects = |ifindex, mut sa: xfrm::LearntSa| {
            let any = policy::Prefix { addr: IpAddr::from([0; 4]), len: 0 };
            let selector = policy::Selector { ifindex, ..policy::Selector::between(any, any) };
            sa.carried.as_mut().expect("carried").0.selector = Some(selector);
            sa
        };
        let whys = |model: &Model| {
            let mut done = HashSet::new();
            let links: BTreeSet<Link> = model.links().collect();
            let choices = links.into_iter().map(|link| {
                let component = model.component(link, &mut done);
                Choice::of(model, &component, false, Instant::now())
            });
            let whys = choices.flat_map(|choice| {
                let sas = choice.sas.into_values().flatten().map(|why| why.to_string());
                let policies = choice.policies.into_values().flatten().map(Cow::into_owned);
                sas.chain(policies).collect::<Vec<_>>()
            });
            whys.collect::<Vec<String>>().join("; ")
        };
        let mut for_vrf = policy(17, Out, TO, &[8]);
        for_vrf.config.selector.ifindex = 5;
        let both = vec![policy(9, Out, TO, &[7]), for_vrf];
        let mut model = model(vec![sa(1, TO, 7), selects(5, sa(2, TO, 8))], both);
        // Whatever the interface is, an SA for it alone stays.
        assert_eq!(taken(&model), (vec![1], vec![9]));
        assert!(whys(&model).contains("its selector names an interface"), "{}", whys(&model));
        assert!(model.set_vrfs(Vrfs::with("red", 5, [198, 51, 100, 1].into())));
        assert_eq!(taken(&model), (vec![1], vec![9]));
        for why in ["it is in the VRF red", "it is for the VRF red"] {
            assert!(whys(&model).contains(why), "{}", whys(&model));
        }
        assert!(!model.set_vrfs(Vrfs::with("red", 5, [198, 51, 100, 1].into())));
        // By the address of an end.
        assert!(model.set_vrfs(Vrfs::with("blue", 6, HERE)));
        assert_eq!(taken(&model), (vec![], vec![]));
        assert!(whys(&model).contains("it is in the VRF blue"), "{}", whys(&model));
    }

    #[test]
    fn what_is_routed_to_an_interface_is_taken_as_a_whole() {
        let sas = vec![
            sa_of_interface(42, sa(1, TO, 7)),
            sa_of_interface(42, sa(2, TO, 8)),
            sa_of_interface(43, sa(3, TO, 9)),
        ];
        let any6 = policy::Prefix { addr: IpAddr::from([0u16; 8]), len: 0 };
        let mut other_family = of_interface(42, policy(17, Out, TO, &[8]));
        other_family.config.selector = policy::Selector::between(any6, any6);
        let policies = vec![
            of_interface(42, policy(9, Out, TO, &[7])),
            other_family,
            of_interface(43, policy(25, Out, TO, &[9])),
        ];
        let mut model = model(sas, policies);
        model.set_interfaces(interfaces(&[(42, Interface::Up), (43, Interface::Up)]));
        assert_eq!(taken(&model), (vec![1, 2, 3], vec![9, 17, 25]));
        // One that has no SA keeps those of its interface and family, whatever reqid they have.
        model.put_policy(of_interface(42, policy(33, Out, TO, &[6])));
        assert_eq!(taken(&model), (vec![2, 3], vec![17, 25]));
        let key = *model.sas().find(|(_, known)| known.learnt.id.spi == 1).expect("one").0;
        let link = model.link_of(&key).expect("one");
        let component = model.component(link, &mut HashSet::new());
        let choice = Choice::of(&model, &component, false, Instant::now());
        assert_eq!(choice.policies[&9].as_deref(), Some(reason::TOGETHER));
        model.remove_policy(33);
        assert_eq!(taken(&model), (vec![1, 2, 3], vec![9, 17, 25]));
    }

    #[test]
    fn an_sa_that_sets_a_mark_stays_with_an_interface() {
        let mut marking = sa_of_interface(42, sa(1, TO, 7));
        let config = &mut marking.carried.as_mut().expect("carried").0;
        config.set_mark = policy::Mark { value: 1, mask: 1 };
        let policies = vec![of_interface(42, policy(9, Out, TO, &[7]))];
        let mut model = model(vec![marking], policies);
        model.set_interfaces(interfaces(&[(42, Interface::Up)]));
        assert_eq!(taken(&model), (vec![], vec![]));
    }

    #[test]
    fn what_a_firewall_would_see_stays_until_it_is_gone() {
        let mut wide = policy(17, Out, TO, &[8]);
        let any6 = policy::Prefix { addr: IpAddr::from([0u16; 8]), len: 0 };
        wide.config.selector = policy::Selector::between(any6, any6);
        let sas = vec![sa(1, TO, 7), sa(2, FROM, 7), sa(3, TO, 8)];
        let mut model = model(sas, vec![policy(9, Out, TO, &[7]), policy(8, In, FROM, &[7]), wide]);
        let all = (vec![1, 2, 3], vec![8, 9, 17]);
        assert_eq!(taken(&model), all);
        assert!(model.set_firewalls(Firewalls::of_ipv4("chain ip filter forward")));
        // By the family of what is protected, not of the tunnel.
        assert_eq!(taken(&model), (vec![3], vec![17]));
        let link = model.links().min().expect("one");
        let component = model.component(link, &mut HashSet::new());
        let choice = Choice::of(&model, &component, false, Instant::now());
        let whys = choice.sas.values().flatten().map(ToString::to_string);
        assert!(whys.clone().count() == 2, "{choice:?}");
        whys.for_each(|why| assert!(why.contains("chain ip filter forward"), "{why}"));
        assert!(!model.set_firewalls(Firewalls::of_ipv4("chain ip filter forward")));
        assert!(model.set_firewalls(Firewalls::default()));
        assert_eq!(taken(&model), all);
    }

    #[test]
    fn what_the_kernel_uses_stays_for_a_while() {
        let mut model = model(vec![sa(1, TO, 7)], vec![policy(9, Out, TO, &[7])]);
        let key = *model.sas().next().expect("one").0;
        let later = Instant::now() + Duration::from_secs(30);
        model.sa_mut(&key).expect("known").left_until = Some(later);
        assert_eq!(taken(&model), (vec![], vec![]));
        model.sa_mut(&key).expect("known").left_until = Some(Instant::now());
        assert_eq!(taken(&model), (vec![1], vec![9]));
    }
}
