//! `culvert policy`: policies, in the order in which they are asked.

use esp::Mode;
use policy::{Action, PolicyEntry};
use report::{self, PolicyAction};

use super::Parts;
use crate::clock::Now;
use crate::texts::{direction_text, end_text, mark_text, mode_text, selected_protocol};

/// A row for each policy.
pub fn rows(parts: Parts<'_>) -> Vec<report::Policy> {
    let mut entries: Vec<_> = parts.sa.source.databases().policies().collect();
    // As they are asked.
    entries.sort_by_key(|p| {
        let config = &p.config;
        (config.direction, config.flags.device.is_none(), config.priority, config.index)
    });
    let devices = parts.offload.devices.borrow();
    let name = |ifindex| parts.linux.name_of(ifindex);
    let has_tunnel = |if_id| parts.carries_if_id(if_id);
    entries
        .into_iter()
        .map(|p| report::Policy {
            why: parts.sa.source.kernel().and_then(|kernel| kernel.why_left(p.config.index)),
            device: p.config.flags.device.and_then(|number| devices.packet.name(number)),
            ..row(parts.now, p, name, has_tunnel, parts.sa.has_sas(&p.config))
        })
        .collect()
}

fn row(
    now: Now,
    policy: &PolicyEntry,
    name: impl Fn(u32) -> String,
    has_tunnel: impl Fn(u32) -> bool,
    has_sas: Option<bool>,
) -> report::Policy {
    let config = &policy.config;
    let s = &config.selector;
    let last_use = policy.last_use_s();
    report::Policy {
        index: config.index,
        direction: direction_text(config.direction).into(),
        src: end_text(s.src, s.src_port),
        dst: end_text(s.dst, s.dst_port),
        protocol: selected_protocol(s.protocol).into(),
        dev: (s.ifindex != 0).then(|| name(s.ifindex)),
        priority: config.priority,
        device: None,
        action: match (config.action, config.templates.is_empty()) {
            _ if policy.is_unsupported() => PolicyAction::Unsupported,
            _ if config.if_id != 0 && !has_tunnel(config.if_id) => PolicyAction::NoTunnel,
            (Action::Block, _) => PolicyAction::Block,
            (Action::Leave, _) => PolicyAction::Leave,
            (Action::Allow, true) => PolicyAction::Bypass,
            (Action::Allow, false) => PolicyAction::Protect,
        },
        why: None,
        templates: config
            .templates
            .iter()
            .map(|t| {
                let mode = mode_text(t.mode);
                match t.mode {
                    Mode::Tunnel | Mode::Iptfs => {
                        format!("{mode} {} - {} reqid {}", t.src, t.dst, t.reqid)
                    }
                    Mode::Transport => format!("{mode} reqid {}", t.reqid),
                }
            })
            .collect(),
        mark: mark_text(policy.scope().mark),
        if_id: policy.scope().if_id,
        has_sas,
        packets: policy.packets(),
        bytes: policy.bytes(),
        idle_s: (last_use > 0).then(|| now.wall_s().saturating_sub(last_use)),
    }
}
