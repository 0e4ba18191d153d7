//! Checks of AppArmor: the IKE daemon's profile, and what was denied.

use std::path::Path;

use report::paths;

use super::facts::{AppArmor, Confinement, Denial, Facts, PROFILES_DIR};
use super::finding::{Finding, Outcome};

/// All of them.
pub fn check(facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    // Beside a kernel IKE daemons know nothing of culvert.
    if !facts.is_beside_kernel() {
        findings.push(of_ike(facts));
    }
    let (ours, of_ike) = facts.programs.denials.iter().partition::<Vec<_>, _>(|d| d.is_of_daemon());
    findings.extend(denied("the daemon", "culvert", &ours));
    findings.extend(denied("the IKE daemon", "", &of_ike));
    findings
}

/// Effect of a profile that does not know of culvert, where it is not known if it is enforced.
const UNAWARE: &str = "unless it only complains, it forbids the preload library or culvert's socket: the IKE \
     daemon runs without the library, past culvert, or does not reach culvert";

fn of_ike(facts: &Facts) -> Finding {
    let check = "apparmor";
    let profile = match &facts.programs.apparmor {
        AppArmor::Off => return Finding::ok(check, "AppArmor is off"),
        AppArmor::Unconfined => return Finding::ok(check, "no profile for the IKE daemon"),
        AppArmor::Aware => return Finding::ok(check, "the IKE daemon's profile knows of culvert"),
        AppArmor::Unaware(profile) => profile,
    };
    let library = facts.programs.preload.as_deref();
    let library = library.unwrap_or(Path::new("/usr/local/lib/culvert/libculvert_preload.so"));
    let (result, how, why) = match facts.programs.confinement {
        Confinement::Enforce => (
            Outcome::Problem,
            ", and is enforced",
            "charon starts without the library, on the kernel's own IPsec: culvert sees none of its SAs",
        ),
        Confinement::Complain => (
            Outcome::Warning,
            ", and only complains",
            "its denials are logged now; enforced, charon would start without the library, on the kernel's \
             own IPsec",
        ),
        Confinement::NotLoaded => (
            Outcome::Warning,
            ", and is not loaded",
            "once it is, with the next boot, charon starts without the library, on the kernel's own IPsec",
        ),
        Confinement::Unknown => (Outcome::Warning, "", UNAWARE),
    };
    let finding = Finding::warning(
        check,
        format!("{PROFILES_DIR}/{profile} does not know of culvert{how}"),
        why,
        format!(
            "add the lines \"{} mr,\" and \"{} rw,\" to {PROFILES_DIR}/local/{profile}, then: \
             apparmor_parser -r {PROFILES_DIR}/{profile}",
            library.display(),
            paths::xfrm_socket("*").display()
        ),
    );
    Finding { result, ..finding }
}

/// Finding about a program's denials, with all that its profile would have denied it.
fn denied(who: &str, profile: &str, denials: &[&Denial]) -> Option<Finding> {
    let refused = denials.iter().filter(|denial| denial.was_refused).count();
    let first = denials.iter().max_by_key(|denial| denial.was_refused)?;
    let profile = if profile.is_empty() { file_of(&first.profile) } else { profile.to_owned() };
    let others = match denials.len() - 1 {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let what = format!("{} {}", first.operation, first.object);
    let (result, seen, why) = if refused > 0 {
        (
            Outcome::Problem,
            format!("{who} was denied: {what}{others}"),
            "what it needed that for does not work; the kernel's log tells since when",
        )
    } else {
        (
            Outcome::Warning,
            format!("{who} would be denied: {what}{others}"),
            "its profile only complains; enforced, what it needs that for would not work",
        )
    };
    let next = format!(
        "journalctl -k --grep apparmor; a rule for each belongs in {PROFILES_DIR}/local/{profile}, then: \
         apparmor_parser -r {PROFILES_DIR}/{profile}"
    );
    Some(Finding { result, ..Finding::warning("apparmor", seen, why, next) })
}

/// Profiles are in files that are called as the program, `/usr/sbin/charon` in `usr.sbin.charon`.
fn file_of(profile: &str) -> String {
    let name = profile.split("//").next().unwrap_or_default();
    name.trim_start_matches('/').replace('/', ".")
}

#[cfg(test)]
mod tests {
    use super::super::facts::healthy;
    use super::super::rows::{Row, assert_rows};
    use super::*;

    fn unaware(facts: &mut Facts, confinement: Confinement) {
        facts.programs.apparmor = AppArmor::Unaware("usr.sbin.charon-systemd".into());
        facts.programs.confinement = confinement;
    }

    fn denial(was_refused: bool, profile: &str, object: &str) -> Denial {
        let (profile, operation) = (profile.into(), "open".into());
        Denial { was_refused, profile, operation, object: object.into() }
    }

    #[test]
    fn apparmor_is_told_of_a_library_that_is_not_installed_yet() {
        let mut facts = healthy();
        facts.programs.apparmor = AppArmor::Unaware("usr.lib.ipsec.charon".into());
        facts.programs.preload = Err("not found".into());
        let next = of_ike(&facts).next.unwrap();
        assert!(next.contains("\"/usr/local/lib/culvert/libculvert_preload.so mr,\""), "{next}");
        assert!(next.contains("to /etc/apparmor.d/local/usr.lib.ipsec.charon"), "{next}");
    }

    #[test]
    fn every_finding() {
        use Outcome::{Ok as Fine, Problem, Warning};
        let rows: &[Row] = &[
            (|f| f.programs.apparmor = AppArmor::Off, "apparmor", Fine, &["AppArmor is off"]),
            (
                |f| f.programs.apparmor = AppArmor::Unconfined,
                "apparmor",
                Fine,
                &["no profile for the IKE daemon"],
            ),
            (
                |f| unaware(f, Confinement::NotLoaded),
                "apparmor",
                Warning,
                &["not loaded", "once it is"],
            ),
            (
                |f| unaware(f, Confinement::Complain),
                "apparmor",
                Warning,
                &["only complains", "logged"],
            ),
            (
                |f| unaware(f, Confinement::Unknown),
                "apparmor",
                Warning,
                &["unless it only complains"],
            ),
            (
                |f| unaware(f, Confinement::Enforce),
                "apparmor",
                Problem,
                &[
                    "/etc/apparmor.d/usr.sbin.charon-systemd",
                    "is enforced",
                    "without the library",
                    "/usr/lib/culvert/libculvert_preload.so mr,",
                    "/run/culvert/*/xfrm.sock rw,",
                    "/etc/apparmor.d/local/usr.sbin.charon-systemd",
                    "apparmor_parser -r",
                ],
            ),
            (
                |f| f.programs.denials = vec![denial(false, "culvert", "/etc/x")],
                "apparmor",
                Warning,
                &["the daemon would be denied: open /etc/x\"", "/etc/apparmor.d/local/culvert"],
            ),
            (
                |f| {
                    let one = denial(false, "culvert", "/etc/x");
                    f.programs.denials = vec![one, denial(true, "culvert//child", "/etc/y")];
                },
                "apparmor",
                Problem,
                &[
                    "the daemon was denied: open /etc/y and 1 more",
                    "apparmor_parser -r /etc/apparmor.d/culvert",
                ],
            ),
            (
                |f| {
                    f.programs.denials =
                        vec![denial(true, "/usr/sbin/charon", "/run/culvert/gwa/xfrm.sock")]
                },
                "apparmor",
                Problem,
                &["the IKE daemon was denied", "local/usr.sbin.charon"],
            ),
        ];
        assert_rows(check, rows);
    }
}
