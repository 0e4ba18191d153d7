//! Answers to the commands that show something.

mod policies;
mod ports;
mod routes;
mod sas;
mod stats;
mod status;

use report::{Refused, Request};
use serde::Serialize;

use super::{Parts, Shows, capture};
use crate::control::Reply;
use crate::why::Explainer;

impl Shows {
    /// The answer to a question: JSON text, or a capture. What changes the daemon is no question.
    pub(crate) fn answer(&mut self, parts: Parts<'_>, request: Request) -> Reply {
        let devices = &parts.offload.devices;
        let text = match request {
            Request::Status => json(&status::status(parts, self)),
            Request::Sa { show_keys, spi } => {
                json(&sas::rows(parts, &self.providers, show_keys, spi))
            }
            Request::Policy => json(&policies::rows(parts)),
            Request::Port => json(&ports::rows(parts)),
            Request::Nat { most, all } => {
                let report = parts.linux.nat.as_ref().map(|nat| nat.report(most, all));
                json(&report.unwrap_or_default())
            }
            Request::App { recent } => json(&parts.crew.recognition.report(recent)),
            Request::Path => json(&parts.crew.paths.rows(
                parts.now,
                parts.linux.observer.snapshot(),
                &parts.crew.workers,
            )),
            Request::Bfd => json(&parts.crew.bfd.report(
                parts.now,
                parts.linux.observer.snapshot(),
                &parts.crew.workers,
            )),
            Request::Steer => {
                json(&parts.crew.paths.steers(parts.now, parts.linux.observer.snapshot()))
            }
            Request::Limits => json(&parts.crew.limits()),
            Request::Route => json(&routes::routes(parts.linux)),
            Request::Stats => json(&stats::of_all(&parts.crew.workers)),
            Request::Drops => json(&stats::drops(parts)),
            Request::Device => json(&devices.borrow().rows()),
            Request::DeviceReset { device } => {
                let refused = devices.borrow_mut().reset(&device).err();
                json(&refused.map(|error| Refused { error }))
            }
            Request::DeviceFault { device, fault } => {
                let refused = devices.borrow_mut().set_fault(&device, &fault).err();
                json(&refused.map(|error| Refused { error }))
            }
            Request::Why(request) => json(&Explainer::of(parts).why(&request)),
            Request::Events { after, run } => json(&self.event_log.after(after, run)),
            Request::Capture(request) => match capture::capture(parts, &self.tap_slots, &request) {
                Ok(stream) => return Reply::Stream(Box::new(|client| stream.run(client))),
                Err(error) => json(&Refused { error }),
            },
            Request::Flows(request) => match capture::flows(parts, &self.tap_slots, &request) {
                Ok(flows) => return Reply::Stream(Box::new(|client| flows.run(client))),
                Err(error) => json(&Refused { error }),
            },
            Request::Trace(request) => match self.trace(parts, &request) {
                Ok(trace) => json(&trace),
                Err(error) => json(&Refused { error }),
            },
            Request::LimitSet(_) | Request::Reload => {
                json(&Refused { error: "a command, and no question".into() })
            }
        };
        Reply::Text(text)
    }
}

impl Reply {
    /// An answer as text.
    pub(crate) fn json(value: &impl Serialize) -> Reply {
        Reply::Text(json(value))
    }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value)
        .unwrap_or_else(|e| serde_json::json!({ "error": e.to_string() }).to_string())
}
