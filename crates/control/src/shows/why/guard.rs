//! Effect of the guard in the kernel on a packet.

use dataplane::Step;
use guard::Effect;
use policy::{Direction, Ends};
use report::{PacketFate, Why, WhyQuestion, WhyStep};
use wire::{Headers, protocol};

use super::explainer::Explainer;
use super::text;

/// The verdict where a prefix of `[guard]` stops a packet.
const BY_PREFIX: &str = "dropped by the guard; start the tunnel, or take the prefix out of [guard]";

/// The verdict where a default action does.
const BY_DEFAULT: &str = "dropped by the guard: no policy is about it, and a default action blocks such packets \
    (`ip xfrm policy getdefault`)";

/// The verdict where a policy does.
const BY_POLICY: &str =
    "dropped by the guard, which stands in the kernel for a policy that protects or blocks it";

/// UDP's ports of IKE (RFC 7296 §2), and of IKE through NATs (RFC 3948).
pub const IKE_PORTS: [u16; 2] = [500, 4500];

/// A barrier that stops a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Barred {
    step: WhyStep,
    verdict: &'static str,
}

/// The answer where the guard has the last word, in the kernel by the barrier that is given.
pub fn stopped(answer: Why, barred: Option<Barred>) -> Why {
    let verdict = barred.as_ref().map_or(BY_PREFIX, |barred| barred.verdict);
    let mut steps = answer.steps;
    steps.extend(barred.map(|barred| barred.step));
    Why { fate: PacketFate::Dropped, verdict: verdict.into(), hints: Vec::new(), steps, ..answer }
}

impl Explainer<'_> {
    /// The kernel's barrier that stops a packet which Linux gets as it came, if one does. `answers` are those that its
    /// decision follows from.
    pub(super) fn barred_as_received(&self, h: &Headers, answers: &[Step]) -> Option<Barred> {
        let topology = self.crew.tables.topology.load();
        if topology.is_local_addr(h.dst) {
            return self.barred(h, Ends::Local, &[Direction::In], 0);
        }
        let steering = self.crew.tables.steering.load();
        let by_uplink = answers.iter().any(|step| {
            matches!(step, Step::Path { path: Some(path), .. } if steering.is_in_clear(path))
        });
        // Tunnel interfaces are exempt from barriers on the way out: culvert protects what Linux leads there.
        let to = topology.way_out(h.src, h.dst).filter(|_| !by_uplink);
        let ways =
            match to.and_then(|i| topology.interfaces.get(&i)).is_some_and(|i| i.binding.is_some())
            {
                true => &[Direction::Forward][..],
                false => &[Direction::Forward, Direction::Out],
            };
        self.barred(h, Ends::Forwarded, ways, 0)
    }

    /// The first barrier of these directions, in turn, that stops a packet with a mark, if one does.
    pub(super) fn barred(
        &self,
        h: &Headers,
        ends: Ends,
        ways: &[Direction],
        mark: u32,
    ) -> Option<Barred> {
        // IKE daemons' sockets have policies of their own, which come first.
        let is_natt = h.protocol == protocol::UDP
            && ways.iter().any(|way| match way {
                Direction::Out => IKE_PORTS.contains(&h.src_port),
                Direction::In | Direction::Forward => IKE_PORTS.contains(&h.dst_port),
            });
        if policy::always_bypass(h, ends, is_natt) {
            return None;
        }
        ways.iter().find_map(|way| {
            let barrier = self.sa.guard.met(*way, mark, |selector| selector.matches(h))?;
            if barrier.effect() != Effect::Block {
                return None;
            }
            let end = if *way == Direction::Out { h.dst } else { h.src };
            let is_last = barrier.priority() == u32::MAX;
            let prefix =
                self.sa.guarded(self.guard).into_iter().find(|p| is_last && p.contains(end));
            let blocked = || {
                text::step(WhyQuestion::Guard, format!("blocked by the kernel's policy {barrier}"))
            };
            Some(match prefix {
                Some(prefix) => Barred { step: text::guarded(prefix), verdict: BY_PREFIX },
                None if barrier.is_default() => Barred { step: blocked(), verdict: BY_DEFAULT },
                None => Barred { step: blocked(), verdict: BY_POLICY },
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy::Prefix;

    #[test]
    fn the_guard_has_the_last_word() {
        let answer = || Why {
            packet: "10.1.0.10 > 10.2.0.10".into(),
            came: "received by port lan".into(),
            steps: vec![text::step(WhyQuestion::Steering, "left to Linux".into())],
            fate: PacketFate::ToLinux,
            verdict: "Linux gets it".into(),
            drop_reason: None,
            hints: vec!["to protect it, ...".into()],
            worker: 0,
        };
        let prefix = Prefix { addr: "10.2.0.0".parse().unwrap(), len: 24 };
        let barred = Barred { step: text::guarded(prefix), verdict: BY_PREFIX };
        let told = stopped(answer(), Some(barred));
        assert_eq!((told.fate, told.verdict.as_str()), (PacketFate::Dropped, BY_PREFIX));
        let last = told.steps.last().map(|step| (step.question.as_str(), step.answer.as_str()));
        let says =
            "10.2.0.0/24 of [guard] prefixes: blocked by the kernel until a policy is about it";
        assert_eq!(last, Some(("guard", says)));
        assert!(told.hints.is_empty() && told.drop_reason.is_none());
        let barred =
            Barred { step: text::step(WhyQuestion::Guard, "...".into()), verdict: BY_DEFAULT };
        assert_eq!(stopped(answer(), Some(barred)).verdict, BY_DEFAULT);
        // By the worker's own step.
        assert_eq!(stopped(answer(), None).verdict, BY_PREFIX);
    }
}
