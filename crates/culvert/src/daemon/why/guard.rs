//! What the guard in the kernel does with a packet.

use policy::{Direction, Ends};
use wire::{Headers, protocol};

use super::text;
use crate::daemon::Daemon;
use crate::report::{Why, WhyStep};

/// The verdict where the guard stops a packet.
const STOPPED: &str = "dropped by the guard; start the tunnel, or take the prefix out of [guard]";

/// UDP's port of IKE through NATs, beside that of IKE.
const NATT_PORT: u16 = 4500;

/// The answer where the guard has the last word, in the kernel by the step that is given.
pub fn stopped(answer: Why, barred: Option<WhyStep>) -> Why {
    let mut steps = answer.steps;
    steps.extend(barred);
    Why { fate: "dropped".into(), verdict: STOPPED.into(), hints: Vec::new(), steps, ..answer }
}

impl Daemon {
    /// The step of the kernel's barrier that stops a packet which Linux gets as it came, if one does.
    pub(super) fn barred(&self, h: &Headers) -> Option<WhyStep> {
        let is_local = self.tables.topology.load().is_local_addr(h.dst);
        // IKE daemons' sockets have policies of their own, which come first.
        let is_ike_port = h.protocol == protocol::UDP && h.dst_port == NATT_PORT;
        if is_local && policy::always_bypass(h, Ends::Local, is_ike_port) {
            return None;
        }
        let ways: &[_] = match is_local {
            true => &[Direction::In],
            false => &[Direction::Forward, Direction::Out],
        };
        let met = ways.iter().filter_map(|way| {
            let barrier = self.guard.met(*way, |selector| selector.matches(h))?;
            Some((*way, *barrier)).filter(|_| barrier.effect() == ::guard::Effect::Block)
        });
        met.into_iter().next().map(|(way, barrier)| {
            let end = if way == Direction::Out { h.dst } else { h.src };
            let is_of_prefix = barrier.priority() == u32::MAX;
            let prefix = self.guarded().into_iter().find(|p| is_of_prefix && p.contains(end));
            prefix.map_or_else(
                || text::step("guard", format!("blocked by the kernel's policy {barrier}")),
                text::guarded,
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy::Prefix;

    #[test]
    fn the_guard_has_the_last_word() {
        let answer = Why {
            packet: "10.1.0.10 > 10.2.0.10".into(),
            came: "received by port lan".into(),
            steps: vec![text::step("steering", "left to Linux".into())],
            fate: "to-linux".into(),
            verdict: "Linux gets it".into(),
            drop_reason: None,
            hints: vec!["to protect it, ...".into()],
            worker: 0,
        };
        let prefix = Prefix { addr: "10.2.0.0".parse().unwrap(), len: 24 };
        let told = stopped(answer, Some(text::guarded(prefix)));
        assert_eq!((told.fate.as_str(), told.verdict.as_str()), ("dropped", STOPPED));
        let last = told.steps.last().map(|step| (step.question.as_str(), step.answer.as_str()));
        let says =
            "10.2.0.0/24 of [guard] prefixes: blocked by the kernel until a policy is about it";
        assert_eq!(last, Some(("guard", says)));
        assert!(told.hints.is_empty() && told.drop_reason.is_none());
    }
}
