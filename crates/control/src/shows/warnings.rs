//! Warnings of `culvert status`, each of a kind that `culvert doctor` has advice for.

use std::sync::atomic::Ordering::Relaxed;

use offload::PacketSa;
use policy::Direction;
use report::WarningKind as Kind;
use report::{Warning, Warnings};

use super::tunnel_state::waiting_policies;
use super::{Parts, Shows};
use crate::linux::vlan_entries;

/// Warnings of one kind.
fn all<T: Into<String>>(
    kind: Kind,
    texts: impl IntoIterator<Item = T>,
) -> impl Iterator<Item = Warning> {
    texts.into_iter().map(move |text| Warning::new(kind.clone(), text))
}

/// All of them. `is_any_up`: a tunnel is up, so a policy without SAs is worth a word.
pub(super) fn warnings(parts: Parts<'_>, shows: &Shows, is_any_up: bool) -> Warnings {
    let snapshot = parts.linux.observer.snapshot();
    let mut warnings: Vec<Warning> = parts.life.reloads.warnings(parts.now).collect();
    warnings.extend(of_ports(parts));
    warnings.extend(all(Kind::IdleVlan, vlan_entries::warnings(parts.config, snapshot)));
    let segments = parts.linux.reflection.segments_seen().warnings();
    warnings.extend(all(Kind::ClosedSegments, segments));
    let overlays = parts.linux.overlays.warnings(snapshot);
    warnings.extend(all(Kind::OverlayLeft, overlays));
    warnings.extend(parts.crew.esp_sockets.warnings());
    warnings.extend(parts.sa.guard_trouble.clone());
    warnings.extend(all(Kind::BarrierRefused, parts.sa.guard.warnings()));
    warnings.extend(all(Kind::EarlyAcquire, shows.early_trouble.clone()));
    warnings.extend(all(Kind::Unrecognised, parts.crew.recognition.warning()));
    warnings.extend(all(Kind::CleartextInterface, parts.linux.marks.way_back.warnings()));
    warnings.extend(all(Kind::LostInHang, parts.life.past_daemon.warnings()));
    warnings.extend(all(Kind::SenderCpu, parts.sa.by_sender.warnings()));
    warnings.extend(of_defaults(parts));
    warnings.extend(all(Kind::PathDegraded, parts.crew.paths.warnings()));
    warnings.extend(all(Kind::BfdDown, parts.crew.bfd.warnings()));
    warnings.extend(all(Kind::Seccomp, parts.life.confinement.warning()));
    let idle = parts.crew.workers.layout().warning(parts.crew.ports.most_queues());
    warnings.extend(all(Kind::IdleWorkers, idle));
    warnings.extend(parts.sa.source.warnings());
    if is_any_up {
        warnings.extend(all(Kind::NoSasCame, waiting_policies(parts, &shows.asked)));
    }
    warnings.extend(all(Kind::DeviceDown, parts.offload.devices.borrow().warnings()));
    let has_tunnel = |if_id| parts.carries_if_id(if_id);
    warnings.extend(parts.sa.shortfalls.warnings(snapshot, has_tunnel));
    warnings.extend(of_sas(parts));
    Warnings(warnings)
}

/// Ports that do not work, and peers that break the rules.
fn of_ports(parts: Parts<'_>) -> impl Iterator<Item = Warning> {
    let troubles = parts.crew.ports.troubles().chain(parts.linux.memifs.troubles());
    let down = troubles.filter_map(|(port, why)| Some(format!("port {port}: {}", why?)));
    let faults = parts.linux.memifs.states().filter(|p| !p.faults.is_empty()).map(|p| {
        let faults = p.faults.iter().map(|(fault, count)| format!("{fault} {count}"));
        let faults = faults.collect::<Vec<_>>().join(", ");
        format!("port {}: its peers broke the rules of memif: {faults}", p.interface)
    });
    all(Kind::PortDown, down).chain(all(Kind::MemifFaults, faults))
}

/// Traffic that no policy is about, and traffic without a daemon.
fn of_defaults(parts: Parts<'_>) -> impl Iterator<Item = Warning> {
    let (guard, stands_guard) = (&parts.config.guard, parts.sa.source.stands_guard());
    let off = (!guard.enabled && !stands_guard).then(|| match parts.sa.is_guarded(guard) {
        false => "guard.enabled = false: if the daemon dies, traffic leaves in clear",
        true => {
            "guard.enabled = false, but a default action blocks, and only the guard can \
                 carry that out: it stands (`ip xfrm policy getdefault`)"
        }
    });
    let mut blocked = parts.sa.defaults().directions();
    let blocks = stands_guard && blocked.any(|way| way == Direction::Out);
    let blocks = blocks.then_some(
        "the kernel's default action blocks what leaves: so it refuses to send its own packets \
         to culvert0, also those that a policy protects; a policy with `action block` of the last \
         priority blocks the same and spares culvert0 (`ip xfrm policy getdefault`)",
    );
    all(Kind::GuardOff, off).chain(all(Kind::DefaultBlocks, blocks))
}

/// SAs that decrypt nothing, are weak, unprotected or near their end.
fn of_sas(parts: Parts<'_>) -> Vec<Warning> {
    let databases = parts.sa.source.databases();
    let snapshot = parts.linux.observer.snapshot();
    let mut warnings = Vec::new();
    let mut warn = |kind, text: String| warnings.push(Warning::new(kind, text));
    let local = |addr| snapshot.addresses().any(|a| a.addr == addr);
    let topology = parts.crew.tables.topology.load();
    let marked = databases
        .sas()
        .filter(|sa| !sa.config.mark.matches(0) && local(sa.config.params.dst))
        .filter(|sa| topology.tunnels.of_sa(&sa.config).is_none())
        .count();
    if marked > 0 {
        let text = format!(
            "{marked} inbound SAs have a mark, which no ESP packet has, and no tunnel interface \
             between their ends has it: they decrypt nothing; leave mark_in_sa out of \
             swanctl.conf"
        );
        warn(Kind::MarkedSas, text);
    }
    if parts.config.crypto.allow_weak {
        let weak =
            databases.sas().filter(|sa| sa.config.params.suite.weaknesses().next().is_some());
        let weak = weak.count();
        let text =
            format!("crypto.allow_weak = true: DES, 3DES and MD5 are taken; {weak} SAs use them");
        warn(Kind::WeakSuites, text);
    }
    let without_window = databases
        .sas()
        .filter(|sa| sa.config.params.replay_window == 0 && sa.esp.live().edge().load(Relaxed) > 0);
    let without_window = without_window.count();
    if without_window > 0 {
        warn(Kind::ReplayOff, format!("{without_window} inbound SAs have replay protection off"));
    }
    let near_wrap = databases
        .sas()
        .filter(|sa| PacketSa::of(sa.esp.session()).is_none())
        .filter(|sa| !matches!(sa.esp.numbers_left(), esp::NumbersLeft::Ample))
        .count();
    if near_wrap > 0 {
        let text = format!("{near_wrap} SAs are near their last sequence number: rekey");
        warn(Kind::NumbersNearEnd, text);
    }
    warnings
}
