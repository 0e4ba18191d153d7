//! Names of the applications of flows, for what is shown of packets.

use std::sync::Arc;
use std::time::Duration;

use apps::{AppId, FlowId, Likely};
use dataplane::Applications;
use wire::{Headers, parse_quoted_ip};

/// Look-up of applications, from a time of the workers' clock on.
pub struct Names {
    applications: Option<Arc<Applications>>,
    now_ns: u64,
}

impl Names {
    pub(super) fn new(applications: Option<Arc<Applications>>, now_ns: u64) -> Names {
        Names { applications, now_ns }
    }

    /// Time of the workers' clock, so long after the look-up began.
    fn at_ns(&self, after: Duration) -> u64 {
        self.now_ns + after.as_nanos() as u64
    }

    /// Name of a flow's application, if it is known, so long after the look-up began.
    pub fn of(&self, flow: &FlowId, after: Duration) -> Option<String> {
        let applications = self.applications.as_ref()?;
        let now_ns = self.at_ns(after);
        let app = applications.hints().flow(flow, now_ns)?;
        Some(applications.catalogue().name(app).to_owned())
    }

    /// The same for the flow of an IP packet, or of its beginning.
    pub fn of_packet(&self, packet: &[u8], after: Duration) -> Option<String> {
        self.applications.as_ref()?;
        let h = parse_quoted_ip(packet).ok()?;
        self.of(&FlowId::of(&h).0, after)
    }

    /// The application that a packet's flow is taken for, and why, in words. `None` where flows are not told apart.
    pub fn expected(&self, h: &Headers) -> Option<String> {
        let applications = self.applications.as_ref()?;
        let (catalogue, hints) = (applications.catalogue(), applications.hints());
        let (flow, src, dst) = FlowId::of(h);
        let named = |app: AppId, why: &str| format!("{}: {why}", catalogue.name(app));
        if let Some(app) = hints.flow(&flow, self.now_ns) {
            return Some(named(app, "the flow is known"));
        }
        if let Some(app) = catalogue.of_first_packet(&flow, h.traffic_class >> 2) {
            return Some(named(app, "an [[application]] is about such packets"));
        }
        Some(match hints.likely(flow.protocol, src, dst, self.now_ns) {
            Some(Likely::Answer(app)) => {
                named(app, "most likely, by an answer of a name server; the flow's packets tell")
            }
            Some(Likely::Earlier(app)) => {
                named(app, "most likely, by earlier flows to the server; the flow's packets tell")
            }
            None => "not known: the flow's first packets tell".into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use apps::{Application, Catalogue, End, Hints, Name};

    use super::*;

    fn names() -> (Names, Arc<Applications>) {
        let entry = |name: &str| Application { name: name.into(), ..Application::default() };
        let entries = vec![
            Application { dscp: Some(46), ..entry("voice") },
            Application {
                domains: Name::new(b"erp.example").into_iter().collect(),
                ..entry("erp")
            },
        ];
        let catalogue = Arc::new(Catalogue::new(entries).expect("a catalogue"));
        let applications = Arc::new(Applications::new(catalogue, Arc::new(Hints::new(64))));
        (Names::new(Some(Arc::clone(&applications)), 5), applications)
    }

    /// A UDP packet from 10.1.0.5 port 1000 to 10.2.0.9 port 443.
    fn packet(traffic_class: u8) -> Vec<u8> {
        let mut packet =
            vec![0x45, traffic_class, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 1, 0, 5, 10, 2, 0, 9];
        let sum: u32 = packet.chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum();
        let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        packet.extend([0x03, 0xe8, 0x01, 0xbb, 0, 8, 0, 0]);
        packet
    }

    #[test]
    fn an_application_and_why() {
        let (names, applications) = names();
        let expected = |traffic_class| {
            let packet = packet(traffic_class);
            names
                .expected(&wire::parse_ip(&packet).expect("a packet"))
                .expect("they are told apart")
        };
        assert_eq!(expected(0), "not known: the flow's first packets tell");
        assert_eq!(expected(46 << 2), "voice: an [[application]] is about such packets");
        assert_eq!(names.of_packet(&packet(0), Duration::ZERO), None);
        let erp = applications.catalogue().find("erp").expect("it is there");
        let end = |addr: [u8; 4], port| End { addr: addr.into(), port };
        let flow = FlowId::new(17, end([10, 2, 0, 9], 443), end([10, 1, 0, 5], 1000));
        applications.hints().learn_flow(&flow, erp, 5);
        assert_eq!(expected(0), "erp: the flow is known");
        assert_eq!(names.of_packet(&packet(0), Duration::ZERO).as_deref(), Some("erp"));
        assert_eq!(names.of_packet(b"none", Duration::ZERO), None);
        let h = wire::parse_ip(&packet(0)).expect("a packet");
        assert_eq!(Names::new(None, 0).expected(&h), None);
    }
}
