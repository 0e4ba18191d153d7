//! Wishes of policies that are not carried out: what becomes of their packets, and who is told.
//!
//! | the policy | then |
//! | --- | --- |
//! | has a template that culvert does not know | its traffic is blocked by the policy database itself |
//! | names an interface that is gone | it matches nothing |
//! | has an `if_id` that no tunnel interface has | it matches nothing: no packet belongs to that interface |

use std::collections::{BTreeMap, BTreeSet, HashMap};

use mirror::Snapshot;
use policy::{Mark, PolicyEntry, Scope};
use report::{Warning, WarningKind};
use tracing::warn;

use crate::texts::direction_text;

/// Fate of policies whose templates are not known, said of several.
const FATE: &str = "ask for IPComp alone or too many SAs: their traffic is blocked";

/// Remedy for the operator who configured them.
const REMEDY: &str = "IPComp is for what ESP or AH protects, by three SAs at most in all";

/// The policies that are not carried out, and the interfaces that policies name.
#[derive(Default)]
pub struct Shortfalls {
    /// Policies whose templates are not known, each as a text for people.
    noted: BTreeMap<u32, String>,
    /// Not in the log yet, by index.
    fresh: BTreeSet<u32>,
    /// Policies that name an interface, by its index.
    naming: References,
    /// Policies that have an `if_id`.
    tunnelled: References,
}

impl Shortfalls {
    /// Follows a policy that was added, removed or replaced.
    pub fn follow(&mut self, index: u32, policy: Option<&PolicyEntry>) {
        if self.noted.remove(&index).is_some() {
            self.fresh.remove(&index);
        }
        let named = |id: u32| Some(id).filter(|id| *id != 0);
        self.naming.follow(index, policy.and_then(|p| named(p.config.selector.ifindex)));
        self.tunnelled.follow(index, policy.and_then(|p| named(p.config.if_id)));
        if let Some(policy) = policy.filter(|policy| policy.is_unsupported()) {
            self.noted.insert(index, name(policy));
            self.fresh.insert(index);
        }
    }

    /// Tells the log what it has not been told. `has_tunnel` says whether a tunnel interface has an
    /// `if_id`, and `are_links_new` whether interfaces may have come or gone since the last call.
    pub fn tell(
        &mut self,
        snapshot: &Snapshot,
        has_tunnel: impl Fn(u32) -> bool,
        are_links_new: bool,
    ) {
        let fresh = std::mem::take(&mut self.fresh);
        let (said, rest) = (fresh.iter().take(AT_ONCE), fresh.len().saturating_sub(AT_ONCE));
        for name in said.filter_map(|index| self.noted.get(index)) {
            warn!("policies such as {name} {FATE}; {REMEDY}");
        }
        if rest > 0 {
            warn!("{rest} more policies are not carried out: culvert policy shows which");
        }
        let has_link = |ifindex| snapshot.link(ifindex).is_some();
        for (ifindex, policies) in self.naming.take_untold(has_link, are_links_new) {
            warn!("{}", absent(ifindex, policies));
        }
        for (if_id, policies) in self.tunnelled.take_untold(has_tunnel, are_links_new) {
            warn!("{}", without_tunnel(if_id, policies));
        }
    }

    /// Warnings for `culvert status`; `has_tunnel` as for [`Shortfalls::tell`].
    pub fn warnings(&self, snapshot: &Snapshot, has_tunnel: impl Fn(u32) -> bool) -> Vec<Warning> {
        let count = self.noted.len();
        let unknown = (count > 0).then(|| {
            let some = self.noted.values().take(NAMED).map(String::as_str);
            let some = some.collect::<Vec<_>>().join("; ");
            let more = if count > NAMED { "; ..." } else { "" };
            let text = format!("{count} policies {FATE} ({some}{more})");
            Warning::new(WarningKind::UnsupportedPolicies, text)
        });
        let gone = self.naming.missing(|ifindex| snapshot.link(ifindex).is_some());
        let gone = gone.map(|(ifindex, policies)| {
            Warning::new(WarningKind::InterfaceGone, absent(ifindex, policies))
        });
        let alone = self.tunnelled.missing(has_tunnel);
        let alone = alone.map(|(if_id, policies)| {
            Warning::new(WarningKind::NoTunnelInterface, without_tunnel(if_id, policies))
        });
        unknown.into_iter().chain(gone).chain(alone).collect()
    }
}

/// Numbers that policies refer to, and those among them that the log has called missing. A change
/// of a policy costs the same for any number of policies.
#[derive(Default)]
struct References {
    /// Number that each policy refers to, by the policy's index.
    of: HashMap<u32, u32>,
    /// How many policies refer to each.
    counts: BTreeMap<u32, usize>,
    /// Missing, and in the log.
    told: BTreeSet<u32>,
    /// Referred to since the log was last told.
    fresh: BTreeSet<u32>,
}

impl References {
    fn follow(&mut self, policy: u32, to: Option<u32>) {
        if let Some(old) = self.of.remove(&policy)
            && let Some(count) = self.counts.get_mut(&old)
        {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&old);
                self.told.remove(&old);
                self.fresh.remove(&old);
            }
        }
        if let Some(to) = to {
            self.of.insert(policy, to);
            *self.counts.entry(to).or_default() += 1;
            self.fresh.insert(to);
        }
    }

    /// Numbers that are missing, with the policies that refer to each.
    fn missing(&self, exists: impl Fn(u32) -> bool) -> impl Iterator<Item = (u32, usize)> {
        self.counts.iter().filter(move |(to, _)| !exists(**to)).map(|(to, count)| (*to, *count))
    }

    /// The same, of what the log has not been told.
    fn take_untold(&mut self, exists: impl Fn(u32) -> bool, is_all_new: bool) -> Vec<(u32, usize)> {
        let fresh = std::mem::take(&mut self.fresh);
        let all = self.counts.keys().filter(|_| is_all_new);
        let mut untold = Vec::new();
        for to in all.chain(fresh.iter().filter(|_| !is_all_new)) {
            if exists(*to) {
                self.told.remove(to);
            } else if self.told.insert(*to) {
                untold.push((*to, self.counts.get(to).copied().unwrap_or_default()));
            }
        }
        untold
    }
}

fn without_tunnel(if_id: u32, policies: usize) -> String {
    format!(
        "{policies} policies have if_id {if_id:#x}, and no tunnel interface has it: they match \
         nothing; add a [[tunnel]] with if_id = {if_id:#x} to culvert's configuration"
    )
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
    let dir = direction_text(policy.config.direction);
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
    use policy::{
        Action, Databases, Direction, PolicyConfig, PolicyFlags, Prefix, Selector, Template,
    };

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
            flags: PolicyFlags::default(),
            templates: vec![template],
            mark: scope.mark,
            if_id: scope.if_id,
        }
    }

    const NONE: Scope = Scope { mark: Mark { value: 0, mask: 0 }, if_id: 0 };
    const IF_ID: Scope = Scope { if_id: 42, ..NONE };

    #[test]
    fn whoever_looks_is_told_of_each_kind_and_of_what_has_gone() {
        let mut databases = Databases::<()>::new();
        let mut shortfalls = Shortfalls::default();
        let snapshot = Snapshot::default();
        let mut put = |shortfalls: &mut Shortfalls, config: PolicyConfig| {
            let entry = databases.put_policy(config);
            shortfalls.follow(entry.config.index, Some(&entry));
        };
        let (no, yes) = (|_| false, |if_id| if_id == 42);
        put(&mut shortfalls, protect(1, "10.1.0.0/16", "10.2.0.0/16", NONE));
        assert!(shortfalls.warnings(&snapshot, no).is_empty());
        put(&mut shortfalls, protect(7, "0.0.0.0/0", "0.0.0.0/0", IF_ID));
        for index in 2..7 {
            let mut unknown = protect(index, "10.1.0.0/16", "10.3.0.0/16", NONE);
            unknown.templates[0].protocol = 43;
            unknown.selector.ifindex = 77;
            put(&mut shortfalls, unknown);
        }
        let warnings = shortfalls.warnings(&snapshot, no);
        let kinds: Vec<_> = warnings.iter().map(|warning| warning.kind.clone()).collect();
        use WarningKind::{InterfaceGone, NoTunnelInterface, UnsupportedPolicies};
        assert_eq!(kinds, [UnsupportedPolicies, InterfaceGone, NoTunnelInterface]);
        let texts: Vec<_> = warnings.into_iter().map(|warning| warning.text).collect();
        let [templates, gone, alone] = &texts[..] else { panic!("{texts:?}") };
        assert!(
            templates.starts_with("5 policies ask for IPComp alone or too many SAs"),
            "{templates}"
        );
        assert!(templates.contains("10.1.0.0/16 to 10.3.0.0/16; "), "{templates}");
        assert!(gone.contains("5 policies name interface 77"), "{gone}");
        assert!(alone.contains("if_id 0x2a") && alone.contains("if_id = 0x2a"), "{alone}");
        assert_eq!(shortfalls.warnings(&snapshot, yes).len(), 2);
        shortfalls.tell(&snapshot, no, false);
        let told = |shortfalls: &Shortfalls| {
            [&shortfalls.naming, &shortfalls.tunnelled].map(|references| references.told.clone())
        };
        assert!(shortfalls.fresh.is_empty());
        assert_eq!(told(&shortfalls), [[77].into(), [42].into()]);
        shortfalls.tell(&snapshot, yes, false);
        assert_eq!(told(&shortfalls), [[77].into(), [42].into()], "nothing has changed");
        shortfalls.tell(&snapshot, yes, true);
        assert_eq!(told(&shortfalls), [[77].into(), [].into()]);
        shortfalls.tell(&snapshot, no, true);
        assert_eq!(told(&shortfalls), [[77].into(), [42].into()]);
        (2..8).for_each(|index| shortfalls.follow(index, None));
        assert!(shortfalls.warnings(&snapshot, no).is_empty());
        assert_eq!(told(&shortfalls), [[].into(), [].into()]);
    }
}
