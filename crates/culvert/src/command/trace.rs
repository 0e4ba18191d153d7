//! `culvert trace`: what is done with live packets.

use std::error::Error;
use std::io::{self, ErrorKind, Write};
use std::time::{Duration, Instant};

use report::client::ask_json;
use report::units::time_text;
use report::{Refused, Request, Trace, TraceRequest, Traced};

use crate::cli::TraceArgs;
use crate::table::pairs;

/// How often the daemon is asked.
const INTERVAL: Duration = Duration::from_millis(100);

/// Prints packets as they come, until there are as many as asked for.
pub fn trace(name: &str, json: bool, args: &TraceArgs) -> Result<(), Box<dyn Error>> {
    let begin = TraceRequest::Begin { filter: args.filter.filter(), count: args.count };
    let Trace { trace, .. } = ask(name, begin)?;
    eprintln!("culvert: waiting for packets");
    let until = Instant::now() + Duration::from_secs(args.duration);
    loop {
        let Trace { packets, is_over, .. } = ask(name, TraceRequest::Next { trace })?;
        let mut out = io::stdout().lock();
        for packet in &packets {
            let text = if json { serde_json::to_string(packet)? } else { text(packet) };
            match writeln!(out, "{text}").and_then(|()| out.flush()) {
                // Nobody reads any more (`| head`).
                Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
                written => written?,
            }
        }
        drop(out);
        if is_over || Instant::now() > until {
            return Ok(());
        }
        std::thread::sleep(INTERVAL);
    }
}

fn ask(name: &str, request: TraceRequest) -> Result<Trace, Box<dyn Error>> {
    let answer = ask_json(name, Request::Trace(request))?;
    match serde_json::from_str(&answer) {
        Ok(Refused { error }) => Err(error.into()),
        Err(_) => Ok(serde_json::from_str(&answer)?),
    }
}

fn text(packet: &Traced) -> String {
    let Traced { time_ms, tap, packet: about, came, steps, verdict, worker, .. } = packet;
    let time = time_text(*time_ms);
    let mut text = format!("{time}  {tap}  {about}, {came}, worker {worker}\n");
    if !steps.is_empty() {
        text += &pairs(steps.iter().map(|step| (step.question.as_str(), step.answer.as_str())));
        text += "\n";
    }
    text + &format!("=> {verdict}\n")
}
