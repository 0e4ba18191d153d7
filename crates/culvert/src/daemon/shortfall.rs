//! What policies ask for that is not carried out: what becomes of it, and who is told.
//!
//! | the policy | then |
//! | --- | --- |
//! | has a template that culvert does not know | its traffic is blocked by the policy database itself |
//! | names an interface that is gone | it matches nothing |
//! | has an `if_id` that no tunnel interface has | it matches nothing: no packet belongs to that interface |

use std::collections::{BTreeMap, BTreeSet};

use mirror::Snapshot;
use policy::{Direction, Mark, PolicyEntry, Scope};
use tracing::warn;

/// What becomes of policies whose templates are not known, said of several.
const FATE: &str = "ask for IPComp or too many SAs: their traffic is blocked";

/// What whoever configured them can do.
const REMEDY: &str = "set ipcomp = no in swanctl.conf";

/// The policies that are not carried out, and the interfaces that policies name.
#[derive(Default)]
pub struct Shortfalls {
    /// Those whose templates are not known: what each is, for people.
    noted: BTreeMap<u32, String>,
    /// Not in the log yet, by index.
    fresh: BTreeSet<u32>,
    /// Policies that name an interface, by its index.
    naming: BTreeMap<u32, BTreeSet<u32>>,
    /// Interfaces whose absence is in the log.
    missed: BTreeSet<u32>,
    /// Policies that have an `if_id`, by that.
    tunnelled: BTreeMap<u32, BTreeSet<u32>>,
    /// Ids for which the log has been told that no interface has them.
    unheard: BTreeSet<u32>,
}

impl Shortfalls {
    /// Follows a policy that was added, removed or replaced.
    pub fn follow(&mut self, index: u32, policy: Option<&PolicyEntry>) {
        if self.noted.remove(&index).is_some() {
            self.fresh.remove(&index);
        }
        for by in [&mut self.naming, &mut self.tunnelled] {
            by.retain(|_, policies| {
                policies.remove(&index);
                !policies.is_empty()
            });
        }
        let Some(policy) = policy else { return };
        if policy.is_unsupported() {
            self.noted.insert(index, name(policy));
            self.fresh.insert(index);
        }
        if policy.config.if_id != 0 {
            self.tunnelled.entry(policy.config.if_id).or_default().insert(index);
        }
        let ifindex = policy.config.selector.ifindex;
        if ifindex != 0 {
            self.naming.entry(ifindex).or_default().insert(index);
        }
    }

    /// Tells the log what it has not been told; `has_tunnel` says whether a tunnel interface has an
    /// `if_id`.
    pub fn tell(&mut self, snapshot: &Snapshot, has_tunnel: impl Fn(u32) -> bool) {
        let fresh = std::mem::take(&mut self.fresh);
        let (said, rest) = (fresh.iter().take(AT_ONCE), fresh.len().saturating_sub(AT_ONCE));
        for name in said.filter_map(|index| self.noted.get(index)) {
            warn!("policies such as {name} {FATE}; {REMEDY}");
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
        for (if_id, policies) in &self.tunnelled {
            if has_tunnel(*if_id) {
                self.unheard.remove(if_id);
            } else if self.unheard.insert(*if_id) {
                warn!("{}", without_tunnel(*if_id, policies.len()));
            }
        }
        self.unheard.retain(|if_id| self.tunnelled.contains_key(if_id));
    }

    /// What `culvert status` has to say; `has_tunnel` as for [`Shortfalls::tell`].
    pub fn warnings(&self, snapshot: &Snapshot, has_tunnel: impl Fn(u32) -> bool) -> Vec<String> {
        let count = self.noted.len();
        let unknown = (count > 0).then(|| {
            let some = self.noted.values().take(NAMED).map(String::as_str);
            let some = some.collect::<Vec<_>>().join("; ");
            let more = if count > NAMED { "; ..." } else { "" };
            format!("{count} policies {FATE} ({some}{more})")
        });
        let gone = self.naming.iter().filter(|(ifindex, _)| snapshot.link(**ifindex).is_none());
        let gone = gone.map(|(ifindex, policies)| absent(*ifindex, policies.len()));
        let alone = self.tunnelled.iter().filter(|(if_id, _)| !has_tunnel(**if_id));
        let alone = alone.map(|(if_id, policies)| without_tunnel(*if_id, policies.len()));
        unknown.into_iter().chain(gone).chain(alone).collect()
    }
}

fn without_tunnel(if_id: u32, policies: usize) -> String {
    format!(
        "{policies} policies have if_id {if_id:#x}, and no tunnel interface has it: they match \
         nothing; add a [[tunnel]] with if_id = {if_id} to culvert's configuration"
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
    use policy::{Action, Databases, PolicyConfig, Prefix, Selector, Template};

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
        let [templates, gone, alone] = &warnings[..] else { panic!("{warnings:?}") };
        assert!(templates.starts_with("5 policies ask for IPComp or too many SAs"), "{templates}");
        assert!(templates.contains("10.1.0.0/16 to 10.3.0.0/16; "), "{templates}");
        assert!(gone.contains("5 policies name interface 77"), "{gone}");
        assert!(alone.contains("if_id 0x2a") && alone.contains("if_id = 42"), "{alone}");
        assert_eq!(shortfalls.warnings(&snapshot, yes).len(), 2);
        shortfalls.tell(&snapshot, no);
        assert!(shortfalls.fresh.is_empty() && shortfalls.missed.contains(&77));
        assert!(shortfalls.unheard.contains(&42));
        (2..8).for_each(|index| shortfalls.follow(index, None));
        assert!(shortfalls.warnings(&snapshot, no).is_empty());
        shortfalls.tell(&snapshot, no);
        assert!(shortfalls.missed.is_empty() && shortfalls.unheard.is_empty());
    }
}
