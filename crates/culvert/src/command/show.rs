//! The commands that show something of a running daemon.

use serde::de::DeserializeOwned;

use crate::client::{ClientError, ask, ask_json};
use crate::report::{Drops, Policy, Port, Request, Routes, Sa, Stats, Status};
use crate::table::{si, span, table};

/// Asks, and prints the answer: as JSON, or as the text that `render` makes of it.
fn show<T: DeserializeOwned>(
    name: &str,
    json: bool,
    request: Request,
    render: impl FnOnce(T) -> String,
) -> Result<String, ClientError> {
    if json { ask_json(name, request) } else { ask(name, request).map(render) }
}

/// `culvert status`.
pub fn status(name: &str, json: bool) -> Result<String, ClientError> {
    show(name, json, Request::Status, |s: Status| {
        let mut rows = vec![
            ("instance", s.name),
            ("version", s.version),
            ("process", format!("{}, up {}", s.pid, span(s.uptime_s))),
            ("engine", s.engine),
            ("ports", format!("{} of {} up", s.ports_up, s.ports)),
            ("polling", s.polling),
            ("SAs", s.sas.to_string()),
            ("policies", s.policies.to_string()),
            ("taken up", format!("{} SAs and policies of the run before", s.restored)),
            ("clients", format!("{} netlink sockets", s.clients)),
            ("guard", format!("{} barriers in the kernel", s.guard_policies)),
            (
                "memory",
                format!(
                    "{} MiB, of which {} MiB packet buffers on {}",
                    s.memory_kib.div_ceil(1024),
                    s.buffers_kib.div_ceil(1024),
                    s.buffers_pages
                ),
            ),
        ];
        rows.extend(s.warnings.into_iter().map(|w| ("warning", w)));
        rows.iter().map(|(k, v)| format!("{k:<10} {v}")).collect::<Vec<_>>().join("\n")
    })
}

/// `culvert sa`.
pub fn sa(
    name: &str,
    json: bool,
    show_keys: bool,
    spi: Option<u32>,
) -> Result<String, ClientError> {
    show(name, json, Request::Sa { show_keys, spi }, |sas: Vec<Sa>| {
        if sas.is_empty() {
            return "no SAs; has the IKE daemon been started through `culvert exec`?".into();
        }
        let keys: Vec<String> = sas
            .iter()
            .filter_map(|sa| Some((sa, sa.keys.as_ref()?)))
            .map(|(sa, keys)| {
                let parts: Vec<String> = keys.iter().map(|(k, v)| format!("{k} 0x{v}")).collect();
                format!("{} {}", sa.spi, parts.join(" "))
            })
            .collect();
        let rows = sas.into_iter().map(|sa| {
            let mut flags = vec![sa.mode];
            flags.extend(sa.encap.map(|(s, d)| format!("udp {s}-{d}")));
            flags.extend(sa.esn.then(|| "esn".to_owned()));
            flags.extend(sa.mark.map(|m| format!("mark {m}")));
            flags.extend((sa.if_id != 0).then(|| format!("if_id {}", sa.if_id)));
            vec![
                sa.spi,
                sa.src,
                sa.dst,
                flags.join(","),
                sa.suite,
                sa.engine,
                sa.reqid.to_string(),
                sa.state,
                si(sa.packets),
                si(sa.bytes),
                sa.sent_seq.max(sa.received_seq).to_string(),
                (sa.replay_drops + sa.integrity_drops).to_string(),
                span(sa.age_s),
                sa.idle_s.map_or("never".into(), span),
            ]
        });
        let head = [
            "SPI", "SRC", "DST", "MODE", "SUITE", "ENGINE", ">REQID", "STATE", ">PACKETS",
            ">BYTES", ">SEQ", ">DROPS", ">AGE", ">IDLE",
        ];
        let mut text = table(&head, rows);
        if !keys.is_empty() {
            text.push_str("\n\nkeys (secret):\n");
            text.push_str(&keys.join("\n"));
        }
        text
    })
}

/// `culvert policy`.
pub fn policy(name: &str, json: bool) -> Result<String, ClientError> {
    show(name, json, Request::Policy, |policies: Vec<Policy>| {
        if policies.is_empty() {
            return "no policies; everything passes to Linux".into();
        }
        // Columns that most databases have nothing for.
        let has_dev = policies.iter().any(|p| p.dev.is_some());
        let has_mark = policies.iter().any(|p| p.mark.is_some() || p.if_id != 0);
        let mut head = vec!["DIR", ">PRIO", "SRC", "DST", "PROTO"];
        head.extend(has_dev.then_some("DEV"));
        head.extend(has_mark.then_some("MARK"));
        head.extend(["ACTION", "TEMPLATE", ">PACKETS", ">BYTES", ">IDLE"]);
        let rows = policies.into_iter().map(|p| {
            let mut row = vec![p.direction, p.priority.to_string(), p.src, p.dst, p.protocol];
            let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".into());
            row.extend(has_dev.then(|| or_none(p.dev)));
            let if_id = (p.if_id != 0).then(|| format!("if_id {:#x}", p.if_id));
            let mark: Vec<String> = p.mark.into_iter().chain(if_id).collect();
            row.extend(has_mark.then(|| or_none((!mark.is_empty()).then(|| mark.join(" ")))));
            row.extend([p.action, p.templates.join("; "), si(p.packets), si(p.bytes)]);
            row.push(p.idle_s.map_or("never".into(), span));
            row
        });
        table(&head, rows)
    })
}

/// `culvert port`.
pub fn port(name: &str, json: bool) -> Result<String, ClientError> {
    show(name, json, Request::Port, |ports: Vec<Port>| {
        let rows = ports.into_iter().map(|p| {
            vec![
                p.interface,
                p.kind,
                p.state,
                p.mode,
                p.queues.to_string(),
                p.mtu.to_string(),
                p.mac,
                si(p.rx_packets),
                si(p.tx_packets),
                si(p.passed_to_linux),
            ]
        });
        let head =
            ["PORT", "KIND", "STATE", "MODE", ">QUEUES", ">MTU", "MAC", ">RX", ">TX", ">PASSED"];
        table(&head, rows)
    })
}

/// `culvert route`.
pub fn route(name: &str, json: bool) -> Result<String, ClientError> {
    show(name, json, Request::Route, |r: Routes| {
        let routes = r.routes.into_iter().map(|r| {
            vec![
                r.table.to_string(),
                r.dst,
                r.kind,
                r.via.join(", "),
                r.dev.join(", "),
                r.metric.to_string(),
            ]
        });
        let routes = table(&[">TABLE", "DESTINATION", "KIND", "VIA", "DEV", ">METRIC"], routes);
        let neighbours = r
            .neighbours
            .into_iter()
            .map(|n| vec![n.dev, n.address, n.mac.unwrap_or_else(|| "-".into()), n.state]);
        let neighbours = table(&["DEV", "NEIGHBOUR", "MAC", "STATE"], neighbours);
        format!("{}\n\n{routes}\n\n{neighbours}", r.rules.join("\n"))
    })
}

/// `culvert stats`.
pub fn stats(name: &str, json: bool) -> Result<String, ClientError> {
    show(name, json, Request::Stats, |s: Stats| {
        let o = s.outcomes;
        let mut rows = vec![
            vec!["received".into(), s.received.to_string()],
            vec!["generated".into(), s.generated.to_string()],
            vec!["transmitted".into(), o.transmitted.to_string()],
            vec!["to Linux".into(), o.to_linux.to_string()],
            vec!["consumed".into(), o.consumed.to_string()],
            vec!["held".into(), o.held.to_string()],
            vec!["dropped".into(), o.dropped.to_string()],
            vec!["balance".into(), s.balance.to_string()],
        ];
        rows.extend(s.work.into_iter().map(|(k, v)| vec![k, v.to_string()]));
        table(&["WHAT", ">PACKETS"], rows)
    })
}

/// `culvert drops`.
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
        if rows.is_empty() {
            return "nothing was dropped".into();
        }
        table(&["REASON", ">PACKETS", "XFRM_STAT", "MEANING"], rows)
    })
}
