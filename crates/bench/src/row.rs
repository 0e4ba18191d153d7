//! One measurement, as tables, JSON and plots have it.

use serde::Serialize;

use crate::direction::Direction;

/// One measurement. What does not apply is `None`, in JSON `null`: every row has every field, so
/// that rows of all benchmarks make one table.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Row {
    /// Name of the benchmark.
    pub bench: &'static str,
    /// Distinction of rows of one benchmark beyond the following: the distribution of packets over
    /// SAs, the thing that is looked up or installed.
    pub case: Option<&'static str>,
    /// The crypto engine's name.
    pub engine: Option<&'static str>,
    /// The suite, as strongSwan's proposals name it.
    pub suite: Option<String>,
    /// Direction of the packets, if it is one.
    pub direction: Option<Direction>,
    /// Length of the inner IP packet in bytes.
    pub size_bytes: Option<usize>,
    /// SAs in use.
    pub sas: Option<usize>,
    /// Cores in use.
    pub cores: Option<usize>,
    /// Inner flows in use.
    pub flows: Option<usize>,
    /// Policies in the database.
    pub policies: Option<usize>,
    /// Routes in the table.
    pub routes: Option<usize>,
    /// Million packets a second: the repetitions' median.
    pub mpps_median: Option<f64>,
    /// The slowest repetition.
    pub mpps_min: Option<f64>,
    /// The fastest repetition.
    pub mpps_max: Option<f64>,
    /// Gbit/s of inner IP packets, at the median.
    pub gbps_median: Option<f64>,
    /// Time-stamp counter cycles for each packet, the median.
    pub cycles_per_packet: Option<f64>,
    /// Cycles of those that the ports alone take: receive and transmit.
    pub io_cycles: Option<f64>,
    /// Million packets a second of the cipher alone: the median.
    pub raw_mpps: Option<f64>,
    /// The gateway's rate as a part of the cipher's.
    pub ratio_raw: Option<f64>,
    /// Million packets a second of the peer in the same run, DPDK's ipsec-secgw or Linux: the median.
    pub peer_mpps: Option<f64>,
    /// The gateway's rate as a multiple of the peer's.
    pub ratio_peer: Option<f64>,
    /// The rate as a part of that in clear, without IPsec or segments, measured in turns: the repetitions' median.
    pub ratio_clear: Option<f64>,
    /// The rate as a multiple of that of software, likewise.
    pub ratio_software: Option<f64>,
    /// Which part of the time the workers had packets: the repetitions' median. `cycles_per_packet` is of that part then.
    pub busy_share: Option<f64>,
    /// Which part of it the applications had some.
    pub application_share: Option<f64>,
    /// Million packets a second of the published system of the same shape.
    pub published_mpps: Option<f64>,
    /// The cores that it had.
    pub published_cores: Option<usize>,
    /// The rate as a multiple of one core's, or of the fewest SAs', measured in turns: the
    /// repetitions' median.
    pub gain_median: Option<f64>,
    /// The least gain of a repetition.
    pub gain_min: Option<f64>,
    /// The greatest gain of a repetition.
    pub gain_max: Option<f64>,
    /// Nanoseconds of a cache line's way to the second core and back before a repetition: the median of those
    /// that count.
    pub round_trip_ns: Option<f64>,
    /// The part of the repetitions that had their cores for themselves: they are what counts, if there are any.
    pub quiet_share: Option<f64>,
    /// Allocations for each packet, where the program counts them.
    pub allocations_per_packet: Option<f64>,
    /// Nanoseconds of one look-up: the median.
    pub ns_per_lookup: Option<f64>,
    /// Operations a second: what is installed, or replaced.
    pub per_second: Option<f64>,
    /// Packets lost meanwhile.
    pub lost: Option<u64>,
    /// The part of all packets that they are.
    pub lost_share: Option<f64>,
    /// The slowest round of a worker, in microseconds.
    pub slowest_round_us: Option<f64>,
    /// Resident memory of each SA in bytes, without its key schedule.
    pub bytes_per_sa: Option<f64>,
    /// Resident memory of each key schedule in bytes.
    pub bytes_per_key: Option<f64>,
    /// Resident memory of each policy, route or flow in bytes.
    pub bytes_per_entry: Option<f64>,
    /// Seconds that it took to build what the row is about.
    pub build_seconds: Option<f64>,
}

/// A column of a table: its head, and a row's cell.
pub type Column = (&'static str, fn(&Row) -> Option<String>);

/// The columns for people, in order. A head that begins with `>` is of a number.
pub const COLUMNS: &[Column] = &[
    ("CASE", |r| r.case.map(str::to_owned)),
    ("SUITE", |r| r.suite.clone()),
    ("DIRECTION", |r| r.direction.map(|d| d.name().to_owned())),
    (">BYTES", |r| r.size_bytes.map(|n| n.to_string())),
    (">SAS", |r| r.sas.map(|n| n.to_string())),
    (">CORES", |r| {
        r.cores
            .filter(|n| *n > 1 || r.bench == "scale" || r.busy_share.is_some())
            .map(|n| n.to_string())
    }),
    (">FLOWS", |r| r.flows.map(|n| n.to_string())),
    (">POLICIES", |r| r.policies.map(|n| n.to_string())),
    (">ROUTES", |r| r.routes.map(|n| n.to_string())),
    (">MPPS", |r| number(r.mpps_median)),
    (">MIN", |r| number(r.mpps_min)),
    (">MAX", |r| number(r.mpps_max)),
    (">GBIT/S", |r| number(r.gbps_median)),
    (">CYCLES", |r| r.cycles_per_packet.map(|n| format!("{n:.0}"))),
    (">I/O", |r| r.io_cycles.map(|n| format!("{n:.0}"))),
    (">RAW MPPS", |r| number(r.raw_mpps)),
    (">OF RAW", |r| r.ratio_raw.map(|n| format!("{:.0} %", n * 100.0))),
    (">PEER MPPS", |r| number(r.peer_mpps)),
    (">OF PEER", |r| r.ratio_peer.map(|n| format!("{n:.2} x"))),
    (">OF CLEAR", |r| r.ratio_clear.map(|n| format!("{:.0} %", n * 100.0))),
    (">OF SOFTWARE", |r| r.ratio_software.map(|n| format!("{n:.2} x"))),
    (">BUSY", |r| r.busy_share.map(|n| format!("{:.0} %", n * 100.0))),
    (">APP BUSY", |r| r.application_share.map(|n| format!("{:.0} %", n * 100.0))),
    (">PUBLISHED MPPS", |r| number(r.published_mpps)),
    (">PUBLISHED CORES", |r| r.published_cores.map(|n| n.to_string())),
    (">GAIN", |r| r.gain_median.map(|n| format!("{n:.2} x"))),
    (">GAIN MIN", |r| number(r.gain_min)),
    (">GAIN MAX", |r| number(r.gain_max)),
    (">ROUND TRIP NS", |r| r.round_trip_ns.map(|n| format!("{n:.0}"))),
    (">QUIET", |r| r.quiet_share.map(|n| format!("{:.0} %", n * 100.0))),
    (">NS/LOOK-UP", |r| r.ns_per_lookup.map(|n| format!("{n:.0}"))),
    (">PER SECOND", |r| r.per_second.map(|n| format!("{n:.0}"))),
    (">LOST", |r| r.lost.map(|n| n.to_string())),
    (">LOST %", |r| number(r.lost_share.map(|n| n * 100.0))),
    (">SLOWEST ROUND US", |r| r.slowest_round_us.map(|n| format!("{n:.1}"))),
    (">BYTES/SA", |r| r.bytes_per_sa.map(|n| format!("{n:.0}"))),
    (">BYTES/KEY", |r| r.bytes_per_key.map(|n| format!("{n:.0}"))),
    (">BYTES/ENTRY", |r| r.bytes_per_entry.map(|n| format!("{n:.0}"))),
    (">BUILD S", |r| r.build_seconds.map(|n| format!("{n:.2}"))),
    (">ALLOCATIONS", |r| r.allocations_per_packet.map(allocations)),
];

/// The columns in which any of the rows has something to say.
pub fn columns(rows: &[Row]) -> Vec<Column> {
    let is_used = |(_, cell): &&Column| rows.iter().any(|row| cell(row).is_some());
    COLUMNS.iter().filter(is_used).copied().collect()
}

fn number(value: Option<f64>) -> Option<String> {
    value.map(|n| format!("{n:.2}"))
}

/// Allocations a packet: a few in a whole run are told as what they are, and not as many digits.
fn allocations(of_packet: f64) -> String {
    match of_packet {
        0.0 => "0".to_owned(),
        few if few < 0.001 => format!("{few:.1e}"),
        more => format!("{more:.3}"),
    }
}
