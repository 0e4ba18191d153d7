//! `culvert port`: ports, the private interface and tunnel interfaces.

use std::collections::BTreeMap;

use report::{self, PortKind, State};

use super::Parts;
use crate::slots;
use crate::texts::{binding_text, mac_text};

/// A row for each interface that packets come and go by.
pub fn rows(parts: Parts<'_>) -> Vec<report::Port> {
    let snapshot = parts.linux.observer.snapshot();
    let workers = parts.crew.workers.count();
    let row = |interface: &str, kind: PortKind, state, mode, passed, stats: Vec<io::PortStats>| {
        let link = snapshot.link_by_name(interface);
        let mac = link.and_then(|l| l.mac).map_or_else(|| "-".into(), mac_text);
        let mut sum = io::PortStats::default();
        stats.iter().for_each(|stats| sum += *stats);
        report::Port {
            interface: interface.into(),
            kind,
            if_id: None,
            vlan: Vec::new(),
            state,
            mode,
            chosen: None,
            stripped_tags: None,
            queues: stats.len() as u32,
            mtu: link.map_or(0, |l| l.mtu),
            mac,
            rx_packets: sum.rx_packets,
            rx_bytes: sum.rx_bytes,
            tx_packets: sum.tx_packets,
            tx_bytes: sum.tx_bytes,
            passed_to_linux: passed,
            faults: port_faults(&sum),
            by_queue: stats.iter().enumerate().map(|row| queue_row(row, workers)).collect(),
        }
    };
    let mut rows: Vec<_> = parts
        .crew
        .ports
        .states()
        .map(|p| report::Port {
            chosen: p.chosen,
            stripped_tags: p.stripped_tags,
            queues: p.queues,
            ..row(p.interface, p.kind.into(), p.state.into(), p.mode.into(), p.passed, p.stats)
        })
        .collect();
    rows.extend(parts.linux.memifs.states().map(|p| {
        let (state, mode) = (p.state, p.mode.into());
        let row = row(p.interface, PortKind::Memif, state, mode, p.passed, p.stats);
        let faults = p.faults.into_iter().map(|(fault, count)| (fault.to_owned(), count));
        report::Port { faults: faults.chain(row.faults).collect(), ..row }
    }));
    rows.extend(parts.crew.esp_sockets.states().map(|(name, stats)| {
        row(&name, PortKind::Udp, State::Up, "ESP in UDP".into(), 0, vec![stats])
    }));
    let is_port = |name: &str| rows.iter().any(|row| row.interface == name);
    let vlans: Vec<_> = parts.linux.vlans.states(snapshot, &parts.config.vlans, is_port);
    rows.extend(vlans.into_iter().map(|vlan| {
        let ids: Vec<String> = vlan.ids.iter().rev().map(u16::to_string).collect();
        let mode = format!("VLAN {} of {}{}", ids.join(" in "), vlan.port, vlan.priorities);
        report::Port {
            vlan: vlan.ids,
            rx_packets: vlan.stats.rx_packets,
            rx_bytes: vlan.stats.rx_bytes,
            tx_packets: vlan.stats.tx_packets,
            tx_bytes: vlan.stats.tx_bytes,
            ..row(&vlan.link.name, PortKind::Vlan, vlan.state.into(), mode.into(), 0, Vec::new())
        }
    }));
    let private = parts.crew.private.stats();
    rows.push(row(
        &parts.config.tun.interface,
        PortKind::Tun,
        State::Up,
        "vnet".into(),
        0,
        private,
    ));
    rows.extend(parts.linux.tunnels.states().map(|(config, ifindex, stats)| {
        let state = match snapshot.link(ifindex) {
            Some(link) if link.up => "up",
            Some(_) => "down: set the interface up",
            None => "in another network namespace",
        };
        let if_id = Some(config.if_id).filter(|id| *id != 0);
        let mode = binding_text(config);
        let row =
            row(&config.interface, PortKind::Tunnel, state.into(), mode.into(), 0, vec![stats]);
        report::Port { if_id, ..row }
    }));
    rows
}

/// Working ports, by what carries their packets.
pub fn by_kind(parts: Parts<'_>) -> BTreeMap<String, Vec<String>> {
    let ports = parts.crew.ports.working_kinds();
    let memifs = parts.linux.memifs.states().filter(|p| p.state == State::Up);
    let mut by_kind: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (interface, kind) in ports.chain(memifs.map(|p| (p.interface, "memif"))) {
        by_kind.entry(kind.into()).or_default().push(interface.into());
    }
    by_kind
}

/// Frames that a port could not take or send.
fn port_faults(sum: &io::PortStats) -> BTreeMap<String, u64> {
    let faults = [("rx-refused", sum.rx_refused), ("tx-refused", sum.tx_refused)];
    faults.into_iter().filter(|(_, n)| *n > 0).map(|(fault, n)| (fault.to_owned(), n)).collect()
}

/// A queue of an interface, by number.
fn queue_row((queue, stats): (usize, &io::PortStats), workers: usize) -> report::Queue {
    report::Queue {
        queue,
        worker: slots::worker_of(queue, workers),
        rx_packets: stats.rx_packets,
        rx_bytes: stats.rx_bytes,
        tx_packets: stats.tx_packets,
        tx_bytes: stats.tx_bytes,
    }
}
