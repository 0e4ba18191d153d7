//! `culvert bfd`: sessions of BFD, and the connection to `bfdd`.

use std::error::Error;

use report::client::ask;
use report::units::si;
use report::{BfdConnection, BfdRow, BfdSessions, Request};

use crate::table::{table_within, terminal_width};

/// Shows the sessions.
///
/// # Errors
/// No daemon answers.
pub fn bfd(name: &str, json: bool) -> Result<String, Box<dyn Error>> {
    let sessions: BfdSessions = ask(name, Request::Bfd)?;
    match json {
        true => Ok(serde_json::to_string(&sessions)?),
        false => Ok(text(&sessions)),
    }
}

fn text(of: &BfdSessions) -> String {
    let Some(connection) = &of.dataplane else {
        return "no sessions; [bfd] of the configuration names bfdd's address".into();
    };
    let mut parts = Vec::new();
    if !of.sessions.is_empty() {
        let head = [
            ">DISCR",
            "PEER",
            "LOCAL",
            "INTERFACE",
            "HOPS",
            "STATE",
            ">FOR",
            ">SEND",
            ">DETECT",
            ">SENT",
            ">HEARD",
            "DIAGNOSTIC",
        ];
        let spare = ["DISCR", "HEARD", "SENT", "HOPS", "LOCAL", "FOR"];
        let rows = of.sessions.iter().map(row);
        parts.push(table_within(terminal_width(), &head, rows, &spare, "culvert bfd | cat"));
    }
    let notes = of.sessions.iter().filter_map(|session| {
        let without = session.without.as_ref().map(|function| format!("goes without {function}"));
        let note = session.refused.clone().or(without)?;
        Some(format!("{} ({}): {note}", session.peer, session.discriminator))
    });
    let notes: Vec<_> = notes.collect();
    if !notes.is_empty() {
        parts.push(notes.join("\n"));
    }
    parts.push(line(connection));
    if !of.refused.is_empty() {
        let counts = of.refused.iter().map(|(kind, count)| format!("{kind} {count}"));
        parts.push(format!("packets refused: {}", counts.collect::<Vec<_>>().join(", ")));
    }
    parts.join("\n\n")
}

fn line(connection: &BfdConnection) -> String {
    let BfdConnection { address, connected, why, version } = connection;
    let version = version.map(|version| format!(", protocol version {version}"));
    match connected {
        true => format!("bfdd: connected at {address}{}", version.unwrap_or_default()),
        false => {
            let why = why.as_deref().unwrap_or("it has not answered yet");
            format!("bfdd: not connected at {address}: {why}")
        }
    }
}

fn row(session: &BfdRow) -> Vec<String> {
    let ms = |ms: Option<f64>| ms.map_or_else(|| "-".into(), |ms| format!("{ms} ms"));
    vec![
        session.discriminator.to_string(),
        session.peer.to_string(),
        session.local.map_or_else(|| "-".into(), |local| local.to_string()),
        session.interface.clone().unwrap_or_else(|| "-".into()),
        if session.multi_hop { "several".into() } else { "one".into() },
        session.state.to_string(),
        format!("{} s", session.since_s),
        ms(session.transmit_ms),
        ms(session.detection_ms),
        si(session.sent),
        si(session.received),
        session.diagnostic.clone(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_sessions_and_the_connection() {
        let row = BfdRow {
            discriminator: 7,
            peer: [192, 0, 2, 2].into(),
            local: Some([192, 0, 2, 1].into()),
            multi_hop: false,
            interface: Some("wan".into()),
            state: "up".into(),
            since_s: 12,
            diagnostic: "no diagnostic".into(),
            refused: None,
            without: Some("the echo function".into()),
            peer_discriminator: 9,
            peer_diagnostic: String::new(),
            transmit_ms: Some(10.0),
            detection_ms: Some(30.0),
            received: 5,
            sent: 6,
        };
        let lacking = BfdRow {
            discriminator: 8,
            local: None,
            interface: None,
            multi_hop: true,
            state: "down".into(),
            refused: Some("demand mode is not carried out by culvert".into()),
            transmit_ms: None,
            detection_ms: None,
            ..row.clone()
        };
        let address = "unix:/run/frr/bfdd_dplane.sock".to_owned();
        let connection = BfdConnection { address, connected: true, why: None, version: Some(1) };
        let of = BfdSessions {
            dataplane: Some(connection.clone()),
            sessions: vec![row, lacking],
            refused: [("ttl".to_owned(), 3)].into(),
        };
        let text = text(&of);
        let words = |start: &str| {
            let line = text.lines().find(|line| line.trim_start().starts_with(start));
            line.expect(start).split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            words("7 "),
            "7 192.0.2.2 192.0.2.1 wan one up 12 s 10 ms 30 ms 6 5 no diagnostic"
        );
        assert_eq!(words("8 "), "8 192.0.2.2 - - several down 12 s - - 6 5 no diagnostic");
        assert!(text.contains("192.0.2.2 (8): demand mode"), "{text}");
        assert!(text.contains("192.0.2.2 (7): goes without the echo function"), "{text}");
        assert!(text.contains("connected at unix:/run/frr/bfdd_dplane.sock, protocol version 1"));
        assert!(text.ends_with("packets refused: ttl 3"), "{text}");
        let gone = BfdConnection { connected: false, why: Some("refused".into()), ..connection };
        assert!(line(&gone).starts_with("bfdd: not connected at unix:"));
        assert!(super::text(&BfdSessions::default()).contains("[bfd]"));
    }
}
