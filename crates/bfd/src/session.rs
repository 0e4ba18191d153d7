//! One session: state machine, timers, poll sequences (RFC 5880 §6).

use crate::packet::Packet;
use crate::standing::{Counts, PeerSaid, Standing};
use crate::state::{Diagnostic, State};

/// Interval of packets while a session is not up, in microseconds, at least (RFC 5880 §6.8.3).
const SLOW_TX_US: u32 = 1_000_000;

/// Settings of a session. Intervals are microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Discriminator of this end; not 0, and of no other session of this host.
    pub discr: u32,
    /// Shortest interval between packets that this end would use.
    pub min_tx: u32,
    /// Shortest interval that this end can receive with.
    pub min_rx: u32,
    /// Shortest interval between echo packets that this end sends back; 0: none.
    pub min_echo_rx: u32,
    /// Packets that may be missing before the session is down; at least 1.
    pub detect_mult: u8,
    /// True if this end is silent until the peer is heard.
    pub is_passive: bool,
    /// True if the session is switched off.
    pub is_shut: bool,
    /// True if packets say that the session does not end with the control plane.
    pub is_independent: bool,
}

/// Intervals in force, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timers {
    /// Between packets that are sent, before the jitter. `None`: none are sent by themselves.
    pub transmit: Option<u32>,
    /// Without a packet for this long the session is down. `None`: nothing was heard yet.
    pub detection: Option<u64>,
}

/// One session. The caller hands packets in that are for its discriminator, or from its peer, and asks for what is
/// due: [`Session::due_ns`] says when.
#[derive(Clone, Debug)]
pub struct Session {
    settings: Settings,
    state: State,
    diagnostic: Diagnostic,
    peer: PeerSaid,
    /// True from a change of an interval until the peer has answered.
    polls: bool,
    /// True once a packet of this poll sequence has left: the values that it has told are those that a Final answers.
    has_polled: bool,
    /// True if an interval has changed since: a poll sequence of its own follows.
    polls_again: bool,
    /// True if the peer waits for the answer to a poll.
    owes_final: bool,
    /// The interval that packets keep until a poll sequence ends, where the new one is longer.
    old_tx: Option<u32>,
    /// The interval that detection counts with until a poll sequence ends, where the new one is shorter.
    old_rx: Option<u32>,
    next_send_ns: u64,
    heard_ns: Option<u64>,
    is_news: bool,
    counts: Counts,
}

impl Session {
    /// A session that is down, or switched off; its first packet is due at once.
    pub fn new(settings: Settings, now_ns: u64) -> Session {
        let state = if settings.is_shut { State::AdminDown } else { State::Down };
        Session {
            settings,
            state,
            diagnostic: if settings.is_shut { Diagnostic::ADMIN_DOWN } else { Diagnostic::NONE },
            // RFC 5880 §6.8.1.
            peer: PeerSaid { state: State::Down, required_min_rx: 1, ..PeerSaid::default() },
            polls: false,
            has_polled: false,
            polls_again: false,
            owes_final: false,
            old_tx: None,
            old_rx: None,
            next_send_ns: now_ns,
            heard_ns: None,
            is_news: settings.is_shut,
            counts: Counts::default(),
        }
    }

    /// State of this end.
    pub fn state(&self) -> State {
        self.state
    }

    /// Why this end last left the state Up.
    pub fn diagnostic(&self) -> Diagnostic {
        self.diagnostic
    }

    /// The settings that hold.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Packets so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// True once after each change of the state, or of anything that the peer says of itself.
    pub fn take_news(&mut self) -> bool {
        core::mem::take(&mut self.is_news)
    }

    /// The session as it stands.
    pub fn standing(&self) -> Standing {
        let (transmit_us, detection_us) = (self.timers().transmit, self.timers().detection);
        Standing {
            discr: self.settings.discr,
            state: self.state,
            diagnostic: self.diagnostic,
            peer: self.peer,
            transmit_us,
            detection_us,
            counts: self.counts,
        }
    }

    /// Takes over other settings; the discriminator stays. A change of an interval of a session that is up begins a
    /// poll sequence (RFC 5880 §6.8.3).
    pub fn set(&mut self, settings: Settings, now_ns: u64) {
        let old = self.settings;
        self.settings = Settings { discr: old.discr, ..settings };
        let is_up = self.state == State::Up;
        if is_up && settings.min_tx > old.min_tx {
            self.old_tx = Some(self.old_tx.map_or(old.min_tx, |us| us.min(old.min_tx)));
        }
        if is_up && settings.min_rx < old.min_rx {
            self.old_rx = Some(self.old_rx.map_or(old.min_rx, |us| us.max(old.min_rx)));
        }
        if (settings.min_tx, settings.min_rx) != (old.min_tx, old.min_rx) {
            self.polls_again |= is_up && self.has_polled;
            self.polls |= is_up;
            self.next_send_ns = self.next_send_ns.min(now_ns.saturating_add(self.interval_ns()));
        }
        match (settings.is_shut, self.state) {
            (true, state) if state != State::AdminDown => {
                self.enter(State::AdminDown, Diagnostic::ADMIN_DOWN, now_ns)
            }
            (false, State::AdminDown) => self.enter(State::Down, Diagnostic::NONE, now_ns),
            _ => {}
        }
    }

    /// Takes a packet of the peer (RFC 5880 §6.8.6).
    pub fn receive(&mut self, packet: &Packet, now_ns: u64) {
        let before = self.peer;
        self.peer = PeerSaid {
            discr: packet.my_discr,
            state: packet.state,
            demand: packet.demand,
            is_independent: packet.is_independent,
            desired_min_tx: packet.desired_min_tx,
            required_min_rx: packet.required_min_rx,
            required_min_echo_rx: packet.required_min_echo_rx,
            detect_mult: packet.detect_mult,
            diagnostic: packet.diagnostic,
        };
        self.counts.received += 1;
        if packet.is_final && self.has_polled {
            (self.has_polled, self.polls) = (false, core::mem::take(&mut self.polls_again));
            if !self.polls {
                (self.old_tx, self.old_rx) = (None, None);
            }
        }
        self.owes_final |= packet.poll;
        let slower = before.required_min_rx != self.peer.required_min_rx;
        if self.state != State::AdminDown {
            self.heard_ns = Some(now_ns);
            match (self.state, packet.state) {
                (State::Down, State::AdminDown) => {}
                (_, State::AdminDown) => {
                    self.enter(State::Down, Diagnostic::NEIGHBOUR_DOWN, now_ns)
                }
                (State::Down, State::Down) => self.enter(State::Init, self.diagnostic, now_ns),
                (State::Down, State::Init) | (State::Init, State::Init | State::Up) => {
                    self.enter(State::Up, Diagnostic::NONE, now_ns);
                }
                (State::Up, State::Down) => {
                    self.enter(State::Down, Diagnostic::NEIGHBOUR_DOWN, now_ns)
                }
                _ => {}
            }
        }
        if slower {
            // A shorter interval counts at once (RFC 5880 §6.8.3).
            self.next_send_ns = self.next_send_ns.min(now_ns.saturating_add(self.interval_ns()));
        }
        self.is_news |= before != self.peer;
    }

    /// Enters a state. Packets of the new state do not wait for those of the old one.
    fn enter(&mut self, state: State, diagnostic: Diagnostic, now_ns: u64) {
        // From the slow interval to the one of the settings.
        self.polls = state == State::Up;
        (self.has_polled, self.polls_again) = (false, false);
        (self.old_tx, self.old_rx) = (None, None);
        (self.state, self.diagnostic) = (state, diagnostic);
        self.next_send_ns = now_ns;
        self.is_news = true;
    }

    /// Intervals in force.
    pub fn timers(&self) -> Timers {
        let PeerSaid { required_min_rx, desired_min_tx, detect_mult, demand, state, .. } =
            self.peer;
        let is_silent = required_min_rx == 0
            || self.settings.is_passive && self.peer.discr == 0
            || demand && self.state == State::Up && state == State::Up && !self.polls;
        // Several changes may wait for their polls: what holds is what the peer can bear by any of them.
        let desired = self.desired_min_tx();
        let transmit =
            (!is_silent).then(|| self.old_tx.unwrap_or(desired).min(desired).max(required_min_rx));
        let detection = self.heard_ns.map(|_| {
            let required = self.settings.min_rx;
            let interval = self.old_rx.unwrap_or(required).max(required).max(desired_min_tx);
            u64::from(detect_mult) * u64::from(interval)
        });
        Timers { transmit, detection }
    }

    /// The interval that this end would send with.
    fn desired_min_tx(&self) -> u32 {
        match self.state {
            State::Up => self.settings.min_tx,
            _ => self.settings.min_tx.max(SLOW_TX_US),
        }
    }

    fn interval_ns(&self) -> u64 {
        self.timers().transmit.map_or(u64::MAX, |us| u64::from(us) * 1000)
    }

    /// When [`Session::expire`] or [`Session::send`] has to be called next. `None`: not before the next packet.
    pub fn due_ns(&self) -> Option<u64> {
        if self.owes_final {
            return Some(0);
        }
        let send = self.timers().transmit.map(|_| self.next_send_ns);
        [send, self.expiry_ns()].into_iter().flatten().min()
    }

    /// When the detection time ends.
    fn expiry_ns(&self) -> Option<u64> {
        Some(self.heard_ns?.saturating_add(self.timers().detection?.saturating_mul(1000)))
    }

    /// Takes the session down if its detection time has passed (RFC 5880 §6.8.4).
    pub fn expire(&mut self, now_ns: u64) {
        if self.expiry_ns().is_none_or(|at| now_ns < at) {
            return;
        }
        self.heard_ns = None;
        // RFC 5880 §6.8.1, bfd.RemoteDiscr.
        self.peer.discr = 0;
        if matches!(self.state, State::Init | State::Up) {
            self.peer.state = State::Down;
            self.enter(State::Down, Diagnostic::EXPIRED, now_ns);
        }
    }

    /// The packet that is due, if one is. `random` spreads packets of many sessions: the interval is shortened by up to a
    /// quarter, and by a tenth at least where one missing packet ends the session (RFC 5880 §6.8.7).
    pub fn send(&mut self, now_ns: u64, random: u32) -> Option<Packet> {
        let answers = core::mem::take(&mut self.owes_final);
        let is_due = self.timers().transmit.is_some() && now_ns >= self.next_send_ns;
        if !is_due && !answers {
            return None;
        }
        if is_due {
            let interval = self.interval_ns();
            let (least, most) = if self.settings.detect_mult == 1 { (100, 250) } else { (0, 250) };
            let off = least + u64::from(random) * (most - least) / u64::from(u32::MAX);
            self.next_send_ns = now_ns.saturating_add(interval - interval / 1000 * off);
        }
        self.counts.sent += 1;
        // Never both (RFC 5880 §6.5).
        let poll = self.polls && !answers;
        self.has_polled |= poll;
        Some(Packet {
            diagnostic: self.diagnostic,
            state: self.state,
            poll,
            is_final: answers,
            is_independent: self.settings.is_independent,
            demand: false,
            detect_mult: self.settings.detect_mult,
            my_discr: self.settings.discr,
            your_discr: self.peer.discr,
            desired_min_tx: self.desired_min_tx(),
            required_min_rx: self.settings.min_rx,
            required_min_echo_rx: self.settings.min_echo_rx,
        })
    }
}
