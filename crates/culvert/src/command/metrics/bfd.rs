//! Sessions of BFD as series of metrics.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use report::{BfdRow, BfdSessions, BfdState};

use super::rows::{Count, counts, kinds};

/// Registers the connection and its sessions.
pub fn register(registry: &mut Registry, bfd: &BfdSessions) {
    registry.register_collector(Box::new(Bfd(bfd.clone())));
}

/// All sessions, as they were told.
#[derive(Debug)]
struct Bfd(BfdSessions);

const COUNTS: [Count<BfdRow>; 2] = [
    ("bfd_sent_packets", "Packets of BFD sent for a session", |row| row.sent),
    ("bfd_received_packets", "Packets of BFD that a session has heard", |row| row.received),
];

/// Labels of a session's series.
fn labels(row: &BfdRow) -> [(&'static str, String); 3] {
    let interface = row.interface.clone().unwrap_or_default();
    let hops = if row.multi_hop { "several" } else { "one" };
    [("peer", row.peer.to_string()), ("interface", interface), ("hops", hops.into())]
}

impl Collector for Bfd {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let BfdSessions { dataplane, sessions, refused } = &self.0;
        let Some(connection) = dataplane else { return Ok(()) };
        let text = "1 while bfdd is connected";
        encoder
            .encode_descriptor("bfd_connected", text, None, MetricType::Gauge)?
            .encode_gauge(&u32::from(connection.connected))?;
        let text = "1 while a session of BFD is up";
        let mut up = encoder.encode_descriptor("bfd_session_up", text, None, MetricType::Gauge)?;
        for row in sessions {
            let is_up = u32::from(row.state == BfdState::Up);
            up.encode_family(&labels(row))?.encode_gauge(&is_up)?;
        }
        counts(&mut encoder, &COUNTS, sessions, labels)?;
        let text = "Packets between the ends of a session that were refused, by kind";
        kinds(&mut encoder, ("bfd_refused_packets", text), refused)
    }
}

#[cfg(test)]
mod tests {
    use report::BfdConnection;

    use super::super::families::exposition;
    use super::*;
    use crate::command::collect::Seen;

    #[test]
    fn sessions_are_told_by_their_peers() {
        let row = BfdRow {
            discriminator: 7,
            peer: [192, 0, 2, 2].into(),
            local: None,
            multi_hop: true,
            interface: None,
            state: "up".into(),
            since_s: 0,
            diagnostic: String::new(),
            refused: None,
            without: None,
            peer_discriminator: 0,
            peer_diagnostic: String::new(),
            transmit_ms: None,
            detection_ms: None,
            received: 5,
            sent: 6,
        };
        let down = BfdRow { peer: [192, 0, 2, 3].into(), state: "down".into(), ..row.clone() };
        let dataplane = Some(BfdConnection { connected: true, ..BfdConnection::default() });
        let refused = [("ttl".to_owned(), 3)].into();
        let bfd = BfdSessions { dataplane, sessions: vec![row, down], refused };
        let text = exposition(&Seen { bfd, ..Seen::default() }).unwrap();
        for line in [
            "culvert_bfd_connected 1",
            "culvert_bfd_session_up{peer=\"192.0.2.2\",interface=\"\",hops=\"several\"} 1",
            "culvert_bfd_session_up{peer=\"192.0.2.3\",interface=\"\",hops=\"several\"} 0",
            "culvert_bfd_sent_packets_total{peer=\"192.0.2.2\",interface=\"\",hops=\"several\"} 6",
            "culvert_bfd_received_packets_total{peer=\"192.0.2.2\",interface=\"\",hops=\"several\"} 5",
            "culvert_bfd_refused_packets_total{kind=\"ttl\"} 3",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
        let none = exposition(&Seen::default()).unwrap();
        assert!(!none.contains("bfd_connected"), "{none}");
    }
}
