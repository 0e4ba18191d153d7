//! Presence of tunnels, and the reason if there are none, as far as that is seen here: IKE goes past culvert.

use std::collections::HashSet;
use std::time::Duration;

use policy::{Action, Direction, PolicyConfig};
use report::{self, TunnelState};

use crate::sa::asked::Asked;
use crate::shows::Parts;
use crate::sources::Negotiations;
use crate::sources::builtin::Builtin;
use crate::texts::selector_text;

/// How long SAs may take to come. Packets are held for 5 s.
const PATIENCE: Duration = Duration::from_secs(4);

/// How long a negotiation that was given up is told of.
const RECENT: Duration = Duration::from_secs(600);

/// Facts where there is no tunnel.
#[derive(Clone, Debug, Default)]
struct Evidence {
    instance: String,
    is_beside_kernel: bool,
    /// SAs that the kernel has and the fast path has not.
    left_to_kernel: usize,
    /// Programs that are connected.
    clients: usize,
    negotiations: Negotiations,
    /// Outbound policies that protect.
    policies: usize,
    /// The policy that was asked for first, in words, and how long ago.
    asked: Option<(String, Duration)>,
}

/// Why there is no tunnel, and what would bring one up.
fn missing(evidence: &Evidence) -> (String, String) {
    let Evidence { instance, policies, .. } = evidence;
    let initiate = "swanctl --initiate --child CHILD".to_owned();
    if evidence.is_beside_kernel {
        return match evidence.left_to_kernel {
            0 => ("the kernel has no SA to send by".into(), initiate),
            1 => ("the kernel carries the 1 SA that there is".into(), "culvert sa says why".into()),
            n => (format!("the kernel carries all of {n} SAs"), "culvert sa says why".into()),
        };
    }
    if !evidence.negotiations.has_ike {
        let why = match evidence.clients {
            0 => "no IKE daemon is connected".into(),
            _ => "a program is connected, and none that negotiates SAs (an IKE daemon)".into(),
        };
        let name = match instance.as_str() {
            config::DEFAULT_NAME => String::new(),
            name => format!("--name {name} "),
        };
        return (why, format!("culvert exec {name}-- /usr/sbin/charon-systemd"));
    }
    let log = "the IKE daemon's log says why (journalctl -u strongswan), and so does swanctl --initiate --child CHILD";
    let given_up = evidence.negotiations.given_up.filter(|(_, ago)| *ago < RECENT);
    if let Some((peer, ago)) = evidence.negotiations.answered.filter(|(_, ago)| *ago >= PATIENCE) {
        return (
            format!(
                "{peer} has answered the first exchange of IKE, and not the second for {} s",
                ago.as_secs()
            ),
            "let UDP 4500 through on the way; ".to_owned() + log,
        );
    }
    if let Some((peer, ago)) = given_up {
        return (
            format!(
                "the IKE daemon gave up with {peer} {} s ago, after {peer} had answered: secret, identity or \
                 certificate, ESP proposals or traffic selectors do not fit",
                ago.as_secs()
            ),
            log.into(),
        );
    }
    match &evidence.asked {
        Some((policy, ago)) if *ago >= PATIENCE => (
            format!(
                "SAs for policy {policy} were asked for {} s ago, and none has come: the peer does not answer, or \
                 refuses the IKE proposals",
                ago.as_secs()
            ),
            log.into(),
        ),
        Some((policy, _)) => {
            (format!("SAs for policy {policy} are being negotiated"), "wait some seconds".into())
        }
        None if *policies > 0 => (
            format!("{policies} policies wait for their first packet"),
            format!("send one, or: {initiate}"),
        ),
        None => (
            "the IKE daemon is connected, and has set none up".into(),
            format!("swanctl --load-all, then: {initiate}"),
        ),
    }
}

/// State of the tunnels.
pub(crate) fn tunnel_state(parts: Parts<'_>, asked: &Asked) -> TunnelState {
    let databases = parts.sa.source.databases();
    let mut ends = HashSet::new();
    for sa in databases.sas() {
        let (config, params) = (&sa.config, &sa.config.params);
        if parts.crew.direction(params.src, params.dst) == Some(report::Direction::Out) {
            let mark = (config.mark.value, config.mark.mask);
            ends.insert((params.src, params.dst, config.reqid, config.if_id, mark));
        }
    }
    let (builtin, kernel) = (parts.sa.source.builtin(), parts.sa.source.kernel());
    let negotiations = builtin.map(|builtin| builtin.negotiations(parts.now)).unwrap_or_default();
    let is_beside_kernel = kernel.is_some();
    let state = TunnelState {
        up: ends.len(),
        has_ike: is_beside_kernel || negotiations.has_ike,
        ..TunnelState::default()
    };
    if state.up > 0 {
        return state;
    }
    let protects = |config: &PolicyConfig| {
        let asks = config.direction == Direction::Out && config.action == Action::Allow;
        asks && !config.templates.is_empty()
    };
    let asked = asked_in_vain(parts, asked).max_by_key(|(_, ago)| *ago);
    let (why, next) = missing(&Evidence {
        instance: parts.config.name.clone(),
        is_beside_kernel,
        left_to_kernel: kernel.map_or(0, |kernel| kernel.left().len()),
        clients: builtin.map_or(0, Builtin::client_count),
        negotiations,
        policies: databases.policies().filter(|p| protects(&p.config)).count(),
        asked,
    });
    TunnelState { why: Some(why), next: Some(next), ..state }
}

/// Policies that want SAs which have not come, beside tunnels that are up.
pub(crate) fn waiting_policies(parts: Parts<'_>, asked: &Asked) -> Vec<String> {
    let late = asked_in_vain(parts, asked).filter(|(_, ago)| *ago >= PATIENCE);
    let text = late.map(|(policy, ago)| {
        format!("policy {policy}: SAs were asked for {} s ago, and none has come", ago.as_secs())
    });
    text.collect()
}

/// Policies that have no SAs, in words, with how long ago these were asked for.
fn asked_in_vain<'d>(
    parts: Parts<'d>,
    asked: &'d Asked,
) -> impl Iterator<Item = (String, Duration)> + 'd {
    let databases = parts.sa.source.databases();
    asked.iter(parts.now).filter_map(move |(index, ago)| {
        let policy = databases.policy(index)?;
        let is_without = parts.sa.has_sas(&policy.config) == Some(false);
        is_without.then(|| (format!("{index} ({})", selector_text(&policy.config.selector)), ago))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evidence() -> Evidence {
        let negotiations = Negotiations { has_ike: true, ..Negotiations::default() };
        Evidence { instance: "default".into(), clients: 2, negotiations, ..Evidence::default() }
    }

    fn said(change: impl FnOnce(&mut Evidence)) -> (String, String) {
        let mut evidence = evidence();
        change(&mut evidence);
        missing(&evidence)
    }

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_hint_is_the_true_one() {
        let peer = "192.0.2.2".parse().unwrap();
        let policy = || "17 (10.1.0.0/24 > 10.2.0.0/24, any)".to_owned();
        type Row = (fn(&mut Evidence), &'static str, &'static str);
        let rows: [Row; 6] = [
            (
                |e| (e.clients, e.negotiations.has_ike) = (0, false),
                "no IKE daemon is connected",
                "culvert exec -- /usr/sbin/charon-systemd",
            ),
            (
                |e| (e.instance, e.negotiations.has_ike) = ("gwa".into(), false),
                "none that negotiates SAs",
                "culvert exec --name gwa -- ",
            ),
            (|_| {}, "has set none up", "swanctl --load-all"),
            (|e| e.policies = 2, "2 policies wait for their first packet", "--initiate"),
            (|e| e.is_beside_kernel = true, "the kernel has no SA", "--initiate"),
            (
                |e| (e.is_beside_kernel, e.left_to_kernel) = (true, 4),
                "the kernel carries all of 4 SAs",
                "culvert sa",
            ),
        ];
        for (change, why, next) in rows {
            let told = said(change);
            assert!(told.0.contains(why) && told.1.contains(next), "{told:?}");
        }
        let early = said(|e| e.asked = Some((policy(), s(1))));
        assert!(
            early.0.contains("policy 17 (10.1.0.0/24 > 10.2.0.0/24, any) are being"),
            "{early:?}"
        );
        let silent = said(|e| e.asked = Some((policy(), s(5))));
        assert!(silent.0.contains("5 s ago") && silent.0.contains("does not answer"), "{silent:?}");
        let refused = said(|e| {
            e.asked = Some((policy(), s(5)));
            e.negotiations.given_up = Some((peer, s(3)));
        });
        assert!(refused.0.contains("gave up with 192.0.2.2 3 s ago"), "{refused:?}");
        assert!(refused.0.contains("secret, identity"), "{refused:?}");
        let half = said(|e| e.negotiations.answered = Some((peer, s(9))));
        assert!(half.0.contains("not the second for 9 s") && half.1.contains("4500"), "{half:?}");
        // Long ago.
        let old = said(|e| e.negotiations.given_up = Some((peer, s(3600))));
        assert!(old.0.contains("has set none up"), "{old:?}");
        // Its user was told to use `culvert exec` though it had been used.
        for told in [early, silent, refused, half, old] {
            assert!(!told.0.contains("exec") && !told.1.contains("exec"), "{told:?}");
        }
    }
}
