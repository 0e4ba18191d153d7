//! Two looks at the daemon, and the rates between them.

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use outcome::DropReason;
use report::protocol;
use report::{Device, Direction, Flows, Policy, Port, Sa, SaPlacement};

use super::limits::{Shares, due};
use super::sheet::{Cell, Sheet};
use crate::command::collect::Seen;
use crate::command::flows;

/// The daemon's answers at one time.
#[derive(Clone, Debug)]
pub struct Look {
    /// Time of the answers.
    pub at: Instant,
    /// The daemon's answers, by request.
    pub seen: Seen,
}

/// Two looks, one after the other.
pub struct Pair<'l> {
    before: &'l Look,
    now: &'l Look,
    /// Nobody knows what is true now: rates are not known.
    is_old: bool,
    /// Flows, as far as they are looked at; or why they cannot be.
    flows: Result<Option<&'l Flows>, &'l str>,
}

impl<'l> Pair<'l> {
    /// Of two looks; rates are 0 where there is no time between them.
    pub fn new(before: &'l Look, now: &'l Look) -> Pair<'l> {
        Pair { before, now, is_old: false, flows: Ok(None) }
    }

    /// The same, once the daemon has not answered for too long.
    pub fn old_if(self, is_old: bool) -> Pair<'l> {
        Pair { is_old, ..self }
    }

    /// A state from the daemon, which may be out of date.
    pub(super) fn state(&self, state: &str) -> Cell {
        if self.is_old { Cell::text(&format!("was {state}")) } else { Cell::text(state) }
    }

    /// With the flows of the last interval, or why there are none.
    pub fn with_flows(self, flows: &'l Result<Option<Flows>, String>) -> Pair<'l> {
        Pair { flows: flows.as_ref().map(Option::as_ref).map_err(String::as_str), ..self }
    }

    /// Why flows cannot be looked at.
    pub fn flow_trouble(&self) -> Option<&'l str> {
        self.flows.err()
    }

    /// The earlier one.
    pub(super) fn before(&self) -> &'l Seen {
        &self.before.seen
    }

    /// The later one.
    pub fn seen(&self) -> &'l Seen {
        &self.now.seen
    }

    /// How much a count has grown each second. One that is smaller than before began anew.
    pub(super) fn rate(&self, before: Option<u64>, now: u64) -> f64 {
        if self.is_old {
            return f64::NAN;
        }
        let seconds = self.now.at.saturating_duration_since(self.before.at).as_secs_f64();
        let grown = now.saturating_sub(before.filter(|before| *before <= now).unwrap_or(now));
        if seconds > 0.0 { grown as f64 / seconds } else { 0.0 }
    }

    /// Bits that all ports received and sent each second.
    pub fn throughput(&self) -> (f64, f64) {
        // What VLANs count their ports do too.
        let sum = |look: &Look, count: fn(&Port) -> u64| {
            look.seen.ports.iter().filter(|port| !port.is_vlan()).map(count).sum()
        };
        let rate = |count| self.rate(Some(sum(self.before, count)), sum(self.now, count)) * 8.0;
        (rate(|port| port.rx_bytes), rate(|port| port.tx_bytes))
    }

    /// Packets dropped each second.
    pub fn drop_rate(&self) -> f64 {
        let dropped = |look: &Look| look.seen.stats.outcomes.dropped;
        self.rate(Some(dropped(self.before)), dropped(self.now))
    }

    /// Table of the ports.
    pub fn ports(&self) -> Sheet {
        let old = index(&self.before.seen.ports, |port| port.interface.clone());
        let rows = self.now.seen.ports.iter().map(|port| {
            let old = old.get(&port.interface);
            let rate = |count: fn(&Port) -> u64| self.rate(old.map(|old| count(old)), count(port));
            vec![
                Cell::text(&port.interface),
                self.state(port.state.as_str()),
                Cell::packets(rate(|port| port.rx_packets)),
                Cell::bits(rate(|port| port.rx_bytes)),
                Cell::packets(rate(|port| port.tx_packets)),
                Cell::bits(rate(|port| port.tx_bytes)),
                Cell::packets(rate(|port| port.passed_to_linux)),
            ]
        });
        Sheet::new(
            "ports",
            &["PORT", "STATE", ">RX PPS", ">RX BIT/S", ">TX PPS", ">TX BIT/S", ">TO LINUX"],
            rows,
        )
    }

    /// Table of the offload devices.
    pub fn devices(&self) -> Sheet {
        let old = index(&self.before.seen.devices, |device| device.name.clone());
        let rows = self.now.seen.devices.iter().map(|device| {
            let old = old.get(&device.name);
            let rate =
                |count: fn(&Device) -> u64| self.rate(old.map(|old| count(old)), count(device));
            vec![
                Cell::text(&device.name),
                self.state(device.state.as_str()),
                Cell::packets(rate(|device| device.sealed)),
                Cell::packets(rate(|device| device.opened)),
                Cell::packets(rate(|device| device.wrong_icv)),
                Cell::packets(rate(|device| device.refused)),
                Cell::packets(rate(|device| device.in_software)),
            ]
        });
        let head = ["DEVICE", "STATE", ">SEALED", ">OPENED", ">ICV", ">REFUSED", ">SOFTWARE"];
        Sheet::new("devices", &head, rows)
    }

    /// Table of the workers.
    pub fn workers(&self) -> Sheet {
        let old = &self.before.seen.stats.by_worker;
        let rows = self.now.seen.stats.by_worker.iter().enumerate().map(|(n, now)| {
            let old = old.get(n);
            let work = |name: &str| {
                let count = |work: &std::collections::BTreeMap<String, u64>| {
                    work.get(name).copied().unwrap_or(0)
                };
                self.rate(old.map(|old| count(&old.work)), count(&now.work))
            };
            let workers = &self.now.seen.status.workers;
            let cpu = workers.get(n).and_then(|worker| worker.cpu);
            vec![
                Cell::text(&n.to_string()),
                Cell::text(&cpu.map_or_else(|| "any".into(), |cpu| cpu.to_string())),
                Cell::packets(self.rate(old.map(|old| old.received), now.received)),
                Cell::packets(work("encrypted")),
                Cell::packets(work("decrypted")),
                Cell::packets(work("flow-hits")),
                Cell::packets(work("flow-misses")),
                Cell::packets(self.rate(old.map(|old| old.handed_over), now.handed_over)),
                Cell::packets(self.rate(old.map(|old| old.outcomes.dropped), now.outcomes.dropped)),
            ]
        });
        let head = [
            "WORKER",
            "CORE",
            ">PPS",
            ">ENCRYPTED",
            ">DECRYPTED",
            ">HITS",
            ">MISSES",
            ">HANDED ON",
            ">DROPPED",
        ];
        Sheet::new("workers", &head, rows)
    }

    /// SAs, what ends first first; none if there are too many to list.
    pub fn sas(&self) -> Sheet {
        let key = |sa: &Sa| (sa.spi.clone(), sa.dst.clone(), sa.protocol.clone());
        let old = index(self.before.seen.sas.as_deref().unwrap_or_default(), key);
        let rows = self.now.seen.sas.iter().flatten().map(|sa| {
            let old = old.get(&key(sa));
            let rate = |count: fn(&Sa) -> u64| self.rate(old.map(|old| count(old)), count(sa));
            vec![
                Cell::text(&sa.spi),
                Cell::text(sa.direction.as_ref().map_or("-", Direction::as_str)),
                Cell::text(&sa.src),
                Cell::text(&sa.dst),
                Cell::count(sa.reqid.into()),
                Cell::text(if sa.placement == SaPlacement::Kernel {
                    "kernel"
                } else {
                    sa.state.as_str()
                }),
                Cell::packets(rate(|sa| sa.packets)),
                Cell::bits(rate(|sa| sa.bytes)),
                Cell::packets(rate(|sa| sa.late_drops + sa.duplicate_drops + sa.integrity_drops)),
                Cell::due(due(&sa.until_rekey, rate(|sa| sa.packets), rate(|sa| sa.bytes))),
                Cell::share(Shares::soft(sa).most()),
                Cell::share(Shares::hard(sa).most()),
                Cell::due(due(&sa.until_expiry, rate(|sa| sa.packets), rate(|sa| sa.bytes))),
            ]
        });
        let head = [
            "SPI", "DIR", "SRC", "DST", ">REQID", "STATE", ">PPS", ">BIT/S", ">REFUSED", ">REKEY",
            ">SOFT", ">HARD", ">ENDS",
        ];
        let mut sheet = Sheet { spare: &[4, 8], ..Sheet::new("SAs", &head, rows) };
        sheet.sort(9, false);
        sheet.sort(SA_ENDS, false);
        sheet
    }

    /// Policies, none if there are too many to list.
    pub fn policies(&self) -> Sheet {
        let old = index(self.before.seen.policies.as_deref().unwrap_or_default(), |p| p.index);
        let rows = self.now.seen.policies.iter().flatten().map(|policy| {
            let old = old.get(&policy.index);
            let rate =
                |count: fn(&Policy) -> u64| self.rate(old.map(|old| count(old)), count(policy));
            vec![
                Cell::count(policy.index.into()),
                Cell::text(policy.direction.as_str()),
                Cell::count(policy.priority.into()),
                Cell::text(&policy.src),
                Cell::text(&policy.dst),
                Cell::text(&policy.action_text()),
                Cell::packets(rate(|policy| policy.packets)),
                Cell::bits(rate(|policy| policy.bytes)),
            ]
        });
        let head = [">INDEX", "DIR", ">PRIO", "SRC", "DST", "ACTION", ">PPS", ">BIT/S"];
        Sheet::new("policies", &head, rows)
    }

    /// Flows of the last interval in which they were looked at.
    pub fn flows(&self) -> Sheet {
        let seen = self.flows.ok().flatten();
        let seconds = seen.map_or(1.0, |seen| seen.seconds);
        let rows = seen.into_iter().flat_map(|seen| &seen.flows).map(|flow| {
            vec![
                Cell::text(&flows::end(flow.src, flow.protocol, flow.src_port)),
                Cell::text(&flows::end(flow.dst, flow.protocol, flow.dst_port)),
                Cell::text(&protocol::name(flow.protocol)),
                Cell::text(flow.spi.as_deref().unwrap_or("-")),
                Cell::text(flow.application.as_deref().unwrap_or("-")),
                Cell::text(flow.path.as_deref().unwrap_or("-")),
                Cell::packets(flow.packets as f64 / seconds),
                Cell::bits(flow.bytes as f64 / seconds),
                Cell::text(&flows::fate(flow)),
            ]
        });
        let head = ["FROM", "TO", "PROTO", "SA", "APP", "PATH", ">PPS", ">BIT/S", "FATE"];
        Sheet { spare: &[2, 3, 6], ..Sheet::new("flows", &head, rows) }
    }

    /// Reasons for which packets of the flows that are looked at were dropped, with their rates.
    pub fn flow_drops(&self) -> BTreeMap<&'l str, f64> {
        let mut drops = BTreeMap::new();
        if let Some(seen) = self.flows.ok().flatten() {
            for (reason, count) in seen.flows.iter().flat_map(|flow| &flow.drops) {
                *drops.entry(reason.as_str()).or_default() += *count as f64 / seen.seconds;
            }
        }
        drops
    }

    /// Reasons for which packets were dropped.
    pub fn drops(&self) -> Sheet {
        let (old, now) = (&self.before.seen.drops.drops, &self.now.seen.drops.drops);
        let rows = DropReason::ALL.iter().filter_map(|reason| {
            let count = now.get(reason.name()).copied().filter(|count| *count > 0)?;
            Some(vec![
                Cell::text(reason.name()),
                Cell::packets(self.rate(old.get(reason.name()).copied(), count)),
                Cell::count(count),
                Cell::text(reason.text()),
            ])
        });
        Sheet::new("drops", &["REASON", ">PPS", ">PACKETS", "MEANING"], rows)
    }
}

/// The column of flows that has their bits.
pub const FLOW_BITS: usize = 7;

/// The column of SAs that tells when they end.
pub const SA_ENDS: usize = 12;

pub(super) fn index<T, K: std::hash::Hash + Eq>(
    all: &[T],
    key: impl Fn(&T) -> K,
) -> HashMap<K, &T> {
    all.iter().map(|one| (key(one), one)).collect()
}

#[cfg(test)]
pub mod tests {
    use std::time::Duration;

    use report::{Apps, Drops, Left, Stats, Status};

    use super::*;

    /// Two looks, two seconds apart: a port, an SA of 1000 packets a second, a policy, and drops.
    pub fn looks() -> (Look, Look) {
        let look = |at, packets: u64| {
            let port = Port {
                interface: "wan".into(),
                state: "up".into(),
                rx_packets: packets,
                rx_bytes: packets * 125,
                ..Port::default()
            };
            let sa = Sa {
                spi: "0x00001001".into(),
                src: "192.0.2.1".into(),
                dst: "192.0.2.2".into(),
                reqid: 7,
                state: "valid".into(),
                packets,
                ..Sa::default()
            };
            let device = Device {
                name: "nic0".into(),
                state: "up".into(),
                opened: packets,
                ..Device::default()
            };
            let policy = Policy {
                index: 17,
                direction: "out".into(),
                src: "10.1.0.0/24".into(),
                dst: "10.2.0.0/24".into(),
                action: "protect".into(),
                templates: vec!["tunnel 192.0.2.1 - 192.0.2.2 reqid 7".into()],
                has_sas: Some(true),
                packets,
                ..Policy::default()
            };
            let drops = [("in-integrity".to_owned(), packets / 1000)].into();
            let drops = Drops { drops, ..Drops::default() };
            let work = [("flow-hits".to_owned(), packets), ("flow-misses".to_owned(), 0)].into();
            let by_worker = vec![Stats { received: packets, work, ..Stats::default() }];
            Look {
                at,
                seen: Seen {
                    apps: Apps::default(),
                    status: Status { name: "gw".into(), sas: 1, policies: 1, ..Status::default() },
                    stats: Stats { by_worker, ..Stats::default() },
                    drops,
                    ports: vec![port],
                    devices: vec![device],
                    limits: Vec::new(),
                    paths: report::MeasuredPaths::default(),
                    steers: Vec::new(),
                    bfd: report::BfdSessions::default(),
                    sas: Some(vec![sa]),
                    policies: Some(vec![policy]),
                },
            }
        };
        let start = Instant::now();
        (look(start, 5000), look(start + Duration::from_secs(2), 7000))
    }

    fn texts(sheet: &Sheet) -> Vec<&str> {
        sheet.rows[0].iter().map(|cell| cell.text.as_str()).collect()
    }

    #[test]
    fn rates_are_what_grew_each_second() {
        let (before, mut now) = looks();
        // Its frames are counted with the port's.
        now.seen.ports.push(Port { vlan: vec![5], rx_bytes: 1 << 40, ..Port::default() });
        let pair = Pair::new(&before, &now);
        assert_eq!(pair.throughput(), (1_000_000.0, 0.0));
        assert_eq!(texts(&pair.ports())[..4], ["wan", "up", "1000", "1.00M"]);
        assert_eq!(texts(&pair.devices())[..4], ["nic0", "up", "0", "1000"]);
        assert_eq!(texts(&pair.workers())[2], "1000");
        assert_eq!(texts(&pair.workers())[5..7], ["1000", "0"]);
        assert_eq!(texts(&pair.sas())[6], "1000");
        assert_eq!(texts(&pair.drops())[..3], ["in-integrity", "1.0", "7"]);
    }

    #[test]
    fn an_sa_is_rekeyed_by_time_or_by_volume_whatever_comes_first() {
        let (before, mut now) = looks();
        let shown = |now: &Look| texts(&Pair::new(&before, now).sas())[9].to_owned();
        assert_eq!(shown(&now), "-");
        let sa = &mut now.seen.sas.as_mut().expect("listed")[0];
        sa.until_rekey = Left { s: Some(90), packets: Some(500_000), bytes: Some(1) };
        assert_eq!(shown(&now), "1m30s", "nothing is carried: bytes are never reached");
        now.seen.sas.as_mut().expect("listed")[0].until_rekey.packets = Some(5000);
        assert_eq!(shown(&now), "5s");
    }

    #[test]
    fn what_ends_first_is_first_and_says_how_much_is_used() {
        let (before, mut now) = looks();
        let sas = now.seen.sas.as_mut().expect("listed");
        let with = |spi: &str, s: Option<u64>| Sa {
            spi: spi.into(),
            age_s: 90,
            until_rekey: Left { s: Some(10), ..Left::default() },
            until_expiry: Left { s, ..Left::default() },
            ..Sa::default()
        };
        *sas = vec![with("never", None), with("late", Some(910)), with("soon", Some(30))];
        let sheet = Pair::new(&before, &now).sas();
        let cells = |column: usize| -> Vec<&str> {
            sheet.rows.iter().map(|row| row[column].text.as_str()).collect()
        };
        assert_eq!(cells(0), ["soon", "late", "never"]);
        assert_eq!(cells(10), ["90%"; 3]);
        assert_eq!(cells(11), ["75%", "9%", "-"]);
        assert_eq!(cells(SA_ENDS), ["30s", "15m10s", "-"]);
        assert_eq!(sheet.head[SA_ENDS], ">ENDS");
    }

    #[test]
    fn what_is_new_or_began_anew_has_no_rate_yet() {
        let (before, mut now) = looks();
        now.seen.ports[0].interface = "lan".into();
        assert_eq!(texts(&Pair::new(&before, &now).ports())[2], "0");
        // The daemon has restarted.
        assert_eq!(texts(&Pair::new(&now, &before).sas())[6], "0");
        let pair = Pair::new(&before, &before);
        assert_eq!(texts(&pair.sas())[6], "0", "no time between");
    }
}
