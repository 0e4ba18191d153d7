//! Checks of culvert beside a kernel that owns SAs and policies (`source = "kernel"`).

use config::{Firewall, SourceChoice};
use report::{Direction, Policy, PolicyAction, Sa, SaProtocol};

use super::facts::{Facts, KernelEsp};
use super::finding::Finding;
use super::taken;

/// All of them.
pub fn check(facts: &Facts) -> Vec<Finding> {
    let mut findings = vec![source(facts)];
    if !facts.is_beside_kernel() {
        return findings;
    }
    findings.extend(features(facts));
    findings.push(firewall(facts));
    findings.extend(barriers(facts));
    if let Some(Ok(running)) = &facts.instance.daemon {
        findings.extend(weak(&running.sas));
        findings.extend(without_window(&facts.instance.name, &running.sas));
        findings.extend(blocks(facts, &running.policies));
        findings.extend(taken::check(&running.sas, &running.policies));
    }
    findings
}

/// Owner of SAs and policies, now or after a start.
fn source(facts: &Facts) -> Finding {
    let check = "source";
    let choice = facts.config().map(|config| config.source).unwrap_or_default();
    if let Some(Ok(running)) = &facts.instance.daemon {
        return Finding::ok(check, format!("{} (the running daemon's)", running.status.source));
    }
    let count = facts.machine.kernel_sas.as_ref().copied().unwrap_or_default();
    match (choice, facts.instance.saved) {
        (SourceChoice::Builtin, _) => Finding::ok(check, "builtin, by configuration"),
        (SourceChoice::Kernel, true) => Finding::problem(
            check,
            "kernel, by configuration, and a daemon with source = \"builtin\" has kept SAs or policies",
            "they would be forgotten, so the daemon does not start",
            "start it once with source = \"builtin\", and end the IKE daemon before it; or set that",
        ),
        (SourceChoice::Kernel, false) => Finding::ok(check, "kernel, by configuration"),
        (SourceChoice::Auto, true) => {
            Finding::ok(check, "builtin: a daemon has kept SAs or policies")
        }
        (SourceChoice::Auto, false) if count > 0 => {
            Finding::ok(check, format!("kernel: it has {count} SAs"))
        }
        (SourceChoice::Auto, false) => Finding::ok(check, "builtin: the kernel has no SAs"),
    }
}

/// Features that the kernel needs, as it carries on with all that is not taken.
fn features(facts: &Facts) -> Option<Finding> {
    (facts.machine.kernel_esp == KernelEsp::Absent).then(|| {
        Finding::problem(
            "kernel-esp",
            "the kernel has no ESP",
            "it owns the SAs, and carries on with all that culvert does not take",
            "a kernel with CONFIG_INET_ESP and CONFIG_INET6_ESP; or source = \"builtin\"",
        )
    })
}

fn firewall(facts: &Facts) -> Finding {
    let check = "firewall";
    let setting = facts.config().map(|config| config.kernel.firewall).unwrap_or_default();
    match (setting, &facts.network.firewalls[..]) {
        (_, []) => Finding::ok(check, "none that packets between two interfaces would meet"),
        (Firewall::Bypass, firewalls) => Finding::warning(
            check,
            firewalls.join("\n"),
            "firewall = \"bypass\" in [kernel]: what goes through tunnels from port to port passes it by",
            "leave firewall out of [kernel], or remove the rules",
        ),
        (Firewall::Respect, firewalls) => Finding::warning(
            check,
            firewalls.join("\n"),
            "the kernel keeps the SAs of that family, so that the firewall sees every packet",
            "nft list ruleset; remove the chain, or set firewall = \"bypass\" in [kernel]",
        ),
    }
}

/// Barriers that are left of a daemon with SAs of its own.
fn barriers(facts: &Facts) -> Option<Finding> {
    let standing = facts.instance.guard.as_ref().ok()?;
    let count = standing.of_policies + standing.of_prefixes;
    let name = &facts.instance.name;
    (count > 0 && facts.instance.daemon.is_some()).then(|| {
        Finding::problem(
            "guard",
            format!("{count} barriers of an earlier run stand in the kernel"),
            "they block what the kernel's policies protect",
            format!("culvert guard clear --name {name}"),
        )
    })
}

/// SAs with broken algorithms, of either owner.
fn weak(sas: &[Sa]) -> Option<Finding> {
    let weak = sas.iter().filter(|sa| !sa.weak.is_empty());
    let weak: Vec<String> =
        weak.map(|sa| format!("{} {}", sa.spi, sa.weak.join(" and "))).collect();
    (!weak.is_empty()).then(|| {
        Finding::warning(
            "algorithms",
            format!("{} weak algorithms: {}", several(weak.len(), "SA with", "SAs with"), shown(&weak)),
            "who records packets may read them, or make some up",
            "set esp_proposals = aes128gcm16 for the child in swanctl.conf, at both ends, then rekey it",
        )
    })
}

/// Inbound SAs that anybody can replay packets of.
fn without_window(name: &str, sas: &[Sa]) -> Option<Finding> {
    let is_inbound = |sa: &&Sa| sa.direction == Some(Direction::In);
    let is_checked = |sa: &&Sa| matches!(sa.protocol, SaProtocol::Esp | SaProtocol::Ah);
    let open = sas.iter().filter(is_checked).filter(is_inbound).filter(|sa| sa.replay_window == 0);
    let open: Vec<String> = open.map(|sa| sa.spi.clone()).collect();
    (!open.is_empty()).then(|| {
        Finding::warning(
            "replay",
            format!(
                "{} replay window 0: {}",
                several(open.len(), "SA with", "SAs with"),
                shown(&open)
            ),
            "an attacker who records packets can send them again, and they are taken",
            format!(
                "set replay_window = 32 or more for the child in swanctl.conf, then rekey it; \
                 culvert sa --name {name}"
            ),
        )
    })
}

/// Policies that block, and that nobody may want any more: what an IKE daemon has left that ended without order.
fn blocks(facts: &Facts, policies: &[Policy]) -> Vec<Finding> {
    let is_ike_there = !facts.programs.running.is_empty();
    let blocks = policies.iter().filter(|policy| policy.action == PolicyAction::Block);
    let found = blocks.filter_map(|policy| {
        let hidden = policies.iter().find(|other| is_hidden(other, policy));
        let why = match hidden {
            Some(other) => format!(
                "policy {} would protect the same packets, and comes after it: they are dropped",
                other.index
            ),
            None if is_ike_there => return None,
            None => {
                "no IKE daemon runs here that could want it, and the packets are dropped".into()
            }
        };
        let Policy { index, direction, src, dst, .. } = policy;
        Some(Finding::warning(
            "block",
            format!("policy {index} blocks {direction} {src} > {dst}"),
            why,
            format!("if nobody wants it: ip xfrm policy delete dir {direction} index {index}"),
        ))
    });
    found.collect()
}

/// True if a policy that protects never gets a packet because of another one of its selector.
fn is_hidden(policy: &Policy, block: &Policy) -> bool {
    let asks = matches!(policy.action, PolicyAction::Protect | PolicyAction::Leave);
    let selector = |p: &Policy| {
        (p.direction.clone(), p.src.clone(), p.dst.clone(), p.protocol.clone(), p.dev.clone())
    };
    let scope = |p: &Policy| (p.mark.clone(), p.if_id);
    asks && policy.priority >= block.priority
        && selector(policy) == selector(block)
        && scope(policy) == scope(block)
}

fn several(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// The first of them.
fn shown(names: &[String]) -> String {
    let more = if names.len() > SHOWN { ", …" } else { "" };
    format!("{}{more}", names.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", "))
}

/// Most of a kind that a finding names.
const SHOWN: usize = 4;

#[cfg(test)]
mod tests {
    use super::super::facts::{Running, healthy, healthy_daemon, sa};
    use super::super::finding::Outcome::{Ok as Fine, Problem, Warning};
    use super::super::processes::IkeProcess;
    use super::super::rows::{Row, assert_rows};
    use super::*;

    fn set_source(facts: &mut Facts, source: SourceChoice) {
        facts.configuration.loaded.as_mut().unwrap().source = source;
    }

    fn kernel(facts: &mut Facts) {
        set_source(facts, SourceChoice::Kernel);
        facts.machine.kernel_esp = KernelEsp::Present;
    }

    fn running(facts: &mut Facts) -> &mut Running {
        kernel(facts);
        let mut running = healthy_daemon();
        running.status.source = "kernel".into();
        running.sas = vec![sa(None), sa(None)];
        facts.instance.daemon = Some(Ok(running));
        facts.instance.daemon.as_mut().unwrap().as_mut().unwrap()
    }

    fn policy(index: u32, action: &str, priority: u32) -> Policy {
        let (src, dst) = ("10.1.0.0/24".into(), "10.2.0.0/24".into());
        let (direction, action) = ("out".into(), action.into());
        Policy { index, direction, src, dst, action, priority, ..Policy::default() }
    }

    fn charon() -> IkeProcess {
        IkeProcess { name: "charon".into(), pid: 7, socket: None, unit: None }
    }

    #[test]
    fn every_finding() {
        let rows: &[Row] = &[
            (|_| {}, "source", Fine, &["builtin: the kernel has no SAs"]),
            (|f| set_source(f, SourceChoice::Builtin), "source", Fine, &["by configuration"]),
            (|f| f.instance.saved = true, "source", Fine, &["builtin", "kept"]),
            (
                |f| {
                    kernel(f);
                    set_source(f, SourceChoice::Auto);
                    f.machine.kernel_sas = Ok(2);
                },
                "source",
                Fine,
                &["kernel: it has 2 SAs"],
            ),
            (
                |f| {
                    kernel(f);
                    f.instance.saved = true;
                },
                "source",
                Problem,
                &["does not start"],
            ),
            (|f| set_source(f, SourceChoice::Kernel), "kernel-esp", Problem, &["CONFIG_INET_ESP"]),
            (
                |f| {
                    kernel(f);
                    f.network.firewalls = vec!["nftables has chain inet filter forward".into()];
                },
                "firewall",
                Warning,
                &["inet filter forward", "bypass", "keeps the SAs"],
            ),
            (
                |f| {
                    kernel(f);
                    f.network.firewalls = vec!["nftables has chain inet filter forward".into()];
                    f.configuration.loaded.as_mut().unwrap().kernel.firewall = Firewall::Bypass;
                },
                "firewall",
                Warning,
                &["passes it by"],
            ),
            (
                |f| running(f).sas[0].weak = vec!["3DES".into(), "MD5".into()],
                "algorithms",
                Warning,
                &["1 SA with weak algorithms: 0x00001000 3DES and MD5", "aes128gcm16"],
            ),
            (
                |f| running(f).sas[0].replay_window = 0,
                "replay",
                Warning,
                &["1 SA with replay window 0: 0x00001000", "replay_window = 32"],
            ),
            (
                |f| running(f).policies = vec![policy(8, "block", 9)],
                "block",
                Warning,
                &["policy 8 blocks out", "no IKE daemon", "ip xfrm policy delete dir out index 8"],
            ),
            (
                |f| {
                    running(f).policies = vec![policy(8, "block", 9), policy(16, "protect", 9)];
                    f.programs.running = vec![charon()];
                },
                "block",
                Warning,
                &["policy 16 would protect the same packets", "index 8"],
            ),
            (
                |f| {
                    let _ = running(f);
                    f.instance.guard.as_mut().unwrap().of_policies = 3;
                },
                "guard",
                Problem,
                &["3 barriers", "culvert guard clear --name gwa"],
            ),
        ];
        assert_rows(check, rows);
        assert_eq!(healthy().network.firewalls.len(), 0);
    }

    #[test]
    fn what_is_as_it_should_be_is_no_finding() {
        let mut facts = healthy();
        let running = running(&mut facts);
        // An outbound SA needs no window, and one that is of an IKE daemon blocks in order.
        running.sas[0].direction = Some("out".into());
        running.sas[0].replay_window = 0;
        running.policies = vec![policy(8, "block", 9), policy(16, "protect", 5)];
        facts.programs.running = vec![charon()];
        let found = check(&facts);
        let checks: Vec<&str> = found.iter().map(|f| f.check.as_str()).collect();
        for check in ["algorithms", "replay", "block"] {
            assert!(!checks.contains(&check), "{found:#?}");
        }
    }

    #[test]
    fn many_are_counted() {
        let names = ["1", "2", "3", "4", "5"].map(String::from);
        assert_eq!(several(5, "SA", "SAs"), "5 SAs");
        assert_eq!(shown(&names), "1, 2, 3, 4, …");
        assert_eq!(shown(&names[..2]), "1, 2");
    }
}
