//! `culvert flows`: which flows there are, by how much they carry.

use std::error::Error;
use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use report::client::{self, put};
use report::protocol;
use report::units::rate;
use report::{Flow, Flows, FlowsRequest, MeasuredPaths, PacketFate, Refused, Request};

use crate::cli::FlowsArgs;
use crate::command::path::no_such_path;
use crate::table::{table_within, terminal_width};

/// How much longer than an interval the daemon may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Prints the flows of an interval, or of one after the other until interrupted.
pub fn flows(name: &str, json: bool, args: &FlowsArgs) -> Result<(), Box<dyn Error>> {
    if let Some(wanted) = &args.path {
        let measured: MeasuredPaths = client::ask(name, Request::Path)?;
        let names: Vec<&str> = measured.paths.iter().map(|path| path.name.as_str()).collect();
        if !names.contains(&wanted.as_str()) {
            return Err(no_such_path(wanted, &names).into());
        }
    }
    let interval = Duration::from_secs_f64(args.interval);
    let request = FlowsRequest {
        filter: args.filter.filter(),
        interval_ms: interval.as_millis() as u64,
        most: args.max,
        application: args.application.clone(),
        path: args.path.clone(),
    };
    let mut lines = ask(name, request, interval)?;
    loop {
        let seen = next(&mut lines)?;
        let text = if json { serde_json::to_string(&seen)? } else { text(&seen) };
        let mut out = io::stdout().lock();
        match writeln!(out, "{text}").and_then(|()| out.flush()) {
            // Nobody reads any more (`| head`).
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
            written => written?,
        }
        if !args.follow {
            return Ok(());
        }
    }
}

fn ask(
    name: &str,
    request: FlowsRequest,
    interval: Duration,
) -> Result<BufReader<UnixStream>, Box<dyn Error>> {
    let stream = put(name, &Request::Flows(request))?;
    stream.set_read_timeout(Some(interval + PATIENCE))?;
    Ok(BufReader::new(stream))
}

fn next(lines: &mut BufReader<UnixStream>) -> Result<Flows, Box<dyn Error>> {
    let mut line = String::new();
    lines.read_line(&mut line)?;
    if line.is_empty() {
        return Err("the workers changed or the daemon ended: ask again".into());
    }
    match serde_json::from_str(&line) {
        Ok(Refused { error }) => Err(error.into()),
        Err(_) => Ok(serde_json::from_str(&line)?),
    }
}

fn text(seen: &Flows) -> String {
    let head = [
        "FROM",
        "TO",
        "PROTO",
        "WAY",
        "SA",
        "APPLICATION",
        "PATH",
        ">PPS",
        ">BIT/S",
        ">DROPPED",
        "FATE",
    ];
    let rows = seen.flows.iter().map(|flow| {
        let per_second = |count: u64| rate(count as f64 / seen.seconds);
        vec![
            end(flow.src, flow.protocol, flow.src_port),
            end(flow.dst, flow.protocol, flow.dst_port),
            protocol::name(flow.protocol),
            flow.direction.to_string(),
            flow.spi.clone().unwrap_or_else(|| "-".into()),
            flow.application.clone().unwrap_or_else(|| "-".into()),
            flow.path.clone().unwrap_or_else(|| "-".into()),
            per_second(flow.packets),
            per_second(flow.bytes * 8),
            flow.dropped().to_string(),
            fate(flow),
        ]
    });
    let mut text = match seen.flows.is_empty() {
        true => format!("no packet in {:.1} s", seen.seconds),
        false => {
            let spare = ["SA", "WAY", "DROPPED", "APPLICATION"];
            table_within(terminal_width(), &head, rows, &spare, "culvert flows | cat")
        }
    };
    if seen.others > 0 {
        text += &format!("\nand {} packets of other flows (--max)", seen.others);
    }
    if seen.lost > 0 {
        text += &format!("\n{} packets came too fast to be looked at", seen.lost);
    }
    text
}

/// `10.1.0.5:443`, `[fd00::5]:443`; an address alone where the protocol has no ports.
pub fn end(addr: IpAddr, protocol: u8, port: u16) -> String {
    let has_ports = ["tcp", "udp", "sctp"].contains(&protocol::name(protocol).as_str());
    if has_ports { SocketAddr::new(addr, port).to_string() } else { addr.to_string() }
}

/// Fate of a flow's last packet, with the reasons of drops, where some were dropped.
pub fn fate(flow: &Flow) -> String {
    let reasons: Vec<&str> = flow.drops.keys().map(String::as_str).collect();
    match reasons.as_slice() {
        [] => flow.fate.to_string(),
        reasons if flow.fate == PacketFate::Dropped => reasons.join(", "),
        reasons => format!("{}; {}", flow.fate, reasons.join(", ")),
    }
}

/// The latest interval, asked for in the background.
pub struct Feed {
    stream: UnixStream,
    latest: Arc<Mutex<Result<Option<Flows>, String>>>,
    reader: Option<JoinHandle<()>>,
}

impl Feed {
    /// Begins to ask.
    ///
    /// # Errors
    /// Nobody answers.
    pub fn begin(
        name: &str,
        request: FlowsRequest,
        interval: Duration,
    ) -> Result<Feed, Box<dyn Error>> {
        let mut lines = ask(name, request, interval)?;
        let stream = lines.get_ref().try_clone()?;
        let latest = Arc::new(Mutex::new(Ok(None)));
        let told = Arc::clone(&latest);
        let reader = std::thread::spawn(move || {
            loop {
                let seen = next(&mut lines).map_err(|error| error.to_string());
                let is_over = seen.is_err();
                *told.lock().unwrap_or_else(PoisonError::into_inner) = seen.map(Some);
                if is_over {
                    return;
                }
            }
        });
        Ok(Feed { stream, latest, reader: Some(reader) })
    }

    /// The latest answer. `None` before the first interval is over.
    ///
    /// # Errors
    /// Why nothing more comes.
    pub fn latest(&self) -> Result<Option<Flows>, String> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        // One that is gone has ended.
        let _ = self.stream.shutdown(Shutdown::Both);
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow() -> Flow {
        Flow {
            src: IpAddr::from([10, 1, 0, 5]),
            dst: IpAddr::from([10, 2, 0, 9]),
            protocol: 6,
            src_port: 1000,
            dst_port: 443,
            direction: "out".into(),
            spi: Some("0x00001001".into()),
            reqid: Some(7),
            policy: None,
            application: Some("zoom".into()),
            path: Some("fibre".into()),
            packets: 2000,
            bytes: 250_000,
            fate: "protected".into(),
            drops: Default::default(),
        }
    }

    #[test]
    fn a_table_of_flows() {
        let seen = Flows { seconds: 2.0, flows: vec![flow()], others: 3, lost: 4 };
        let text = text(&seen);
        let words: Vec<&str> = text.lines().nth(1).unwrap().split_whitespace().collect();
        let expected = [
            "10.1.0.5:1000",
            "10.2.0.9:443",
            "tcp",
            "out",
            "0x00001001",
            "zoom",
            "fibre",
            "1000",
            "1.00M",
            "0",
            "protected",
        ]; // In the order of the columns.
        assert_eq!(words, expected);
        assert!(
            text.contains("3 packets of other flows") && text.contains("4 packets came too fast")
        );
        let none = super::text(&Flows { seconds: 1.0, ..Flows::default() });
        assert_eq!(none, "no packet in 1.0 s");
    }

    #[test]
    fn why_packets_were_dropped() {
        let drops = [("in-integrity".to_owned(), 2), ("in-replay-old".to_owned(), 1)].into();
        let mut flow = Flow { drops, ..flow() };
        assert_eq!(flow.dropped(), 3);
        assert_eq!(fate(&flow), "protected; in-integrity, in-replay-old");
        flow.fate = PacketFate::Dropped;
        assert_eq!(fate(&flow), "in-integrity, in-replay-old");
    }

    #[test]
    fn ends_have_ports_where_the_protocol_has() {
        assert_eq!(end(IpAddr::from([10, 1, 0, 5]), 1, 8), "10.1.0.5");
        assert_eq!(end("fd00::5".parse().unwrap(), 17, 53), "[fd00::5]:53");
    }
}
