//! Sender of one session: when a probe is due, what a reply is worth, and when silence is too long.

use crate::echo::Echo;
use crate::judge::{Bounds, Judge, Seen, State};
use crate::labels::Removal;
use crate::recent::Recent;
use crate::sent::{Fate, Log, MOST, Sent};
use crate::stamp::tlv::Answers;
use crate::stamp::{
    Counts, ErrorEstimate, Key, Layout, Malformed, Questions, Reflection, TestPacket, Timestamp,
    tlv,
};
use crate::traffic::{Account, Counted, Sample, Wrong};
use crate::window::{Quality, Window};

/// Kind of probes.
#[derive(Clone, Debug)]
pub enum Kind {
    /// STAMP, for a reflector.
    Stamp {
        /// Session identifier (RFC 8972 §3).
        ssid: u16,
        /// Key of authenticated mode.
        key: Option<Key>,
    },
    /// Bodies of ICMP echoes.
    Echo,
}

/// Settings of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Time from one probe to the next.
    pub interval_ns: u64,
    /// Time after which a probe without a reply is lost.
    pub timeout_ns: u64,
    /// Probes in a row without a reply that make the path dead, at least 2.
    pub misses: u32,
    /// Probes that loss, delay and jitter are measured over.
    pub window: usize,
    /// Bounds of a good path.
    pub bounds: Bounds,
    /// Time that a path is better before its state is.
    pub hold_ns: u64,
}

impl Plan {
    /// True if a session can remember the probes that wait for replies at a time.
    pub const fn is_rememberable(&self) -> bool {
        self.interval_ns > 0
            && self.timeout_ns / self.interval_ns + 2 < MOST as u64
            && self.misses < MOST as u32
    }
}

/// Counts of replies that measure nothing, and of times that cannot be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refusals {
    /// Too short, or of no time.
    pub malformed: u64,
    /// With a wrong HMAC.
    pub unauthentic: u64,
    /// To a probe that was never sent: its number, timestamp or session is of none.
    pub unsent: u64,
    /// To a probe that was answered before.
    pub duplicate: u64,
    /// To a probe that was given up as lost, or forgotten.
    pub late: u64,
    /// Answers by a clock that went backwards while the reflector had the probe; their delay is the round trip.
    pub reflector_clock: u64,
    /// Answers that claim a longer stay than the round trip; their delay is the round trip.
    pub negative_delay: u64,
    /// Answers that came before their probe by the caller's clock; their delay is 0.
    pub own_clock: u64,
    /// Answers by whose counts of packets a counter went backwards.
    pub backward_count: u64,
    /// Answers by whose counts more packets were received than sent.
    pub surplus_count: u64,
}

/// Worth of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// It answers a probe, with this delay in nanoseconds.
    Answer(u64),
    /// It measures nothing; which kind was counted.
    Refused,
}

/// Change of a session's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// State before the change.
    pub from: State,
    /// State after the change.
    pub to: State,
}

/// Sender of one session. Its memory is taken when it is made.
#[derive(Clone, Debug)]
pub struct Prober {
    kind: Kind,
    plan: Plan,
    log: Log,
    next_seq: u32,
    /// The first probe of which it is not known yet whether it is lost.
    open_seq: u32,
    /// The probe after the last one that was answered.
    unanswered_seq: u32,
    /// The first probe whose outcome is not among the recent ones yet.
    early_seq: u32,
    recent: Recent,
    answers_in_row: u32,
    due_ns: u64,
    trip: Option<Trip>,
    window: Window,
    judge: Judge,
    sent: u64,
    answered: u64,
    refusals: Refusals,
    /// Identity by which the far end is asked for removal of second copies.
    asks: Option<u64>,
    removal: Option<Removal>,
    /// True if the far end is asked what it has counted.
    counts: bool,
    /// The latest probe whose answer had counts.
    counted_seq: u32,
    /// Once the far end has told counts.
    accounts: Option<Box<Accounts>>,
}

/// Accounts of the path's own packets.
#[derive(Clone, Debug, Default)]
struct Accounts {
    away: Account,
    back: Account,
}

/// Smoothed round trip (RFC 6298 §2), in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Trip {
    mean_ns: u64,
    deviation_ns: u64,
}

impl Trip {
    fn with(self, ns: u64) -> Trip {
        let Trip { mean_ns, deviation_ns } = self;
        Trip {
            deviation_ns: deviation_ns - deviation_ns / 4 + mean_ns.abs_diff(ns) / 4,
            mean_ns: mean_ns - mean_ns / 8 + ns / 8,
        }
    }
}

impl Prober {
    /// A session whose first probe has this number, and is due at this time.
    pub fn new(kind: Kind, plan: Plan, first_seq: u32, due_ns: u64) -> Prober {
        let outstanding = plan.timeout_ns.checked_div(plan.interval_ns).unwrap_or(0);
        let outstanding = outstanding.max(plan.misses.into()).saturating_add(2);
        Prober {
            kind,
            plan,
            log: Log::new(usize::try_from(outstanding).unwrap_or(MOST)),
            next_seq: first_seq,
            open_seq: first_seq,
            unanswered_seq: first_seq,
            early_seq: first_seq,
            recent: Recent::default(),
            answers_in_row: 0,
            due_ns,
            trip: None,
            window: Window::new(plan.window),
            judge: Judge::new(plan.bounds, plan.hold_ns),
            sent: 0,
            answered: 0,
            refusals: Refusals::default(),
            asks: None,
            removal: None,
            counts: false,
            counted_seq: first_seq.wrapping_sub(1),
            accounts: None,
        }
    }

    /// The same, whose probes ask the far end for removal of second copies of this sender's packets. Echoes do not.
    pub fn asking_for_removal(self, sender: u64) -> Prober {
        Prober { asks: Some(sender), ..self }
    }

    /// The same, whose probes ask the far end how many packets of the path it has received and sent. Echoes do not.
    pub fn counting_packets(self) -> Prober {
        Prober { counts: true, ..self }
    }

    /// True if a probe has to say how many packets of the path were sent before it.
    pub const fn counts_packets(&self) -> bool {
        self.counts && matches!(self.kind, Kind::Stamp { .. })
    }

    /// Consent of the far end to copies, by its last answer.
    pub const fn removal(&self) -> Option<Removal> {
        self.removal
    }

    /// Settings of the session.
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The state as it was judged last.
    pub const fn state(&self) -> State {
        self.judge.state()
    }

    /// Probes that were sent, and those among them that were answered.
    pub const fn counts(&self) -> (u64, u64) {
        (self.sent, self.answered)
    }

    /// Counts of replies that measured nothing.
    pub const fn refusals(&self) -> Refusals {
        self.refusals
    }

    /// Quality by the window and the last probes.
    pub fn quality(&self) -> Quality {
        quality(self.recent, &self.window, self.accounts.as_deref())
    }

    /// Time at which something is to be done: [`Prober::send`], or [`Prober::tick`] as a probe is lost or silence is too
    /// long.
    pub fn due_ns(&self) -> u64 {
        let lost_ns = self.log.get(self.open_seq).map(|sent| self.lost_ns(sent));
        let silent_ns = match self.judge.state() {
            State::Dead => None,
            _ => self.silent_ns(),
        };
        let early_ns = self.early_ns();
        lost_ns.into_iter().chain(silent_ns).chain(early_ns).fold(self.due_ns, u64::min)
    }

    /// True if a probe is due.
    pub const fn is_due(&self, now_ns: u64) -> bool {
        self.due_ns <= now_ns
    }

    const fn lost_ns(&self, sent: &Sent) -> u64 {
        sent.at_ns.saturating_add(self.plan.timeout_ns)
    }

    /// Time at which silence is too long, if nothing comes until then. `None` while too few probes wait.
    fn silent_ns(&self) -> Option<u64> {
        let last = self.unanswered_seq.wrapping_add(self.plan.misses.saturating_sub(1));
        let sent = self.log.get(last).filter(|sent| sent.fate != Fate::Answered)?;
        Some(sent.at_ns.saturating_add(self.patience_ns()))
    }

    /// Time at which the next probe is taken for lost early: a later one was answered. `None` if there is none such.
    fn early_ns(&self) -> Option<u64> {
        if !self.is_overtaken(self.early_seq) {
            return None;
        }
        let sent = self.log.get(self.early_seq).filter(|sent| sent.fate == Fate::Waiting)?;
        Some(sent.at_ns.saturating_add(self.patience_ns()))
    }

    /// True if a later probe was answered.
    const fn is_overtaken(&self, seq: u32) -> bool {
        self.unanswered_seq.wrapping_sub(seq).wrapping_sub(1) < 1 << 31
    }

    /// Notes outcomes of probes among the recent ones, in their order, as far as they are known or most likely.
    fn note_recent(&mut self, now_ns: u64) {
        while self.early_seq != self.next_seq {
            let is_lost = match self.log.get(self.early_seq) {
                Some(Sent { fate: Fate::Answered, .. }) => false,
                // Forgotten, and so never answered.
                Some(Sent { fate: Fate::Lost, .. }) | None => true,
                Some(Sent { fate: Fate::Waiting, .. })
                    if self.early_ns().is_some_and(|early_ns| early_ns <= now_ns) =>
                {
                    true
                }
                Some(Sent { fate: Fate::Waiting, .. }) => return,
            };
            self.recent.push(is_lost);
            self.early_seq = self.early_seq.wrapping_add(1);
        }
    }

    /// Time after which a reply is overdue: as long as replies take, and four times what they differ by; half an interval
    /// at least.
    fn patience_ns(&self) -> u64 {
        let usual_ns = match self.trip {
            Some(Trip { mean_ns, deviation_ns }) => {
                mean_ns.saturating_add(deviation_ns.saturating_mul(4))
            }
            None => self.plan.timeout_ns,
        };
        usual_ns.max(self.plan.interval_ns / 2).min(self.plan.timeout_ns)
    }

    /// Writes the next probe: the payload of UDP, or the body of an ICMP echo. Returns its number and length in bytes.
    ///
    /// `wall` is the wall clock, which goes into the probe; `noise` are random bits, 16 of which do too. `counted` are the
    /// packets that were sent before the probe by the SA that protects it, with its DSCP, if the far end is to tell its counts.
    ///
    /// A caller that comes late does not send what it has missed.
    pub fn send(
        &mut self,
        now_ns: u64,
        wall: Timestamp,
        noise: u16,
        counted: Option<Counted>,
        out: &mut [u8],
    ) -> Option<(u32, usize)> {
        let is_behind = now_ns.saturating_sub(self.due_ns) >= self.plan.interval_ns;
        let from_ns = if is_behind { now_ns } else { self.due_ns };
        self.due_ns = from_ns.saturating_add(self.plan.interval_ns);
        let seq = self.next_seq;
        // 2^-16 s are 15 microseconds, and the low 16 bits of the fraction are a fifth of that in nanoseconds.
        let time = Timestamp(wall.0 & !0xffff | u64::from(noise));
        let len = match &self.kind {
            Kind::Stamp { ssid, key } => {
                let error = ErrorEstimate::UNSYNCHRONISED;
                let len =
                    TestPacket { seq, time, error, ssid: *ssid }.emit(key.as_ref(), out).ok()?;
                len + tlv::ask(key.as_ref(), seq, self.questions(counted), out.get_mut(len..)?)?
            }
            Kind::Echo => Echo { seq, token: time.0 }.emit(out)?,
        };
        let sent = Sent { seq, at_ns: now_ns, token: time.0, fate: Fate::Waiting, counted };
        if self.log.put(sent).is_some_and(|old| old.fate == Fate::Waiting) {
            self.give_up();
        }
        self.next_seq = seq.wrapping_add(1);
        if self.next_seq.wrapping_sub(self.open_seq) as usize > self.log.len() {
            self.open_seq = self.open_seq.wrapping_add(1);
        }
        self.sent += 1;
        Some((seq, len))
    }

    const fn questions(&self, counted: Option<Counted>) -> Questions {
        let sent = match counted {
            Some(Counted { packets, .. }) if self.counts_packets() => Some(packets),
            _ => None,
        };
        Questions { sender: self.asks, sent }
    }

    /// Takes a reply: the payload of UDP, or the body of an ICMP echo. `counted` are the packets that have been received by
    /// the SA that has decrypted it, with its DSCP, if they are counted.
    pub fn receive(&mut self, now_ns: u64, bytes: &[u8], counted: Option<Counted>) -> Reply {
        let (seq, token, stay_ns) = match self.read(bytes) {
            Ok(read) => read,
            Err(reason) => {
                let Refusals { malformed, unauthentic, unsent, .. } = &mut self.refusals;
                let count = match reason {
                    Some(Malformed::Hmac) => unauthentic,
                    Some(Malformed::Short | Malformed::Estimate) => malformed,
                    None => unsent,
                };
                *count += 1;
                return Reply::Refused;
            }
        };
        // Numbers ahead are far behind, as numbers go round.
        let back = self.next_seq.wrapping_sub(seq).wrapping_sub(1);
        let was_sent = u64::from(back) < self.sent;
        let Some(sent) = self.log.get_mut(seq) else {
            match was_sent {
                true => self.refusals.late += 1,
                false => self.refusals.unsent += 1,
            }
            return Reply::Refused;
        };
        if sent.token != token {
            self.refusals.unsent += 1;
            return Reply::Refused;
        }
        match sent.fate {
            Fate::Waiting => {}
            Fate::Answered => {
                self.refusals.duplicate += 1;
                return Reply::Refused;
            }
            Fate::Lost => {
                self.refusals.late += 1;
                return Reply::Refused;
            }
        }
        sent.fate = Fate::Answered;
        let before = sent.counted;
        let trip_ns = match now_ns.checked_sub(sent.at_ns) {
            Some(trip_ns) => trip_ns,
            None => {
                self.refusals.own_clock += 1;
                0
            }
        };
        let delay_ns = self.delay_ns(trip_ns, stay_ns);
        self.answered += 1;
        self.answers_in_row = self.answers_in_row.saturating_add(1);
        // It was taken for lost, and was late.
        let after = self.early_seq.wrapping_sub(seq).wrapping_sub(1);
        if after < 1 << 31 {
            self.recent.found(after);
        }
        // Replies may overtake one another.
        if seq.wrapping_sub(self.unanswered_seq) < 1 << 31 {
            self.unanswered_seq = seq.wrapping_add(1);
        }
        self.trip = Some(match self.trip {
            Some(trip) => trip.with(trip_ns),
            None => Trip { mean_ns: trip_ns, deviation_ns: trip_ns / 2 },
        });
        self.window.answered(delay_ns);
        let answers = self.answers(bytes, before);
        self.removal = answers.removal;
        // Only in the order of probes: what was counted later is known already.
        if seq.wrapping_sub(self.counted_seq).wrapping_sub(1) < 1 << 31 {
            self.counted_seq = seq;
            self.account((now_ns, trip_ns), answers.counts, before, counted);
        }
        Reply::Answer(delay_ns)
    }

    /// Answers of the far end's extensions.
    fn answers(&self, bytes: &[u8], counted: Option<Counted>) -> Answers {
        let questions = self.questions(counted);
        let Kind::Stamp { key, .. } = &self.kind else { return Answers::default() };
        let seq = bytes.first_chunk().map(|seq| u32::from_be_bytes(*seq));
        let tail = bytes.get(Layout::of(key.as_ref()).len..);
        match seq.zip(tail).filter(|_| questions != Questions::default()) {
            Some((seq, tail)) => tlv::answers(key.as_ref(), seq, tail, questions),
            None => Answers::default(),
        }
    }

    /// Compares counts of both ends: those before the probe, the far end's, and those of the reply.
    fn account(
        &mut self,
        (now_ns, trip_ns): (u64, u64),
        told: Option<Counts>,
        before: Option<Counted>,
        counted: Option<Counted>,
    ) {
        if told.is_none() && self.accounts.is_none() {
            return;
        }
        let away = before.zip(told).map(|(own, told)| Sample {
            by: own.by,
            sent: own.packets,
            received: told.received,
        });
        let back = counted.zip(told).map(|(own, told)| Sample {
            by: own.by,
            sent: told.sent,
            received: own.packets,
        });
        let accounts = self.accounts.get_or_insert_default();
        for (account, sample) in [(&mut accounts.away, away), (&mut accounts.back, back)] {
            let Some(sample) = sample else {
                account.stop();
                continue;
            };
            match account.add(now_ns, sample, trip_ns) {
                Ok(()) => {}
                Err(Wrong::Backwards) => self.refusals.backward_count += 1,
                Err(Wrong::Surplus) => self.refusals.surplus_count += 1,
            }
        }
    }

    /// Number and timestamp of the probe that a reply is to, and its stay in the reflector by its two timestamps, if these
    /// are of one format. No reason: it is of another session.
    fn read(&self, bytes: &[u8]) -> Result<(u32, u64, Option<i64>), Option<Malformed>> {
        match &self.kind {
            Kind::Stamp { ssid, key } => {
                let seen = Reflection::parse(key.as_ref(), bytes).map_err(Some)?;
                // A reflector of RFC 8762 alone has zeros there.
                if seen.ssid != 0 && seen.ssid != *ssid {
                    return Err(None);
                }
                let stay_ns = seen.time.ns_since(seen.received, seen.error);
                Ok((seen.sender.seq, seen.sender.time.0, stay_ns))
            }
            Kind::Echo => {
                let Echo { seq, token } = Echo::parse(bytes).ok_or(Some(Malformed::Short))?;
                Ok((seq, token, Some(0)))
            }
        }
    }

    /// Round trip less the stay in the reflector, where that can be.
    fn delay_ns(&mut self, trip_ns: u64, stay_ns: Option<i64>) -> u64 {
        let Some(stay_ns) = stay_ns.and_then(|ns| u64::try_from(ns).ok()) else {
            self.refusals.reflector_clock += 1;
            return trip_ns;
        };
        match trip_ns.checked_sub(stay_ns) {
            Some(delay_ns) => delay_ns,
            None => {
                self.refusals.negative_delay += 1;
                trip_ns
            }
        }
    }

    /// Gives up what has waited for too long, and judges the path. Returns a change of its state.
    pub fn tick(&mut self, now_ns: u64) -> Option<Told> {
        while let Some(sent) = self.log.get(self.open_seq).copied() {
            if self.lost_ns(&sent) > now_ns {
                break;
            }
            if sent.fate == Fate::Waiting {
                if let Some(sent) = self.log.get_mut(self.open_seq) {
                    sent.fate = Fate::Lost;
                }
                self.give_up();
            }
            self.open_seq = self.open_seq.wrapping_add(1);
        }
        let is_silent = self.silent_ns().is_some_and(|silent_ns| silent_ns <= now_ns);
        if is_silent {
            self.answers_in_row = 0;
        }
        self.note_recent(now_ns);
        let from = self.judge.state();
        let answers_in_row = self.answers_in_row;
        let Prober { window, recent, judge, accounts, .. } = self;
        let seen = Seen { is_silent, answers_in_row };
        let to = judge.judge(now_ns, seen, || quality(*recent, window, accounts.as_deref()));
        (from != to).then_some(Told { from, to })
    }

    fn give_up(&mut self) {
        self.window.lost();
        self.answers_in_row = 0;
    }
}

/// Quality by all that a session knows.
fn quality(recent: Recent, window: &Window, accounts: Option<&Accounts>) -> Quality {
    let loss = |account: &Account| account.is_open().then(|| account.loss());
    Quality {
        recently_lost: recent.lost(),
        away: accounts.and_then(|accounts| loss(&accounts.away)),
        back: accounts.and_then(|accounts| loss(&accounts.back)),
        ..window.quality()
    }
}

#[cfg(test)]
#[path = "prober_tests.rs"]
mod tests;
