//! The priorities of VLANs' tags: those of `[[vlan]]`, else those that Linux gives.

use dataplane::{CodePoints, Priorities, Remark};
use mirror::Link;

use config::VlanConfig;

/// A value of the entry for a VLAN, or else of that for its port.
fn configured<T>(
    config: &[VlanConfig],
    (vlan, port): (&Link, &Link),
    value: impl Fn(&VlanConfig) -> Option<T>,
) -> Option<T> {
    let of = |link: &Link| config.iter().find(|entry| entry.interface == link.name);
    [vlan, port].into_iter().find_map(|link| of(link).and_then(&value))
}

/// The priority of a VLAN's tag by DSCP, on this port.
pub fn of(config: &[VlanConfig], vlan: &Link, port: &Link) -> Option<Priorities> {
    let own = configured(config, (vlan, port), |entry| entry.dscp_to_pcp);
    own.or_else(|| vlan.vlan.as_ref().map(of_linux))
}

/// Which DSCP packets get by which tag of these VLANs, which lie on one another, the outermost first: the one
/// nearest to the packet that has a table.
pub fn remark<'l>(
    config: &[VlanConfig],
    vlans: impl Iterator<Item = &'l Link>,
    port: &Link,
) -> Option<Remark> {
    let tables = vlans.enumerate().filter_map(|(tag, vlan)| {
        let dscps = configured(config, (vlan, port), |entry| entry.pcp_to_dscp)?;
        Some(Remark { tag, dscps })
    });
    tables.last()
}

/// Which DSCP packets get that a port's priority tags are of.
pub fn of_port(config: &[VlanConfig], port: &Link) -> Option<CodePoints> {
    configured(config, (port, port), |entry| entry.pcp_to_dscp)
}

/// Difference of a VLAN's priorities from Linux's, for people; empty where there is none.
pub fn text(config: &[VlanConfig], vlan: &Link, port: &Link) -> &'static str {
    let of = (vlan, port);
    let to_pcp = configured(config, of, |entry| entry.dscp_to_pcp).is_some();
    let to_dscp = configured(config, of, |entry| entry.pcp_to_dscp).is_some();
    match (to_pcp, to_dscp) {
        (false, false) => "",
        (true, false) => ", PCP by DSCP",
        (false, true) => ", DSCP by PCP",
        (true, true) => ", PCP by DSCP and back",
    }
}

/// The priority of a tag by DSCP, as Linux finds it for IPv4: the DSCP gives the packet a priority
/// (`ip_tos2prio`, by the TOS bits of RFC 1349), and the device's `egress-qos-map` one to the tag.
fn of_linux(vlan: &mirror::Vlan) -> Priorities {
    std::array::from_fn(|dscp| {
        let priority = TOS_PRIORITIES.get(dscp & 0b111).copied().unwrap_or(0);
        vlan.egress_qos.get(&priority).copied().unwrap_or(0)
    })
}

/// The priority of Linux's packets by the lower three bits of the DSCP: low delay, high throughput, reliability.
const TOS_PRIORITIES: [u32; 8] = [0, 0, 2, 2, 6, 6, 4, 4];

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::sources::testing::xfrm_interface;

    fn link(name: &str, egress_qos: &[(u32, u8)]) -> Link {
        let egress_qos = egress_qos.iter().copied().collect::<BTreeMap<_, _>>();
        let vlan = Some(mirror::Vlan { tpid: 0x8100, id: 1, egress_qos });
        Link { name: name.into(), vlan, ..xfrm_interface(5, 0) }
    }

    fn entry(name: &str, pcp: Option<u8>, dscp: Option<u8>) -> VlanConfig {
        VlanConfig {
            interface: name.into(),
            dscp_to_pcp: pcp.map(|pcp| [pcp; 64]),
            pcp_to_dscp: dscp.map(|dscp| [Some(dscp); 8]),
        }
    }

    #[test]
    fn priorities_are_those_of_ipv4_in_linux() {
        let vlan = link("v", &[(0, 1), (2, 3), (4, 7), (6, 5)]);
        let priorities = of(&[], &vlan, &link("p", &[])).expect("a VLAN");
        // Best effort, class selector 6, AF11, AF12, expedited forwarding.
        assert_eq!([0, 48, 10, 12, 46].map(|dscp: usize| priorities[dscp]), [1, 1, 3, 5, 7]);
    }

    #[test]
    fn a_vlan_s_entry_comes_before_its_port_s_and_that_before_linux_s() {
        let (vlan, inner, port) =
            (link("p.1", &[(0, 1)]), link("p.1.2", &[(0, 2)]), link("p", &[]));
        let pcp = |config: &[VlanConfig], vlan| of(config, vlan, &port).expect("a VLAN")[0];
        let of_port = entry("p", Some(4), Some(40));
        let both = [of_port.clone(), entry("p.1", Some(6), None)];
        assert_eq!([pcp(&[], &vlan), pcp(&both[..1], &vlan), pcp(&both, &vlan)], [1, 4, 6]);
        assert_eq!([pcp(&both, &inner), pcp(&both[1..], &inner)], [4, 2]);
        let tables = |config: &[VlanConfig]| {
            let found = remark(config, [&vlan, &inner].into_iter(), &port);
            found.map(|r| (r.tag, r.dscps[0]))
        };
        assert_eq!(tables(&[]), None);
        assert_eq!(tables(&both), Some((1, Some(40))), "the port's is that of both tags");
        assert_eq!(tables(&[entry("p.1", None, Some(8))]), Some((0, Some(8))));
        let each = [entry("p.1", None, Some(8)), entry("p.1.2", None, Some(9))];
        assert_eq!(tables(&each), Some((1, Some(9))));
        assert_eq!(super::of_port(&both, &port), Some([Some(40); 8]));
        assert_eq!(super::of_port(&each, &port), None);
        let shown = [&[][..], &both, &both[1..], &each].map(|config| text(config, &vlan, &port));
        assert_eq!(shown, ["", ", PCP by DSCP and back", ", PCP by DSCP", ", DSCP by PCP"]);
    }
}
