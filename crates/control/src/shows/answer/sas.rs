//! `culvert sa`: SAs of the fast path, and those that are left to the kernel.

use core::sync::atomic::Ordering::Relaxed;
use std::collections::BTreeMap;

use crypto::Providers;
use dataplane::SaMtu;
use esp::{Protocol, Sa};
use offload::{PacketSa, Placement, SaDirection};
use policy::{IptfsCounters, SaEntry, SaState};
use report::{self, Left, SaProtocol};

use super::Parts;
use crate::clock::Now;
use crate::devices::device_of;
use crate::sources::kernel::KernelSource;
use crate::texts::{mark_text, mode_text, spi_text, suite_text};
use crate::{left, lifetimes};

/// A row for each SA, with its keys where they are asked for; of one SPI if one is named.
pub fn rows(
    parts: Parts<'_>,
    providers: &Providers,
    show_keys: bool,
    spi: Option<u32>,
) -> Vec<report::Sa> {
    let mut entries: Vec<_> = parts
        .sa
        .source
        .databases()
        .sas()
        .filter(|sa| spi.is_none_or(|spi| sa.config.params.spi == spi))
        .collect();
    entries.sort_by_key(|sa| (sa.config.added_s, sa.config.generation));
    let mut rows: Vec<report::Sa> = entries
        .iter()
        .map(|sa| row(parts.now, sa, providers, parts.crew.tables.sa_mtu(&sa.esp)))
        .collect();
    let mut left = parts.sa.source.kernel().map(KernelSource::left).unwrap_or_default();
    left.retain(|sa| spi.is_none_or(|spi| sa.id.spi == spi));
    rows.extend(left.iter().map(|sa| left::row(parts.now, sa)));
    let ends = entries.iter().map(|sa| (sa.config.id(), sa.config.params.src));
    let ends = ends.chain(left.iter().map(|sa| (sa.id, sa.src)));
    for (row, (id, src)) in rows.iter_mut().zip(ends) {
        row.direction = parts.crew.direction(src, id.dst);
        if let Some((direction, live, _)) = parts.offload.devices.borrow_mut().live(&id) {
            match direction {
                SaDirection::Outbound => row.sent_seq = live.number,
                SaDirection::Inbound => (row.sent_seq, row.received_seq) = (0, live.number),
            }
        }
        if let Some(limits) = parts.sa.source.limits_of(&id) {
            lifetimes::tell(row, &limits);
        }
    }
    if show_keys {
        for (row, sa) in rows.iter_mut().zip(&entries) {
            row.keys = parts.sa.source.keys_of(&sa.config.id()).map(|keys| {
                let hex = |b: &[u8]| b.iter().map(|x| format!("{x:02x}")).collect::<String>();
                [("cipher", &keys.cipher), ("salt", &keys.salt), ("auth", &keys.auth)]
                    .into_iter()
                    .filter(|(_, key)| !key.is_empty())
                    .map(|(name, key)| (name.to_owned(), hex(key)))
                    .collect::<BTreeMap<_, _>>()
            });
        }
    }
    rows
}

fn row(now: Now, sa: &SaEntry<Sa>, providers: &Providers, mtu: Option<SaMtu>) -> report::Sa {
    let (config, params, live) = (&sa.config, &sa.config.params, sa.esp.live());
    let now_s = now.wall_s();
    let last_use = live.last_use().load(Relaxed);
    let session = sa.esp.session();
    let packet = || Some((PacketSa::of(session)?.name(), Placement::Packet));
    let device = device_of(session).map(|name| (name, Placement::Crypto)).or_else(packet);
    let engine = providers.serving(params.suite);
    report::Sa {
        spi: spi_text(params.spi),
        src: params.src.to_string(),
        dst: params.dst.to_string(),
        protocol: match params.protocol {
            Protocol::Esp => SaProtocol::Esp,
            Protocol::Ah => SaProtocol::Ah,
            Protocol::IpComp => SaProtocol::Comp,
            // As `ip xfrm state` calls them.
            Protocol::IpInV4 => SaProtocol::IpInV4,
            Protocol::IpInV6 => SaProtocol::IpInV6,
        },
        mode: mode_text(params.mode).into(),
        suite: suite_text(params),
        esn: params.esn,
        encap: params.encap.map(|e| (e.src_port, e.dst_port)),
        reqid: config.reqid,
        mark: mark_text(config.mark),
        if_id: config.if_id,
        cpu: config.cpu,
        direction: None,
        weak: params.suite.weaknesses().map(Into::into).collect(),
        state: match sa.state() {
            SaState::Valid => report::SaState::Valid,
            SaState::Dying => report::SaState::Dying,
            SaState::Expired => report::SaState::Expired,
        },
        placement: device.map_or(Placement::Cpu, |(_, placement)| placement).name().into(),
        why: None,
        engine: device.map_or_else(|| engine.map_or("none", |p| p.name()), |(name, _)| name).into(),
        bytes: live.bytes().load(Relaxed),
        packets: live.packets().load(Relaxed),
        age_s: now_s.saturating_sub(config.added_s),
        idle_s: (last_use > 0).then(|| now_s.saturating_sub(last_use)),
        sent_seq: live.sent().load(Relaxed),
        received_seq: live.edge().load(Relaxed),
        replay_window: params.replay_window,
        late_drops: live.too_old().load(Relaxed),
        duplicate_drops: live.replays().load(Relaxed),
        integrity_drops: live.integrity_failures().load(Relaxed),
        iptfs: by_name(sa.iptfs().map(IptfsCounters::iter)),
        iptfs_now: by_name(sa.iptfs().map(|counters| counters.now.iter())),
        inner_mtu: mtu.map(|mtu| mtu.inner),
        path_mtu: mtu.map(|mtu| mtu.outer),
        is_path_mtu_learnt: mtu.is_some_and(|mtu| mtu.is_learnt),
        until_rekey: Left::default(),
        until_expiry: Left::default(),
        keys: None,
    }
}

fn by_name(counts: Option<impl Iterator<Item = (&'static str, u64)>>) -> BTreeMap<String, u64> {
    counts.into_iter().flatten().map(|(name, value)| (name.to_owned(), value)).collect()
}
