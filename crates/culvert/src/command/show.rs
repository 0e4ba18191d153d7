//! The commands that show something of a running daemon.

use std::collections::BTreeMap;
use std::error::Error;
use std::time::{SystemTime, UNIX_EPOCH};

use outcome::DropReason;
use report::client::{ClientError, ask, ask_json};
use report::units::{brief, si, span, time_text};
use report::{
    Configuration, Drops, OverlayRow, Policy, Port, PortKind, Queue, Request, Routes, Sa,
    SaProtocol, Stats, Status, TunnelState, Worker,
};
use serde::de::DeserializeOwned;

use super::{connections, tunnels};
use crate::table::{table, table_within, terminal_width};

/// Asks, and prints the answer: as JSON, or as the text that `render` makes of it.
fn show<T: DeserializeOwned>(
    name: &str,
    json: bool,
    request: Request,
    render: impl FnOnce(T) -> String,
) -> Result<String, ClientError> {
    if json { ask_json(name, request) } else { ask(name, request).map(render) }
}

/// Runs `culvert status`.
pub fn status(name: &str, json: bool, verbose: bool) -> Result<String, ClientError> {
    let mut status: Status = ask(name, Request::Status)?;
    tunnels::look_beside(&mut status);
    match json {
        true => Ok(serde_json::to_string(&status)?),
        false => Ok(status_text(status, verbose)),
    }
}

/// Text of the status: the everyday part; with `verbose` the rest, too.
fn status_text(s: Status, verbose: bool) -> String {
    let mut rows = vec![("instance", format!("{}, up {}", s.name, span(s.uptime_s)))];
    rows.extend(["tunnels", ""].into_iter().zip(tunnels::lines(&s.tunnels)));
    if let Some(told) = &s.connections {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        rows.push(("connections", connections::line(told, since_1970.as_millis() as u64)));
    }
    rows.extend(configuration_text(&s.configuration).map(|text| ("config", text)));
    rows.extend([
        (
            "ports",
            match s.unprivileged {
                true => "none (--unprivileged): ESP in UDP alone, with encap = yes".into(),
                false => {
                    format!("{} of {} up{}", s.ports_up, s.ports, kinds_text(&s.ports_by_kind))
                }
            },
        ),
        ("SAs", s.sas.to_string()),
        ("policies", s.policies.to_string()),
    ]);
    rows.extend(default_text(&s.default_blocks).map(|text| ("default", text)));
    if verbose {
        let (memory, buffers) = (s.memory_kib.div_ceil(1024), s.buffers_kib.div_ceil(1024));
        rows.extend([
            ("version", s.version),
            ("process", s.pid.to_string()),
            ("engine", s.engine),
            ("source", s.source.to_string()),
            ("workers", workers_text(&s.workers)),
            ("polling", s.polling.to_string()),
            ("seccomp", s.seccomp),
            ("taken up", format!("{} SAs and policies of the run before", s.restored)),
            ("clients", format!("{} netlink sockets", s.clients)),
            ("guard", {
                let blocked = blocked_text(&s.guard_blocked);
                let blocked = blocked.map_or_else(String::new, |text| format!("; it {text}"));
                format!("{} barriers in the kernel{blocked}", s.guard_policies)
            }),
            (
                "memory",
                format!(
                    "{memory} MiB, of which {buffers} MiB packet buffers on {}",
                    s.buffers_pages
                ),
            ),
        ]);
    }
    rows.extend(s.warnings.0.into_iter().map(|warning| ("warning", warning.text)));
    let width = rows.iter().map(|(k, _)| k.len()).max().unwrap_or_default().max(10);
    rows.iter().map(|(k, v)| format!("{k:<width$} {v}")).collect::<Vec<_>>().join("\n")
}

/// Advice about the configuration file, if any; warnings say more.
fn configuration_text(configuration: &Configuration) -> Option<String> {
    let waiting = configuration.waits_for_restart.len();
    match (&configuration.refusal, waiting) {
        (Some(refusal), _) => Some(format!(
            "not reloaded at {} UTC, that of before counts: culvert reload says why",
            time_text(refusal.time_ms)
        )),
        (None, 0) => None,
        (None, 1) => Some("1 key waits for a restart".into()),
        (None, keys) => Some(format!("{keys} keys wait for a restart")),
    }
}

/// Kinds of ports: the one that all have, or those of each kind.
fn kinds_text(kinds: &BTreeMap<String, Vec<String>>) -> String {
    let kinds: Vec<_> = match kinds.len() {
        0 => return String::new(),
        1 => kinds.keys().map(|kind| kind_text(kind).to_owned()).collect(),
        _ => {
            let of = |(kind, of): (&String, &Vec<String>)| {
                format!("{} by {}", of.join(", "), kind_text(kind))
            };
            kinds.iter().map(of).collect()
        }
    };
    format!(" ({})", kinds.join("; "))
}

/// A port's kind in words.
fn kind_text(kind: &str) -> &str {
    match PortKind::from(kind) {
        PortKind::AfXdp => "AF_XDP",
        PortKind::Packet => "packet sockets",
        _ => kind,
    }
}

/// `culvert sa`.
///
/// # Errors
/// No SA has the SPI that is asked for.
pub fn sa(
    name: &str,
    json: bool,
    show_keys: bool,
    spi: Option<u32>,
) -> Result<String, Box<dyn Error>> {
    if !json && let Some(spi) = spi {
        let named: Vec<Sa> = ask(name, Request::Sa { show_keys: false, spi: Some(spi) })?;
        let all: Vec<Sa> = ask(name, Request::Sa { show_keys: false, spi: None })?;
        if named.is_empty() && !all.is_empty() {
            return Err(no_such_spi(spi, all.len()).into());
        }
    }
    Ok(show(name, json, Request::Sa { show_keys, spi }, |sas: Vec<Sa>| {
        if sas.is_empty() {
            return no_sas(name);
        }
        let keys: Vec<String> = sas
            .iter()
            .filter_map(|sa| Some((sa, sa.keys.as_ref()?)))
            .map(|(sa, keys)| {
                let parts: Vec<String> = keys.iter().map(|(k, v)| format!("{k} 0x{v}")).collect();
                format!("{} {}", sa.spi, parts.join(" "))
            })
            .collect();
        let left: Vec<String> = sas
            .iter()
            .filter_map(|sa| {
                Some(format!("{} {} > {}: {}", sa.spi, sa.src, sa.dst, sa.why.as_ref()?))
            })
            .collect();
        let packed: Vec<String> = sas.iter().filter_map(packed_text).collect();
        let rows = sas.into_iter().map(|sa| {
            let mut flags = vec![sa.mode.to_string()];
            flags.extend((sa.protocol != SaProtocol::Esp).then(|| sa.protocol.to_string()));
            flags.extend(sa.encap.map(|(s, d)| format!("udp {s}-{d}")));
            flags.extend(sa.esn.then(|| "esn".to_owned()));
            flags.extend(sa.mark.map(|m| format!("mark {m}")));
            flags.extend((sa.if_id != 0).then(|| format!("if_id {:#x}", sa.if_id)));
            flags.extend(sa.cpu.map(|cpu| format!("cpu {cpu}")));
            vec![
                sa.spi,
                sa.direction.map_or_else(|| "-".into(), |way| way.to_string()),
                sa.src,
                sa.dst,
                flags.join(","),
                sa.suite,
                sa.engine,
                sa.reqid.to_string(),
                sa.state.to_string(),
                si(sa.packets),
                si(sa.bytes),
                sa.sent_seq.max(sa.received_seq).to_string(),
                si(sa.late_drops),
                si(sa.duplicate_drops),
                si(sa.integrity_drops),
                // An asterisk: a router reported it.
                sa.inner_mtu.map_or("-".into(), |mtu| {
                    format!("{mtu}{}", if sa.is_path_mtu_learnt { "*" } else { "" })
                }),
                span(sa.age_s),
                sa.idle_s.map_or("never".into(), span),
            ]
        });
        let head = [
            "SPI", "DIR", "SRC", "DST", "MODE", "SUITE", "ENGINE", ">REQID", "STATE", ">PACKETS",
            ">BYTES", ">SEQ", ">LATE", ">DUP", ">ICV", ">MTU", ">AGE", ">IDLE",
        ];
        let spare = [
            "ENGINE", "SEQ", "REQID", "LATE", "DUP", "ICV", "BYTES", "SUITE", "MTU", "AGE", "MODE",
        ];
        let mut text = table_within(terminal_width(), &head, rows, &spare, "culvert sa | cat");
        if !left.is_empty() {
            text.push_str("\n\nin the kernel, because:\n");
            text.push_str(&left.join("\n"));
        }
        if !packed.is_empty() {
            text.push_str("\n\nIP-TFS:\n");
            text.push_str(&packed.join("\n"));
        }
        if !keys.is_empty() {
            text.push_str("\n\nkeys (secret):\n");
            text.push_str(&keys.join("\n"));
        }
        text
    })?)
}

/// Text where there are no SAs.
fn no_sas(name: &str) -> String {
    let mut status: Status = ask(name, Request::Status).unwrap_or_default();
    tunnels::look_beside(&mut status);
    let TunnelState { why, next, .. } = status.tunnels;
    let why = why.map_or_else(String::new, |why| format!(": {why}"));
    std::iter::once(format!("no SAs{why}")).chain(next).collect::<Vec<_>>().join("\n  ")
}

/// Counts of an SA of IP-TFS mode, if it has packed anything.
fn packed_text(sa: &Sa) -> Option<String> {
    let counts = sa.iptfs_now.iter().chain(&sa.iptfs).filter(|(_, count)| **count != 0);
    let counts: Vec<String> = counts.map(|(name, count)| format!("{name} {count}")).collect();
    let text = if counts.is_empty() { "nothing yet".to_owned() } else { counts.join(", ") };
    (!sa.iptfs.is_empty()).then(|| format!("{} {} > {}: {text}", sa.spi, sa.src, sa.dst))
}

fn no_such_spi(spi: u32, others: usize) -> String {
    let others = match others {
        1 => "is 1 other".into(),
        n => format!("are {n} others"),
    };
    format!("no SA has the SPI {spi:#010x}; there {others}")
}

/// Runs `culvert policy`.
pub fn policy(name: &str, json: bool) -> Result<String, ClientError> {
    show(name, json, Request::Policy, |policies: Vec<Policy>| {
        let status: Status = ask(name, Request::Status).unwrap_or_default();
        if policies.is_empty() {
            return no_policies(&status.guard_prefixes, &status.default_blocks);
        }
        // Columns that most databases have nothing for.
        let has_dev = policies.iter().any(|p| p.dev.is_some());
        let has_mark = policies.iter().any(|p| p.mark.is_some() || p.if_id != 0);
        let left = policies.iter().filter_map(|p| {
            let why = p.why.as_ref()?;
            Some(format!("policy {} ({} {} > {}): {why}", p.index, p.direction, p.src, p.dst))
        });
        let left: Vec<String> = left.collect();
        let mut head = vec![">INDEX", "DIR", ">PRIO", "SRC", "DST", "PROTO"];
        head.extend(has_dev.then_some("DEV"));
        head.extend(has_mark.then_some("MARK"));
        head.extend(["ACTION", "TEMPLATE", ">PACKETS", ">BYTES", ">IDLE"]);
        let rows = policies.into_iter().map(|p| {
            let action = p.action_text();
            let (index, priority) = (p.index.to_string(), p.priority.to_string());
            let mut row = vec![
                index,
                p.direction.to_string(),
                priority,
                p.src,
                p.dst,
                p.protocol.to_string(),
            ];
            let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".into());
            row.extend(has_dev.then(|| or_none(p.dev)));
            let if_id = (p.if_id != 0).then(|| format!("if_id {:#x}", p.if_id));
            let mark: Vec<String> = p.mark.into_iter().chain(if_id).collect();
            row.extend(has_mark.then(|| or_none((!mark.is_empty()).then(|| mark.join(" ")))));
            row.extend([action, p.templates.join("; "), si(p.packets), si(p.bytes)]);
            row.push(p.idle_s.map_or("never".into(), span));
            row
        });
        let spare = ["BYTES", "PROTO", "PRIO", "IDLE"];
        let mut text = table_within(terminal_width(), &head, rows, &spare, "culvert policy | cat");
        if !left.is_empty() {
            text.push_str("\n\nleft to the kernel, because:\n");
            text.push_str(&left.join("\n"));
        }
        if let Some(default) = default_text(&status.default_blocks) {
            text.push_str(&format!("\n\ndefault: {default}"));
        }
        text
    })
}

/// Text where there are no policies.
fn no_policies(guarded: &[String], default_blocks: &[String]) -> String {
    let passes = match (guarded, default_text(default_blocks)) {
        (_, Some(default)) => default,
        ([], None) => "everything passes to Linux".into(),
        (_, None) => "everything else passes to Linux".into(),
    };
    match guarded {
        [] => format!("no policies; {passes}"),
        _ => format!("no policies; [guard] prefixes block {}; {passes}", guarded.join(", ")),
    }
}

/// Default actions, where some packets without a policy are blocked.
fn default_text(blocked: &[String]) -> Option<String> {
    let blocked = blocked.join(", ");
    (!blocked.is_empty()).then(|| format!("what no policy is about is blocked ({blocked})"))
}

/// Packets that the kernel's policies have blocked, in words. `None` if there are none.
fn blocked_text(kernel: &BTreeMap<String, u64>) -> Option<String> {
    let sum: u64 = kernel.values().sum();
    let counts = kernel.iter().filter(|(_, count)| **count > 0);
    let counts: Vec<String> = counts.map(|(name, count)| format!("{name} {count}")).collect();
    (sum > 0).then(|| format!("has blocked {sum} packets since boot ({})", counts.join(", ")))
}

/// Workers in one line: `2 (core 0, core 2 with crypto threads on 3, 4)`.
fn workers_text(workers: &[Worker]) -> String {
    let is_none_pinned = workers.iter().all(|w| w.cpu.is_none() && w.crypto_cpus.is_empty());
    let each = workers.iter().map(|w| {
        let core = w.cpu.map_or("not pinned".into(), |cpu| format!("core {cpu}"));
        let crypto: Vec<String> = w.crypto_cpus.iter().map(ToString::to_string).collect();
        match crypto.is_empty() {
            true => core,
            false => format!("{core} with crypto threads on {}", crypto.join(" ")),
        }
    });
    let mut each: Vec<String> = each.collect();
    if is_none_pinned {
        each.truncate(1);
    }
    format!("{} ({})", workers.len(), each.join(", "))
}

/// Runs `culvert port`.
pub fn port(name: &str, json: bool, by_queue: bool) -> Result<String, ClientError> {
    show(name, json, Request::Port, |ports: Vec<Port>| match by_queue {
        true => queues_text(ports),
        false => ports_text(ports, terminal_width()),
    })
}

/// A line for each port; what is long is told below, so that the table stays narrow.
fn ports_text(ports: Vec<Port>, width: Option<usize>) -> String {
    let mut chosen: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for port in &ports {
        if let Some(why) = &port.chosen {
            let how = format!("{}: {why}", kind_text(port.kind.as_str()));
            chosen.entry(how).or_default().push(port.interface.clone());
        }
    }
    let chosen: String =
        chosen.iter().map(|(how, of)| format!("\n{} by {how}", of.join(", "))).collect();
    let details: Vec<String> = ports.iter().flat_map(port_details).collect();
    let rows = ports.into_iter().map(|p| {
        vec![
            p.interface,
            p.kind.to_string(),
            shortened(p.state.as_str(), port_word(p.state.as_str())),
            shortened(p.mode.as_str(), p.mode.as_str().split([',', ' ']).next().unwrap_or("-")),
            p.queues.to_string(),
            p.mtu.to_string(),
            p.mac,
            si(p.rx_packets),
            si(p.tx_packets),
            si(p.passed_to_linux),
        ]
    });
    let head = ["PORT", "KIND", "STATE", "MODE", ">QUEUES", ">MTU", "MAC", ">RX", ">TX", ">PASSED"];
    let spare = ["MAC", "QUEUES", "MTU", "MODE", "KIND"];
    let mut text = table_within(width, &head, rows, &spare, "culvert port | cat");
    if !chosen.is_empty() {
        text.push_str(&format!("\n{chosen}"));
    }
    if !details.is_empty() {
        text.push_str(&format!("\n\n{}", details.join("\n")));
    }
    text
}

/// The longest text in a column of the ports' table.
const PORT_CELL: usize = 20;

/// A text, or a word for it where it is long.
fn shortened(text: &str, word: &str) -> String {
    if text.chars().count() > PORT_CELL { word.into() } else { text.into() }
}

/// A state in a word.
fn port_word(state: &str) -> &str {
    const WORDS: [&str; 3] = ["up", "down", "missing"];
    let first = state.split([',', ':', ' ']).next().unwrap_or_default();
    if WORDS.contains(&first) { first } else { "not open" }
}

/// Details of a port for which the table has no room.
fn port_details(port: &Port) -> impl Iterator<Item = String> {
    let long = [port.state.as_str(), port.mode.as_str()]
        .into_iter()
        .filter(|s| s.chars().count() > PORT_CELL);
    long.map(|text| format!("{}: {text}", port.interface)).collect::<Vec<_>>().into_iter()
}

fn queues_text(ports: Vec<Port>) -> String {
    let rows = ports.into_iter().flat_map(|p| {
        let row = move |q: Queue| {
            vec![
                p.interface.clone(),
                q.queue.to_string(),
                q.worker.to_string(),
                si(q.rx_packets),
                si(q.tx_packets),
            ]
        };
        p.by_queue.into_iter().map(row).collect::<Vec<_>>()
    });
    table(&["PORT", ">QUEUE", ">WORKER", ">RX", ">TX"], rows)
}

/// Runs `culvert route`.
pub fn route(name: &str, json: bool) -> Result<String, ClientError> {
    show(name, json, Request::Route, |r: Routes| {
        let routes = r.routes.into_iter().map(|r| {
            vec![
                r.table.to_string(),
                r.dst,
                r.kind.to_string(),
                r.via.join(", "),
                r.dev.join(", "),
                r.metric.to_string(),
            ]
        });
        let routes = table(&[">TABLE", "DESTINATION", "KIND", "VIA", "DEV", ">METRIC"], routes);
        let neighbours = r.neighbours.into_iter().map(|n| {
            vec![n.dev, n.address, n.mac.unwrap_or_else(|| "-".into()), n.state.to_string()]
        });
        let neighbours = table(&["DEV", "NEIGHBOUR", "MAC", "STATE"], neighbours);
        let segments = r.segments.into_iter().map(|s| {
            vec![s.table.map_or_else(|| "-".into(), |table| table.to_string()), s.dst, s.does]
        });
        let segments: Vec<_> = segments.collect();
        let segments = match segments.is_empty() {
            true => String::new(),
            false => format!("\n\n{}", table(&[">TABLE", "DESTINATION", "SEGMENTS"], segments)),
        };
        let overlays: Vec<_> = r.overlays.into_iter().map(overlay_cells).collect();
        let head = ["OVERLAY", "KIND", "LOCAL", "REMOTE", "ID", ">MTU", ">FAR ENDS", "CARRIED BY"];
        let overlays = match overlays.is_empty() {
            true => String::new(),
            false => format!("\n\n{}", table(&head, overlays)),
        };
        let rules = r.rules.join("\n");
        format!("{rules}\n\n{routes}\n\n{neighbours}{segments}{overlays}")
    })
}

fn overlay_cells(o: OverlayRow) -> Vec<String> {
    let by = match o.carried {
        true => "culvert".to_owned(),
        false => format!("Linux: {}", o.why),
    };
    let (mtu, far_ends) = (o.mtu.to_string(), o.far_ends.to_string());
    vec![o.interface, o.kind, o.local, o.remote, o.id, mtu, far_ends, by]
}

/// Runs `culvert stats`.
pub fn stats(name: &str, json: bool, by_worker: bool) -> Result<String, ClientError> {
    show(name, json, Request::Stats, |s: Stats| {
        let mut head = vec!["WHAT".to_owned(), ">PACKETS".to_owned()];
        let mut columns = vec![stats_rows(&s)];
        if by_worker {
            head.extend((0..s.by_worker.len()).map(|worker| format!(">WORKER {worker}")));
            columns.extend(s.by_worker.iter().map(stats_rows));
        }
        let head: Vec<&str> = head.iter().map(String::as_str).collect();
        let rows = columns.first().into_iter().flatten().enumerate().map(|(place, (what, _))| {
            let values = columns.iter().filter_map(|column| column.get(place));
            let values = values.map(|(_, value)| value.clone());
            std::iter::once(what.clone()).chain(values).collect()
        });
        table(&head, rows.collect::<Vec<Vec<String>>>())
    })
}

fn stats_rows(s: &Stats) -> Vec<(String, String)> {
    let o = &s.outcomes;
    let counts = [
        ("received", s.received),
        ("generated", s.generated),
        ("taken over", s.taken_over),
        ("handed over", s.handed_over),
        ("transmitted", o.transmitted),
        ("to Linux", o.to_linux),
        ("consumed", o.consumed),
        ("held", o.held),
        ("dropped", o.dropped),
    ];
    let counts = counts.iter().map(|(what, n)| ((*what).to_owned(), n.to_string()));
    let balance = std::iter::once(("balance".to_owned(), s.balance.to_string()));
    let work = s.work.iter().map(|(what, n)| (what.clone(), n.to_string()));
    let gtpu = s.gtpu.iter().map(|(what, n)| (format!("gtpu {what}"), n.to_string()));
    let times = [("latency p50", s.latency.p50_ns), ("latency p99", s.latency.p99_ns)];
    let of = samples_text(s.latency.sampled);
    let times = times.map(|(what, ns)| {
        (what.to_owned(), ns.map_or("-".into(), |ns| format!("{}{of}", brief(ns))))
    });
    counts.chain(balance).chain(work).chain(gtpu).chain(times).collect()
}

/// How many packets times are of, where those are few: one that was held then says nothing of the others.
fn samples_text(sampled: u64) -> String {
    const FEW: u64 = 100;
    match sampled {
        1 => " (1 sample)".into(),
        few if few < FEW => format!(" ({few} samples)"),
        _ => String::new(),
    }
}

/// `culvert stats --xfrm`: every statistic of Linux's, in its order and form.
pub fn xfrm_stats(name: &str, json: bool) -> Result<String, ClientError> {
    let drops: Drops = ask(name, Request::Drops)?;
    let counts = outcome::KERNEL_STATISTICS.map(|name| {
        let of_name = |reason: &&DropReason| reason.kernel_name() == Some(name);
        let reasons = DropReason::ALL.iter().filter(of_name);
        let count = reasons.map(|reason| drops.drops.get(reason.name()).copied().unwrap_or(0));
        (name, count.sum::<u64>())
    });
    if json {
        let counts: serde_json::Map<_, _> =
            counts.iter().map(|(name, count)| ((*name).to_owned(), (*count).into())).collect();
        return Ok(serde_json::to_string_pretty(&counts).unwrap_or_default());
    }
    let lines = counts.map(|(name, count)| format!("{name:<24}\t{count}"));
    Ok(lines.join("\n"))
}

/// Runs `culvert drops`.
pub fn drops(name: &str, json: bool, all: bool) -> Result<String, ClientError> {
    show(name, json, Request::Drops, |d: Drops| {
        let rows: Vec<Vec<String>> = outcome::DropReason::ALL
            .iter()
            .filter_map(|reason| {
                let count = d.drops.get(reason.name()).copied().unwrap_or(0);
                (all || count > 0).then(|| {
                    vec![
                        reason.name().into(),
                        count.to_string(),
                        reason.kernel_name().unwrap_or("-").into(),
                        reason.text().into(),
                    ]
                })
            })
            .collect();
        drops_text(rows, &d.kernel)
    })
}

/// Drops by reason, and below them what never came to culvert.
fn drops_text(rows: Vec<Vec<String>>, kernel: &BTreeMap<String, u64>) -> String {
    let text = match rows.is_empty() {
        true => "nothing was dropped".into(),
        false => table(&["REASON", ">PACKETS", "XFRM_STAT", "MEANING"], rows),
    };
    match blocked_text(kernel) {
        Some(blocked) => format!(
            "{text}

the guard in the kernel {blocked}"
        ),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use report::{Latency, Warning, WarningKind, Warnings};

    use super::*;

    #[test]
    fn what_the_guard_blocks_is_told() {
        assert_eq!(no_policies(&[], &[]), "no policies; everything passes to Linux");
        let blocked = ["in".into(), "out".into()];
        assert_eq!(
            no_policies(&[], &blocked),
            "no policies; what no policy is about is blocked (in, out)"
        );
        let status = Status { default_blocks: blocked.into(), ..Status::default() };
        let text = status_text(status, false);
        assert!(text.contains("default    what no policy is about is blocked (in, out)"), "{text}");
        assert_eq!(
            no_policies(&["10.2.0.0/24".into(), "fd00:2::/64".into()], &[]),
            "no policies; [guard] prefixes block 10.2.0.0/24, fd00:2::/64; everything else passes to Linux"
        );
        let mut kernel: BTreeMap<String, u64> = [("XfrmInPolBlock".into(), 0)].into();
        assert_eq!(drops_text(Vec::new(), &kernel), "nothing was dropped");
        kernel.extend([("XfrmInPolBlock".into(), 3), ("XfrmOutPolBlock".into(), 4)]);
        let text = drops_text(Vec::new(), &kernel);
        let last = text.lines().last();
        let said = "the guard in the kernel has blocked 7 packets since boot (XfrmInPolBlock 3, XfrmOutPolBlock 4)";
        assert_eq!(last, Some(said));
        let status = Status { guard_policies: 3, guard_blocked: kernel, ..Status::default() };
        let text = status_text(status, true);
        assert!(
            text.contains("3 barriers in the kernel; it has blocked 7 packets since boot ("),
            "{text}"
        );
    }

    #[test]
    fn a_status_is_short_unless_more_is_asked_for() {
        let status = || Status {
            name: "gwa".into(),
            ports: 2,
            ports_up: 1,
            sas: 4,
            policies: 6,
            tunnels: TunnelState { up: 1, has_ike: true, ..TunnelState::default() },
            engine: "openssl".into(),
            warnings: Warnings(vec![Warning::new(
                WarningKind::PortDown,
                "port wan: no such interface",
            )]),
            ..Status::default()
        };
        let short = "instance   gwa, up 0s\ntunnels    1 up\nports      1 of 2 up\nSAs        4\npolicies   6\n\
                     warning    port wan: no such interface";
        assert_eq!(status_text(status(), false), short);
        let why = Some("no IKE daemon is connected".into());
        let next = Some("culvert exec -- charon-systemd".into());
        let without =
            Status { tunnels: TunnelState { why, next, ..TunnelState::default() }, ..status() };
        let first: Vec<String> =
            status_text(without, false).lines().take(3).map(Into::into).collect();
        assert_eq!(
            first[1..],
            [
                "tunnels    none: no IKE daemon is connected",
                "           culvert exec -- charon-systemd"
            ]
        );
        let long = status_text(status(), true);
        assert!(short.lines().all(|line| long.lines().any(|other| other == line)), "{long}");
        assert!(long.contains("engine     openssl\n") && long.contains("\nmemory "), "{long}");
    }

    #[test]
    fn what_ports_work_by_is_told_with_its_reason() {
        let by = |kinds: &[(&str, &[&str])]| {
            let names = |of: &[&str]| of.iter().map(|name| (*name).into()).collect();
            kinds_text(&kinds.iter().map(|(kind, of)| ((*kind).into(), names(of))).collect())
        };
        assert_eq!(by(&[]), "");
        assert_eq!(by(&[("packet", &["lan", "wan"])]), " (packet sockets)");
        let both = by(&[("af-xdp", &["wan"]), ("packet", &["lan", "dmz"])]);
        assert_eq!(both, " (wan by AF_XDP; lan, dmz by packet sockets)");
        let port = |interface: &str, chosen: Option<&str>| Port {
            interface: interface.into(),
            kind: "packet".into(),
            chosen: chosen.map(Into::into),
            ..Port::default()
        };
        let why = Some("the driver has no zero copy");
        let told = ports_text(vec![port("wan", None), port("lan", why), port("dmz", why)], None);
        let last: Vec<_> = told.lines().skip(4).collect();
        let said = "lan, dmz by packet sockets: the driver has no zero copy";
        assert_eq!(last, ["", said], "{told}");
        assert_eq!(ports_text(vec![port("wan", None)], None).lines().count(), 2);
    }

    #[test]
    fn times_of_few_packets_say_so() {
        let p50 = |sampled| {
            let latency = Latency { sampled, p50_ns: Some(200_000_000), ..Latency::default() };
            let rows = stats_rows(&Stats { latency, ..Stats::default() });
            rows.into_iter().find(|(what, _)| what == "latency p50").map(|(_, value)| value)
        };
        assert_eq!(p50(1).as_deref(), Some("200ms (1 sample)"));
        assert_eq!(p50(99).as_deref(), Some("200ms (99 samples)"));
        assert_eq!(p50(100).as_deref(), Some("200ms"));
    }

    #[test]
    fn the_ports_fit_a_terminal() {
        let port = |interface: &str, state: &str, mode: &str| Port {
            interface: interface.into(),
            kind: "af-xdp".into(),
            state: state.into(),
            mode: mode.into(),
            mac: "02:00:00:00:00:01".into(),
            mtu: 1500,
            queues: 1,
            ..Port::default()
        };
        let failed = "wan has 17 queues, and 1 workers take at most 16: set port.queues, or more workers \
                      (worker.cpus), or `ethtool -L wan combined 16`";
        let stale = "up, but it does not take all that it should: no memory";
        let vti = "ikey 0x2a okey 0x2a, 192.0.2.1 - 198.51.100.200";
        let ports = || {
            vec![
                port("wan", failed, "-"),
                port("lan", stale, "native, copy"),
                port("vti42", "up", vti),
                port("dmz", "down: taken when the interface is set up", "-"),
            ]
        };
        for width in [80, 100] {
            let text = ports_text(ports(), Some(width));
            let (table, details) = text.split_once("\n\n").expect("details");
            assert!(table.lines().all(|line| line.len() <= width), "{width}:\n{table}");
            for whole in
                [format!("wan: {failed}"), format!("lan: {stale}"), format!("vti42: {vti}")]
            {
                assert!(details.contains(&whole), "{whole}\n{details}");
            }
        }
        let whole = ports_text(ports(), None);
        let words = ["wan    af-xdp  not open  -", "lan    af-xdp  up        native, copy"];
        assert!(words.iter().all(|line| whole.contains(line)), "{whole}");
        assert!(whole.contains("dmz    af-xdp  down ") && !whole.contains("not shown"), "{whole}");
    }

    #[test]
    fn a_wrong_spi_is_not_taken_for_no_sas() {
        assert_eq!(no_such_spi(0x1234, 2), "no SA has the SPI 0x00001234; there are 2 others");
        assert_eq!(no_such_spi(0x1234, 1), "no SA has the SPI 0x00001234; there is 1 other");
    }

    #[test]
    fn workers_fit_into_a_line() {
        let worker = |worker, cpu, crypto_cpus: &[usize]| Worker {
            worker,
            cpu,
            crypto_cpus: crypto_cpus.to_vec(),
        };
        let text = |workers: Vec<Worker>| workers_text(&workers);
        assert_eq!(text((0..4).map(|n| worker(n, None, &[])).collect()), "4 (not pinned)");
        let two = vec![worker(0, Some(0), &[]), worker(1, Some(2), &[3, 4])];
        assert_eq!(text(two), "2 (core 0, core 2 with crypto threads on 3 4)");
    }
}
