//! Warnings of a running daemon: a text for people, and a kind for programs.

use std::ops::{Deref, DerefMut};

use serde::{Deserialize, Serialize};

use crate::words::words;

words! {
    /// The kind of a warning.
    WarningKind, "A kind that is not known here." {
        /// A reload was refused.
        ReloadRefused = "reload-refused",
        /// Keys of the configuration wait for a restart.
        RestartPending = "restart-pending",
        /// A port does not work.
        PortDown = "port-down",
        /// A peer of a memif port breaks the rules of memif.
        MemifFaults = "memif-faults",
        /// A `[[vlan]]` names an interface that is not there, or no port's.
        IdleVlan = "idle-vlan",
        /// SRv6 segments that no packet may come to, by their domain.
        ClosedSegments = "closed-segments",
        /// An overlay that the configuration names is left to Linux.
        OverlayLeft = "overlay-left",
        /// No IKE daemon has handed over its UDP socket.
        NoIkeSocket = "no-ike-socket",
        /// Sockets that were handed over were refused.
        RefusedSockets = "refused-sockets",
        /// The program `nft`, which the guard for IPv6 needs, cannot be started.
        NftMissing = "nft-missing",
        /// `nft` refuses the guard for IPv6.
        NftFails = "nft-fails",
        /// A barrier of the guard is refused, and one that blocks more stands in its place.
        BarrierRefused = "barrier-refused",
        /// The guard is not complete.
        GuardIncomplete = "guard-incomplete",
        /// The configuration has turned the guard off.
        GuardOff = "guard-off",
        /// SAs are not asked for before a firewall drops the packet.
        EarlyAcquire = "early-acquire",
        /// Applications of flows are not recognised though they should be.
        Unrecognised = "unrecognised",
        /// Cleartext comes to Linux by another interface than its port.
        CleartextInterface = "cleartext-interface",
        /// Packets are lost while the daemon hangs.
        LostInHang = "lost-in-hang",
        /// The SA of a packet of this host does not follow the sender's CPU.
        SenderCpu = "sender-cpu",
        /// The kernel's default action blocks its own packets too.
        DefaultBlocks = "default-blocks",
        /// The `bfdd` of `[bfd]` is not connected, or sessions of BFD are not up.
        BfdDown = "bfd-down",
        /// Measured paths are not within their bounds, or dead.
        PathDegraded = "path-degraded",
        /// System calls are not filtered.
        Seccomp = "seccomp",
        /// There are more workers than receive queues.
        IdleWorkers = "idle-workers",
        /// Firewalls are passed by.
        FirewallBypass = "firewall-bypass",
        /// Policies stay with the kernel because of a firewall.
        FirewallKeeps = "firewall-keeps",
        /// The kernel's SAs cannot be followed.
        KernelSource = "kernel-source",
        /// The vault is on a disk.
        VaultOnDisk = "vault-on-disk",
        /// Changes are not in the vault.
        VaultBehind = "vault-behind",
        /// SAs without UDP encapsulation were refused.
        NotInUdp = "not-in-udp",
        /// Several SAs have one key.
        SharedKeys = "shared-keys",
        /// The kernel has SAs of its own.
        KernelSas = "kernel-sas",
        /// SAs were asked for, and none has come.
        NoSasCame = "no-sas-came",
        /// An offload device is down.
        DeviceDown = "device-down",
        /// Policies ask for a series of SAs that is not carried out.
        UnsupportedPolicies = "unsupported-policies",
        /// Policies name an interface that is gone.
        InterfaceGone = "interface-gone",
        /// Policies have an `if_id` that no tunnel interface has.
        NoTunnelInterface = "no-tunnel-interface",
        /// Inbound SAs have a mark that no packet has.
        MarkedSas = "marked-sas",
        /// Weak algorithms are taken.
        WeakSuites = "weak-suites",
        /// Inbound SAs have replay protection off.
        ReplayOff = "replay-off",
        /// SAs are near their last sequence number.
        NumbersNearEnd = "numbers-near-end",
    }
}

/// A warning for the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// Kind of the warning, the same in every release.
    pub kind: WarningKind,
    /// Text for people, which may be worded anew at any time.
    pub text: String,
}

impl Warning {
    /// A warning of a kind.
    pub fn new(kind: WarningKind, text: impl Into<String>) -> Warning {
        Warning { kind, text: text.into() }
    }
}

/// The warnings of a daemon. In JSON they are two lists in one order, `warnings` and `warning_kinds`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Lists", into = "Lists")]
pub struct Warnings(pub Vec<Warning>);

impl Deref for Warnings {
    type Target = Vec<Warning>;

    fn deref(&self) -> &Vec<Warning> {
        &self.0
    }
}

impl DerefMut for Warnings {
    fn deref_mut(&mut self) -> &mut Vec<Warning> {
        &mut self.0
    }
}

/// Warnings as JSON has them.
#[derive(Serialize, Deserialize)]
struct Lists {
    warnings: Vec<String>,
    /// Missing in an answer of a daemon that tells no kinds.
    #[serde(default)]
    warning_kinds: Vec<WarningKind>,
}

impl From<Lists> for Warnings {
    fn from(lists: Lists) -> Warnings {
        let kinds = lists.warning_kinds.into_iter().chain(std::iter::repeat_with(Default::default));
        let warnings = lists.warnings.into_iter().zip(kinds);
        Warnings(warnings.map(|(text, kind)| Warning { kind, text }).collect())
    }
}

impl From<Warnings> for Lists {
    fn from(warnings: Warnings) -> Lists {
        let (warnings, warning_kinds) =
            warnings.0.into_iter().map(|warning| (warning.text, warning.kind)).unzip();
        Lists { warnings, warning_kinds }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json, to_value};

    use super::*;
    use crate::Status;

    #[test]
    fn json_has_texts_and_kinds_in_one_order() {
        let warnings = Warnings(vec![
            Warning::new(WarningKind::PortDown, "port wan: no such interface"),
            Warning::new(WarningKind::GuardOff, "guard.enabled = false"),
        ]);
        let status = to_value(Status { warnings: warnings.clone(), ..Status::default() }).unwrap();
        assert_eq!(
            status["warnings"],
            json!(["port wan: no such interface", "guard.enabled = false"])
        );
        assert_eq!(status["warning_kinds"], json!(["port-down", "guard-off"]));
        assert_eq!(from_value::<Status>(status).unwrap().warnings, warnings);
    }

    #[test]
    fn a_warning_without_a_kind_keeps_its_text() {
        let mut status = to_value(Status::default()).unwrap();
        status["warnings"] = json!(["one", "two"]);
        for kinds in [Value::Null, json!(["of-a-later-version"])] {
            match kinds.is_null() {
                true => status.as_object_mut().unwrap().remove("warning_kinds"),
                false => status.as_object_mut().unwrap().insert("warning_kinds".into(), kinds),
            };
            let read: Status = from_value(status.clone()).unwrap();
            let texts: Vec<&str> =
                read.warnings.iter().map(|warning| warning.text.as_str()).collect();
            assert_eq!(texts, ["one", "two"]);
            assert!(read.warnings.iter().all(|w| matches!(w.kind, WarningKind::Other(_))));
        }
    }
}
