//! `culvert status`: the state of everything, and what an operator should know.

use dataplane::Polling;
use io::Pages;
use report::{self, BufferPages, Status};

use super::{Parts, ports};
use crate::shows::warnings::warnings;
use crate::shows::{Shows, tunnel_state};
use crate::sources::builtin::Builtin;
use crate::texts::direction_text;

/// The state, with warnings.
pub fn status(parts: Parts<'_>, shows: &Shows) -> Status {
    let databases = parts.sa.source.databases();
    let troubles: Vec<_> =
        parts.crew.ports.troubles().chain(parts.linux.memifs.troubles()).collect();
    let tunnels = tunnel_state::tunnel_state(parts, &shows.asked);
    let is_any_up = tunnels.up > 0;
    let builtin = parts.sa.source.builtin();
    Status {
        name: parts.config.name.clone(),
        version: env!("CARGO_PKG_VERSION").into(),
        pid: std::process::id(),
        uptime_s: parts.now.since(parts.life.started).as_secs(),
        engine: shows.providers.to_string(),
        tunnels,
        connections: shows.vici.report(),
        sas: databases.sa_count(),
        policies: databases.policies().len(),
        restored: builtin.map_or(0, Builtin::restored),
        clients: builtin.map_or(0, Builtin::client_count),
        ports_up: troubles.iter().filter(|(_, why)| why.is_none()).count(),
        ports: troubles.len(),
        ports_by_kind: ports::by_kind(parts),
        default_blocks: parts.sa.defaults().directions().map(direction_text).collect(),
        guard_policies: parts.sa.guard.standing().len(),
        guard_prefixes: parts
            .sa
            .guarded(&parts.config.guard)
            .iter()
            .map(|p| format!("{}/{}", p.addr, p.len))
            .collect(),
        guard_blocked: parts.sa.kernel_blocked(),
        memory_kib: resident_kib(),
        buffers_kib: (parts.crew.umem.chunks() * parts.crew.umem.chunk_len() / 1024) as u64,
        buffers_pages: match parts.crew.umem.pages() {
            Pages::Reserved => BufferPages::Reserved,
            Pages::Transparent { .. } => BufferPages::Transparent,
            Pages::Small => BufferPages::Small,
        },
        polling: match parts.crew.polling {
            Polling::Adaptive => report::Polling::Adaptive,
            Polling::Always => report::Polling::Always,
        },
        source: parts.sa.source.name(),
        seccomp: parts.life.confinement.to_string(),
        unprivileged: parts.crew.esp_sockets.are_wanted(),
        workers: worker_rows(parts),
        configuration: parts.life.reloads.report(),
        warnings: warnings(parts, shows, is_any_up),
    }
}

fn worker_rows(parts: Parts<'_>) -> Vec<report::Worker> {
    let layout = parts.crew.workers.layout();
    let rows = layout.workers.iter().enumerate();
    rows.map(|(worker, cpu)| report::Worker {
        worker,
        cpu: *cpu,
        crypto_cpus: layout.crypto_of(worker).collect(),
    })
    .collect()
}

/// Resident memory of this process, 0 where `/proc` does not say.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"));
    line.and_then(|l| l.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
