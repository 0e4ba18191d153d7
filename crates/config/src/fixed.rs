//! Keys that a running daemon does not follow: they take effect with a restart.

use super::{
    ApplicationsConfig, BfdConfig, Config, CryptoConfig, GuardConfig, KernelConfig, LogConfig,
    NatConfig, OverlayConfig, PathMtuConfig, PathsConfig, SecurityConfig, Srv6Config, TunConfig,
    TunnelHeadersConfig, ViciConfig, WorkerConfig,
};

/// Adds the keys of a table in which two values differ. Each key of the type is named, so that a new one has to be placed.
macro_rules! differing {
    ($keys:ident: $table:literal, $old:expr, $new:expr,
     $type:ident { $($key:ident),* } $(followed: { $($followed:ident),* })?) => {
        let $type { $($key,)* $($($followed: _,)*)? } = $old;
        $(if *$key != $new.$key {
            $keys.push(concat!($table, ".", stringify!($key)).to_owned());
        })*
    };
}

impl Config {
    /// The keys in which `next` differs and which a running daemon does not follow.
    pub fn fixed_changes(&self, next: &Config) -> Vec<String> {
        // A new part has to be placed on one side or the other.
        let Config {
            name,
            source,
            sections: _,
            port_order: _,
            ports: _,
            memifs: _,
            tun,
            tunnels: _,
            marks: _,
            vlans: _,
            limits: _,
            applications: _,
            application_list: _,
            gtpu: _,
            iptfs,
            worker,
            guard: _,
            kernel,
            crypto,
            devices,
            tunnel_headers,
            nat,
            overlay: _,
            srv6: _,
            sids: _,
            path_options: _,
            paths: _,
            steers: _,
            bfd: _,
            path_mtu: _,
            vici: _,
            security,
            log,
        } = self;
        let mut keys = Vec::new();
        for (key, differs) in [
            ("name", *name != next.name),
            ("source", *source != next.source),
            ("iptfs", *iptfs != next.iptfs),
            ("device", *devices != next.devices),
        ] {
            keys.extend(differs.then(|| key.to_owned()));
        }
        differing!(keys: "tun", tun, next.tun, TunConfig {
            interface, mtu, table, rule_preference, marked_table, mark, judged_mark, early_acquire
        });
        differing!(keys: "worker", worker, next.worker,
            WorkerConfig { poll, flows, frames, frame_bytes } followed: { cpus, cpu, crypto_cpus });
        differing!(keys: "kernel", kernel, next.kernel, KernelConfig { firewall });
        differing!(keys: "crypto", crypto, next.crypto, CryptoConfig { engine, allow_weak });
        differing!(keys: "tunnel_headers", tunnel_headers, next.tunnel_headers,
            TunnelHeadersConfig { df, dscp, ecn });
        differing!(keys: "nat", nat, next.nat, NatConfig { learn, flows });
        differing!(keys: "security", security, next.security,
            SecurityConfig { seccomp, reader, reader_captures });
        differing!(keys: "log", log, next.log, LogConfig { level });
        keys
    }

    /// The configuration of a daemon that has this one's fixed keys, and that has begun nothing: what a running daemon
    /// follows is as without a file.
    #[must_use]
    pub fn before_start(&self) -> Config {
        let fixed = self.worker.clone();
        let (cpus, cpu, crypto_cpus) = (None, None, Vec::new());
        Config {
            name: self.name.clone(),
            source: self.source,
            sections: Vec::new(),
            port_order: Vec::new(),
            ports: Vec::new(),
            memifs: Vec::new(),
            tun: self.tun.clone(),
            tunnels: Vec::new(),
            marks: Vec::new(),
            vlans: Vec::new(),
            limits: Vec::new(),
            applications: ApplicationsConfig::default(),
            application_list: Vec::new(),
            gtpu: Vec::new(),
            iptfs: self.iptfs.clone(),
            worker: WorkerConfig { cpus, cpu, crypto_cpus, ..fixed },
            guard: GuardConfig::default(),
            kernel: self.kernel.clone(),
            crypto: self.crypto.clone(),
            devices: self.devices.clone(),
            tunnel_headers: self.tunnel_headers,
            nat: self.nat.clone(),
            overlay: OverlayConfig::default(),
            srv6: Srv6Config::default(),
            sids: Vec::new(),
            path_options: PathsConfig::default(),
            paths: Vec::new(),
            steers: Vec::new(),
            bfd: BfdConfig::default(),
            path_mtu: PathMtuConfig::default(),
            vici: ViciConfig::default(),
            security: self.security.clone(),
            log: self.log.clone(),
        }
    }

    /// The configuration that a daemon of this one has once it follows `next`: fixed keys are these, all others those.
    #[must_use]
    pub fn following(&self, next: &Config) -> Config {
        let WorkerConfig { cpus, cpu, crypto_cpus, .. } = next.worker.clone();
        let fixed = self.before_start();
        let worker = WorkerConfig { cpus, cpu, crypto_cpus, ..fixed.worker };
        Config {
            sections: next.sections.clone(),
            port_order: next.port_order.clone(),
            ports: next.ports.clone(),
            memifs: next.memifs.clone(),
            tunnels: next.tunnels.clone(),
            marks: next.marks.clone(),
            vlans: next.vlans.clone(),
            limits: next.limits.clone(),
            applications: next.applications.clone(),
            application_list: next.application_list.clone(),
            gtpu: next.gtpu.clone(),
            worker,
            guard: next.guard.clone(),
            overlay: next.overlay.clone(),
            srv6: next.srv6.clone(),
            sids: next.sids.clone(),
            path_options: next.path_options.clone(),
            paths: next.paths.clone(),
            steers: next.steers.clone(),
            bfd: next.bfd.clone(),
            path_mtu: next.path_mtu.clone(),
            vici: next.vici.clone(),
            ..fixed
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const FOLLOWED: &str = "[[port]]\ninterface = \"wan\"\n[[tunnel]]\ninterface = \"ipsec0\"\nif_id = 1\n\
        [worker]\ncpus = 3\n[guard]\nprefixes = [\"10.0.0.0/8\"]\n[path_mtu]\nclamp_mss = true\n\
        [srv6]\ntrust_sas = true\n";

    fn config(text: &str) -> Config {
        Config::parse(text, Path::new("x")).unwrap()
    }

    #[test]
    fn a_start_and_a_reload_follow_the_same_keys() {
        let wanted = config(FOLLOWED);
        // Before a start nothing is followed, and nothing waits.
        let nothing = wanted.before_start();
        assert_eq!(nothing, config(""));
        assert_eq!(nothing.fixed_changes(&wanted), Vec::<String>::new());
        assert_eq!(nothing.following(&wanted), wanted);
        // A reload leaves fixed keys as they are.
        let next = config("[tun]\nmtu = 1400\n[worker]\nframes = 32768\ncpus = 2\n");
        let running = wanted.following(&next);
        assert_eq!((running.tun.mtu, running.worker.frames), (1500, 16384));
        assert_eq!((running.ports.len(), running.worker.cpus()), (0, next.worker.cpus()));
        assert_eq!(running.fixed_changes(&next), ["tun.mtu", "worker.frames"]);
        assert_eq!(running.following(&wanted), wanted);
    }
}
