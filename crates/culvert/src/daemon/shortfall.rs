//! Policies that culvert cannot carry out: how they are handled, and how that is reported.
//!
//! Packets in the data path have neither a mark nor an XFRM interface (`if_id`). A policy that asks
//! for one cannot be held against them, so:
//!
//! | the policy | then |
//! | --- | --- |
//! | protects or blocks, and names a network | it blocks everything between its networks, whatever the mark; the guard's barrier is one without mark |
//! | protects or blocks, from any address to any address | nothing in the data path: blocking that would cut the machine off. The guard's barrier has the mark or `if_id`: what Linux marks, or routes to such an interface, is blocked there |
//! | lets pass | it lets nothing pass: the policies behind it decide |
//!
//! AH, IPComp and nested SAs are blocked by the policy database itself.

use std::collections::{BTreeMap, BTreeSet};

use mirror::Snapshot;
use policy::{Action, Direction, Mark, PolicyConfig, PolicyEntry, Scope};
use tracing::warn;

/// Whether a policy has to block everything between its networks.
pub fn must_block(config: &PolicyConfig) -> bool {
    let is_bypass = config.action == Action::Allow && config.templates.is_empty();
    let is_for_all = config.selector.src.len == 0 && config.selector.dst.len == 0;
    !config.scope().is_any() && !is_bypass && !is_for_all
}

/// Why a policy is not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// By its templates; blocked.
    Templates,
    /// By its mark or interface; blocked.
    Scope,
    /// The same from any address to any address; blocked by the kernel alone.
    ScopeOfAll,
    /// The same of one that lets pass.
    ScopeOfBypass,
}

impl Kind {
    fn of(policy: &PolicyEntry) -> Option<Kind> {
        let config = &policy.config;
        if policy.is_blocking_all() {
            return Some(Kind::Scope);
        }
        if !config.scope().is_any() {
            let is_bypass = config.action == Action::Allow && config.templates.is_empty();
            return Some(if is_bypass { Kind::ScopeOfBypass } else { Kind::ScopeOfAll });
        }
        policy.is_unsupported().then_some(Kind::Templates)
    }

    /// How policies of this kind are handled, as a clause about several.
    fn fate(self) -> &'static str {
        match self {
            Kind::Templates => "ask for AH, IPComp or nested SAs: their traffic is blocked",
            Kind::Scope => {
                "have a mark or an if_id, which culvert does not carry out: all traffic between their \
                 networks is blocked, whatever its mark"
            }
            Kind::ScopeOfAll => {
                "have a mark or an if_id, which culvert does not carry out, and are for any address: \
                 nothing is protected by them, and what Linux marks so, or routes to such an \
                 interface, is blocked"
            }
            Kind::ScopeOfBypass => {
                "have a mark or an if_id, which culvert does not carry out: they let nothing pass"
            }
        }
    }

    /// What the operator can do.
    fn remedy(self) -> &'static str {
        match self {
            Kind::Templates => "propose ESP alone, and ipcomp = no, in swanctl.conf",
            Kind::Scope | Kind::ScopeOfAll | Kind::ScopeOfBypass => {
                "configure the tunnel by its networks, without mark_in, mark_out, if_id_in and \
                 if_id_out in swanctl.conf"
            }
        }
    }
}

/// A policy that is not carried out.
struct Noted {
    kind: Kind,
    /// What it is, for people.
    name: String,
}

/// The policies that are not carried out, and the interfaces that policies name.
#[derive(Default)]
pub struct Shortfalls {
    noted: BTreeMap<u32, Noted>,
    /// Not in the log yet, by index.
    fresh: BTreeSet<u32>,
    /// Policies that name an interface, by its index.
    naming: BTreeMap<u32, BTreeSet<u32>>,
    /// Interfaces whose absence is in the log.
    missed: BTreeSet<u32>,
}

impl Shortfalls {
    /// Follows a policy that was added, removed or replaced.
    pub fn follow(&mut self, index: u32, policy: Option<&PolicyEntry>) {
        if self.noted.remove(&index).is_some() {
            self.fresh.remove(&index);
        }
        self.naming.retain(|_, policies| {
            policies.remove(&index);
            !policies.is_empty()
        });
        let Some(policy) = policy else { return };
        if let Some(kind) = Kind::of(policy) {
            self.noted.insert(index, Noted { kind, name: name(policy) });
            self.fresh.insert(index);
        }
        let ifindex = policy.config.selector.ifindex;
        if ifindex != 0 {
            self.naming.entry(ifindex).or_default().insert(index);
        }
    }

    /// Logs what was not logged yet.
    pub fn tell(&mut self, snapshot: &Snapshot) {
        let fresh = std::mem::take(&mut self.fresh);
        let (said, rest) = (fresh.iter().take(AT_ONCE), fresh.len().saturating_sub(AT_ONCE));
        for Noted { kind, name } in said.filter_map(|index| self.noted.get(index)) {
            warn!("policies such as {name} {}; {}", kind.fate(), kind.remedy());
        }
        if rest > 0 {
            warn!("{rest} more policies are not carried out: culvert policy shows which");
        }
        for (ifindex, policies) in &self.naming {
            if snapshot.link(*ifindex).is_some() {
                self.missed.remove(ifindex);
            } else if self.missed.insert(*ifindex) {
                warn!("{}", absent(*ifindex, policies.len()));
            }
        }
        self.missed.retain(|ifindex| self.naming.contains_key(ifindex));
    }

    /// The warnings of `culvert status`.
    pub fn warnings(&self, snapshot: &Snapshot) -> Vec<String> {
        let mut by_kind: BTreeMap<Kind, Vec<&str>> = BTreeMap::new();
        for Noted { kind, name } in self.noted.values() {
            by_kind.entry(*kind).or_default().push(name);
        }
        let kinds = by_kind.iter().map(|(kind, names)| {
            let count = names.len();
            let some = names.iter().take(NAMED).copied().collect::<Vec<_>>().join("; ");
            let more = if count > NAMED { "; ..." } else { "" };
            format!("{count} policies {} ({some}{more})", kind.fate())
        });
        let gone = self.naming.iter().filter(|(ifindex, _)| snapshot.link(**ifindex).is_none());
        kinds.chain(gone.map(|(ifindex, policies)| absent(*ifindex, policies.len()))).collect()
    }
}

fn absent(ifindex: u32, policies: usize) -> String {
    format!(
        "{policies} policies name interface {ifindex}, which does not exist any more: they match \
         nothing; load the connections again"
    )
}

/// A policy, as `ip xfrm policy` would say it.
fn name(policy: &PolicyEntry) -> String {
    let s = &policy.config.selector;
    let dir = match policy.config.direction {
        Direction::In => "in",
        Direction::Out => "out",
        Direction::Forward => "fwd",
    };
    let Scope { mark, if_id } = policy.scope();
    let mut name = format!("{dir} {}/{} to {}/{}", s.src.addr, s.src.len, s.dst.addr, s.dst.len);
    if mark != Mark::default() {
        name.push_str(&format!(" mark {:#x}/{:#x}", mark.value, mark.mask));
    }
    if if_id != 0 {
        name.push_str(&format!(" if_id {if_id:#x}"));
    }
    name
}

/// Policies that one call logs by name.
const AT_ONCE: usize = 8;

/// Policies that one warning names.
const NAMED: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use policy::{Databases, Prefix, Selector, Template};

    fn prefix(text: &str) -> Prefix {
        let (addr, len) = text.split_once('/').unwrap();
        Prefix { addr: addr.parse().unwrap(), len: len.parse().unwrap() }
    }

    fn protect(index: u32, src: &str, dst: &str, scope: Scope) -> PolicyConfig {
        let end = [192, 0, 2, 1].into();
        let template = Template {
            src: end,
            dst: end,
            spi: 0,
            protocol: 50,
            mode: esp::Mode::Tunnel,
            reqid: 1,
            optional: false,
        };
        PolicyConfig {
            index,
            direction: Direction::Out,
            selector: Selector::between(prefix(src), prefix(dst)),
            priority: 1,
            action: Action::Allow,
            templates: vec![template],
            mark: scope.mark,
            if_id: scope.if_id,
        }
    }

    const NONE: Scope = Scope { mark: Mark { value: 0, mask: 0 }, if_id: 0 };
    const MARK: Scope = Scope { mark: Mark { value: 10, mask: u32::MAX }, if_id: 0 };
    const IF_ID: Scope = Scope { if_id: 42, ..NONE };

    #[test]
    fn what_names_a_network_is_blocked_and_what_names_none_is_not() {
        let blocked = |src, dst, scope| must_block(&protect(1, src, dst, scope));
        for scope in [MARK, IF_ID] {
            assert!(blocked("10.1.0.0/16", "10.2.0.0/16", scope));
            assert!(blocked("0.0.0.0/0", "10.2.0.0/16", scope));
            assert!(blocked("10.1.0.0/16", "0.0.0.0/0", scope));
            assert!(!blocked("0.0.0.0/0", "0.0.0.0/0", scope));
            assert!(!blocked("::/0", "::/0", scope));
            let config = protect(1, "10.1.0.0/16", "10.2.0.0/16", scope);
            assert!(!must_block(&PolicyConfig { templates: vec![], ..config.clone() }));
            assert!(must_block(&PolicyConfig { action: Action::Block, ..config }));
        }
        assert!(!blocked("10.1.0.0/16", "10.2.0.0/16", NONE));
    }

    #[test]
    fn whoever_looks_is_told_of_each_kind_and_of_what_has_gone() {
        let mut databases = Databases::<()>::new();
        let mut shortfalls = Shortfalls::default();
        let snapshot = Snapshot::default();
        let mut put = |shortfalls: &mut Shortfalls, config: PolicyConfig| {
            let entry = match must_block(&config) {
                true => databases.put_blocking(config),
                false => databases.put_policy(config),
            };
            shortfalls.follow(entry.config.index, Some(&entry));
        };
        put(&mut shortfalls, protect(1, "10.1.0.0/16", "10.2.0.0/16", NONE));
        assert!(shortfalls.warnings(&snapshot).is_empty());
        for index in 2..7 {
            put(&mut shortfalls, protect(index, "10.1.0.0/16", "10.2.0.0/16", MARK));
        }
        put(&mut shortfalls, protect(7, "0.0.0.0/0", "0.0.0.0/0", IF_ID));
        let mut comp = protect(8, "10.1.0.0/16", "10.3.0.0/16", NONE);
        comp.templates[0].protocol = 108;
        comp.selector.ifindex = 77;
        put(&mut shortfalls, comp);
        let warnings = shortfalls.warnings(&snapshot);
        let [templates, scope, all, gone] = &warnings[..] else { panic!("{warnings:?}") };
        assert!(templates.starts_with("1 policies ask for AH, IPComp or nested"), "{templates}");
        assert!(scope.starts_with("5 policies have a mark"), "{scope}");
        assert!(scope.contains("10.1.0.0/16 to 10.2.0.0/16 mark 0xa/0xffffffff; "), "{scope}");
        assert!(all.contains("any address") && all.contains("if_id 0x2a"), "{all}");
        assert!(gone.contains("interface 77"), "{gone}");
        shortfalls.tell(&snapshot);
        assert!(shortfalls.fresh.is_empty() && shortfalls.missed.contains(&77));
        (2..9).for_each(|index| shortfalls.follow(index, None));
        assert!(shortfalls.warnings(&snapshot).is_empty());
        shortfalls.tell(&snapshot);
        assert!(shortfalls.missed.is_empty());
    }
}
