//! Policies that no packet can reach, that are there twice, or that packets ask for SAs in vain.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use mirror::Prefix;
use report::{Direction, Policy, PolicyAction, PolicyProtocol};

use super::facts::{Facts, Running, Waited};
use super::finding::Finding;

/// All of them.
pub fn check(facts: &Facts) -> Vec<Finding> {
    let Some(Ok(running)) = &facts.instance.daemon else { return Vec::new() };
    let mut findings = hidden(&running.policies, facts.is_beside_kernel());
    findings.extend(waiting(running));
    findings
}

/// Packets of a policy, apart from their addresses.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Kind<'p> {
    direction: &'p Direction,
    mark: Option<&'p str>,
    if_id: u32,
}

/// A policy, with its ends as prefixes and what is asked of ports.
struct Parsed<'p> {
    policy: &'p Policy,
    kind: Kind<'p>,
    ends: [Prefix; 2],
    ports: [Option<&'p str>; 2],
}

impl<'p> Parsed<'p> {
    fn of(policy: &'p Policy) -> Option<Parsed<'p>> {
        let (src, src_port) = end(&policy.src)?;
        let (dst, dst_port) = end(&policy.dst)?;
        let Policy { direction, mark, if_id, .. } = policy;
        let kind = Kind { direction, mark: mark.as_deref(), if_id: *if_id };
        Some(Parsed { policy, kind, ends: [src, dst], ports: [src_port, dst_port] })
    }

    /// True if a policy of the same kind, whose addresses lie inside this one's, has no packet
    /// that this one lacks.
    fn covers(&self, other: &Parsed<'_>) -> bool {
        let (a, b) = (self.policy, other.policy);
        (a.protocol == PolicyProtocol::Any || a.protocol == b.protocol)
            && (a.dev.is_none() || a.dev == b.dev)
            && self.ports.iter().zip(&other.ports).all(|(a, b)| a.is_none() || a == b)
    }
}

/// `10.1.0.0/24 port 80`: the prefix, and what is asked of the port.
fn end(text: &str) -> Option<(Prefix, Option<&str>)> {
    let (prefix, port) = match text.split_once(" port ") {
        Some((prefix, port)) => (prefix, Some(port)),
        None => (text, None),
    };
    let (addr, len) = prefix.split_once('/')?;
    Some((Prefix::of(addr.parse::<IpAddr>().ok()?, len.parse().ok()?), port))
}

/// Policies behind others that take all of their packets. Several that cover one only together are not found.
fn hidden(policies: &[Policy], is_beside_kernel: bool) -> Vec<Finding> {
    let parsed: Vec<Parsed<'_>> = policies.iter().filter_map(Parsed::of).collect();
    let mut by_ends: HashMap<(Kind<'_>, [Prefix; 2]), Vec<&Parsed<'_>>> = HashMap::new();
    // There are few lengths, so each wider pair of prefixes is looked up rather than all policies.
    let mut lengths: BTreeSet<(u8, u8)> = BTreeSet::new();
    for one in &parsed {
        by_ends.entry((one.kind, one.ends)).or_default().push(one);
        lengths.insert((one.ends[0].len, one.ends[1].len));
    }
    let first = |one: &Parsed<'_>| {
        let [src, dst] = one.ends;
        let wider = lengths.iter().filter(|(s, d)| *s <= src.len && *d <= dst.len);
        let keys =
            wider.map(|(s, d)| (one.kind, [Prefix::of(src.addr, *s), Prefix::of(dst.addr, *d)]));
        let all = keys.filter_map(|key| by_ends.get(&key)).flatten();
        all.filter(|other| rank(other.policy) < rank(one.policy) && other.covers(one))
            .map(|other| other.policy)
            .min_by_key(|other| (rank(other), other.index))
    };
    let found = parsed.iter().filter_map(|one| {
        let before = first(one)?;
        // That one is told as a block.
        let is_block = is_beside_kernel && before.action == PolicyAction::Block;
        (!is_block).then(|| finding(before, one.policy))
    });
    found.collect()
}

/// A policy's place: those of devices come first.
fn rank(policy: &Policy) -> (bool, u32) {
    (policy.device.is_none(), policy.priority)
}

fn finding(before: &Policy, policy: &Policy) -> Finding {
    let Policy { index, direction, src, dst, action, .. } = policy;
    let name = format!("policy {index} ({direction} {src} > {dst}, {action})");
    let does_the_same = before.action == *action && before.templates == policy.templates;
    let remove = "swanctl --list-conns shows the children; or: ip xfrm policy delete";
    if does_the_same {
        return Finding::warning(
            "policy",
            format!("{name} is there for packets that policy {} takes already", before.index),
            "it is never asked, and does the same: one of two children, or of two IKE daemons, is too many",
            format!("remove one of them: {remove} dir {direction} index {index}"),
        );
    }
    Finding::warning(
        "policy",
        format!(
            "{name} is never reached: policy {} ({} > {}, {}) comes before it and takes all of its packets",
            before.index, before.src, before.dst, before.action
        ),
        "what it asks for is not done; the other one decides about these packets",
        format!(
            "give the child that is for less the smaller priority in swanctl.conf, or remove one: {remove} dir \
             {direction} index {index}"
        ),
    )
}

/// How long an SA may take to come after the first packet, in seconds. A packet is held for 5.
pub const PATIENCE_S: u64 = 6;

/// Policies that protect and have no SAs; an inbound one needs none of its own.
pub fn without_sas(policies: &[Policy]) -> impl Iterator<Item = &Policy> {
    policies.iter().filter(|p| p.has_sas == Some(false) && p.action == PolicyAction::Protect)
}

/// Policies that had no SAs before, and have none now, while packets have waited for some.
fn waiting(running: &Running) -> Vec<Finding> {
    let Waited { dropped, policies } = &running.waited;
    if *dropped == 0 {
        return Vec::new();
    }
    let still = without_sas(&running.policies).filter(|policy| policies.contains(&policy.index));
    let found = still.map(|policy| {
        let Policy { index, src, dst, templates, .. } = policy;
        Finding::warning(
            "policy",
            format!("policy {index} ({src} > {dst}): no SA has come ({})", templates.join(", ")),
            format!(
                "{dropped} packets have waited for an SA for 5 s in vain while this was looked at: the peer does \
                 not answer, or refuses"
            ),
            "swanctl --initiate --child CHILD says why; culvert events shows which come and go",
        )
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::super::facts::{healthy, healthy_daemon};
    use super::super::finding::Outcome;
    use super::*;

    fn policy(index: u32, priority: u32, src: &str, dst: &str, action: &str) -> Policy {
        let templates = match action {
            "protect" => vec!["tunnel 192.0.2.1 - 192.0.2.2 reqid 1".to_owned()],
            _ => Vec::new(),
        };
        Policy {
            index,
            priority,
            src: src.into(),
            dst: dst.into(),
            action: action.into(),
            direction: "out".into(),
            protocol: "any".into(),
            templates,
            ..Policy::default()
        }
    }

    fn wide() -> Policy {
        policy(8, 100, "10.0.0.0/8", "10.2.0.0/16", "bypass")
    }

    fn narrow() -> Policy {
        policy(16, 200, "10.1.0.0/24", "10.2.3.0/24", "protect")
    }

    /// Findings about the second policy behind the first.
    fn said(first: Policy, second: Policy) -> Vec<Finding> {
        let mut facts = healthy();
        let mut running = healthy_daemon();
        running.policies = vec![second, first];
        facts.instance.daemon = Some(Ok(running));
        check(&facts)
    }

    #[test]
    fn a_policy_that_no_packet_reaches() {
        let found = said(wide(), narrow());
        assert_eq!(found.len(), 1, "{found:#?}");
        assert_eq!(found[0].result, Outcome::Warning);
        let text = format!("{found:?}");
        for words in
            ["policy 16 (out 10.1.0.0/24 > 10.2.3.0/24, protect) is never", "policy 8", "index 16"]
        {
            assert!(text.contains(words), "{words}: {text}");
        }
        let port = |text: &str| text.to_owned() + " port 80";
        let first = Policy { dst: port(&wide().dst), protocol: "tcp".into(), ..wide() };
        let second = Policy { dst: port(&narrow().dst), protocol: "tcp".into(), ..narrow() };
        assert_eq!(said(first, second).len(), 1, "the same port");
        let v6 = |policy| Policy { src: "2001:db8::/32".into(), dst: "::/0".into(), ..policy };
        assert_eq!(said(v6(wide()), v6(narrow())).len(), 1);
    }

    #[test]
    fn one_that_packets_reach() {
        let first: [fn(&mut Policy); 9] = [
            |p| p.priority = 200,
            |p| p.priority = 201,
            |p| p.dst = "10.2.3.0/25".into(),
            |p| p.src = "10.2.0.0/16".into(),
            |p| p.direction = "in".into(),
            |p| p.protocol = "tcp".into(),
            |p| p.dst.push_str(" port 80"),
            |p| p.dev = Some("wan".into()),
            |p| (p.mark, p.if_id) = (Some("0x1/0xff".into()), 7),
        ];
        for (n, change) in first.into_iter().enumerate() {
            let mut first = wide();
            change(&mut first);
            let found = said(first, narrow());
            assert!(found.is_empty(), "{n}: {found:#?}");
        }
        // As strongSwan has them: what is for less comes first.
        assert!(said(narrow(), Policy { priority: 300, ..wide() }).is_empty());
        // One of a device comes first all the same.
        assert!(said(Policy { device: Some("nic0".into()), ..narrow() }, wide()).is_empty());
    }

    #[test]
    fn one_that_is_there_twice() {
        let found = said(Policy { index: 24, priority: 150, ..narrow() }, narrow());
        assert_eq!(found.len(), 1, "{found:#?}");
        assert!(found[0].seen.contains("policy 24 takes already"), "{found:#?}");
        assert!(found[0].next.as_ref().unwrap().ends_with("dir out index 16"), "{found:#?}");
    }

    #[test]
    fn a_block_beside_a_kernel_is_told_elsewhere() {
        let block = Policy { action: "block".into(), ..wide() };
        assert_eq!(hidden(&[block.clone(), narrow()], false).len(), 1);
        assert!(hidden(&[block, narrow()], true).is_empty());
    }

    #[test]
    fn packets_that_ask_in_vain() {
        let asked = Policy { has_sas: Some(false), ..narrow() };
        let count = |policy: Policy| without_sas(&[policy]).count();
        assert_eq!(count(asked.clone()), 1);
        assert_eq!(count(Policy { has_sas: Some(true), ..asked.clone() }), 0);
        assert_eq!(count(Policy { action: "leave".into(), ..asked.clone() }), 0, "the kernel's");

        let mut running = healthy_daemon();
        running.policies = vec![asked];
        assert!(waiting(&running).is_empty(), "a trap that waits for its first packet");
        running.waited = Waited { dropped: 3, policies: vec![16] };
        let found = waiting(&running);
        assert_eq!(found.len(), 1);
        let text = format!("{found:?}");
        assert!(text.contains("policy 16") && text.contains("3 packets have waited"), "{text}");
        running.waited.policies = vec![17];
        assert!(waiting(&running).is_empty(), "it has only just come");
        running.waited.policies = vec![16];
        running.policies[0].has_sas = Some(true);
        assert!(waiting(&running).is_empty(), "the SA has come");
    }
}
