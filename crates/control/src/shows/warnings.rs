//! Warnings of `culvert status`, each of a kind that `culvert doctor` has advice for.

use std::sync::atomic::Ordering::Relaxed;

use offload::PacketSa;
use policy::Direction;
use report::WarningKind as Kind;
use report::{Warning, Warnings};

use crate::Daemon;
use crate::clock::Now;
use crate::linux::vlan_entries;

/// Warnings of one kind.
fn all<T: Into<String>>(
    kind: Kind,
    texts: impl IntoIterator<Item = T>,
) -> impl Iterator<Item = Warning> {
    texts.into_iter().map(move |text| Warning::new(kind.clone(), text))
}

impl Daemon {
    /// All of them. `is_any_up`: a tunnel is up, so a policy without SAs is worth a word.
    pub(super) fn warnings(&self, now: Now, is_any_up: bool) -> Warnings {
        let snapshot = self.linux.observer.snapshot();
        let mut warnings: Vec<Warning> = self.life.reloads.warnings(now).collect();
        warnings.extend(self.of_ports());
        warnings.extend(all(Kind::IdleVlan, vlan_entries::warnings(&self.config, snapshot)));
        let segments = self.linux.reflection.segments_seen().warnings();
        warnings.extend(all(Kind::ClosedSegments, segments));
        warnings.extend(self.crew.esp_sockets.warnings());
        warnings.extend(self.sa.guard_trouble.clone());
        warnings.extend(all(Kind::BarrierRefused, self.sa.guard.warnings()));
        warnings.extend(all(Kind::EarlyAcquire, self.shows.early_trouble.clone()));
        warnings.extend(all(Kind::CleartextInterface, self.linux.way_back.warnings()));
        warnings.extend(all(Kind::LostInHang, self.life.past_daemon.warnings()));
        warnings.extend(all(Kind::SenderCpu, self.sa.by_sender.warnings()));
        warnings.extend(self.of_defaults());
        warnings.extend(all(Kind::Seccomp, self.life.confinement.warning()));
        let idle = self.crew.workers.plan().warning(self.crew.ports.most_queues());
        warnings.extend(all(Kind::IdleWorkers, idle));
        warnings.extend(self.sa.source.warnings());
        if is_any_up {
            warnings.extend(all(Kind::NoSasCame, self.waiting_policies(now)));
        }
        warnings.extend(all(Kind::DeviceDown, self.offload.devices.borrow().warnings()));
        let has_tunnel = |if_id| self.carries_if_id(if_id);
        warnings.extend(self.sa.shortfalls.warnings(snapshot, has_tunnel));
        warnings.extend(self.of_sas());
        Warnings(warnings)
    }

    /// Ports that do not work, and peers that break the rules.
    fn of_ports(&self) -> impl Iterator<Item = Warning> {
        let troubles = self.crew.ports.troubles().chain(self.linux.memifs.troubles());
        let down = troubles.filter_map(|(port, why)| Some(format!("port {port}: {}", why?)));
        let faults = self.linux.memifs.states().filter(|p| !p.faults.is_empty()).map(|p| {
            let faults = p.faults.iter().map(|(fault, count)| format!("{fault} {count}"));
            let faults = faults.collect::<Vec<_>>().join(", ");
            format!("port {}: its peers broke the rules of memif: {faults}", p.interface)
        });
        all(Kind::PortDown, down).chain(all(Kind::MemifFaults, faults))
    }

    /// Traffic that no policy is about, and traffic without a daemon.
    fn of_defaults(&self) -> impl Iterator<Item = Warning> {
        let is_beside_kernel = self.sa.source.is_beside_kernel();
        let off =
            (!self.config.guard.enabled && !is_beside_kernel).then(|| match self.is_guarded() {
                false => "guard.enabled = false: if the daemon dies, traffic leaves in clear",
                true => {
                    "guard.enabled = false, but a default action blocks, and only the guard can \
                     carry that out: it stands (`ip xfrm policy getdefault`)"
                }
            });
        let mut blocked = self.defaults().directions();
        let blocks = is_beside_kernel && blocked.any(|way| way == Direction::Out);
        let blocks = blocks.then_some(
            "the kernel's default action blocks what leaves: so it refuses to send its own packets \
             to culvert0, also those that a policy protects; a policy with `action block` of the last \
             priority blocks the same and spares culvert0 (`ip xfrm policy getdefault`)",
        );
        all(Kind::GuardOff, off).chain(all(Kind::DefaultBlocks, blocks))
    }

    /// SAs that decrypt nothing, are weak, unprotected or near their end.
    fn of_sas(&self) -> Vec<Warning> {
        let databases = self.sa.source.databases();
        let snapshot = self.linux.observer.snapshot();
        let mut warnings = Vec::new();
        let mut warn = |kind, text: String| warnings.push(Warning::new(kind, text));
        let local = |addr| snapshot.addresses().any(|a| a.addr == addr);
        let topology = self.crew.tables.topology.load();
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
        if self.config.crypto.allow_weak {
            let weak =
                databases.sas().filter(|sa| sa.config.params.suite.weaknesses().next().is_some());
            let weak = weak.count();
            let text = format!(
                "crypto.allow_weak = true: DES, 3DES and MD5 are taken; {weak} SAs use them"
            );
            warn(Kind::WeakSuites, text);
        }
        let without_window = databases.sas().filter(|sa| {
            sa.config.params.replay_window == 0 && sa.esp.live().edge().load(Relaxed) > 0
        });
        let without_window = without_window.count();
        if without_window > 0 {
            warn(
                Kind::ReplayOff,
                format!("{without_window} inbound SAs have replay protection off"),
            );
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
}
