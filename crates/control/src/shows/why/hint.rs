//! Changes that would change a packet's fate.

use dataplane::{Came, Fate, Step};
use esp::Mode;
use forward::Resolution;
use outcome::DropReason;
use policy::{SaConfig, Template};

use super::explainer::Explainer;

impl Explainer<'_> {
    /// Hints for the operator, each with its command where there is one. A policy helps against
    /// nothing that befalls key exchange.
    pub(super) fn hints(
        &self,
        fate: &Fate,
        steps: &[Step],
        came: &Came,
        is_key_exchange: bool,
    ) -> Vec<String> {
        let index = steps.iter().rev().find_map(|step| match step {
            Step::Policy { index, .. } => *index,
            _ => None,
        });
        let policy = index.map_or_else(|| "the policy".into(), |index| format!("policy {index}"));
        let unknown = steps.iter().find_map(|step| match step {
            // One that Linux has doubts about is used all the same.
            Step::Neighbour { resolution: Resolution::Resolved { .. }, .. } => None,
            Step::Neighbour { ifindex, addr, .. } => Some((*ifindex, *addr)),
            _ => None,
        });
        let mut hints = Vec::new();
        match fate {
            Fate::WaitsForSa { policy } => hints.push(format!(
                "policy {policy} needs an SA of its template (`culvert policy`): start the tunnel \
                 (`swanctl --initiate --child NAME`), and see the IKE daemon's log if it does not come up"
            )),
            Fate::Answered(_, reason) | Fate::Dropped(reason) => {
                hints.extend(self.of_tunnel(*reason, came, index));
                hints.extend(of_drop(*reason, &policy));
            }
            Fate::ToLinux { .. } | Fate::Forwarded if !is_key_exchange && matches!(came, Came::Port { .. } | Came::Linux { .. }) => {
                hints.push(
                    "to protect it, a policy out has to match it: `swanctl --list-conns` shows the \
                     traffic selectors, `culvert policy` the policies"
                        .into(),
                );
            }
            _ => {}
        }
        if let Some((ifindex, addr)) = unknown {
            let name = self.linux.name_of(ifindex);
            hints.push(format!(
                "{addr} has to answer on {name}: `ip neigh show {addr} dev {name}` shows what Linux knows"
            ));
        }
        hints
    }
}

impl Explainer<'_> {
    /// Hint for a question about a packet in clear where a tunnel is: one out of the tunnel may
    /// have been meant.
    fn of_tunnel(&self, reason: DropReason, came: &Came, index: Option<u32>) -> Option<String> {
        let &Came::Port { ifindex } = came else { return None };
        if reason != DropReason::InCleartext {
            return None;
        }
        let databases = self.sa.source.databases();
        let policy = databases.policy(index?)?;
        let topology = self.crew.tables.topology.load();
        let sa = databases.sas().filter(|sa| {
            let templates = &policy.config.templates;
            sa.state().is_usable()
                && topology.is_local_addr(sa.config.params.dst)
                && templates.iter().any(|template| is_asked_for(&sa.config, template))
        });
        let spi = sa.max_by_key(|sa| sa.config.generation)?.config.params.spi;
        Some(in_tunnel(&self.linux.name_of(ifindex), spi))
    }
}

/// True if a template of an inbound policy asks for an SA.
fn is_asked_for(sa: &SaConfig, template: &Template) -> bool {
    let is_between = sa.params.src == template.src && sa.params.dst == template.dst;
    sa.params.mode == template.mode
        && (template.reqid == 0 || sa.reqid == template.reqid)
        && (is_between || template.mode == Mode::Transport)
}

fn in_tunnel(interface: &str, spi: u32) -> String {
    format!(
        "asked of a packet in clear on {interface}; of one that came out of the tunnel: --spi {spi:#010x}"
    )
}

/// Remedy for a drop. `None` for those that a packet has by its own fault, or that a whole packet
/// made here cannot have.
fn of_drop(reason: DropReason, policy: &str) -> Option<String> {
    Some(match reason {
        DropReason::InCleartext => format!(
            "{policy} wants it protected: the peer has to send it by its SA; a policy of higher priority \
             (`ip xfrm policy add ... priority`, or a `pass` child of swanctl's) lets it through in clear"
        ),
        DropReason::InPolicy => "the SA has to be of a policy that matches what is inside: compare the \
            traffic selectors of both ends (`swanctl --list-sas`)"
            .into(),
        DropReason::InSelector => {
            "the SA's own selector does not have these addresses: `ip xfrm state` shows it".into()
        }
        DropReason::InPolicyBlock | DropReason::OutPolicyBlock => format!(
            "{policy} blocks it, or the default does (`ip xfrm policy getdefault`): delete it, or add one \
             of higher priority"
        ),
        DropReason::OutUnsupported => {
            format!("{policy} asks for what culvert lacks: `culvert status` has the reason")
        }
        DropReason::OutNoTunnel => "no policy of the tunnel interface's if_id or marks matches: \
            `culvert policy` shows them"
            .into(),
        DropReason::InStateExpired | DropReason::OutStateExpired => {
            "the SA has ended: it has to be rekeyed (`swanctl --rekey --child NAME`)".into()
        }
        DropReason::MartianSource => {
            "no packet on a wire may have this source: ask with the source that the sender uses".into()
        }
        DropReason::ReversePath => "the route to its source leads elsewhere: add a route, or relax \
            `net.ipv4.conf.INTERFACE.rp_filter`"
            .into(),
        DropReason::NoRoute | DropReason::RouteProhibited => {
            "`culvert route` shows the routes as the data path has them, `ip route get` as Linux does".into()
        }
        DropReason::NoPath => "`culvert path` shows what is wrong with the paths of the rule; \
            `otherwise = \"best\"` in it would take the least bad one"
            .into(),
        DropReason::SteerCleartext => "a policy has to let it pass in clear (strongSwan: a child with \
            `mode = pass`), or its rule has to name no uplink: `culvert policy` shows the policies"
            .into(),
        DropReason::EgressNotPort => "the peer has to be reached by a port: add the interface as [[port]], \
            or route the peer by one"
            .into(),
        DropReason::OutTooBig => "the sender has to send shorter packets: `culvert sa` shows the MTU of \
            each SA; `clamp_mss = true` in [path_mtu] tells TCP"
            .into(),
        DropReason::TtlExceeded => "a packet with a higher TTL would go on: --ttl 64".into(),
        DropReason::ForwardLoop => "Linux has to deliver it: its destination is this host's own".into(),
        DropReason::InMark => "Linux has to be told of the mark: `culvert status` warns why it cannot".into(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::testing::{self, HERE, THERE};

    #[test]
    fn a_tunnels_sa_is_named_to_who_asks_of_a_packet_in_clear() {
        let sa = testing::config(0x101, (THERE, HERE), 7);
        assert!(is_asked_for(&sa, &testing::template((THERE, HERE), 7)));
        assert!(!is_asked_for(&sa, &testing::template((THERE, HERE), 8)), "another tunnel's");
        assert!(!is_asked_for(&sa, &testing::template((HERE, THERE), 7)), "the other direction");
        let said = "asked of a packet in clear on wan; of one that came out of the tunnel: --spi 0x00000101";
        assert_eq!(in_tunnel("wan", 0x101), said);
    }

    #[test]
    fn what_a_policy_or_route_drops_has_a_remedy() {
        for reason in [
            DropReason::InCleartext,
            DropReason::InPolicy,
            DropReason::InPolicyBlock,
            DropReason::OutPolicyBlock,
            DropReason::OutUnsupported,
            DropReason::OutNoTunnel,
            DropReason::ReversePath,
            DropReason::NoRoute,
            DropReason::NoPath,
            DropReason::SteerCleartext,
            DropReason::EgressNotPort,
            DropReason::OutTooBig,
        ] {
            assert!(of_drop(reason, "policy 1").is_some(), "{}", reason.name());
        }
        assert_eq!(of_drop(DropReason::InIntegrity, "policy 1"), None);
    }
}
