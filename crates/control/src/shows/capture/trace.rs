//! `culvert trace`: what was decided about packets, in words.

use std::time::Duration;

use dataplane::{Fate, Record, Step, Verdict};
use report::{PacketFilter, Trace, TraceRequest, Traced, WhyPacket, WhyQuestion, WhyStep};
use wire::Headers;

use super::text::{Names, name, sa, verdict, word};
use super::traces::Running;
use super::{explaining_tap, interface_names};
use crate::shows::{Parts, Shows};
use crate::why::{self, Explainer};

impl Shows {
    /// Begins a trace, or tells what has come.
    pub(crate) fn trace(
        &mut self,
        parts: Parts<'_>,
        request: &TraceRequest,
    ) -> Result<Trace, String> {
        match request {
            TraceRequest::Begin { filter, count } => self.begin_trace(parts, filter, *count),
            TraceRequest::Next { trace } => self.next_of_trace(parts, *trace),
        }
    }

    fn begin_trace(
        &mut self,
        parts: Parts<'_>,
        filter: &PacketFilter,
        count: u64,
    ) -> Result<Trace, String> {
        let slot = self.tap_slots.take()?;
        let reader = explaining_tap(parts, filter, count)?;
        let (names, asked) = (interface_names(parts), parts.now.at);
        let running = Running { reader, left: count, names, asked, _slot: slot };
        Ok(Trace { trace: self.traces.add(running), ..Trace::default() })
    }

    fn next_of_trace(&mut self, parts: Parts<'_>, trace: u64) -> Result<Trace, String> {
        let running = self.traces.take(trace);
        let mut running = running.ok_or("this trace is over: nobody has asked for it lately")?;
        let explainer = Explainer::of(parts);
        let mut packets = Vec::new();
        let mut is_over = false;
        while running.left > 0 {
            match running.reader.next(Duration::ZERO) {
                Ok(Some(buffer)) => {
                    let left = usize::try_from(running.left).unwrap_or(usize::MAX);
                    for (record, bytes) in buffer.iter().take(left) {
                        running.left -= 1;
                        packets.push(traced(explainer, record, bytes, &running.names));
                    }
                    running.reader.give_back(buffer);
                }
                Ok(None) => break,
                // The workers have all that was asked for, or there are others by now.
                Err(dataplane::Gone) => {
                    is_over = true;
                    break;
                }
            }
        }
        is_over |= running.left == 0;
        if !is_over {
            running.asked = parts.now.at;
            self.traces.put_back(trace, running);
        }
        Ok(Trace { trace, packets, is_over })
    }
}

fn traced(explainer: Explainer<'_>, record: &Record, bytes: &[u8], names: &Names) -> Traced {
    let h = wire::parse_ip(bytes).ok();
    let mut steps: Vec<WhyStep> = Vec::new();
    let explanation = record.explanation.as_deref();
    match (explanation, &h) {
        (Some(explanation), Some(h)) => {
            if explanation.mark != 0 {
                steps.push(why::step(WhyQuestion::Mark, format!("{:#x}", explanation.mark)));
            }
            steps.extend(explanation.steps.iter().map(|step| explainer.step(step, h)));
        }
        (None, Some(h)) => {
            steps.extend(record.sa.map(|of| explainer.step(&Step::Sa(of.id), h)));
        }
        (_, None) => {}
    }
    Traced {
        time_ms: record.time_ns / 1_000_000,
        packet: h.as_ref().map_or_else(|| format!("{} bytes", record.len), packet),
        came: came(record, names),
        tap: record.place.name().into(),
        steps,
        fate: word(&record.verdict),
        verdict: sentence(record, explanation.map(|explanation| &explanation.fate), names),
        drop_reason: match record.verdict {
            Verdict::Dropped(reason) => Some(reason.name().into()),
            _ => None,
        },
        worker: record.worker,
    }
}

/// Fate of a packet, in a sentence; with further consequences, where the decision has some.
fn sentence(record: &Record, fate: Option<&Fate>, names: &Names) -> String {
    match (&record.verdict, fate) {
        (Verdict::Held, Some(fate @ (Fate::WaitsForSa { .. } | Fate::WaitsForFragments))) => {
            why::verdict(fate, &[])
        }
        (Verdict::Dropped(reason), Some(fate @ Fate::Answered(_, told))) if reason == told => {
            why::verdict(fate, &[])
        }
        _ => verdict(record, names),
    }
}

fn came(record: &Record, names: &Names) -> String {
    match (&record.sa, record.ifindex) {
        (Some(of), _) if record.is_outbound => format!("encrypted by {}", sa(of)),
        (Some(of), ifindex) if record.verdict == Verdict::Decrypted => {
            format!("received by {}, of {}", name(names, ifindex), sa(of))
        }
        (Some(of), _) => format!("of {}", sa(of)),
        (None, 0) if record.is_outbound => "sent by this host, or forwarded by Linux".into(),
        (None, 0) => "it has waited, or was made here".into(),
        (None, ifindex) => format!("received by {}", name(names, ifindex)),
    }
}

fn packet(h: &Headers) -> String {
    why::packet(&WhyPacket {
        src: h.src,
        dst: h.dst,
        protocol: h.protocol,
        src_port: h.src_port,
        dst_port: h.dst_port,
        len: h.total_len,
        dont_fragment: h.dont_fragment,
        ttl: h.ttl,
        dscp: h.traffic_class >> 2,
    })
}
