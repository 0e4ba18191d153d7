//! SAs of raw ESP where ESP in UDP would be faster.
//!
//! Packet sockets send and receive UDP datagrams of one length as one super-packet; for raw ESP there is no such kind. Any
//! IKE daemon with NAT traversal (RFC 3947) agrees to ESP in UDP when one end asks for it. What the peer gains, and whether
//! its network lets UDP port 4500 pass, is not known here.

use report::{PortKind, SaMode, SaProtocol};

use super::facts::{Facts, Running};
use super::finding::Finding;

/// One line at most. Nothing beside a kernel, whose SAs are not super-packets' in any case.
pub fn check(facts: &Facts) -> Vec<Finding> {
    let Some(Ok(running)) = &facts.instance.daemon else { return Vec::new() };
    if facts.is_beside_kernel() || !takes_super_packets(running) {
        return Vec::new();
    }
    let raw = running.sas.iter().filter(|sa| {
        // ESP in UDP over IPv6 is not for every peer: Linux has had it since 5.8.
        sa.protocol == SaProtocol::Esp
            && sa.encap.is_none()
            && sa.mode == SaMode::Tunnel
            && !sa.dst.contains(':')
    });
    let count = raw.count();
    if count == 0 {
        return Vec::new();
    }
    let seen = format!(
        "{count} SAs of raw ESP go packet by packet; as ESP in UDP they would go in super-packets: encap = yes in \
         swanctl.conf of one end (measured between virtual interfaces: TCP at twice the rate; not measured with cards)"
    );
    vec![Finding::ok("encapsulation", seen)]
}

/// True if all interfaces that ESP may come by have packet sockets. It is not known by which of
/// them it comes.
fn takes_super_packets(running: &Running) -> bool {
    let mut ports = running
        .ports
        .iter()
        .filter(|p| matches!(p.kind, PortKind::AfXdp | PortKind::Packet | PortKind::Auto));
    let has_any = ports.clone().next().is_some();
    has_any && ports.all(|port| port.kind == PortKind::Packet)
}

#[cfg(test)]
mod tests {
    use report::Sa;

    use super::super::facts::{healthy, healthy_daemon};
    use super::super::finding::Outcome;
    use super::*;

    fn raw() -> Sa {
        Sa {
            protocol: "esp".into(),
            mode: "tunnel".into(),
            src: "192.0.2.1".into(),
            dst: "192.0.2.2".into(),
            ..Sa::default()
        }
    }

    fn said(spoil: impl Fn(&mut Running)) -> Vec<Finding> {
        let mut running = healthy_daemon();
        running.ports.iter_mut().for_each(|port| port.kind = "packet".into());
        running.sas = vec![raw(), raw()];
        spoil(&mut running);
        let mut facts = healthy();
        facts.instance.daemon = Some(Ok(running));
        check(&facts)
    }

    #[test]
    fn raw_esp_by_packet_sockets_is_told_what_is_faster() {
        let [found] = &said(|_| {})[..] else { panic!("one finding") };
        assert_eq!(found.result, Outcome::Ok, "it works as it is");
        assert!(
            found.seen.contains("2 SAs") && found.seen.contains("encap = yes"),
            "{}",
            found.seen
        );
        assert!(said(|r| r.sas[0].encap = Some((4500, 4500)))[0].seen.contains("1 SAs"));
    }

    #[test]
    fn nothing_is_told_where_it_would_not_help_or_might_not_work() {
        let silent: [fn(&mut Running); 6] = [
            |r| r.ports[0].kind = "af-xdp".into(),
            |r| r.sas.iter_mut().for_each(|sa| sa.encap = Some((4500, 4500))),
            |r| r.sas.iter_mut().for_each(|sa| sa.dst = "2001:db8::2".into()),
            |r| r.sas.iter_mut().for_each(|sa| sa.protocol = "ah".into()),
            |r| r.sas.iter_mut().for_each(|sa| sa.mode = "iptfs".into()),
            |r| r.status.source = "kernel".into(),
        ];
        for (number, spoil) in silent.into_iter().enumerate() {
            assert!(said(spoil).is_empty(), "{number}");
        }
        assert!(check(&healthy()).is_empty(), "no daemon runs");
    }
}
