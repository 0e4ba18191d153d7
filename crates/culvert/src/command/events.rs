//! `culvert events`: what happens, as it happens.

use std::error::Error;
use std::io::{self, ErrorKind, Write};
use std::time::Duration;

use report::client::ask;
use report::units::time_text;
use report::{Event, Events, Gone, Occurrence, Request, SaGone, SaIdentity};

use crate::cli::EventsArgs;

/// How often a daemon is asked.
const INTERVAL: Duration = Duration::from_millis(250);

/// Prints what has happened, and goes on with what happens, until interrupted.
pub fn events(name: &str, json: bool, args: &EventsArgs) -> Result<(), Box<dyn Error>> {
    let (mut after, mut run) = if args.new { newest(name)? } else { (0, 0) };
    let mut is_waiting = false;
    loop {
        let answer: Events = match ask(name, Request::Events { after, run }) {
            Ok(answer) => answer,
            // One that was there is too busy, or another one is about to take its place.
            Err(error) if run != 0 && !args.once => {
                if !std::mem::replace(&mut is_waiting, true) {
                    eprintln!("culvert: waiting: {error}");
                }
                std::thread::sleep(INTERVAL);
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        is_waiting = false;
        let Events { events, last, lost, .. } = answer;
        if lost > 0 && answer.run == run {
            eprintln!("culvert: {lost} events were missed");
        }
        (after, run) = (last, answer.run);
        let is_up_to_date = events.is_empty();
        let mut out = io::stdout().lock();
        for event in &events {
            let line = if json { serde_json::to_string(event)? } else { text(event) };
            match writeln!(out, "{line}") {
                // Nobody reads any more (`| head`).
                Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
                written => written?,
            }
        }
        out.flush()?;
        if is_up_to_date && args.once {
            return Ok(());
        }
        if is_up_to_date {
            std::thread::sleep(INTERVAL);
        }
    }
}

/// The number of the newest event, and its run.
pub fn newest(name: &str) -> Result<(u64, u64), Box<dyn Error>> {
    let Events { run, .. } = ask(name, Request::Events { after: 0, run: 0 })?;
    let newest: Events = ask(name, Request::Events { after: u64::MAX, run })?;
    Ok((newest.last, newest.run))
}

/// The time of day in UTC, and what happened.
fn text(event: &Event) -> String {
    let time = time_text(event.time_ms);
    let (name, about) = match &event.what {
        Occurrence::SaUp(sa) => ("sa-up", identity(sa)),
        Occurrence::SaRekeyed(sa) => ("sa-rekeyed", identity(sa)),
        Occurrence::SaRemoved(gone) => ("sa-removed", gone_text(gone)),
        Occurrence::SaDown(gone) => ("sa-down", gone_text(gone)),
        Occurrence::SaLimit { spi, dst, hard } => {
            let limit = if *hard { "hard" } else { "soft" };
            ("sa-limit", format!("spi {spi} dst {dst}: {limit} limit in bytes or packets"))
        }
        Occurrence::Acquire { policy, src, dst, protocol } => {
            ("acquire", format!("{src} > {dst}, {protocol}, policy {policy}"))
        }
        Occurrence::PeerMoved { spi, src, port } => {
            ("peer-moved", format!("spi {spi} comes from {src} port {port} now"))
        }
        Occurrence::RateBroken { spi, dst, why } => {
            ("rate-broken", format!("spi {spi} dst {dst}: {why}"))
        }
        Occurrence::RateRestored { spi, dst } => ("rate-restored", format!("spi {spi} dst {dst}")),
        Occurrence::PathState { path, dscp, from, to } => {
            ("path-state", format!("{path} (dscp {dscp}): {}, was {}", to.name(), from.name()))
        }
        Occurrence::BfdState { peer, from, to, why } => {
            let why = if why.is_empty() { String::new() } else { format!(" ({why})") };
            ("bfd-state", format!("{peer}: {to}, was {from}{why}"))
        }
        Occurrence::BfdConnection { address, why } => match why {
            None => ("bfd-connection", format!("connected to bfdd at {address}")),
            Some(why) => ("bfd-connection", format!("lost bfdd at {address}: {why}")),
        },
        Occurrence::Steered { rule, paths } => {
            let to = if paths.is_empty() {
                "stopped".into()
            } else {
                format!("by {}", paths.join(", "))
            };
            ("steered", format!("{rule}: {to}"))
        }
        Occurrence::PathMtu { dst, mtu } => ("path-mtu", format!("{mtu} bytes to {dst}")),
        Occurrence::PortUp { port } => ("port-up", port.clone()),
        Occurrence::PortDown { port, why } => ("port-down", format!("{port}: {why}")),
        Occurrence::DeviceUp { device } => ("device-up", device.clone()),
        Occurrence::DeviceDown { device, why } => ("device-down", format!("{device}: {why}")),
        Occurrence::Reloaded { waits_for_restart } => (
            "reloaded",
            match waits_for_restart.is_empty() {
                true => "the configuration".into(),
                false => {
                    format!("the configuration; {} with a restart", waits_for_restart.join(", "))
                }
            },
        ),
        Occurrence::ReloadRefused { why } => ("reload-refused", why.clone()),
        Occurrence::DropBurst { reason, packets } => {
            ("drop-burst", format!("{reason}: {packets} packets a second"))
        }
        Occurrence::DropBurstOver { reason, packets, seconds } => {
            ("drop-burst-over", format!("{reason}: {packets} packets in {seconds} s"))
        }
    };
    format!("{time}  {name:<15}  {about}")
}

fn identity(sa: &SaIdentity) -> String {
    let SaIdentity { spi, src, dst, suite, reqid, if_id } = sa;
    let interface = if *if_id == 0 { String::new() } else { format!(" if_id {if_id:#x}") };
    format!("{src} > {dst} spi {spi} {suite} reqid {reqid}{interface}")
}

/// Nothing more where its owner has deleted it, as is usual.
fn gone_text(gone: &SaGone) -> String {
    let why = match gone.why {
        Gone::Deleted => "",
        Gone::Expired => ", expired",
        Gone::LeftToKernel => ", left to the kernel",
    };
    format!("{}{why}", identity(&gone.sa))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_when_and_what() {
        let sa = SaIdentity {
            spi: "0xc1a2b3d4".into(),
            src: "192.0.2.1".parse().unwrap(),
            dst: "192.0.2.2".parse().unwrap(),
            suite: "aes128gcm16".into(),
            reqid: 1,
            if_id: 0,
        };
        let event =
            Event { number: 7, time_ms: 1_764_212_645_067, what: Occurrence::SaRekeyed(sa) };
        let expected = "03:04:05.067  sa-rekeyed       192.0.2.1 > 192.0.2.2 spi 0xc1a2b3d4 aes128gcm16 reqid 1";
        assert_eq!(text(&event), expected);
    }
}
