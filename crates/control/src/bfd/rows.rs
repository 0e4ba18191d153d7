//! `culvert bfd`: sessions and the connection, as rows.

use std::collections::BTreeMap;

use bfd::Standing;
use dataplane::{BfdAsked, BfdRefusals, BfdReports};
use mirror::Snapshot;
use report::{BfdConnection, BfdRow, BfdSessions};

use super::Bfd;
use super::owner::{Carrier, Known};
use crate::clock::Now;

impl Bfd {
    /// The connection and its sessions; counters are asked of the worker.
    pub fn report(&self, now: Now, snapshot: &Snapshot, carrier: &impl Carrier) -> BfdSessions {
        let (mut standings, mut refusals) = (BTreeMap::new(), BfdRefusals::default());
        let mut from = (!self.owner.known.is_empty()).then_some(0);
        // As many as it tells at once, until there are no more, or it is late.
        while let Some(slot) = from {
            let Some(BfdReports { sessions, next, refusals: counts }) =
                carrier.ask(BfdAsked::From(slot))
            else {
                break;
            };
            refusals = counts;
            standings.extend(sessions.into_iter().map(|standing| (standing.discr, standing)));
            from = next;
        }
        let rows = self.owner.known.iter().map(|(discr, known)| {
            let standing = standings.get(discr).copied().or(known.standing);
            row(now, *discr, known, standing, snapshot)
        });
        let some = refusals.named().filter(|(_, count)| *count > 0);
        BfdSessions {
            sessions: rows.collect(),
            refused: some.map(|(name, count)| (name.to_owned(), count)).collect(),
            dataplane: self.config.dataplane.as_ref().map(|address| BfdConnection {
                address: address.to_string(),
                connected: self.is_connected,
                why: self.why.clone().filter(|_| !self.is_connected),
                version: self.owner.version,
            }),
        }
    }
}

fn row(
    now: Now,
    discr: u32,
    known: &Known,
    standing: Option<Standing>,
    snapshot: &Snapshot,
) -> BfdRow {
    let ifindex = known.placed.as_ref().map_or(known.peer.ifindex, |session| session.ifindex);
    let interface = snapshot.link(ifindex).map(|link| link.name.clone());
    let ms = |us: u64| us as f64 / 1000.0;
    BfdRow {
        discriminator: discr,
        peer: known.peer.dst,
        local: known.placed.as_ref().ok().map(|session| session.local),
        multi_hop: known.peer.is_multi_hop,
        interface,
        state: standing.map_or(known.state(), |standing| standing.state).name().into(),
        since_s: now.since(known.since).as_secs(),
        diagnostic: standing.map(|standing| standing.diagnostic.to_string()).unwrap_or_default(),
        refused: known.placed.as_ref().err().cloned(),
        without: known.peer.wants_echo.then(|| "the echo function".into()),
        peer_discriminator: standing.map_or(0, |standing| standing.peer.discr),
        peer_diagnostic: standing.map(|it| it.peer.diagnostic.to_string()).unwrap_or_default(),
        transmit_ms: standing.and_then(|it| it.transmit_us).map(|us| ms(us.into())),
        detection_ms: standing.and_then(|standing| standing.detection_us).map(ms),
        received: standing.map_or(0, |standing| standing.counts.received),
        sent: standing.map_or(0, |standing| standing.counts.sent),
    }
}
