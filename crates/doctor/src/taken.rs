//! Which SAs and policies of a kernel the fast path has taken, and what has the others taken.

use report::{Direction, Policy, PolicyAction, Sa, SaPlacement};

use super::finding::Finding;

const CHECK: &str = "beside";

/// The sums, and each SA and policy; those of one fate together.
pub fn check(sas: &[Sa], policies: &[Policy]) -> Vec<Finding> {
    let of_sas = sas.iter().map(|sa| {
        let direction = sa.direction.as_ref().map_or("-", Direction::as_str);
        let name = format!("SA {} ({direction} {} > {})", sa.spi, sa.src, sa.dst);
        let why =
            (sa.placement == SaPlacement::Kernel).then(|| sa.why.as_deref().unwrap_or(UNDECIDED));
        (name, why)
    });
    let of_policies = policies.iter().map(|policy| {
        let Policy { index, direction, src, dst, action, .. } = policy;
        let name = format!("policy {index} ({direction} {src} > {dst})");
        let why =
            (*action == PolicyAction::Leave).then(|| policy.why.as_deref().unwrap_or(UNDECIDED));
        (name, why)
    });
    let mut findings = several("SAs are in the fast path", "in the kernel", SLOW, of_sas.collect());
    findings.extend(several("policies are taken", "left to Linux", LEFT, of_policies.collect()));
    findings
}

/// Reason of an SA that has only just come.
const UNDECIDED: &str = "nothing is decided about it yet";

const SLOW: &str = "it works, at the kernel's speed";
const LEFT: &str = "its packets go by Linux, at the kernel's speed";

/// How many of a kind are taken, and each of them, with why it is not.
fn several(
    taken: &str,
    left: &str,
    harm: &str,
    mut all: Vec<(String, Option<&str>)>,
) -> Vec<Finding> {
    all.sort_by_key(|(_, why)| *why);
    let count = all.iter().filter(|(_, why)| why.is_none()).count();
    let sum = match all.len() {
        len if len == count => format!("all {len} {taken}"),
        len => format!("{count} of {len} {taken}"),
    };
    let each = all.into_iter().map(|(name, why)| match why {
        None => Finding::ok(CHECK, format!("{name}: taken")),
        Some(why) => Finding::warning(CHECK, format!("{name}: {left}: {why}"), harm, mend(why)),
    });
    std::iter::once(Finding::ok(CHECK, sum)).chain(each).collect()
}

/// Next step for an SA that is not taken, by the reason.
fn mend(why: &str) -> &'static str {
    const MENDS: [(&str, &str); 21] = [
        ("firewall = \"bypass\"", "remove the chain, or set firewall = \"bypass\" in [kernel]"),
        ("allow_weak", "propose AES-GCM; or set crypto.allow_weak = true"),
        ("offload", "set hw_offload = no for the child in swanctl.conf, and rekey it"),
        (
            "sets a mark",
            "leave set_mark_in and set_mark_out of the child in swanctl.conf, and rekey it",
        ),
        ("is down", "ip link set NAME up"),
        (
            "in the VRF",
            "nothing, if it is to be there; ip link set NAME nomaster takes it out of it",
        ),
        ("for the VRF", "nothing, if it is to be for the VRF; else a policy without dev"),
        (
            "IPv6 of this host is",
            "nothing: the kernel works on it; IPv4 between the hosts is taken",
        ),
        ("bridge or the like", "ip link set NAME nomaster"),
        ("names an interface", "ip xfrm state: leave dev out of the SA's selector"),
        ("on their way", "nothing: they arrive within milliseconds"),
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
    found.map_or("culvert sa shows it; docs/guides/beside-the-kernel.md, Not taken", |(_, mend)| {
        mend
    })
}

#[cfg(test)]
mod tests {
    use super::super::facts::sa;
    use super::super::finding::Outcome;
    use super::*;

    fn policy(index: u32, why: Option<&str>) -> Policy {
        let action = if why.is_some() { "leave" } else { "protect" }.into();
        let (direction, src, dst) = ("out".into(), "10.1.0.0/24".into(), "10.2.0.0/24".into());
        let why = why.map(Into::into);
        Policy { index, direction, src, dst, action, why, ..Policy::default() }
    }

    #[test]
    fn each_is_named_with_its_fate_and_what_mends_it() {
        let sas = [sa(Some("a device has it (offload)")), sa(None)];
        let policies = [policy(9, None), policy(17, Some("a template has no SA"))];
        let found = check(&sas, &policies);
        let seen: Vec<&str> = found.iter().map(|f| f.seen.as_str()).collect();
        assert_eq!(
            seen,
            [
                "1 of 2 SAs are in the fast path",
                "SA 0x00001000 (in 192.0.2.2 > 192.0.2.1): taken",
                "SA 0x00001000 (in 192.0.2.2 > 192.0.2.1): in the kernel: a device has it (offload)",
                "1 of 2 policies are taken",
                "policy 9 (out 10.1.0.0/24 > 10.2.0.0/24): taken",
                "policy 17 (out 10.1.0.0/24 > 10.2.0.0/24): left to Linux: a template has no SA",
            ]
        );
        let next: Vec<&str> = found.iter().filter_map(|f| f.next.as_deref()).collect();
        assert_eq!(
            next,
            [
                "set hw_offload = no for the child in swanctl.conf, and rekey it",
                "swanctl --initiate --child CHILD"
            ]
        );
        let all = check(&sas[1..], &[]);
        assert_eq!(all[0].seen, "all 1 SAs are in the fast path");
        assert!(all.iter().all(|f| f.result == Outcome::Ok));
    }

    #[test]
    fn reasons_have_what_mends_them() {
        let rows = [
            ("no XFRM interface here has its if_id", "ip link add NAME type xfrm"),
            ("it has an if_id, and sets a mark", "set_mark_in"),
            ("it is in the VRF red, which stays with the kernel", "nomaster"),
            ("it is for the VRF red, which stays with the kernel", "without dev"),
            ("its selector names an interface", "leave dev out"),
            ("only this host sends by it, and IPv6 of this host is the kernel's", "nothing"),
            ("another outbound policy with its if_id stays with the kernel", "culvert policy"),
            (
                "its SA 0x00000001 stays with the kernel: a device has it (offload)",
                "hw_offload = no",
            ),
            ("something else", "culvert sa"),
        ];
        for (why, words) in rows {
            assert!(mend(why).contains(words), "{why}: {}", mend(why));
        }
    }
}
