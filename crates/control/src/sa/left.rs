//! How SAs are shown that the kernel has.

use std::collections::BTreeMap;

use report::{self, Left};

use crate::clock::Now;
use crate::sources::LeftSa;
use crate::texts::{mark_text, spi_text, suite_text};

/// One line of `culvert sa`. What only the kernel knows is as it was told last.
pub fn row(now: Now, sa: &LeftSa) -> report::Sa {
    let config = sa.config.as_ref();
    let params = config.map(|config| &config.params);
    report::Sa {
        spi: spi_text(sa.id.spi),
        src: sa.src.to_string(),
        dst: sa.id.dst.to_string(),
        protocol: protocol_text(sa.id.protocol).into(),
        mode: mode_text(sa.mode).into(),
        suite: params.map_or_else(|| "-".into(), suite_text),
        esn: params.is_some_and(|params| params.esn),
        encap: params.and_then(|params| params.encap).map(|e| (e.src_port, e.dst_port)),
        reqid: sa.reqid,
        mark: mark_text(sa.id.mark),
        if_id: sa.if_id,
        cpu: config.and_then(|config| config.cpu),
        direction: None,
        weak: params.into_iter().flat_map(|p| p.suite.weaknesses()).map(Into::into).collect(),
        state: "valid".into(),
        placement: report::SaPlacement::Kernel,
        why: Some(sa.why.clone()).filter(|why| !why.is_empty()),
        engine: "kernel".into(),
        bytes: sa.counters.bytes,
        packets: sa.counters.packets,
        age_s: config.map_or(0, |config| now.wall_s().saturating_sub(config.added_s)),
        idle_s: None,
        sent_seq: sa.replay.sent,
        received_seq: sa.replay.edge,
        replay_window: params.map_or(0, |params| params.replay_window),
        late_drops: 0,
        duplicate_drops: 0,
        integrity_drops: 0,
        iptfs: BTreeMap::new(),
        iptfs_now: BTreeMap::new(),
        inner_mtu: None,
        path_mtu: None,
        is_path_mtu_learnt: false,
        until_rekey: Left::default(),
        until_expiry: Left::default(),
        keys: None,
    }
}

/// As `ip xfrm state` calls them.
fn protocol_text(protocol: u8) -> String {
    match protocol {
        50 => "esp".into(),
        51 => "ah".into(),
        108 => "comp".into(),
        other => other.to_string(),
    }
}

fn mode_text(mode: u8) -> String {
    let names = ["transport", "tunnel", "ro", "in_trigger", "beet", "iptfs"];
    names.get(usize::from(mode)).map_or_else(|| mode.to_string(), |name| (*name).to_owned())
}
