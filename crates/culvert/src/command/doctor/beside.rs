//! Checks of culvert beside a kernel that owns SAs and policies (`source = "kernel"`).

use std::collections::BTreeMap;

use super::facts::{Facts, KernelEsp};
use super::finding::Finding;
use crate::config::{Firewall, SourceChoice};
use crate::report::{Policy, Sa};

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
        findings.extend(sas(facts, &running.sas));
        findings.extend(policies(&running.policies));
    }
    findings
}

/// Who owns SAs and policies, now or after a start.
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

/// What the kernel needs, as it carries on with whatever is not taken.
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

/// What the guard of a daemon with SAs of its own has left.
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

/// SAs that the kernel has, by reason, and those that anybody can replay packets of.
fn sas(facts: &Facts, sas: &[Sa]) -> Vec<Finding> {
    let check = "beside";
    let name = &facts.instance.name;
    let mut left: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for sa in sas.iter().filter(|sa| sa.placement == "kernel") {
        left.entry(sa.why.as_deref().unwrap_or_default()).or_default().push(&sa.spi);
    }
    let count: usize = left.values().map(Vec::len).sum();
    let mut findings: Vec<Finding> = left
        .iter()
        .map(|(why, spis)| {
            let seen = format!("{} in the kernel: {why}", several(spis, "SA", "SAs"));
            Finding::warning(check, seen, "they work, at the kernel's speed", mend(why))
        })
        .collect();
    if findings.is_empty() {
        findings.push(Finding::ok(check, format!("all {} SAs are in the fast path", sas.len())));
    } else {
        let seen = format!("{} of {} SAs are in the fast path", sas.len() - count, sas.len());
        findings.insert(0, Finding::ok(check, seen));
    }
    let open = sas.iter().filter(|sa| sa.replay_window == 0 && sa.received_seq > 0);
    let open: Vec<&str> = open.map(|sa| sa.spi.as_str()).collect();
    if !open.is_empty() {
        findings.push(Finding::warning(
            check,
            format!("{} replay window 0", several(&open, "SA with", "SAs with")),
            "whoever records packets can send them again, and they are taken",
            format!(
                "set replay_window = 32 or more for the child in swanctl.conf, then rekey it; \
                 culvert sa --name {name}"
            ),
        ));
    }
    findings
}

/// Policies that Linux carries out.
fn policies(policies: &[Policy]) -> Option<Finding> {
    let left = policies.iter().filter(|policy| policy.action == "leave");
    let left: Vec<String> =
        left.map(|p| format!("{} ({} {} > {})", p.index, p.direction, p.src, p.dst)).collect();
    let left: Vec<&str> = left.iter().map(String::as_str).collect();
    (!left.is_empty()).then(|| {
        Finding::warning(
            "beside",
            format!("{} left to Linux", several(&left, "policy", "policies")),
            "an SA of theirs stays with the kernel or is not there yet, or they have a mark or an if_id that is not taken",
            "see the SAs above; where there is none: swanctl --initiate --child CHILD",
        )
    })
}

/// How many there are, and the first of them.
fn several(names: &[&str], one: &str, many: &str) -> String {
    let word = if names.len() == 1 { one } else { many };
    let shown = names.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ");
    let more = if names.len() > SHOWN { ", …" } else { "" };
    format!("{} {word} ({shown}{more})", names.len())
}

/// Most of a kind that a finding names.
const SHOWN: usize = 4;

/// What has an SA taken, by the reason why it is not.
fn mend(why: &str) -> &'static str {
    const MENDS: [(&str, &str); 16] = [
        ("firewall = \"bypass\"", "remove the chain, or set firewall = \"bypass\" in [kernel]"),
        ("allow_weak", "propose AES-GCM; or set crypto.allow_weak = true"),
        ("offload", "set hw_offload = no for the child in swanctl.conf, and rekey it"),
        (
            "sets a mark",
            "leave set_mark_in and set_mark_out of the child in swanctl.conf, and rekey it",
        ),
        ("is down", "ip link set NAME up"),
        ("VRF", "ip link set NAME nomaster"),
        (
            "no XFRM interface here",
            "ip link add NAME type xfrm dev DEV if_id ID; culvert sa shows the id",
        ),
        (
            "another outbound policy",
            "culvert policy; swanctl --initiate --child CHILD where one has no SA",
        ),
        ("mark", "leave mark_in and mark_out of the child in swanctl.conf, and rekey it"),
        ("optional", "set ipcomp = no for the child; for ip xfrm: level required"),
        ("no policy asks", "ip xfrm policy; a policy's template has to name it"),
        ("has no SA", "swanctl --initiate --child CHILD"),
        ("address of this host", "ip address; the SA's ends have to be here and elsewhere"),
        ("encrypts by it, too", "nothing: it is tried again within 30 s"),
        (
            "tunnel and transport mode",
            "set mode = tunnel for the child in swanctl.conf, and rekey it",
        ),
        ("culvert stops", "nothing: culvert ends"),
    ];
    let found = MENDS.iter().find(|(words, _)| why.contains(words));
    found.map_or("culvert sa shows it; docs/beside-the-kernel.md, Not taken", |(_, mend)| mend)
}

#[cfg(test)]
mod tests {
    use super::super::facts::{Running, healthy, healthy_daemon, sa};
    use super::super::finding::Outcome::{Ok as Fine, Problem, Warning};
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
            (|f| _ = running(f), "beside", Fine, &["all 2 SAs are in the fast path"]),
            (
                |f| running(f).sas.push(sa(Some("a device has it (offload)"))),
                "beside",
                Warning,
                &["1 SA (0x00001000) in the kernel: a device has it", "hw_offload = no"],
            ),
            (
                |f| {
                    let why = "no XFRM interface here has its if_id";
                    running(f).sas.push(sa(Some(why)));
                    running(f).sas.push(sa(Some(why)));
                },
                "beside",
                Warning,
                &["no XFRM interface here has its if_id", "ip link add NAME type xfrm"],
            ),
            (
                |f| running(f).sas.push(sa(Some("it has an if_id, and sets a mark"))),
                "beside",
                Warning,
                &["set_mark_in"],
            ),
            (
                |f| running(f).sas.push(sa(Some("something else"))),
                "beside",
                Warning,
                &["something else", "culvert sa"],
            ),
            (
                |f| {
                    let sa = &mut running(f).sas[0];
                    (sa.replay_window, sa.received_seq) = (0, 7);
                },
                "beside",
                Warning,
                &["replay window 0", "replay_window = 32"],
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
    fn many_are_counted() {
        let names = ["1", "2", "3", "4", "5"];
        assert_eq!(several(&names, "SA", "SAs"), "5 SAs (1, 2, 3, 4, …)");
    }
}
