//! Two sessions on a link that the test moves, cuts and slows.

use bfd::{Diagnostic, Packet, Session, Settings, State};
use proptest::prelude::*;

pub const MS: u64 = 1_000_000;

pub const fn settings(discr: u32, min_ms: u32) -> Settings {
    Settings {
        discr,
        min_tx: min_ms * 1000,
        min_rx: min_ms * 1000,
        min_echo_rx: 0,
        detect_mult: 3,
        is_passive: false,
        is_shut: false,
        is_independent: false,
    }
}

/// Two ends, and the packets under way.
pub struct Link {
    pub ends: [Session; 2],
    pub now_ns: u64,
    delay_ns: u64,
    /// True while packets to this end are lost.
    pub cut: [bool; 2],
    /// True while answers to polls of this end are lost.
    pub loses_final: [bool; 2],
    under_way: Vec<(u64, usize, Packet)>,
    /// When each end has sent.
    sent: [Vec<u64>; 2],
    /// Polls of each end.
    pub polls: [u32; 2],
}

impl Link {
    pub fn new(a: Settings, b: Settings) -> Link {
        Link {
            ends: [Session::new(a, 0), Session::new(b, 0)],
            now_ns: 0,
            delay_ns: MS / 10,
            cut: [false; 2],
            loses_final: [false; 2],
            under_way: Vec::new(),
            sent: [Vec::new(), Vec::new()],
            polls: [0; 2],
        }
    }

    pub fn run_for(&mut self, ms: u64) {
        let end_ns = self.now_ns + ms * MS;
        loop {
            let due = self.ends.iter().filter_map(Session::due_ns);
            let arrivals = self.under_way.iter().map(|(at, ..)| *at);
            let next = due.chain(arrivals).min().unwrap_or(u64::MAX).max(self.now_ns);
            if next > end_ns {
                self.now_ns = end_ns;
                return;
            }
            self.now_ns = next;
            let (arrived, later) = self.under_way.drain(..).partition(|(at, ..)| *at <= next);
            self.under_way = later;
            let arrived: Vec<(u64, usize, Packet)> = arrived;
            for (_, to, packet) in arrived {
                self.ends[to].receive(&packet, next);
            }
            for from in 0..2 {
                self.ends[from].expire(next);
                while let Some(packet) =
                    self.ends[from].send(next, (next as u32).wrapping_mul(0x9e37_79b9))
                {
                    assert!(!(packet.poll && packet.is_final), "never both");
                    self.sent[from].push(next);
                    self.polls[from] += u32::from(packet.poll);
                    let packet = Packet::parse(&packet.to_bytes()).expect("what is sent is taken");
                    let is_lost =
                        self.cut[1 - from] || packet.is_final && self.loses_final[1 - from];
                    if !is_lost {
                        self.under_way.push((next + self.delay_ns, 1 - from, packet));
                    }
                }
            }
        }
    }

    pub fn states(&self) -> [State; 2] {
        [self.ends[0].state(), self.ends[1].state()]
    }
}

#[test]
fn two_ends_come_up_and_send_as_negotiated() {
    let mut link = Link::new(settings(1, 50), settings(2, 20));
    link.run_for(3000);
    assert_eq!(link.states(), [State::Up; 2]);
    // The slower end's: 50 ms, less up to a quarter.
    for sent in &mut link.sent {
        sent.clear();
    }
    link.run_for(1000);
    for sent in &link.sent {
        assert!((20..=28).contains(&sent.len()), "{}", sent.len());
        let gaps = sent.windows(2).map(|pair| pair[1] - pair[0]);
        assert!(
            gaps.clone().all(|gap| (37 * MS..=50 * MS).contains(&gap)),
            "{:?}",
            gaps.collect::<Vec<_>>()
        );
    }
    assert_eq!(link.ends[0].timers().detection, Some(150_000));
}

#[test]
fn a_silent_peer_is_down_after_the_detection_time() {
    let mut link = Link::new(settings(1, 50), settings(2, 50));
    link.run_for(3000);
    link.cut = [true; 2];
    link.run_for(100);
    assert_eq!(link.states(), [State::Up; 2]);
    link.run_for(60);
    assert_eq!(link.states(), [State::Down; 2]);
    assert_eq!(link.ends[0].diagnostic(), Diagnostic::EXPIRED);
    // Slow while it is down.
    link.sent[0].clear();
    link.run_for(10_000);
    assert!((10..=14).contains(&link.sent[0].len()), "{}", link.sent[0].len());
    link.cut = [false; 2];
    link.run_for(3000);
    assert_eq!(link.states(), [State::Up; 2]);
}

#[test]
fn one_way_alone_is_no_way() {
    let mut link = Link::new(settings(1, 50), settings(2, 50));
    link.cut[0] = true;
    link.run_for(10_000);
    assert!(link.states().iter().all(|state| *state != State::Up), "{:?}", link.states());
    link.cut[0] = false;
    link.run_for(3000);
    link.cut[1] = true;
    link.run_for(300);
    assert_eq!(link.states(), [State::Down; 2]);
    assert_eq!(link.ends[0].diagnostic(), Diagnostic::NEIGHBOUR_DOWN);
}

#[test]
fn a_session_that_is_switched_off_says_so() {
    let mut link = Link::new(settings(1, 50), settings(2, 50));
    link.run_for(3000);
    link.ends[0].set(Settings { is_shut: true, ..settings(1, 50) }, link.now_ns);
    link.run_for(20);
    assert_eq!(link.states(), [State::AdminDown, State::Down]);
    assert_eq!(link.ends[1].diagnostic(), Diagnostic::NEIGHBOUR_DOWN);
    link.ends[0].set(settings(1, 50), link.now_ns);
    link.run_for(3000);
    assert_eq!(link.states(), [State::Up; 2]);
}

#[test]
fn other_intervals_hold_after_a_poll_and_nothing_goes_down() {
    let mut link = Link::new(settings(1, 20), settings(2, 20));
    link.run_for(3000);
    for ms in [300, 10, 100] {
        link.ends[0].set(settings(1, ms), link.now_ns);
        for _ in 0..100 {
            link.run_for(20);
            assert_eq!(link.states(), [State::Up; 2], "{ms} ms");
        }
        assert_eq!(link.ends[0].timers().transmit, Some(ms.max(20) * 1000), "{ms} ms");
    }
}

/// Takes the peer's answer to a poll, a Final, with its own intervals of 20 ms.
fn answer(session: &mut Session, now_ns: u64) {
    let said = Packet {
        diagnostic: Diagnostic::NONE,
        state: State::Up,
        poll: false,
        is_final: true,
        is_independent: false,
        demand: false,
        detect_mult: 3,
        my_discr: 2,
        your_discr: 1,
        desired_min_tx: 20_000,
        required_min_rx: 20_000,
        required_min_echo_rx: 0,
    };
    session.receive(&said, now_ns);
}

/// RFC 5880 §6.8.3: a Final to the first change says nothing of the second one.
#[test]
fn each_of_two_quick_changes_has_its_own_poll() {
    let mut link = Link::new(settings(1, 20), settings(2, 20));
    link.run_for(3000);
    let Link { ends: [end, _], now_ns, .. } = link;
    let poll = |end: &mut Session, at_ns| {
        let packet = end.send(at_ns, 0).expect("one is due");
        packet.poll.then_some(packet.desired_min_tx)
    };
    let mut both = end.clone();
    both.set(settings(1, 300), now_ns);
    both.set(settings(1, 500), now_ns);
    assert_eq!(poll(&mut both, now_ns + 20 * MS), Some(500_000), "one poll tells of both");
    answer(&mut both, now_ns + 21 * MS);
    assert_eq!(both.timers().transmit, Some(500_000));
    let mut end = end;
    end.set(settings(1, 300), now_ns);
    answer(&mut end, now_ns);
    assert_eq!(end.timers().transmit, Some(20_000), "this answers an older poll");
    assert_eq!(poll(&mut end, now_ns + 20 * MS), Some(300_000));
    end.set(settings(1, 500), now_ns + 20 * MS);
    answer(&mut end, now_ns + 21 * MS);
    assert_eq!(end.timers().transmit, Some(20_000), "the peer may not know of 500 ms yet");
    assert_eq!(poll(&mut end, now_ns + 40 * MS), Some(500_000));
    answer(&mut end, now_ns + 41 * MS);
    assert_eq!(end.timers().transmit, Some(500_000));
    assert_eq!(poll(&mut end, now_ns + 600 * MS), None, "no poll is left");
}

#[test]
fn intervals_that_change_to_and_fro_within_a_poll_take_no_end_down() {
    let mut link = Link::new(settings(1, 300), settings(2, 20));
    link.run_for(4000);
    let Link { ends: [mut end, _], now_ns, .. } = link;
    for ms in [500, 30, 400] {
        end.set(settings(1, ms), now_ns);
    }
    // The peer counts with 30 ms, and sends as it was allowed to, each 500 ms.
    let timers = end.timers();
    assert_eq!((timers.transmit, timers.detection), (Some(30_000), Some(1_500_000)));
}

#[test]
fn a_passive_end_waits_for_the_other() {
    let mut link = Link::new(Settings { is_passive: true, ..settings(1, 50) }, settings(2, 50));
    link.cut[0] = true;
    link.run_for(5000);
    assert!(link.sent[0].is_empty());
    link.cut[0] = false;
    link.run_for(3000);
    assert_eq!(link.states(), [State::Up; 2]);
}

/// `bfdd` says it again whenever a profile changes, and the end has no interval while it is silent.
#[test]
fn a_passive_end_that_is_set_again_is_silent_still() {
    let passive = |ms| Settings { is_passive: true, ..settings(1, ms) };
    let mut link = Link::new(passive(300), settings(2, 50));
    link.cut[0] = true;
    link.run_for(1000);
    link.ends[0].set(passive(50), link.now_ns);
    link.run_for(5000);
    assert!(link.sent[0].is_empty());
    link.cut[0] = false;
    link.run_for(3000);
    assert_eq!(link.states(), [State::Up; 2]);
}

#[test]
fn a_peer_in_demand_mode_gets_its_way() {
    let mut link = Link::new(settings(1, 50), settings(2, 50));
    link.run_for(3000);
    let said = Packet {
        diagnostic: Diagnostic::NONE,
        state: State::Up,
        poll: false,
        is_final: true,
        is_independent: false,
        demand: true,
        detect_mult: 3,
        my_discr: 2,
        your_discr: 1,
        desired_min_tx: 50_000,
        required_min_rx: 50_000,
        required_min_echo_rx: 0,
    };
    link.ends[0].receive(&said, link.now_ns);
    assert_eq!(link.ends[0].timers().transmit, None);
    assert!(link.ends[0].take_news());
}

proptest! {
    /// Whatever packets come: an end is up only if the last packet of its peer says Init or Up, and both ends come up
    /// again once the link is whole.
    #[test]
    fn links_that_are_cut_at_random_come_up_again(
        cuts in prop::collection::vec((any::<[bool; 2]>(), 1..400_u64), 1..20),
        slow in 10..300_u32,
        fast in 10..300_u32,
    ) {
        let mut link = Link::new(settings(1, slow), settings(2, fast));
        for (cut, ms) in cuts {
            link.cut = cut;
            link.run_for(ms);
        }
        link.cut = [false; 2];
        link.run_for(5000);
        prop_assert_eq!(link.states(), [State::Up; 2]);
    }

    /// Whatever an end is set to, and whenever, both come up once it is switched on and one of them begins.
    #[test]
    fn settings_that_change_at_random_leave_sessions_that_come_up(
        changes in prop::collection::vec((any::<[bool; 3]>(), 1..3000_u32, 1..8_u8, 1..3000_u64), 1..20),
    ) {
        let mut link = Link::new(settings(1, 50), settings(2, 50));
        for (flags, min_ms, detect_mult, ms) in changes {
            let [is_passive, is_shut, is_independent] = flags;
            let change = Settings { detect_mult, is_passive, is_shut, is_independent, ..settings(1, min_ms) };
            link.ends[0].set(change, link.now_ns);
            link.run_for(ms);
        }
        link.ends[0].set(settings(1, 50), link.now_ns);
        // Packets of an end that was slow may be under way for as long as it was.
        link.run_for(20_000);
        prop_assert_eq!(link.states(), [State::Up; 2]);
        prop_assert_eq!(link.ends[1].timers().detection, Some(150_000));
    }
}
