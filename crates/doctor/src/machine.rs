//! Checks of kernel, privileges, crypto and the configuration file.

use config::EngineChoice;
use config::Problem;
use report::Status;
use report::units::time_text;

use super::facts::{Cause, Facts, KernelEsp, Machine, Trial};
use super::finding::{Finding, Outcome};

/// All of them.
pub fn check(facts: &Facts) -> Vec<Finding> {
    let machine = &facts.machine;
    let mut findings = vec![
        privileges(machine),
        kernel(&machine.kernel),
        clock(&machine.clock),
        af_xdp(&machine.af_xdp),
        bpf(&machine.bpf),
        tun(&machine.tun),
        xfrm(&machine.xfrm),
        nft(&machine.nft),
        kernel_esp(machine.kernel_esp),
        kernel_sas(&machine.kernel_sas, facts.is_beside_kernel()),
    ];
    findings.push(crypto(facts));
    findings.extend(ndpi(machine));
    findings.extend(configuration(facts));
    findings
}

fn privileges(machine: &Machine) -> Finding {
    let check = "privileges";
    if !machine.root {
        return Finding::problem(
            check,
            "not root",
            "the daemon needs root, and several checks below need it too",
            "sudo culvert doctor",
        );
    }
    let missing = &machine.missing_capabilities;
    if missing.is_empty() {
        return Finding::ok(check, "root, with the capabilities that are needed");
    }
    Finding::problem(
        check,
        format!("root without {}", missing.join(", ")),
        "this container or unit withholds what the daemon works with",
        "add them: CapabilityBoundingSet= in the unit, --cap-add for a container",
    )
}

/// The oldest kernel that culvert works with.
const KERNEL_OLDEST: (u32, u32) = (5, 10);

/// The first two numbers of a release.
pub fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

fn kernel(release: &str) -> Finding {
    let check = "kernel";
    let Some(version) = version(release) else {
        return Finding::warning(
            check,
            format!("{release:?}: not understood"),
            "Linux 5.10 or later is needed",
            "uname -r",
        );
    };
    if version < KERNEL_OLDEST {
        return Finding::problem(
            check,
            format!("Linux {release}"),
            "Linux 5.10 or later is needed: XDP links, AF_XDP with shared memory",
            "install a newer kernel and reboot",
        );
    }
    Finding::ok(check, format!("Linux {release}"))
}

/// Clocks that a program reads without a system call.
const FAST_CLOCKS: [&str; 4] =
    ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter"];

fn clock(name: &str) -> Finding {
    let check = "clock";
    if name.is_empty() {
        return Finding::ok(check, "the kernel does not say what it tells time by");
    }
    if FAST_CLOCKS.contains(&name) {
        return Finding::ok(check, format!("{name}, read without a system call"));
    }
    Finding::warning(
        check,
        format!("{name}: each look at the clock is a system call"),
        "workers look at it every round, which costs most where packets are few and latency counts",
        "if tsc is in /sys/devices/system/clocksource/clocksource0/available_clocksource, write it to \
         current_clocksource beside it; if not, dmesg | grep -i tsc says why",
    )
}

/// Finding of a trial: well, not known for want of privileges, or the fault that `bad` describes.
fn tried(check: &str, trial: &Trial, well: &str, why: &str, next: &str) -> Finding {
    match trial {
        Ok(()) => Finding::ok(check, well),
        Err(failed) if failed.cause == Cause::NotPermitted => Finding::warning(
            check,
            format!("could not be tried: {}", failed.text),
            why,
            "as said of privileges above, then: sudo culvert doctor",
        ),
        Err(failed) => Finding::problem(check, &failed.text, why, next),
    }
}

fn af_xdp(trial: &Trial) -> Finding {
    tried(
        "af-xdp",
        trial,
        "sockets can be opened",
        "packets of the ports come by AF_XDP; without it culvert carries local traffic alone",
        "boot a kernel with CONFIG_XDP_SOCKETS: grep XDP_SOCKETS /boot/config-$(uname -r)",
    )
}

fn bpf(trial: &Trial) -> Finding {
    tried(
        "bpf",
        trial,
        "the kernel takes the steering program",
        "an XDP program picks the packets that culvert takes; without it no port opens",
        "see the reason above; `sysctl kernel.unprivileged_bpf_disabled` does not matter to root, \
         lockdown may: cat /sys/kernel/security/lockdown",
    )
}

fn tun(trial: &Trial) -> Finding {
    tried(
        "tun",
        trial,
        "/dev/net/tun opens",
        "the private interface between Linux and culvert is a TUN; the daemon does not start",
        "modprobe tun; in a container, hand in the device: --device /dev/net/tun",
    )
}

fn xfrm(trial: &Trial) -> Finding {
    tried(
        "xfrm",
        trial,
        "NETLINK_XFRM opens",
        "the guard, which holds cleartext back when the daemon dies, is made of kernel policies; \
         without it the daemon does not start",
        "modprobe xfrm_user, or boot a kernel with CONFIG_XFRM_USER",
    )
}

fn nft(trial: &Trial) -> Finding {
    let finding = tried(
        "nft",
        trial,
        "nft works, and the kernel takes the guard's rules",
        "the guard for IPv6 is a table of nftables: without it, kernel policies stand in its place, \
         which also block what this host itself sends to and gets from protected IPv6 networks",
        match trial {
            Err(failed) if failed.cause == Cause::NoProgram => "apt-get install nftables",
            _ => "modprobe nf_tables; what it says is the reason",
        },
    );
    match finding.result {
        // IPv4, and IPv6 while the daemon lives, do without.
        Outcome::Problem => Finding { result: Outcome::Warning, ..finding },
        _ => finding,
    }
}

fn kernel_esp(esp: KernelEsp) -> Finding {
    // None of these hinders: it is said because it decides what an IKE daemon outside culvert does.
    Finding::ok(
        "kernel-esp",
        match esp {
            KernelEsp::Present => {
                "the kernel has ESP too; culvert does not use it: an IKE daemon that is not \
                 started by `culvert exec` works on the kernel's own, past culvert"
            }
            KernelEsp::Loadable => {
                "the kernel has ESP as a module that is not loaded; culvert does not need it"
            }
            KernelEsp::Absent => "the kernel has no ESP; culvert does not need it",
            KernelEsp::Unknown => "the kernel does not tell; culvert needs none of its ESP",
        },
    )
}

fn kernel_sas(counted: &Result<u32, String>, is_beside: bool) -> Finding {
    let check = "kernel-sas";
    match counted {
        Ok(0) => Finding::ok(check, "the kernel has no SAs of its own"),
        Ok(count) if is_beside => Finding::ok(
            check,
            format!("the kernel has {count} SAs, which culvert takes packets of"),
        ),
        Ok(count) => Finding::warning(
            check,
            format!("the kernel has {count} SAs of its own: their ESP is left to it"),
            "an IKE daemon, or `ip xfrm`, works on the kernel's XFRM, past culvert, which makes none \
             of that faster; ESP with an SPI that culvert does not know is left to the kernel too",
            "to have culvert do the work, start the IKE daemon by: culvert exec --",
        ),
        Err(reason) => Finding::warning(
            check,
            format!("could not be counted: {reason}"),
            "the daemon asks this at its start, to leave the ESP of such SAs to the kernel",
            "as root, on a kernel with CONFIG_XFRM_USER: sudo culvert doctor",
        ),
    }
}

fn ndpi(machine: &Machine) -> Option<Finding> {
    let check = "ndpi";
    Some(match machine.ndpi.as_ref()? {
        Ok(version) => {
            Finding::ok(check, format!("nDPI {version} answers, in a process of its own"))
        }
        Err(reason) => Finding::warning(
            check,
            format!("nDPI cannot be asked: {reason}"),
            "flows that culvert does not read itself stay unknown; nothing else is different",
            "apt install libndpi4.2, or leave ndpi out of [applications]",
        ),
    })
}

fn crypto(facts: &Facts) -> Finding {
    let check = "crypto";
    let choice = facts.config().map(|c| c.crypto.engine).unwrap_or_default();
    let broken = |engine: &str, reason: &str| {
        Finding::problem(
            check,
            format!("{engine}: {reason}"),
            "without a crypto engine the daemon does not start",
            "apt-get install libipsec-mb1 libssl3, or set crypto.engine = \"auto\"",
        )
    };
    let slow = "OpenSSL costs two to seven times as much a packet as the multi-buffer library";
    match (choice, &facts.machine.ipsec_mb, &facts.machine.openssl) {
        (EngineChoice::IpsecMb | EngineChoice::Auto, Ok(description), _) => {
            Finding::ok(check, format!("ipsec-mb {description}"))
        }
        (EngineChoice::IpsecMb, Err(reason), _) => broken("ipsec-mb", reason),
        (EngineChoice::Openssl, Ok(_), Ok(description)) => Finding::warning(
            check,
            format!("openssl {description}, by configuration, though ipsec-mb is there"),
            slow,
            "leave crypto.engine out of the configuration",
        ),
        (EngineChoice::Openssl, Err(_), Ok(description)) => {
            Finding::ok(check, format!("openssl {description}"))
        }
        (EngineChoice::Auto, Err(reason), Ok(description)) => Finding::warning(
            check,
            format!("openssl {description}; ipsec-mb: {reason}"),
            slow,
            "on x86-64 with AES instructions: apt-get install libipsec-mb-dev, and build culvert \
             with it",
        ),
        (EngineChoice::Openssl | EngineChoice::Auto, _, Err(reason)) => broken("openssl", reason),
    }
}

/// `--name` when nobody gives it.
const DEFAULT_NAME: &str = "default";

fn configuration(facts: &Facts) -> Vec<Finding> {
    let (check, configuration) = ("config", &facts.configuration);
    let path = configuration.path.display();
    let config = match &configuration.loaded {
        Ok(config) => config,
        Err(_) if !facts.machine.root && configuration.is_barred => {
            return vec![Finding::warning(
                check,
                format!("not seen without root: {path}"),
                "ports are not checked, and defaults stand for what the file may say",
                "sudo culvert doctor",
            )];
        }
        Err(reason) => {
            return vec![Finding::problem(
                check,
                reason,
                "the daemon does not start; ports are not checked",
                format!("write it, then: culvert check --config {path}"),
            )];
        }
    };
    let mut findings: Vec<Finding> =
        configuration.problems.iter().map(|problem| refused(&path, problem)).collect();
    if let Some(Ok(running)) = &facts.instance.daemon {
        findings.extend(not_followed(&running.status));
    }
    let asked = &configuration.name_asked;
    if asked != DEFAULT_NAME && *asked != config.name {
        findings.push(Finding::warning(
            check,
            format!("--name says {asked}, the file says name = {:?}", config.name),
            "the file's name decides which instance the daemon is; it is the one looked at here",
            format!("culvert doctor --name {0} --config the file of {0}", asked),
        ));
    }
    if config.ports.is_empty() {
        findings.push(Finding::warning(
            check,
            format!("{path} is valid, and names no port"),
            "only traffic of this host itself is carried, and ESP that arrives is not seen",
            format!("add [[port]] with interface = \"...\" to {path}; see ip link"),
        ));
    }
    if config.crypto.allow_weak {
        findings.push(Finding::warning(
            check,
            "crypto.allow_weak = true: SAs with DES, 3DES and MD5 are taken",
            "who can record such traffic, or change it, may break what protects it",
            format!("when no peer needs them any more, remove allow_weak from {path}"),
        ));
    }
    if findings.is_empty() {
        findings.push(Finding::ok(check, format!("{path} is valid, instance {}", config.name)));
    }
    findings
}

/// Parts of the file that the running daemon has not taken.
fn not_followed(status: &Status) -> Vec<Finding> {
    let (check, told) = ("config", &status.configuration);
    let refused = told.refusal.iter().map(|refusal| {
        Finding::warning(
            check,
            format!(
                "the daemon refused the file at {} UTC: {}",
                time_text(refusal.time_ms),
                refusal.why
            ),
            "it runs with the configuration of before, and a restart takes the file as it is now",
            format!(
                "culvert check --config {}; then: culvert reload --name {}",
                told.file, status.name
            ),
        )
    });
    let waiting = (!told.waits_for_restart.is_empty()).then(|| {
        Finding::warning(
            check,
            format!("keys that wait for a restart: {}", told.waits_for_restart.join(", ")),
            "the daemon runs with their values of before",
            "systemctl restart culvert; no SA is lost",
        )
    });
    refused.chain(waiting).collect()
}

/// A problem that `culvert check` has, too.
fn refused(path: &dyn std::fmt::Display, problem: &Problem) -> Finding {
    let place = problem.place.map(|place| format!(":{}:{}", place.line, place.column));
    let about = match problem.subject() {
        subject if subject.is_empty() => String::new(),
        subject => format!("{subject}: "),
    };
    let seen = format!("{path}{}: {about}{}", place.unwrap_or_default(), problem.wrong);
    let why = "`culvert run` does not start with it, and a reload refuses it";
    Finding::problem("config", seen, why, problem.remedy.as_ref())
}

#[cfg(test)]
mod tests {
    use report::Refusal;

    use super::super::facts::{Failed, healthy, healthy_daemon};
    use super::super::rows::{Row, assert_rows};
    use super::*;

    fn failed(text: &str) -> Trial {
        Err(Failed { text: text.into(), cause: Cause::Other })
    }

    #[test]
    fn a_file_that_cannot_be_read_without_root_is_not_said_to_be_missing() {
        let mut facts = healthy();
        facts.configuration.loaded =
            Err("gwa.toml: Permission denied (os error 13)\n  write one".into());
        facts.configuration.is_barred = true;
        assert!(configuration(&facts)[0].next.as_ref().unwrap().starts_with("write it"));
        facts.machine.root = false;
        let told = configuration(&facts);
        assert_eq!((told.len(), told[0].result), (1, Outcome::Warning), "{told:#?}");
        assert!(told[0].seen.contains("not seen without root"), "{told:#?}");
    }

    #[test]
    fn every_finding() {
        use Outcome::{Ok as Fine, Problem, Warning};
        let rows: &[Row] = &[
            (|f| f.machine.root = false, "privileges", Problem, &["not root", "sudo"]),
            (
                |f| f.machine.missing_capabilities = vec!["CAP_BPF", "CAP_PERFMON"],
                "privileges",
                Problem,
                &["root without CAP_BPF, CAP_PERFMON", "--cap-add"],
            ),
            (|f| f.machine.kernel = "5.9.16".into(), "kernel", Problem, &["5.9.16", "5.10"]),
            (|f| f.machine.kernel = "5.10.0-8".into(), "kernel", Fine, &["5.10.0-8"]),
            (|f| f.machine.kernel = "weird".into(), "kernel", Warning, &["not understood"]),
            (|f| f.machine.clock = "hpet".into(), "clock", Warning, &["hpet", "dmesg"]),
            (|f| f.machine.clock.clear(), "clock", Fine, &["does not say"]),
            (|f| f.machine.clock = "kvm-clock".into(), "clock", Fine, &["kvm-clock"]),
            (|f| f.machine.af_xdp = failed("EAFNOSUPPORT"), "af-xdp", Problem, &["XDP_SOCKETS"]),
            (|f| f.machine.bpf = failed("ENOSYS"), "bpf", Problem, &["ENOSYS", "lockdown"]),
            (|f| f.machine.tun = failed("ENOENT"), "tun", Problem, &["modprobe tun"]),
            (|f| f.machine.xfrm = failed("no"), "xfrm", Problem, &["xfrm_user", "guard"]),
            (
                |f| {
                    let text = "nft was not found".into();
                    f.machine.nft = Err(Failed { text, cause: Cause::NoProgram });
                },
                "nft",
                Warning,
                &["IPv6", "install nftables"],
            ),
            (
                |f| f.machine.nft = failed("no table"),
                "nft",
                Warning,
                &["IPv6", "modprobe nf_tables"],
            ),
            (|f| f.machine.kernel_esp = KernelEsp::Present, "kernel-esp", Fine, &["culvert exec"]),
            (|f| f.machine.kernel_esp = KernelEsp::Loadable, "kernel-esp", Fine, &["module"]),
            (|f| f.machine.kernel_esp = KernelEsp::Unknown, "kernel-esp", Fine, &["not tell"]),
            (|f| f.machine.kernel_sas = Ok(2), "kernel-sas", Fine, &["2 SAs"]),
            (
                |f| {
                    f.machine.kernel_sas = Ok(2);
                    f.instance.saved = true;
                },
                "kernel-sas",
                Warning,
                &["2 SAs", "culvert exec"],
            ),
            (
                |f| f.machine.kernel_sas = Err("not permitted".into()),
                "kernel-sas",
                Warning,
                &["not permitted"],
            ),
            (
                |f| f.machine.ipsec_mb = Err("no AES".into()),
                "crypto",
                Warning,
                &["no AES", "OpenSSL 3.0.11"],
            ),
            (
                |f| {
                    f.machine.ipsec_mb = Err("gone".into());
                    f.machine.openssl = Err("broken".into());
                },
                "crypto",
                Problem,
                &["openssl: broken"],
            ),
            (|f| f.configuration.loaded = Err("bad".into()), "config", Problem, &["bad", "check"]),
            (
                |f| {
                    let frames =
                        config::Problem::new("worker.frames", &1024, "too few", "write 4096");
                    f.configuration.problems = vec![frames];
                },
                "config",
                Problem,
                &["worker.frames = 1024: too few", "does not start", "write 4096"],
            ),
            (
                |f| {
                    let mut running = healthy_daemon();
                    let refusal = Refusal { time_ms: 0, why: "culvert.toml:3:8: ...".into() };
                    running.status.configuration.refusal = Some(refusal);
                    f.instance.daemon = Some(Ok(running));
                },
                "config",
                Warning,
                &["refused the file at 00:00:00", "toml:3:8", "culvert reload --name gwa"],
            ),
            (
                |f| {
                    let mut running = healthy_daemon();
                    running.status.configuration.waits_for_restart = vec!["tun.mtu".into()];
                    f.instance.daemon = Some(Ok(running));
                },
                "config",
                Warning,
                &["wait for a restart: tun.mtu", "systemctl restart"],
            ),
            (|f| f.configuration.name_asked = "gwb".into(), "config", Warning, &["gwb", "gwa"]),
            (
                |f| f.configuration.loaded.as_mut().unwrap().ports.clear(),
                "config",
                Warning,
                &["no port", "[[port]]"],
            ),
            (
                |f| f.configuration.loaded.as_mut().unwrap().crypto.allow_weak = true,
                "config",
                Warning,
                &["3DES", "allow_weak"],
            ),
        ];
        assert_rows(check, rows);
    }

    #[test]
    fn the_engine_that_is_configured_counts() {
        let mut facts = healthy();
        let choose = |facts: &mut Facts, engine| {
            facts.configuration.loaded.as_mut().unwrap().crypto.engine = engine;
        };
        choose(&mut facts, EngineChoice::Openssl);
        assert_eq!(crypto(&facts).result, Outcome::Warning);
        facts.machine.ipsec_mb = Err("no AES".into());
        assert_eq!(crypto(&facts).result, Outcome::Ok);
        choose(&mut facts, EngineChoice::IpsecMb);
        assert_eq!(crypto(&facts).result, Outcome::Problem);
    }

    #[test]
    fn what_was_not_permitted_is_not_called_broken() {
        let mut facts = healthy();
        let refused = Err(Failed { text: "EPERM".into(), cause: Cause::NotPermitted });
        facts.machine.af_xdp = refused.clone();
        facts.machine.bpf = refused.clone();
        facts.machine.nft = refused;
        let findings = check(&facts);
        let warned: Vec<_> = findings.iter().filter(|f| f.result == Outcome::Warning).collect();
        assert_eq!(warned.len(), 3, "{findings:#?}");
        assert!(warned.iter().all(|f| f.seen.contains("could not be tried")));
        assert!(findings.iter().all(|f| f.result != Outcome::Problem));
    }
}
