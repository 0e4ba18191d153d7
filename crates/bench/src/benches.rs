//! All benchmarks by name: what each measures, with which defaults, and how it is drawn.

use core::time::Duration;

use crypto::Provider;

use crate::error::BenchError;
use crate::options::{Options, suite_by_name};
use crate::peer::{self, Peer};
use crate::plot::{Chart, Scale, Series};
use crate::row::Row;

/// Benchmark by its name on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bench {
    /// The whole path on one core.
    Esp,
    /// Forwarding of cleartext, from port to port.
    Forward,
    /// The cipher alone.
    Crypto,
    /// The path with many SAs.
    Sas,
    /// Beside DPDK's gateway.
    Peer,
    /// Successors of SAs under load.
    Rekey,
    /// New SAs under load.
    Install,
    /// Tables as they grow.
    Growth,
    /// The path on several cores.
    Scale,
    /// Beside offload devices that are free.
    Offload,
    /// Small packets in payloads of IP-TFS.
    Iptfs,
    /// Segments on packets, and off.
    Srv6,
    /// Overlays inside of IPsec.
    Overlay,
    /// To an application in user space and back, through IPsec both ways.
    SmallCell,
    /// The gateway in hardware, simulated.
    Rtl,
}

impl Bench {
    /// In the order in which a report has them.
    pub const ALL: &'static [Bench] = &[
        Bench::Esp,
        Bench::Peer,
        Bench::Forward,
        Bench::Crypto,
        Bench::Sas,
        Bench::Scale,
        Bench::Offload,
        Bench::Iptfs,
        Bench::Srv6,
        Bench::Overlay,
        Bench::SmallCell,
        Bench::Growth,
        Bench::Rekey,
        Bench::Install,
        #[cfg(feature = "rtl")]
        Bench::Rtl,
    ];

    /// As rows and the command line name it.
    pub const fn name(self) -> &'static str {
        match self {
            Bench::Esp => "esp",
            Bench::Forward => "forward",
            Bench::Crypto => "crypto",
            Bench::Sas => "sas",
            Bench::Peer => "peer",
            Bench::Rekey => "rekey",
            Bench::Install => "install",
            Bench::Growth => "growth",
            Bench::Scale => "scale",
            Bench::Offload => "offload",
            Bench::Iptfs => "iptfs",
            Bench::Srv6 => "srv6",
            Bench::Overlay => "overlay",
            Bench::SmallCell => "small-cell",
            Bench::Rtl => "rtl",
        }
    }

    /// Reading of its table, in a sentence or two.
    pub const fn about(self) -> &'static str {
        match self {
            Bench::Esp => {
                "The whole gateway path on one core, tunnel mode over IPv4, 1024 inner flows in one \
                 SA: policy or SA look-up, replay check, limits, counters, headers, cipher, route, \
                 neighbour. RAW is the cipher alone, measured in turns with it; I/O are the cycles \
                 of CYCLES that the ports in memory take."
            }
            Bench::Forward => {
                "Packets that no SA protects, forwarded by culvert itself: policy, route, \
                 neighbour, Ethernet header."
            }
            Bench::Crypto => {
                "The cipher alone: bursts of packets of one key that are ready for it. This bounds \
                 every other rate from above. With several numbers of SAs, as by --sas 1,100000, each \
                 has a key, and GAIN is what is left of the first one's rate."
            }
            Bench::Peer => {
                "Culvert beside DPDK's ipsec-secgw, in turns on one core, with the same library, \
                 keys and 1024 flows; the peer has no replay check. `beyond L2` is the bench `esp`; \
                 `warm` has 512 buffers that were written just before, as the peer's driver does \
                 for it."
            }
            Bench::Rekey => {
                "The whole path while SAs are replaced: PER SECOND tunnels get successors of both \
                 SAs, the peer goes over, the old ones are deleted. SLOWEST ROUND is the longest \
                 that the worker took for one burst of 64 packets. The last row adds 1000 SAs and \
                 1500 policies between two rounds."
            }
            Bench::Install => {
                "SAs added by one thread as fast as it can, while the worker moves packets of 1000 \
                 tunnels on another core: key schedule, numbers, database, and in the second row \
                 the policies of both directions too."
            }
            Bench::Growth => {
                "What a look-up costs, and what is left of the gateway's rate, as tables grow: \
                 policies (nested networks, hosts and ports among them), routes, inner flows."
            }
            Bench::Rtl => {
                "The gateway in hardware (hdl/), simulated with 2 policy, 2 SAD, 2 AES-CBC, 2 SHA-1 \
                 and 2 SHA-256 modules and 1 AES-GCM lane: a stream of 128 packets of one SA. CYCLES \
                 are the hardware's, MPPS and GBIT/S those at 100 MHz; PER SECOND is how many packets \
                 this machine simulates."
            }
            Bench::Scale => {
                "The whole path on several cores at once, the rates of all workers together. GAIN is \
                 the multiple of one core's rate, which is measured in turns. ROUND TRIP is what a \
                 cache line takes to the second core and back, the median: where a virtual machine's cores are \
                 moved apart by its host it grows, and the gain falls. `from memory`: the packets lie \
                 in no core's caches, as a card leaves them that writes past the caches; else \
                 the core that receives them has written them. `the same SAs`: one worker, and the other \
                 cores encrypt and decrypt for it. `SAs of their own`: a gateway for each core. \
                 `workers, SAs of their own`: the workers of one gateway, each receives packets of its own SAs \
                 only. `workers, handed over`: each receives packets of another worker's SAs only; the rate is \
                 of those that got through, CYCLES are those of all cores together, and LOST are packets that \
                 found the queue between two workers full (hand-over-full)."
            }
            Bench::Offload => {
                "What a core does for a packet, in turns: forwarded in clear (no IPsec), protected by \
                 software, and with crypto offload and packet offload by devices whose own work costs \
                 nothing. They are models, worked on by the core itself while the clock stands \
                 still: so this is what a device saves at best. A card's doorbell and its latency are not in \
                 it. The last rows are look-ups in the \
                 tables of the model for packet offload."
            }
            Bench::Iptfs => {
                "The whole gateway path on one core with packets in payloads of IP-TFS (RFC 9347), as many as \
                 fit in 1500 bytes, in turns with the same packets each in ESP of its own (tunnel). Rates are \
                 those of inner packets, whose copies into and out of payloads are in them."
            }
            Bench::Srv6 => {
                "IPv6 packets in frames of 78 bytes, FCS and all, on one core, 1024 flows: forwarded as they are, with \
                 SRv6 segments put on by a route (H.Encaps, RFC 8986 §5.1; .Red has no header for the one segment), \
                 and taken off at the last one (End.DX6, §4.4), in turns; OF CLEAR is the part of the rate without \
                 segments. PUBLISHED is VPP with one segment, one Ice Lake core with two threads on a real NIC, both \
                 directions together (CSIT 22.10, NDR, 3n-icx, srv6enc1sid): half of its packets get the segment, and \
                 half lose it. PEER is this machine's Linux, where the program may make namespaces."
            }
            Bench::Overlay => {
                "The whole gateway path on one core with packets in GRE, or in Ethernet in VXLAN, inside of ESP in \
                 transport mode, in turns with the same packets in ESP in tunnel mode alone; GAIN is the multiple of \
                 that rate. Outbound: route to the overlay's interface, its headers, policy, cipher; inbound the same \
                 backwards. BYTES are those of the packet inside."
            }
            Bench::SmallCell => {
                "GTP-U of a core network: opened, given to an application in user space by shared memory \
                 (memif), which sends each packet back, and sealed. SAS are tunnels, CORES those of workers and \
                 applications together. BUSY is the part of the time in which the workers had packets, CYCLES are \
                 those of that part. The network and its peers are in memory and out of the time. PUBLISHED is \
                 what a 16-core Arm A72 at 1.8 GHz with a crypto engine does in that shape; its line \
                 rate is 19.9 Gbit/s."
            }
            Bench::Sas => {
                "The whole path with many SAs, each with a key, policies and a remote network of \
                 its own. Each packet's SA is chosen at random: each as likely (uniform), or by \
                 Zipf's law with exponent 1 (zipf). BYTES/SA is resident memory for each SA, \
                 without its key schedule and its policies."
            }
        }
    }

    /// Options of the benchmark unless told otherwise.
    pub fn defaults(self, provider: &dyn Provider) -> Options<'_> {
        let suites = |names: &[&str]| names.iter().filter_map(|n| suite_by_name(n)).collect();
        let mut options = Options::new(provider);
        match self {
            Bench::Esp => {
                options.suites = suites(&["aes128gcm16", "aes128-sha1", "aes128-sha256"]);
            }
            Bench::Crypto => {
                options.suites = suites(&[
                    "aes128gcm16",
                    "aes256gcm16",
                    "chacha20poly1305",
                    "aes128-sha1",
                    "aes128-sha256",
                ]);
            }
            Bench::Forward => options.sizes = vec![64, 512, 1400],
            Bench::Peer => {
                options.suites = suites(&["aes128gcm16", "aes128-sha1"]);
                options.sizes = vec![64, 512, 1400];
                // Of each row there are three, and the peer's start.
                options.duration = Duration::from_millis(100);
                options.patience = Some(Duration::from_millis(600));
            }
            Bench::Rekey => {
                options.sizes = vec![512];
                options.sas = vec![1000];
            }
            Bench::Install => {
                options.sizes = vec![512];
                options.sas = vec![50_000];
                options.directions.truncate(1);
            }
            Bench::Scale => {
                options.suites = suites(&["aes128gcm16", "aes128-sha1", "aes128-sha256"]);
                options.sizes = vec![64, 512, 1400];
                // A row is of many repetitions, each with a gateway of its own.
                options.duration = Duration::from_millis(50);
                options.patience = Some(Duration::from_millis(400));
            }
            Bench::Offload => options.sizes = vec![64, 1400],
            Bench::Iptfs => options.sizes = vec![64, 128, 256, 512],
            // Ethernet's 14 bytes and the FCS make 78 of it.
            Bench::Srv6 => options.sizes = vec![60],
            Bench::Overlay => options.sizes = vec![64, 512, 1400],
            Bench::SmallCell => {
                options.sizes = vec![128, 512, 1024, 1400];
                options.sas = vec![1, 2, 4];
                options.flows = 1;
                options.patience = Some(Duration::from_millis(600));
            }
            Bench::Rtl => {
                options.suites = suites(&["aes128gcm16", "aes128-sha1", "aes128-sha256"]);
                options.sizes = vec![64, 240, 1500];
            }
            Bench::Growth => {
                options.sizes = vec![512];
                options.directions.truncate(1);
                options.repeat = 3;
            }
            Bench::Sas => {
                options.sizes = vec![512];
                options.sas = vec![1, 10, 100, 1000, 10_000, 100_000];
            }
        }
        options
    }

    /// Fewer sizes, suites and repetitions: for a first look.
    pub fn hurry(self, options: &mut Options<'_>) {
        options.repeat = 3;
        options.duration = Duration::from_millis(50);
        if !matches!(self, Bench::Rtl | Bench::Srv6) {
            options.sizes.retain(|size| [64, 512, 1400].contains(size));
        }
        match self {
            Bench::Sas => options.sas.retain(|sas| [1, 1000, 100_000].contains(sas)),
            Bench::Install => options.sas = vec![10_000],
            _ => options.suites.truncate(2),
        }
    }

    /// Measures; `with` is for the bench `peer`. Each row is told to the options' listener as soon as it
    /// is there.
    ///
    /// # Errors
    /// [`BenchError`]; what was measured before is lost then, but for what the listener heard.
    pub fn run(self, options: &Options<'_>, with: &Peer) -> Result<Vec<Row>, BenchError> {
        match self {
            Bench::Peer => peer::peer(options, with),
            Bench::Esp => crate::esp::esp(options),
            Bench::Forward => crate::esp::forward(options),
            Bench::Crypto => crate::raw::crypto(options),
            Bench::Sas => crate::esp::sas(options),
            Bench::Rekey => crate::rekey::rekey(options),
            Bench::Install => crate::rekey::install(options),
            Bench::Growth => crate::growth::growth(options),
            Bench::Scale => crate::scale::scale(options),
            Bench::Offload => crate::offloading::offload(options),
            Bench::Iptfs => crate::iptfs::iptfs(options),
            Bench::Srv6 => crate::srv6::srv6(options),
            Bench::Overlay => crate::overlay::overlay(options),
            Bench::SmallCell => crate::cell::small_cell(options),
            #[cfg(feature = "rtl")]
            Bench::Rtl => crate::rtl::rtl(options),
            #[cfg(not(feature = "rtl"))]
            Bench::Rtl => Err(BenchError::Rtl(
                "this culvert was built without the simulated gateway. Build it with: make -C hdl \
                 tools && cargo build --release -p culvert --features rtl"
                    .to_owned(),
            )),
        }
    }

    /// The charts of its rows.
    pub fn charts(self, rows: &[Row]) -> Vec<Chart> {
        let size = |row: &Row| row.size_bytes;
        let mpps = |row: &Row| row.mpps_median;
        let chart = |name: &str, title: &str, x_label: &str, x_scale, series| Chart {
            name: name.to_owned(),
            title: title.to_owned(),
            x_label: x_label.to_owned(),
            y_label: "million packets a second".to_owned(),
            x_scale,
            series,
        };
        match self {
            Bench::Esp => by_suite(rows)
                .into_iter()
                .map(|(suite, rows)| {
                    let way = |row: &Row| row.direction.map_or("", |d| d.name()).to_owned();
                    let mut series = lines(&rows, way, size, mpps);
                    let raw =
                        lines(&rows, |r| format!("raw cipher, {}", way(r)), size, |r| r.raw_mpps);
                    series.extend(raw.into_iter().map(|s| Series { dashed: true, ..s }));
                    let title = format!("Gateway path, one core, {suite}");
                    chart(&format!("esp-{suite}"), &title, INNER, Scale::Even, series)
                })
                .collect(),
            Bench::Peer => by_suite(rows)
                .into_iter()
                .map(|(suite, rows)| {
                    let way = |row: &Row| row.direction.map_or("", |d| d.name()).to_owned();
                    let ours = |r: &Row| format!("culvert {}, {}", way(r), r.case.unwrap_or(""));
                    let mut series = lines(&rows, ours, size, mpps);
                    let cold: Vec<Row> =
                        rows.iter().filter(|r| r.case != Some("warm")).cloned().collect();
                    let theirs =
                        lines(&cold, |r| format!("ipsec-secgw {}", way(r)), size, |r| r.peer_mpps);
                    series.extend(theirs.into_iter().map(|s| Series { dashed: true, ..s }));
                    let title = format!("Beside DPDK's ipsec-secgw, one core, {suite}");
                    chart(&format!("peer-{suite}"), &title, INNER, Scale::Even, series)
                })
                .collect(),
            Bench::Forward => {
                let series = lines(rows, |_| "forward".to_owned(), size, mpps);
                vec![chart("forward", "Cleartext forwarding, one core", INNER, Scale::Even, series)]
            }
            Bench::Crypto => {
                let name = |row: &Row| match row.sas {
                    None => label(row),
                    Some(sas) => format!("{}, {sas} SAs", label(row)),
                };
                let series = lines(rows, name, size, mpps);
                vec![chart("crypto", "The cipher alone, one core", INNER, Scale::Even, series)]
            }
            Bench::Scale => {
                let name = |row: &Row| {
                    let (bytes, case) = (row.size_bytes.unwrap_or(0), row.case.unwrap_or(""));
                    format!("{}, {bytes} bytes, {case}", label(row))
                };
                let series = lines(rows, name, |row| row.cores, mpps);
                let title = "Gateway path on several cores";
                vec![chart("scale", title, "cores", Scale::Even, series)]
            }
            Bench::Rekey => {
                let rekeyed: Vec<Row> =
                    rows.iter().filter(|r| r.case == Some("rekeyed")).cloned().collect();
                let rate = |row: &Row| row.per_second.map(|n| n as usize);
                let series = lines(&rekeyed, label, rate, mpps);
                let x_label = "tunnels rekeyed a second";
                let title = "Gateway path while SAs are replaced, one core";
                vec![chart("rekey", title, x_label, Scale::Even, series)]
            }
            // Two or three numbers are no curve.
            Bench::Install
            | Bench::Rtl
            | Bench::Offload
            | Bench::Iptfs
            | Bench::Srv6
            | Bench::Overlay
            | Bench::SmallCell => Vec::new(),
            Bench::Growth => GROWTH
                .into_iter()
                .flat_map(|(case, x_label, count)| {
                    let these: Vec<Row> =
                        rows.iter().filter(|r| r.case == Some(case)).cloned().collect();
                    let log = Scale::Logarithmic;
                    let title = format!("Gateway path as {case} grow, one core");
                    let series = lines(&these, label, count, mpps);
                    let path = chart(&format!("growth-{case}"), &title, x_label, log, series);
                    let series = lines(&these, |_| case.to_owned(), count, |r| r.ns_per_lookup);
                    let title = format!("One look-up as {case} grow");
                    let name = format!("growth-{case}-look-up");
                    let mut look_up = chart(&name, &title, x_label, log, series);
                    look_up.y_label = "nanoseconds".to_owned();
                    [path, look_up]
                })
                .filter(|chart| !chart.series.is_empty())
                .collect(),
            Bench::Sas => {
                let name = |row: &Row| format!("{}, {}", label(row), row.case.unwrap_or_default());
                let series = lines(rows, name, |row| row.sas, mpps);
                let title = "Gateway path with many SAs, one core";
                vec![chart("sas", title, "SAs", Scale::Logarithmic, series)]
            }
        }
    }
}

/// The cases of `growth`, their axes and counts.
const GROWTH: [(&str, &str, Count); 3] = [
    ("policies", "policies", |row| row.policies),
    ("routes", "routes", |row| row.routes),
    ("flows", "inner flows", |row| row.flows),
];

/// Which of a row's numbers grows.
type Count = fn(&Row) -> Option<usize>;

const INNER: &str = "inner IP packet, bytes";

/// Suite and direction.
fn label(row: &Row) -> String {
    let suite = row.suite.as_deref().unwrap_or_default();
    format!("{suite} {}", row.direction.map_or("", |d| d.name()))
}

/// Rows by suite, in their order.
fn by_suite(rows: &[Row]) -> Vec<(String, Vec<Row>)> {
    let mut all: Vec<(String, Vec<Row>)> = Vec::new();
    for row in rows {
        let suite = row.suite.clone().unwrap_or_default();
        match all.iter_mut().find(|(name, _)| *name == suite) {
            Some((_, rows)) => rows.push(row.clone()),
            None => all.push((suite, vec![row.clone()])),
        }
    }
    all
}

/// A line for each name that rows have, through the points that they give.
fn lines(
    rows: &[Row],
    name: impl Fn(&Row) -> String,
    x: impl Fn(&Row) -> Option<usize>,
    y: impl Fn(&Row) -> Option<f64>,
) -> Vec<Series> {
    let mut all: Vec<Series> = Vec::new();
    for row in rows {
        let (Some(x), Some(y)) = (x(row), y(row)) else { continue };
        let name = name(row);
        let point = (x as f64, y);
        match all.iter_mut().find(|series| series.name == name) {
            Some(series) => series.points.push(point),
            None => all.push(Series { name, dashed: false, points: vec![point] }),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Direction;

    fn row(suite: &str, direction: Direction, size: usize, mpps: f64) -> Row {
        Row {
            suite: Some(suite.to_owned()),
            direction: Some(direction),
            size_bytes: Some(size),
            sas: Some(size),
            mpps_median: Some(mpps),
            raw_mpps: Some(2.0 * mpps),
            ..Row::default()
        }
    }

    #[test]
    fn each_suite_is_a_chart_and_each_direction_a_line_beside_the_raw_one() {
        let rows = [
            row("a", Direction::Outbound, 64, 3.0),
            row("a", Direction::Outbound, 512, 2.0),
            row("a", Direction::Inbound, 64, 1.0),
            row("b", Direction::Inbound, 64, 1.0),
        ];
        let charts = Bench::Esp.charts(&rows);
        let names: Vec<&str> = charts.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["esp-a", "esp-b"]);
        let [first, ..] = charts.as_slice() else { panic!() };
        let lines: Vec<(&str, bool, usize)> =
            first.series.iter().map(|s| (s.name.as_str(), s.dashed, s.points.len())).collect();
        assert_eq!(
            lines,
            [
                ("outbound", false, 2),
                ("inbound", false, 1),
                ("raw cipher, outbound", true, 2),
                ("raw cipher, inbound", true, 1)
            ]
        );
    }

    #[test]
    fn names_are_unique() {
        let names: std::collections::HashSet<_> = Bench::ALL.iter().map(|b| b.name()).collect();
        assert_eq!(names.len(), Bench::ALL.len());
    }
}
