//! `culvert app`: which applications flows are of.

use report::client::{ClientError, ask, ask_json};
use report::protocol;
use report::units::si;
use report::{App, AppFlow, Apps, AppsNdpi, Request};

use crate::cli::AppArgs;
use crate::command::flows::end;
use crate::table::table;

/// The table, or JSON.
pub fn app(name: &str, json: bool, args: &AppArgs) -> Result<String, ClientError> {
    let request = Request::App { recent: args.recent };
    if json {
        return ask_json(name, request);
    }
    ask(name, request).map(|seen| if args.recent > 0 { verdicts(&seen) } else { counts(&seen) })
}

fn counts(seen: &Apps) -> String {
    if !seen.enabled {
        return "applications are not told apart: enabled = true in [applications]".into();
    }
    let head = ["APPLICATION", ">FLOWS", ">PACKETS", ">BYTES", "PATHS", "KNOWN BY"];
    let rows = seen.applications.iter().map(|app| {
        let App { name, flows, packets, bytes, .. } = app;
        vec![name.clone(), si(*flows), si(*packets), si(*bytes), paths(app), known_by(app)]
    });
    let mut text = match seen.applications.is_empty() {
        true => "no flow so far".into(),
        false => table(&head, rows),
    };
    text += &format!(
        "\n{} packets were looked at; {} answers of name servers were believed, {} were not asked for",
        seen.copied, seen.answers, seen.strange_answers
    );
    for (count, what) in [
        (seen.lost, "packets came too fast to be looked at"),
        (seen.odd, "packets were fragments or damaged, and told nothing"),
        (seen.displaced, "flows were given up for others"),
    ] {
        if count > 0 {
            text += &format!("\n{count} {what}");
        }
    }
    text += &seen.ndpi.as_ref().map_or_else(String::new, ndpi);
    if let Some(trouble) = &seen.trouble {
        text += &format!("\n{trouble}");
    }
    text
}

/// `fibre 80 %, lte 20 %` of the bytes that took a path, the largest part first.
fn paths(app: &App) -> String {
    let sum: u64 = app.paths.values().map(|on| on.bytes).sum();
    let mut parts: Vec<_> = app.paths.iter().filter(|(_, on)| on.bytes > 0).collect();
    parts.sort_by_key(|(_, on)| core::cmp::Reverse(on.bytes));
    let part = |bytes: u64| 100.0 * bytes as f64 / sum as f64;
    let words: Vec<String> =
        parts.iter().map(|(name, on)| format!("{name} {:.0} %", part(on.bytes))).collect();
    if words.is_empty() { "-".into() } else { words.join(", ") }
}

/// Lines about the second classifier.
fn ndpi(seen: &AppsNdpi) -> String {
    let AppsNdpi { version, trouble, asked, unasked, begun, crashes, hangs, .. } = seen;
    let mut text = match version {
        Some(version) => format!("\nnDPI {version} was asked about {asked} packets"),
        None => format!("\nnDPI does not answer; it was asked about {asked} packets"),
    };
    for (count, what) in [
        (*unasked, "packets were not shown to nDPI"),
        (*crashes, "times it crashed"),
        (*hangs, "times it gave no answer, and was ended"),
        (begun.saturating_sub(1), "times it was begun anew"),
    ] {
        if count > 0 {
            text += &format!("\n{count} {what}");
        }
    }
    if let Some(trouble) = trouble {
        text += &format!("\n{trouble}; flows are recognised without it");
    }
    text
}

/// `tls-name 12, dns-answer 3`, the most frequent first.
fn known_by(app: &App) -> String {
    let mut by: Vec<_> = app.known_by.iter().collect();
    by.sort_by_key(|(_, flows)| core::cmp::Reverse(**flows));
    let words: Vec<String> = by.iter().map(|(word, flows)| format!("{word} {flows}")).collect();
    words.join(", ")
}

fn verdicts(seen: &Apps) -> String {
    if !seen.enabled {
        return counts(seen);
    }
    let head = ["CLIENT", "SERVER", "PROTO", "APPLICATION", "HOST", "KNOWN BY"];
    let rows = seen.recent.iter().map(|flow| {
        let AppFlow { client, client_port, server, server_port, protocol, .. } = flow;
        vec![
            end(*client, *protocol, *client_port),
            end(*server, *protocol, *server_port),
            protocol::name(*protocol),
            flow.application.clone(),
            flow.host.clone().unwrap_or_else(|| "-".into()),
            flow.known_by.clone(),
        ]
    });
    match seen.recent.is_empty() {
        true => "no verdict so far".into(),
        false => table(&head, rows),
    }
}

#[cfg(test)]
mod tests {
    use report::AppOnPath;

    use super::*;

    #[test]
    fn counts_by_application() {
        assert!(counts(&Apps::default()).contains("[applications]"));
        let app = App {
            name: "zoom".into(),
            flows: 15,
            known_by: [("dns-answer".into(), 3), ("tls-name".into(), 12)].into(),
            packets: 2000,
            bytes: 1_500_000,
            paths: [
                ("fibre".into(), AppOnPath { packets: 100, bytes: 1000 }),
                ("lte".into(), AppOnPath { packets: 300, bytes: 3000 }),
            ]
            .into(),
        };
        let seen = Apps { enabled: true, applications: vec![app], lost: 4, ..Apps::default() };
        let text = counts(&seen);
        assert!(text.contains("zoom") && text.contains("tls-name 12, dns-answer 3"), "{text}");
        assert!(text.contains("lte 75 %, fibre 25 %"), "{text}");
        assert!(text.contains("4 packets came too fast") && !text.contains("given up"), "{text}");
    }

    #[test]
    fn the_second_classifier() {
        let ndpi =
            AppsNdpi { version: Some("4.2.0".into()), asked: 7, begun: 1, ..AppsNdpi::default() };
        let seen = |ndpi| Apps { enabled: true, ndpi: Some(ndpi), ..Apps::default() };
        let text = counts(&seen(ndpi.clone()));
        assert!(text.ends_with("nDPI 4.2.0 was asked about 7 packets"), "{text}");
        let broken = AppsNdpi {
            version: None,
            trouble: Some("nDPI has crashed, or was ended".into()),
            crashes: 2,
            begun: 2,
            ..ndpi
        };
        let text = counts(&seen(broken));
        for piece in
            ["does not answer", "2 times it crashed", "1 times it was begun anew", "without it"]
        {
            assert!(text.contains(piece), "{piece}: {text}");
        }
    }

    #[test]
    fn the_last_verdicts() {
        let flow = AppFlow {
            application: "zoom".into(),
            host: Some("us02web.zoom.us".into()),
            known_by: "quic-name".into(),
            protocol: 17,
            client: [10, 1, 0, 5].into(),
            client_port: 50_000,
            server: [192, 0, 2, 9].into(),
            server_port: 443,
        };
        let text = verdicts(&Apps { enabled: true, recent: vec![flow], ..Apps::default() });
        assert!(verdicts(&Apps::default()).contains("[applications]"));
        for piece in ["10.1.0.5:50000", "192.0.2.9:443", "udp", "us02web.zoom.us", "quic-name"] {
            assert!(text.contains(piece), "{piece}: {text}");
        }
    }
}
