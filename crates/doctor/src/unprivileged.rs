//! Checks that a daemon without ports does not need (`culvert run --unprivileged`).

use super::facts::Facts;
use super::finding::{Finding, Outcome};

/// The checks whose findings are of no matter there, and what they are about.
const SPARED: [(&str, &str); 2] =
    [("af-xdp", "AF_XDP is not needed"), ("bpf", "BPF is not needed")];

/// Fault of a file without a port.
const NO_PORT: &str = "names no port";

/// The findings as they are for such a daemon.
pub fn judge(findings: Vec<Finding>, facts: &Facts) -> Vec<Finding> {
    findings.into_iter().map(|finding| one(finding, facts)).collect()
}

fn one(finding: Finding, facts: &Facts) -> Finding {
    if finding.result == Outcome::Ok {
        return finding;
    }
    if let Some((check, text)) = SPARED.iter().find(|(check, _)| *check == finding.check) {
        return Finding::ok(*check, format!("{text}: --unprivileged"));
    }
    match finding.check.as_str() {
        "config" if finding.seen.contains(NO_PORT) => {
            Finding::ok("config", "valid; ESP in UDP comes by the IKE daemon's socket: encap = yes")
        }
        "privileges" => privileges(finding, facts),
        _ => finding,
    }
}

/// CAP_NET_ADMIN is all that matters.
fn privileges(finding: Finding, facts: &Facts) -> Finding {
    let machine = &facts.machine;
    match machine.root && !machine.missing_capabilities.contains(&"CAP_NET_ADMIN") {
        true => Finding::ok("privileges", "CAP_NET_ADMIN, all that --unprivileged needs"),
        false => finding,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examine;
    use crate::facts::{Cause, Failed, healthy, healthy_daemon};

    #[test]
    fn bpf_and_its_capabilities_are_not_missed() {
        let mut facts = healthy();
        facts.machine.missing_capabilities = vec!["CAP_NET_RAW", "CAP_BPF", "CAP_PERFMON"];
        let failed = || Err(Failed { text: "EPERM".into(), cause: Cause::Other });
        (facts.machine.bpf, facts.machine.af_xdp) = (failed(), failed());
        let bad = |facts: &Facts| {
            let findings = examine(facts).into_iter().filter(|f| f.result != Outcome::Ok);
            findings.map(|f| f.check).collect::<Vec<_>>()
        };
        assert_eq!(bad(&facts), ["privileges", "af-xdp", "bpf"]);
        facts.is_unprivileged = true;
        assert!(bad(&facts).is_empty(), "{:?}", bad(&facts));
        facts.machine.missing_capabilities.push("CAP_NET_ADMIN");
        assert_eq!(bad(&facts), ["privileges"]);
        facts.is_unprivileged = false;
        let mut running = healthy_daemon();
        running.status.unprivileged = true;
        facts.instance.daemon = Some(Ok(running));
        assert_eq!(bad(&facts), ["privileges"], "as the running daemon says");
    }
}
