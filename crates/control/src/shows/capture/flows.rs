//! `culvert flows`: what a tap records, counted by flow.
//!
//! A thread of its own counts, so workers do no more than for a capture of the packets' headers.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use apps::{End, FlowId};
use dataplane::{OfSa, Place, Record, TapReader, Verdict};
use outcome::DropReason;
use report::{Direction, Flow, Flows, FlowsRequest};
use tracing::debug;
use wire::protocol::has_ports;

use super::slots::Slot;
use super::stream::is_shut;
use super::text::word;
use crate::applications::Names;
use crate::paths::OwnFlows;
use crate::texts::spi_text;

/// Bytes of a packet in which all headers are that tell its flow.
pub const SNAP_LEN: usize = 128;

/// Flows of an interval that are told apart at most.
const MOST: usize = 65_536;

/// How often the client is looked after.
const LOOK: Duration = Duration::from_millis(50);

/// How long a client may take none of what it has asked for.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

/// Flows that are being counted.
pub struct Counting {
    reader: TapReader,
    interval: Duration,
    most: usize,
    only: Only,
    names: Names,
    own: OwnFlows,
    _slot: Slot,
}

/// Application and path of the flows that count; any where there is none.
struct Only {
    application: Option<String>,
    path: Option<String>,
}

/// Knowledge of a flow beyond its packets.
#[derive(Clone, Default)]
struct Known {
    application: Option<String>,
    path: Option<String>,
}

impl Only {
    const fn is_all(&self) -> bool {
        self.application.is_none() && self.path.is_none()
    }

    fn admits(&self, known: &Known) -> bool {
        let is_it = |wanted: &Option<String>, is: &Option<String>| wanted.is_none() || wanted == is;
        is_it(&self.application, &known.application) && is_it(&self.path, &known.path)
    }
}

impl Counting {
    pub(super) fn new(
        (reader, slot): (TapReader, Slot),
        (names, own): (Names, OwnFlows),
        request: &FlowsRequest,
    ) -> Counting {
        let interval = Duration::from_millis(request.interval_ms.max(100));
        let FlowsRequest { application, path, .. } = request.clone();
        let (most, only) = (request.most.min(MOST), Only { application, path });
        Counting { reader, interval, most, only, names, own, _slot: slot }
    }

    /// Tells each interval's flows until the client has enough.
    pub fn run(self, client: UnixStream) {
        if let Err(error) = self.tell(client) {
            debug!(%error, "who looked at flows went away");
        }
    }

    fn tell(self, mut client: UnixStream) -> io::Result<()> {
        client.set_write_timeout(Some(WRITE_TIMEOUT))?;
        let mut table = Table::default();
        let started = Instant::now();
        let (mut begun, mut lost_before) = (Instant::now(), 0);
        while !is_shut(&client) {
            let left = self.interval.saturating_sub(begun.elapsed());
            match self.reader.next(left.min(LOOK)) {
                Ok(Some(buffer)) => {
                    buffer.iter().for_each(|(record, bytes)| table.count(record.into(), bytes));
                    self.reader.give_back(buffer);
                }
                Ok(None) => {}
                // The workers changed or ended.
                Err(dataplane::Gone) => break,
            }
            if begun.elapsed() >= self.interval {
                let lost: u64 = Place::ALL.into_iter().map(|place| self.reader.lost(place)).sum();
                let flows = Flows {
                    seconds: begun.elapsed().as_secs_f64(),
                    lost: lost - lost_before,
                    ..table.take(self.most, &self.only, &|key, counts| {
                        self.known(key, counts, started.elapsed())
                    })
                };
                (begun, lost_before) = (Instant::now(), lost);
                let mut line = serde_json::to_vec(&flows)?;
                line.push(b'\n');
                client.write_all(&line)?;
            }
        }
        Ok(())
    }

    /// Application and path of a flow.
    fn known(&self, key: &Key, counts: &Counts, after: Duration) -> Known {
        let application = self.names.of(&key.flow(), after);
        // What comes in has its path behind it, and probes have their own.
        let own = self.own.path_of(key.protocol, key.ends()).filter(|_| key.is_outbound);
        let path = own.unwrap_or_else(|| counts.path.clone());
        Known { application, path: path.as_deref().map(str::to_owned) }
    }
}

/// Fields that the packets of one flow have in common. An SA that is replaced does not make
/// another flow.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    src: IpAddr,
    dst: IpAddr,
    protocol: u8,
    ports: (u16, u16),
    is_outbound: bool,
}

impl Key {
    const fn ends(&self) -> ((IpAddr, u16), (IpAddr, u16)) {
        ((self.src, self.ports.0), (self.dst, self.ports.1))
    }

    /// The flow of both directions.
    fn flow(&self) -> FlowId {
        let end = |addr, port| match has_ports(self.protocol) {
            true => End { addr, port },
            false => End { addr, port: 0 },
        };
        FlowId::new(self.protocol, end(self.src, self.ports.0), end(self.dst, self.ports.1))
    }
}

/// The part of a record that counts.
struct Seen {
    place: Place,
    is_outbound: bool,
    len: u32,
    sa: Option<OfSa>,
    policy: Option<u32>,
    path: Option<Arc<str>>,
    verdict: Verdict,
}

impl From<&Record> for Seen {
    fn from(record: &Record) -> Seen {
        let Record { place, is_outbound, len, sa, policy, verdict, .. } = *record;
        Seen { place, is_outbound, len, sa, policy, path: record.path.clone(), verdict }
    }
}

#[derive(Clone)]
struct Counts {
    packets: u64,
    bytes: u64,
    sa: Option<OfSa>,
    policy: Option<u32>,
    /// The path of its last packet.
    path: Option<Arc<str>>,
    verdict: Verdict,
}

/// The flows of an interval.
#[derive(Default)]
struct Table {
    flows: HashMap<Key, Counts>,
    /// Apart, as few flows have any.
    drops: HashMap<(Key, DropReason), u64>,
    others: u64,
}

impl Table {
    /// Counts a packet where it is in clear; on the wire only one that got no further.
    fn count(&mut self, seen: Seen, bytes: &[u8]) {
        let counts = match seen.verdict {
            // It comes again when it goes on, or at the worker that it was given to.
            Verdict::Held | Verdict::HandedOver => false,
            Verdict::Dropped(_) => true,
            _ => seen.place == Place::Plain,
        };
        let Some(key) = counts.then(|| key(seen.is_outbound, bytes)).flatten() else {
            return;
        };
        if !self.flows.contains_key(&key) && self.flows.len() >= MOST {
            self.others += 1;
            return;
        }
        let by = match seen.verdict {
            Verdict::Protected(by) => Some(by),
            _ => None,
        };
        let flow = self.flows.entry(key).or_insert(Counts {
            packets: 0,
            bytes: 0,
            sa: None,
            policy: None,
            path: None,
            verdict: Verdict::Unknown,
        });
        flow.packets += 1;
        flow.bytes += u64::from(seen.len);
        flow.sa = by.or(seen.sa).or(flow.sa);
        flow.policy = seen.policy.or(flow.policy);
        flow.path = seen.path.or_else(|| flow.path.take());
        flow.verdict = seen.verdict;
        if let Verdict::Dropped(reason) = seen.verdict {
            *self.drops.entry((key, reason)).or_default() += 1;
        }
    }

    /// The flows with the most bytes; begins anew.
    fn take(&mut self, most: usize, only: &Only, known: &dyn Fn(&Key, &Counts) -> Known) -> Flows {
        let mut flows: Vec<(Key, Counts)> = self.flows.drain().collect();
        if !only.is_all() {
            flows.retain(|(key, counts)| only.admits(&known(key, counts)));
        }
        flows.sort_by_key(|(_, counts)| core::cmp::Reverse(counts.bytes));
        let rest = flows.split_off(most.min(flows.len()));
        let others = rest.iter().map(|(_, counts)| counts.packets).sum::<u64>();
        let mut drops: HashMap<Key, BTreeMap<String, u64>> = HashMap::new();
        for ((key, reason), count) in self.drops.drain() {
            drops.entry(key).or_default().insert(reason.name().into(), count);
        }
        Flows {
            flows: flows
                .into_iter()
                .map(|(key, counts)| (key, known(&key, &counts), counts))
                .map(|(key, known, counts)| Flow {
                    src: key.src,
                    dst: key.dst,
                    protocol: key.protocol,
                    src_port: key.ports.0,
                    dst_port: key.ports.1,
                    direction: if key.is_outbound { Direction::Out } else { Direction::In },
                    spi: counts.sa.map(|sa| spi_text(sa.id.spi)),
                    reqid: counts.sa.map(|sa| sa.reqid),
                    policy: counts.policy,
                    application: known.application,
                    path: known.path,
                    packets: counts.packets,
                    bytes: counts.bytes,
                    fate: word(&counts.verdict),
                    drops: drops.remove(&key).unwrap_or_default(),
                })
                .collect(),
            others: others + std::mem::take(&mut self.others),
            ..Flows::default()
        }
    }
}

/// None of what is no IP packet.
fn key(is_outbound: bool, bytes: &[u8]) -> Option<Key> {
    // As much was kept as an ICMP error quotes, and it is read as such.
    let h = wire::parse_quoted_ip(bytes).ok()?;
    let ports = (h.src_port, h.dst_port);
    Some(Key { src: h.src, dst: h.dst, protocol: h.protocol, ports, is_outbound })
}

#[cfg(test)]
mod tests {
    use policy::SaId;
    use report::PacketFate;

    use super::*;

    /// The head of a UDP packet from 10.1.0.`host` port 1000 to 10.2.0.9 port 443.
    fn head(host: u8) -> Vec<u8> {
        let mut packet =
            vec![0x45, 0, 0x05, 0x78, 0, 0, 0, 0, 64, 17, 0, 0, 10, 1, 0, host, 10, 2, 0, 9];
        let sum: u32 = packet.chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum();
        let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        packet.extend([0x03, 0xe8, 0x01, 0xbb, 0x05, 0x64, 0, 0]);
        packet
    }

    const ALL: Only = Only { application: None, path: None };

    fn nothing(_: &Key, _: &Counts) -> Known {
        Known::default()
    }

    fn sa(spi: u32) -> OfSa {
        let dst = "192.0.2.2".parse().expect("an address");
        OfSa { id: SaId { spi, dst, protocol: 50, mark: Default::default() }, reqid: 7 }
    }

    fn seen(place: Place, verdict: Verdict) -> Seen {
        let (is_outbound, path) = (true, None);
        Seen { place, is_outbound, len: 1400, sa: None, policy: Some(9), path, verdict }
    }

    #[test]
    fn a_packet_counts_once_where_it_is_in_clear() {
        let mut table = Table::default();
        for spi in [0x100, 0x200] {
            table.count(seen(Place::Plain, Verdict::Held), &head(5));
            table.count(seen(Place::Plain, Verdict::HandedOver), &head(5));
            table.count(seen(Place::Plain, Verdict::Protected(sa(spi))), &head(5));
            table.count(seen(Place::Wire, Verdict::Sent { ifindex: 1 }), &head(77));
        }
        let Flows { flows, others, .. } = table.take(10, &ALL, &nothing);
        assert_eq!((flows.len(), others), (1, 0));
        let flow = &flows[0];
        assert_eq!((flow.packets, flow.bytes, flow.protocol), (2, 2800, 17));
        assert_eq!((flow.src_port, flow.dst_port), (1000, 443));
        assert_eq!(flow.src, IpAddr::from([10, 1, 0, 5]));
        assert_eq!(
            (flow.spi.as_deref(), flow.reqid, flow.policy),
            (Some("0x00000200"), Some(7), Some(9))
        );
        assert_eq!((&flow.fate, &flow.direction), (&PacketFate::Protected, &Direction::Out));
        assert!(table.take(10, &ALL, &nothing).flows.is_empty(), "each interval begins anew");
    }

    #[test]
    fn drops_count_by_reason_wherever_they_are() {
        let mut table = Table::default();
        table.count(seen(Place::Plain, Verdict::Sent { ifindex: 1 }), &head(5));
        table.count(seen(Place::Wire, Verdict::Dropped(DropReason::InIntegrity)), &head(5));
        table.count(seen(Place::Wire, Verdict::Dropped(DropReason::InIntegrity)), &head(5));
        let flow = table.take(10, &ALL, &nothing).flows.remove(0);
        assert_eq!((flow.packets, flow.drops), (3, [("in-integrity".to_owned(), 2)].into()));
    }

    #[test]
    fn flows_that_are_not_told_are_summed_up() {
        let mut table = Table::default();
        for host in [5, 5, 5, 6, 6, 7] {
            table.count(seen(Place::Plain, Verdict::ToLinux), &head(host));
        }
        table.count(seen(Place::Frame, Verdict::ToLinux), &[0; 14]);
        let Flows { flows, others, .. } = table.take(1, &ALL, &nothing);
        assert_eq!((flows.len(), flows[0].packets, others), (1, 3, 3));
    }

    #[test]
    fn flows_of_an_application_or_a_path_are_told_alone() {
        let known = |key: &Key, counts: &Counts| Known {
            application: (key.src == IpAddr::from([10, 1, 0, 5])).then(|| "zoom".into()),
            path: counts.path.as_deref().map(str::to_owned),
        };
        let told = |application: Option<&str>, path: Option<&str>| {
            let mut table = Table::default();
            for (host, path) in [(5, "lte"), (5, "fibre"), (6, "fibre"), (7, "")] {
                let path = Some(path).filter(|path| !path.is_empty()).map(Arc::from);
                table.count(Seen { path, ..seen(Place::Plain, Verdict::ToLinux) }, &head(host));
            }
            let (application, path) = (application.map(Into::into), path.map(Into::into));
            let Flows { flows, others, .. } = table.take(10, &Only { application, path }, &known);
            assert_eq!(others, 0, "flows that are not wanted are no others");
            let mut all: Vec<_> =
                flows.into_iter().map(|f| (f.src, f.application, f.path)).collect();
            all.sort();
            all
        };
        let of = |host, application: Option<&str>, path: Option<&str>| {
            let src = IpAddr::from([10, 1, 0, host]);
            (src, application.map(str::to_owned), path.map(str::to_owned))
        };
        let (zoom, other) = (of(5, Some("zoom"), Some("fibre")), of(6, None, Some("fibre")));
        assert_eq!(told(None, None), [zoom.clone(), other.clone(), of(7, None, None)]);
        assert_eq!(told(Some("zoom"), None).as_slice(), std::slice::from_ref(&zoom));
        assert_eq!(told(None, Some("fibre")), [zoom.clone(), other]);
        assert_eq!(told(Some("zoom"), Some("fibre")), [zoom]);
        assert!(told(Some("zoom"), Some("lte")).is_empty());
    }
}
