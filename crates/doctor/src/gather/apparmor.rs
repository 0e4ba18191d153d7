//! Looks at AppArmor: the profile of the IKE daemon, and how the kernel applies it.

use std::fs;
use std::path::Path;

use super::super::facts::{AppArmor, Confinement, PROFILES_DIR};

/// Confinement of an IKE daemon, by the files of its profile.
pub fn of_ike(ike: Option<&Path>) -> AppArmor {
    let Some(profile) = ike.and_then(profile_name) else {
        return AppArmor::Unconfined;
    };
    let read = |path: &Path| fs::read_to_string(path).ok();
    let dir = Path::new(PROFILES_DIR);
    apparmor_of(
        read(Path::new("/sys/module/apparmor/parameters/enabled")).as_deref(),
        read(&dir.join(&profile)).as_deref(),
        read(&dir.join("local").join(&profile)).as_deref(),
        profile,
    )
}

/// Where the kernel lists the profiles that are loaded.
const PROFILES: &str = "/sys/kernel/security/apparmor/profiles";

/// Effect of a denial of its profile in the kernel.
pub fn confinement(ike: Option<&Path>) -> Confinement {
    match (ike, fs::read_to_string(PROFILES)) {
        (Some(ike), Ok(profiles)) => confinement_in(&profiles, ike),
        _ => Confinement::Unknown,
    }
}

/// By lines as `/usr/sbin/charon-systemd (enforce)`. Profiles have the program's path as their name, or the last part of it.
fn confinement_in(profiles: &str, program: &Path) -> Confinement {
    let path = program.canonicalize().unwrap_or_else(|_| program.to_owned());
    let is_its = |name: &str| Path::new(name) == path || path.file_name() == Some(name.as_ref());
    let found = profiles.lines().find_map(|line| {
        let (name, mode) = line.rsplit_once(" (")?;
        is_its(name).then_some(mode.trim_end_matches(')'))
    });
    match found {
        None => Confinement::NotLoaded,
        Some("complain") => Confinement::Complain,
        Some(_) => Confinement::Enforce,
    }
}

/// Profiles are called as distributions do: `/usr/lib/ipsec/charon` is `usr.lib.ipsec.charon`.
fn profile_name(program: &Path) -> Option<String> {
    // `/sbin` may be a link to `/usr/sbin`.
    let path = program.canonicalize().unwrap_or_else(|_| program.to_owned());
    Some(path.to_str()?.strip_prefix('/')?.replace('/', "."))
}

/// By the module's parameter and the texts of the profile and its addition, where they are.
fn apparmor_of(
    enabled: Option<&str>,
    profile: Option<&str>,
    local: Option<&str>,
    name: String,
) -> AppArmor {
    let Some("Y") = enabled.map(str::trim) else {
        return AppArmor::Off;
    };
    let Some(profile) = profile else {
        return AppArmor::Unconfined;
    };
    let lines = profile.lines().chain(local.unwrap_or_default().lines());
    // `#include` is no comment.
    let counts = |line: &str| !line.starts_with('#') || line.starts_with("#include");
    if lines.map(str::trim_start).any(|line| counts(line) && line.contains("culvert")) {
        AppArmor::Aware
    } else {
        AppArmor::Unaware(name)
    }
}

#[cfg(test)]
mod tests {
    use report::paths;

    use super::*;

    #[test]
    fn apparmor_by_its_files() {
        let (rule, comment) = ("  /run/culvert/*/xfrm.sock rw,\n", "# culvert, some day\n");
        let profile = "profile {\n  #include <local/charon>\n}\n";
        let unaware = AppArmor::Unaware("charon".into());
        // The module's parameter, profile, addition.
        let rows = [
            (None, Some(profile), None, AppArmor::Off),
            (Some("N\n"), Some(profile), None, AppArmor::Off),
            (Some("Y\n"), None, None, AppArmor::Unconfined),
            (Some("Y\n"), None, Some(rule), AppArmor::Unconfined),
            (Some("Y\n"), Some(profile), None, unaware.clone()),
            (Some("Y\n"), Some(profile), Some(""), unaware.clone()),
            (Some("Y\n"), Some(profile), Some(comment), unaware),
            (Some("Y\n"), Some(profile), Some(rule), AppArmor::Aware),
            (Some("Y\n"), Some(profile), Some("#include <culvert>\n"), AppArmor::Aware),
            (Some("Y\n"), Some(rule), None, AppArmor::Aware),
        ];
        for (i, (enabled, profile, local, expected)) in rows.into_iter().enumerate() {
            assert_eq!(apparmor_of(enabled, profile, local, "charon".into()), expected, "row {i}");
        }
        let name = profile_name(Path::new("/no/such-dir/charon"));
        assert_eq!(name.as_deref(), Some("no.such-dir.charon"));
    }

    #[test]
    fn confinement_by_the_kernels_list() {
        use Confinement::{Complain, Enforce, NotLoaded};
        let program = Path::new("/no/such-dir/charon");
        let rows = [
            ("", NotLoaded),
            ("/no/such-dir/charon (enforce)\n", Enforce),
            ("/usr/sbin/tcpdump (enforce)\n/no/such-dir/charon (complain)\n", Complain),
            ("charon (kill)\n", Enforce),
            ("charon//null (enforce)\n/no/such-dir/charon-systemd (enforce)\n", NotLoaded),
        ];
        for (list, expected) in rows {
            assert_eq!(confinement_in(list, program), expected, "{list}");
        }
    }

    #[test]
    fn the_addition_that_is_shipped_counts() {
        let shipped = include_str!("../../../../packaging/apparmor/local-usr.sbin.charon-systemd");
        let of = |local| apparmor_of(Some("Y"), Some(""), Some(local), String::new());
        assert_eq!(of(shipped), AppArmor::Aware);
        // What the check tells the operator to add is what is shipped.
        let socket = format!("\n{} rw,\n", paths::xfrm_socket("*").display());
        assert!(shipped.contains(&socket), "{socket}");
    }
}
