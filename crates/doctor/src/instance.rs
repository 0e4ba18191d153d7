//! Checks of the programs around culvert, of a running daemon, and of what a dead one left.

use report::paths;
use report::units::span;
use report::{Owner, WarningKind};

use super::facts::{Facts, Running, Standing};
use super::finding::Finding;
use super::processes::IkeProcess;

/// All of them.
pub fn check(facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    // Beside a kernel IKE daemons know nothing of culvert.
    if !facts.is_beside_kernel() {
        findings.push(preload(facts));
        findings.extend(ike(facts));
    }
    findings.extend(daemon(facts));
    findings.push(guard(facts));
    findings
}

fn preload(facts: &Facts) -> Finding {
    match &facts.programs.preload {
        Ok(path) => Finding::ok("preload", path.display().to_string()),
        Err(searched) => Finding::problem(
            "preload",
            // The first line says where it was looked for; the second what to do, as below.
            searched.lines().next().unwrap_or("not found"),
            "`culvert exec` needs it to lead an IKE daemon's XFRM netlink to culvert",
            "make build && make install, or set CULVERT_PRELOAD to the file",
        ),
    }
}

fn ike(facts: &Facts) -> Vec<Finding> {
    let (check, programs) = ("ike", &facts.programs);
    let name = &facts.instance.name;
    let mut findings: Vec<Finding> = programs
        .running
        .iter()
        .filter(|process| process.socket.is_none())
        .map(|process| {
            Finding::warning(
                check,
                format!("{process} runs past culvert"),
                "it was not started by `culvert exec`: its SAs and policies go to the kernel, and \
                 culvert carries none of its traffic",
                format!("{}, then: {}", process.stopped_by(), led(process, name)),
            )
        })
        .collect();
    if programs.running.len() > 1 {
        let all: Vec<String> = programs.running.iter().map(ToString::to_string).collect();
        let rest: Vec<String> = programs.running.iter().skip(1).map(|p| p.stopped_by()).collect();
        findings.push(Finding::problem(
            check,
            format!("{} IKE daemons run in this network namespace: {}", all.len(), all.join(", ")),
            "they share UDP 500 and 4500, and strongSwan's the control socket: each gets messages of the others, \
             and swanctl speaks to one of them",
            format!("leave one, that of culvert exec: {}", rest.join("; ")),
        ));
    }
    if programs.ike.is_none() && programs.running.is_empty() {
        findings.push(Finding::warning(
            check,
            "neither charon-systemd, charon nor pluto was found",
            "culvert encrypts; an IKE daemon has to negotiate the keys",
            "apt-get install charon-systemd strongswan-swanctl",
        ));
    } else if programs.swanctl.is_none()
        && programs.ike.as_ref().is_some_and(|ike| ike.ends_with("charon-systemd"))
    {
        findings.push(Finding::warning(
            check,
            "charon-systemd is there, swanctl is not",
            "charon-systemd is configured by swanctl and loads no tunnel without it",
            "apt-get install strongswan-swanctl",
        ));
    }
    if !findings.is_empty() {
        return findings;
    }
    let ours = Some(paths::xfrm_socket(name));
    let served = programs.running.iter().filter(|p| p.socket == ours);
    let served: Vec<String> = served.map(|p| format!("{} (process {})", p.name, p.pid)).collect();
    let installed = programs.ike.as_ref().map(|p| p.display().to_string()).unwrap_or_default();
    let version = programs.swanctl.as_ref().and_then(|(_, version)| version.as_ref());
    let version = version.map(|v| format!(", strongSwan {v}")).unwrap_or_default();
    let seen = match served[..] {
        [] => format!("{installed}{version}"),
        _ => format!("{} runs with culvert{version}", served.join(", ")),
    };
    vec![Finding::ok(check, seen)]
}

/// Sign that a process is an IKE daemon led to culvert.
fn led(process: &IkeProcess, name: &str) -> String {
    match &process.unit {
        Some(unit) => format!(
            "culvert exec --name {name} -- {}; or for good: the drop-in strongswan-culvert.conf for {unit} \
             (docs: Under systemd)",
            process.name
        ),
        None => format!("culvert exec --name {name} -- {}", process.name),
    }
}

fn daemon(facts: &Facts) -> Vec<Finding> {
    let check = "daemon";
    let name = &facts.instance.name;
    match &facts.instance.daemon {
        None if !facts.machine.root => vec![unseen(check, name)],
        None => {
            let saved = match facts.instance.saved {
                true => "; what the last one kept is there for the next start",
                false => "",
            };
            vec![Finding::ok(check, format!("none runs under the name {name}{saved}"))]
        }
        Some(Err(reason)) => vec![Finding::problem(
            check,
            reason,
            "a daemon holds the control socket and does not answer: it hangs, or differs in version",
            "journalctl -u culvert; systemctl restart culvert",
        )],
        Some(Ok(running)) => running_daemon(name, running),
    }
}

/// The runtime directory is root's alone.
fn unseen(check: &str, name: &str) -> Finding {
    Finding::warning(
        check,
        format!("not seen without root: {}", paths::runtime_dir(name).display()),
        "whether a daemon runs, and what the last one left in the kernel, is not known",
        "sudo culvert doctor",
    )
}

fn running_daemon(name: &str, running: &Running) -> Vec<Finding> {
    let (check, status) = ("daemon", &running.status);
    let mut findings = vec![Finding::ok(
        check,
        format!(
            "version {}, process {}, up {}; {} of {} ports, {} SAs, {} policies; seccomp {}",
            status.version,
            status.pid,
            span(status.uptime_s),
            status.ports_up,
            status.ports,
            status.sas,
            status.policies,
            status.seccomp
        ),
    )];
    let ours = env!("CARGO_PKG_VERSION");
    if status.version != ours {
        findings.push(Finding::warning(
            check,
            format!("the daemon is version {}, this command {ours}", status.version),
            "the daemon was not restarted after an update",
            "systemctl restart culvert (tunnels stay)",
        ));
    }
    if status.clients == 0 && status.source != Owner::Kernel {
        findings.push(Finding::warning(
            check,
            "no IKE daemon is connected",
            "nobody gives culvert SAs and policies, or renews those that it has",
            format!("culvert exec --name {name} -- charon-systemd"),
        ));
    }
    if running.balance != 0 {
        findings.push(Finding::problem(
            check,
            format!("{} packets are not accounted for", running.balance),
            "every packet ends in one counter; this is a defect of culvert",
            format!("culvert stats --json --name {name}; please report it"),
        ));
    }
    findings.extend(status.warnings.iter().map(|warning| {
        let (why, next) = advice(name, &warning.kind);
        Finding::warning(check, &warning.text, why, next)
    }));
    findings
}

/// Meaning of the daemon's own warnings by their kind; there is a next step for any other, too.
fn advice(name: &str, kind: &WarningKind) -> (&'static str, String) {
    match kind {
        WarningKind::FirewallBypass => (
            "packets of the fast path pass Linux's firewalls by",
            "nft list ruleset; docs/guides/beside-the-kernel.md, Firewalls".into(),
        ),
        WarningKind::ReplayOff => (
            "an attacker who records packets can send them again, and they are taken",
            "set replay_window = 32 or more for the child in swanctl.conf, then: swanctl \
             --load-all and swanctl --rekey"
                .into(),
        ),
        WarningKind::SharedKeys => (
            "two packets with one nonce under one key tell both texts, and with AES-GCM the key that \
             authenticates; only the random salts of the IVs keep these SAs' nonces apart",
            "openssl rand -hex 20 for each SA of each direction, at both ends; better an IKE daemon \
             (docs/guides/policies.md, Keys set by hand)"
                .into(),
        ),
        WarningKind::UnsupportedPolicies => (
            "culvert compresses what ESP or AH protects, before that, and applies three SAs at most",
            format!("put ESP or AH behind IPComp; which they are: culvert policy --name {name}"),
        ),
        WarningKind::NoTunnelInterface => (
            "a packet belongs to an if_id only by a tunnel interface that it is routed to",
            "add a [[tunnel]] with that if_id to the configuration, and reload culvert".into(),
        ),
        WarningKind::InterfaceGone => (
            "a policy names an interface by its number, and one that is made anew has another",
            "swanctl --load-all, once the interface is back".into(),
        ),
        WarningKind::NumbersNearEnd => (
            "a sequence number is used once: at the last one the SA stops",
            "swanctl --rekey --child CHILD; propose ESN, or set rekey_packets".into(),
        ),
        WarningKind::PathDegraded => (
            "probes through its tunnel are lost, late, or not answered at all",
            format!(
                "culvert path --name {name} says since when and by how much; docs/guides/paths.md has what follows"
            ),
        ),
        WarningKind::BfdDown => (
            "FRR's bfdd is not reached, or peers are not heard: routing daemons hear that they are down",
            format!(
                "culvert bfd --name {name} says which and why; bfdd has to run with --dplaneaddr as [bfd] names it \
                 (docs/guides/bfd.md)"
            ),
        ),
        WarningKind::Seccomp => (
            "what gets into the daemon may ask anything of the kernel that root may with its capabilities",
            "take seccomp = false out of [security], or use a kernel with CONFIG_SECCOMP_FILTER \
             (docs/reference/security.md), then: systemctl restart culvert"
                .into(),
        ),
        WarningKind::VaultOnDisk => (
            "who gets at the disk later reads traffic that was recorded before: there is no forward \
             secrecy",
            "mount a tmpfs on /run, or on /run/culvert (for a container: on the host's), then: \
             systemctl restart culvert"
                .into(),
        ),
        WarningKind::BarrierRefused => (
            "nft or the kernel takes no barrier for just these packets, so one that blocks more stands in the kernel",
            format!("change or delete the policy; all of them: culvert policy --name {name}"),
        ),
        WarningKind::NftMissing => (
            "without nft the guard for IPv6 is made of kernel policies, which also block what this host itself sends \
             to and gets from protected networks",
            "apt-get install nftables".into(),
        ),
        WarningKind::NftFails => (
            "what nft says is the reason; until then the guard for IPv6 is made of kernel policies, which also block \
             what this host itself sends to and gets from protected networks",
            "modprobe nf_tables; nft list ruleset".into(),
        ),
        WarningKind::GuardOff => (
            "nothing in the kernel holds protected traffic back then",
            "remove guard.enabled = false from the configuration, then: systemctl reload culvert"
                .into(),
        ),
        WarningKind::CleartextInterface => (
            "firewall rules and reverse path filters that name the port do not meet it",
            "a driver with native XDP and Linux 6.1 or later; else name the private interface in \
             the firewall too (docs/guides/firewalls.md)"
                .into(),
        ),
        WarningKind::ClosedSegments => (super::segments::WHY, super::segments::NEXT.into()),
        WarningKind::OverlayLeft => (
            "Linux puts the overlay's headers on and takes them off then, at its own rate; what it sends is protected all \
             the same",
            "change the interface, or take its name out of overlay.interfaces (docs/guides/overlays.md)".into(),
        ),
        WarningKind::IdleVlan => (super::vlan_entries::WHY, super::vlan_entries::NEXT.into()),
        WarningKind::PortDown => ("its packets are not taken", format!("culvert port --name {name}")),
        WarningKind::MemifFaults => (
            "packets that the application at the other end hands over wrongly are lost, or end its connection",
            format!("culvert port --json --name {name} has the counts (faults); then mend the application"),
        ),
        // Each of these says by itself what it means and what would be right.
        WarningKind::ReloadRefused
        | WarningKind::RestartPending
        | WarningKind::NoIkeSocket
        | WarningKind::RefusedSockets
        | WarningKind::GuardIncomplete
        | WarningKind::EarlyAcquire
        | WarningKind::Unrecognised
        | WarningKind::LostInHang
        | WarningKind::SenderCpu
        | WarningKind::DefaultBlocks
        | WarningKind::IdleWorkers
        | WarningKind::FirewallKeeps
        | WarningKind::KernelSource
        | WarningKind::VaultBehind
        | WarningKind::NotInUdp
        | WarningKind::KernelSas
        | WarningKind::NoSasCame
        | WarningKind::DeviceDown
        | WarningKind::MarkedSas
        | WarningKind::WeakSuites
        | WarningKind::Other(_) => {
            ("the running daemon says so", format!("culvert status --name {name}"))
        }
    }
}

fn guard(facts: &Facts) -> Finding {
    let check = "guard";
    let name = &facts.instance.name;
    if !facts.machine.root {
        return unseen(check, name);
    }
    let standing = match &facts.instance.guard {
        Ok(standing) => *standing,
        Err(reason) => {
            return Finding::problem(
                check,
                reason,
                "what stands in the kernel is not known, and the daemon does not start",
                format!("culvert guard show --name {name}"),
            );
        }
    };
    let Standing { of_policies, of_prefixes } = standing;
    let count = of_policies + of_prefixes;
    if facts.instance.daemon.is_some() {
        // With guard.enabled = false the daemon's own warning says so.
        return Finding::ok(check, format!("{count} barriers stand behind the daemon"));
    }
    let start = format!("culvert run --config {}", facts.configuration.path.display());
    if of_policies > 0 {
        return Finding::problem(
            check,
            format!("{count} barriers stand, and no daemon forwards"),
            "what the last daemon's policies protect is blocked, so that it does not leave in clear",
            format!("{start}; to give up the protection: culvert guard clear --name {name}"),
        );
    }
    if of_prefixes > 0 {
        return Finding::warning(
            check,
            format!("{count} barriers stand for guard.prefixes, and no daemon forwards"),
            "traffic to and from these prefixes is blocked until the daemon forwards it",
            format!("{start}; to give up the protection: culvert guard clear --name {name}"),
        );
    }
    if !facts.guard().enabled {
        return Finding::warning(
            check,
            "guard.enabled = false",
            "if the daemon dies, traffic leaves in clear",
            format!("remove it from {}", facts.configuration.path.display()),
        );
    }
    Finding::ok(check, "nothing stands: no daemon has left anything to protect")
}

#[cfg(test)]
mod tests {
    use super::super::facts::{healthy, healthy_daemon};
    use super::super::finding::Outcome;
    use super::super::rows::{Row, assert_rows};
    use report::Warning;

    use super::*;

    fn daemon_of(facts: &mut Facts) -> &mut Running {
        let daemon = facts.instance.daemon.get_or_insert_with(|| Ok(healthy_daemon()));
        daemon.as_mut().unwrap()
    }

    fn warn(facts: &mut Facts, kind: WarningKind, text: &str) {
        daemon_of(facts).status.warnings.push(Warning::new(kind, text));
    }

    fn process(socket: Option<&str>) -> IkeProcess {
        IkeProcess { name: "charon".into(), pid: 4711, socket: socket.map(Into::into), unit: None }
    }

    #[test]
    fn without_root_nothing_is_claimed() {
        let mut facts = healthy();
        facts.machine.root = false;
        facts.instance.guard = Err("Permission denied".into());
        let findings = check(&facts);
        for name in ["daemon", "guard"] {
            let found = findings.iter().find(|f| f.check == name).unwrap();
            assert_eq!(found.result, Outcome::Warning, "{found:?}");
            assert!(found.seen.contains("/run/culvert/gwa"), "{found:?}");
        }
    }

    #[test]
    fn every_finding() {
        use Outcome::{Ok as Fine, Problem, Warning};
        let rows: &[Row] = &[
            (
                |f| f.programs.preload = Err("not found in /usr\n build it".into()),
                "preload",
                Problem,
                &["not found in /usr\"", "CULVERT_PRELOAD"],
            ),
            (|f| f.programs.ike = None, "ike", Warning, &["charon-systemd", "apt-get"]),
            (|f| f.programs.swanctl = None, "ike", Warning, &["strongswan-swanctl"]),
            (
                |f| f.programs.running = vec![process(None)],
                "ike",
                Warning,
                &["4711", "past culvert", "culvert exec --name gwa -- charon"],
            ),
            (
                |f| f.programs.running = vec![process(Some("/run/culvert/gwa/xfrm.sock"))],
                "ike",
                Fine,
                &["charon (process 4711) runs with culvert, strongSwan 5.9.8"],
            ),
            (
                |f| f.programs.running = vec![process(None), process(Some("/run/x"))],
                "ike",
                Problem,
                &["2 IKE daemons", "charon (process 4711), charon", "leave one", "kill 4711"],
            ),
            (
                |f| {
                    let unit = Some("strongswan.service".into());
                    f.programs.running = vec![IkeProcess { unit, ..process(None) }];
                },
                "ike",
                Warning,
                &["4711, strongswan.service", "systemctl stop strongswan, then: culvert exec"],
            ),
            // Another instance's is none of ours.
            (
                |f| f.programs.running = vec![process(Some("/run/culvert/gwb/xfrm.sock"))],
                "ike",
                Fine,
                &["/usr/sbin/charon-systemd, strongSwan"],
            ),
            (|f| f.instance.saved = true, "daemon", Fine, &["none runs", "next start"]),
            (|f| f.instance.daemon = Some(Err("late".into())), "daemon", Problem, &["journalctl"]),
            (|f| daemon_of(f).status.clients = 0, "daemon", Warning, &["culvert exec --name gwa"]),
            (|f| daemon_of(f).status.version = "0.0.1".into(), "daemon", Warning, &["0.0.1"]),
            (|f| daemon_of(f).balance = -3, "daemon", Problem, &["-3", "report"]),
            (
                |f| warn(f, WarningKind::ReplayOff, "2 inbound SAs have replay protection off"),
                "daemon",
                Warning,
                &["2 inbound", "replay_window"],
            ),
            (
                |f| {
                    warn(
                        f,
                        WarningKind::UnsupportedPolicies,
                        "1 policies ask for IPComp alone or too many SAs: blocked",
                    )
                },
                "daemon",
                Warning,
                &["culvert policy --name gwa"],
            ),
            (
                |f| {
                    warn(
                        f,
                        WarningKind::SharedKeys,
                        "SAs 0x00000001 (a > b) and 0x00000002 (b > a) have one key: x",
                    )
                },
                "daemon",
                Warning,
                &["0x00000001", "nonce", "openssl rand", "Keys set by hand"],
            ),
            (
                |f| {
                    warn(
                        f,
                        WarningKind::IdleVlan,
                        "vlan[0].interface = \"wan.7\": there is no such interface",
                    )
                },
                "daemon",
                Warning,
                &["wan.7", "ip -br link"],
            ),
            (
                |f| {
                    warn(
                        f,
                        WarningKind::ClosedSegments,
                        "srv6: no interface is inside the domain, so ...",
                    )
                },
                "daemon",
                Warning,
                &["srv6", "srv6.domain"],
            ),
            (
                |f| {
                    warn(
                        f,
                        WarningKind::NumbersNearEnd,
                        "1 SAs are near their last sequence number: rekey",
                    )
                },
                "daemon",
                Warning,
                &["swanctl --rekey"],
            ),
            (
                |f| {
                    warn(
                        f,
                        WarningKind::CleartextInterface,
                        "port lan: cleartext that policy leaves to Linux comes in by x",
                    )
                },
                "daemon",
                Warning,
                &["firewall rules", "native XDP"],
            ),
            (
                |f| warn(f, WarningKind::PathDegraded, "path hq (dscp 46): dead; see culvert path"),
                "daemon",
                Warning,
                &["culvert path", "docs/guides/paths.md"],
            ),
            (
                |f| warn(f, WarningKind::BfdDown, "BFD sessions down: 192.0.2.2; see culvert bfd"),
                "daemon",
                Warning,
                &["culvert bfd", "docs/guides/bfd.md"],
            ),
            (
                |f| warn(f, WarningKind::Seccomp, "security.seccomp = false: none"),
                "daemon",
                Warning,
                &["CONFIG_SECCOMP_FILTER", "docs/reference/security.md"],
            ),
            (
                |f| warn(f, WarningKind::GuardOff, "guard.enabled = false: clear"),
                "daemon",
                Warning,
                &["remove guard.enabled"],
            ),
            (
                |f| {
                    warn(
                        f,
                        WarningKind::BarrierRefused,
                        "guard: barrier `src ::/0 ...` is refused: nft: Error: no",
                    )
                },
                "daemon",
                Warning,
                &["src ::/0", "blocks more", "culvert policy --name gwa"],
            ),
            (
                |f| {
                    warn(
                        f,
                        WarningKind::NftMissing,
                        "IPv6 guard: nft cannot be started: no such file",
                    )
                },
                "daemon",
                Warning,
                &["kernel policies", "apt-get install nftables"],
            ),
            (
                |f| warn(f, WarningKind::NftFails, "IPv6 guard: nft: cache initialization failed"),
                "daemon",
                Warning,
                &["kernel policies", "modprobe nf_tables"],
            ),
            (
                |f| warn(f, WarningKind::PortDown, "port wan: missing"),
                "daemon",
                Warning,
                &["culvert port --name gwa"],
            ),
            (
                |f| warn(f, WarningKind::Other(String::new()), "something new"),
                "daemon",
                Warning,
                &["something new", "culvert status --name gwa"],
            ),
            (|f| f.instance.guard = Err("torn".into()), "guard", Problem, &["torn"]),
            (
                |f| f.instance.guard = Ok(Standing { of_policies: 3, of_prefixes: 3 }),
                "guard",
                Problem,
                &["6 barriers", "culvert guard clear --name gwa", "culvert run"],
            ),
            (
                |f| f.instance.guard = Ok(Standing { of_policies: 0, of_prefixes: 3 }),
                "guard",
                Warning,
                &["guard.prefixes", "culvert guard clear"],
            ),
            (
                |f| {
                    f.instance.guard = Ok(Standing { of_policies: 3, of_prefixes: 0 });
                    daemon_of(f);
                },
                "guard",
                Fine,
                &["3 barriers stand behind"],
            ),
            (
                |f| f.configuration.loaded.as_mut().unwrap().guard.enabled = false,
                "guard",
                Warning,
                &["leaves in clear"],
            ),
        ];
        assert_rows(check, rows);
    }
}
