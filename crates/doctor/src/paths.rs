//! MTUs of the paths to peers: as a router has reported, as a route says, and as IPv6 and tunnel interfaces need.

use std::collections::BTreeMap;

use report::{Direction, PortKind, Sa};

use super::facts::{Facts, Running};
use super::finding::Finding;

/// MTU that every link with IPv6 has (RFC 8200, section 5), in bytes.
const IPV6_LEAST: usize = 1280;

/// The outbound SAs to one peer, as far as paths need them.
#[derive(Debug)]
struct Peer {
    outer: usize,
    inner: usize,
    is_learnt: bool,
    reqids: Vec<u32>,
}

/// All of them; only a running daemon knows.
pub fn check(facts: &Facts) -> Vec<Finding> {
    let Some(Ok(running)) = &facts.instance.daemon else { return Vec::new() };
    let peers = peers(&running.sas);
    let mut findings: Vec<Finding> =
        peers.iter().flat_map(|(dst, peer)| of_peer(facts, running, dst, peer)).collect();
    findings.extend(tunnels(running));
    if findings.is_empty() && !peers.is_empty() {
        findings.push(all_well(&peers));
    }
    findings
}

fn peers(sas: &[Sa]) -> BTreeMap<&str, Peer> {
    let mut peers: BTreeMap<&str, Peer> = BTreeMap::new();
    for sa in sas {
        let (Some(outer), Some(inner)) = (sa.path_mtu, sa.inner_mtu) else { continue };
        let peer = peers.entry(&sa.dst).or_insert_with(|| Peer {
            outer,
            inner,
            is_learnt: false,
            reqids: Vec::new(),
        });
        (peer.outer, peer.inner) = (peer.outer.min(outer), peer.inner.min(inner));
        peer.is_learnt |= sa.is_path_mtu_learnt;
        peer.reqids.push(sa.reqid);
    }
    peers
}

fn of_peer(facts: &Facts, running: &Running, dst: &str, peer: &Peer) -> Vec<Finding> {
    let check = "path";
    let Peer { outer, inner, .. } = peer;
    let mut findings = Vec::new();
    if peer.is_learnt {
        findings.push(Finding::warning(
            check,
            format!("{dst}: a router has reported {outer} bytes; packets of {inner} fit the tunnel"),
            "longer ones are answered with an ICMP error, and connections hang where a firewall drops \
             that; what was reported is forgotten in time, and found out anew with a packet that is lost",
            format!(
                "ip route get {dst} shows the route: add it for {dst}, with mtu {outer} at its end; hosts \
                 behind this gateway: an MTU of {inner}"
            ),
        ));
    } else if least_mtu(facts).is_some_and(|least| *outer < least) {
        findings.push(Finding::ok(
            check,
            format!("{dst}: {outer} bytes, as its route says; packets of {inner} fit the tunnel"),
        ));
    }
    if *inner < IPV6_LEAST && carries_ipv6(running, peer) {
        findings.push(Finding::warning(
            check,
            format!("{dst}: packets of {inner} bytes fit its tunnels, and IPv6 sends {IPV6_LEAST}"),
            "a longer packet leaves as two fragments of ESP (RFC 2473, section 7.1): twice the packets, \
             and many firewalls drop fragments",
            format!(
                "a path of {} bytes to {dst}: ip route get {dst}, ip link show",
                IPV6_LEAST + outer - inner
            ),
        ));
    }
    findings
}

/// The smallest MTU of a port.
fn least_mtu(facts: &Facts) -> Option<usize> {
    facts.ports.iter().filter_map(|port| Some(port.link.as_ref()?.mtu as usize)).min()
}

/// True if a policy with an SA of the peer's is for IPv6.
fn carries_ipv6(running: &Running, peer: &Peer) -> bool {
    running.policies.iter().filter(|p| p.direction == Direction::Out && p.dst.contains(':')).any(
        |policy| {
            let asks = |reqid: &u32| {
                let end = format!("reqid {reqid}");
                policy.templates.iter().any(|template| template.ends_with(&end))
            };
            peer.reqids.iter().any(asks)
        },
    )
}

/// Tunnel interfaces that take longer packets than their SAs.
fn tunnels(running: &Running) -> Vec<Finding> {
    let found = running.ports.iter().filter(|port| port.kind == PortKind::Tunnel).filter_map(|port| {
        let if_id = port.if_id?;
        let of_it = running.sas.iter().filter(|sa| sa.if_id == if_id);
        let inner = of_it.filter_map(|sa| sa.inner_mtu).min()?;
        let name = &port.interface;
        (port.mtu as usize > inner).then(|| {
            Finding::warning(
                "path",
                format!("{name}: MTU {}, and packets of {inner} fit its SAs", port.mtu),
                "packets that are routed to it are too long at first, and each connection has to find out",
                format!("set mtu = {inner} for {name} in [[tunnel]], then: systemctl reload culvert"),
            )
        })
    });
    found.collect()
}

fn all_well(peers: &BTreeMap<&str, Peer>) -> Finding {
    let range = |of: fn(&Peer) -> usize| {
        let all = || peers.values().map(of);
        match (all().min().unwrap_or(0), all().max().unwrap_or(0)) {
            (least, most) if least == most => least.to_string(),
            (least, most) => format!("{least} to {most}"),
        }
    };
    let count = match peers.len() {
        1 => "1 peer".to_owned(),
        n => format!("{n} peers"),
    };
    let (outer, inner) = (range(|peer| peer.outer), range(|peer| peer.inner));
    Finding::ok("path", format!("{count}: paths take {outer} bytes, tunnels packets of {inner}"))
}

#[cfg(test)]
mod tests {
    use report::{Policy, Port};

    use super::super::facts::{healthy, healthy_daemon, sa};
    use super::super::finding::Outcome::{Ok as Fine, Warning};
    use super::super::rows::{Row, assert_rows};
    use super::*;

    /// A daemon with an outbound SA whose path takes so many bytes, 62 more than its tunnel.
    fn path(facts: &mut Facts, outer: usize) -> &mut Running {
        let (path_mtu, inner_mtu) = (Some(outer), Some(outer - 62));
        let (direction, dst) = (Some("out".into()), "192.0.2.2".into());
        let mut running = healthy_daemon();
        running.sas = vec![Sa { path_mtu, inner_mtu, direction, dst, ..sa(None) }];
        facts.instance.daemon = Some(Ok(running));
        facts.instance.daemon.as_mut().unwrap().as_mut().unwrap()
    }

    fn plain(facts: &mut Facts, outer: usize) {
        let _ = path(facts, outer);
    }

    fn policy(dst: &str, reqid: u32) -> Policy {
        let templates = vec![format!("tunnel 192.0.2.1 - 192.0.2.2 reqid {reqid}")];
        Policy { direction: "out".into(), dst: dst.into(), templates, ..Policy::default() }
    }

    fn tunnel(if_id: u32) -> Port {
        let (interface, kind, mtu) = ("ipsec0".into(), "tunnel".into(), 1400);
        Port { interface, kind, mtu, if_id: Some(if_id), ..Port::default() }
    }

    #[test]
    fn every_finding() {
        let rows: &[Row] = &[
            (
                |f| plain(f, 1500),
                "path",
                Fine,
                &["1 peer: paths take 1500 bytes, tunnels packets of 1438"],
            ),
            (
                |f| path(f, 1400).sas[0].is_path_mtu_learnt = true,
                "path",
                Warning,
                &["192.0.2.2: a router has reported 1400 bytes", "1338", "mtu 1400"],
            ),
            (|f| plain(f, 1400), "path", Fine, &["as its route says"]),
            (
                |f| path(f, 1300).policies.push(policy("2001:db8:2::/64", 1)),
                "path",
                Warning,
                &["packets of 1238 bytes fit", "fragments of ESP", "a path of 1342 bytes"],
            ),
            (
                |f| {
                    let running = path(f, 1400);
                    running.sas[0].if_id = 7;
                    running.ports.push(tunnel(7));
                },
                "path",
                Warning,
                &["ipsec0: MTU 1400, and packets of 1338", "mtu = 1338"],
            ),
        ];
        assert_rows(check, rows);
    }

    #[test]
    fn what_does_not_matter_is_no_finding() {
        let bad = |spoil: fn(&mut Running)| {
            let mut facts = healthy();
            spoil(path(&mut facts, 1300));
            check(&facts).into_iter().filter(|f| f.result != Fine).count()
        };
        assert_eq!(bad(|r| r.policies.push(policy("10.2.0.0/24", 1))), 0, "IPv4 alone");
        assert_eq!(bad(|r| r.policies.push(policy("2001:db8:2::/64", 11))), 0, "another's SA");
        assert_eq!(bad(|r| r.ports.push(tunnel(8))), 0, "no SA of it");
        // Inbound ones know of no path.
        assert_eq!(bad(|r| (r.sas[0].path_mtu, r.sas[0].inner_mtu) = (None, None)), 0);
        assert!(check(&healthy()).is_empty(), "no daemon");
    }
}
