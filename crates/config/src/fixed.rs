//! Keys that a running daemon does not follow: they take effect with a restart.

use super::{
    Config, CryptoConfig, KernelConfig, LogConfig, NatConfig, SecurityConfig, TunConfig,
    TunnelHeadersConfig, WorkerConfig,
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
            srv6: _,
            sids: _,
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
}
