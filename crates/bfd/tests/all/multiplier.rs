//! The detect multiplier of a session that is up, changed with and without a poll sequence (RFC 5880 §6.8.12, §6.8.4).

use bfd::{Diagnostic, Settings, State};

use crate::sessions::{Link, MS, settings};

const fn with(detect_mult: u8, min_ms: u32) -> Settings {
    Settings { detect_mult, ..settings(1, min_ms) }
}

/// Two ends that are up, past the polls with which they came up.
fn up(min_ms: u32) -> Link {
    let mut link = Link::new(settings(1, min_ms), settings(2, min_ms));
    link.run_for(3000);
    assert_eq!(link.states(), [State::Up; 2]);
    link.polls = [0; 2];
    link
}

/// The time after which the second end is down, without a packet of the first.
fn goes_down_after(link: &mut Link) -> u64 {
    let begin_ns = link.now_ns;
    link.cut[1] = true;
    while link.ends[1].state() == State::Up {
        link.run_for(1);
        assert!(link.now_ns < begin_ns + 100_000 * MS, "it never goes down");
    }
    assert_eq!(link.ends[1].diagnostic(), Diagnostic::EXPIRED);
    (link.now_ns - begin_ns) / MS
}

#[test]
fn the_next_packet_says_it_without_a_poll() {
    for detect_mult in [1, 2, 5, 255] {
        let mut link = up(50);
        link.ends[0].set(with(detect_mult, 50), link.now_ns);
        // The multiplier is for the peer, who counts the packets of this end.
        link.run_for(51);
        let detection = |end: usize| link.ends[end].timers().detection;
        assert_eq!(detection(1), Some(u64::from(detect_mult) * 50_000));
        assert_eq!(detection(0), Some(150_000), "what the peer says of itself");
        for _ in 0..200 {
            link.run_for(10);
            assert_eq!(link.states(), [State::Up; 2], "{detect_mult}");
        }
        assert_eq!(link.polls, [0; 2], "{detect_mult}");
        // The last packet was sent up to an interval before.
        let ms = goes_down_after(&mut link);
        let longest = u64::from(detect_mult) * 50;
        assert!((longest - 50..=longest + 1).contains(&ms), "{detect_mult}: {ms} ms");
    }
}

#[test]
fn it_changes_with_an_interval_and_the_poll_is_about_the_interval() {
    for (detect_mult, min_ms) in [(1, 300), (1, 10), (5, 300), (5, 10)] {
        let mut link = up(50);
        link.ends[0].set(with(detect_mult, min_ms), link.now_ns);
        for _ in 0..200 {
            link.run_for(10);
            assert_eq!(link.states(), [State::Up; 2], "{detect_mult}, {min_ms} ms");
        }
        assert_eq!(link.polls[0], 1, "{detect_mult}, {min_ms} ms");
        let agreed = u64::from(min_ms.max(50)) * 1000;
        assert_eq!(link.ends[1].timers().detection, Some(u64::from(detect_mult) * agreed));
        assert_eq!(link.ends[0].timers().detection, Some(3 * agreed));
    }
}

/// Until the answer comes the old interval holds, and the new multiplier already.
#[test]
fn it_changes_while_a_poll_waits_for_its_answer() {
    let mut link = up(50);
    link.loses_final[0] = true;
    link.ends[0].set(with(3, 300), link.now_ns);
    link.run_for(200);
    assert!(link.polls[0] >= 2, "{}", link.polls[0]);
    for detect_mult in [1, 7, 2] {
        link.ends[0].set(with(detect_mult, 300), link.now_ns);
        for _ in 0..100 {
            link.run_for(10);
            assert_eq!(link.states(), [State::Up; 2], "{detect_mult}");
        }
        assert_eq!(link.ends[0].timers().transmit, Some(50_000), "{detect_mult}");
        assert_eq!(link.ends[1].timers().detection, Some(u64::from(detect_mult) * 300_000));
    }
    link.loses_final[0] = false;
    link.run_for(1000);
    assert_eq!(link.states(), [State::Up; 2]);
    assert_eq!(link.ends[0].timers().transmit, Some(300_000));
    assert_eq!(link.ends[1].timers().detection, Some(600_000));
    let ms = goes_down_after(&mut link);
    assert!((300..=601).contains(&ms), "{ms} ms");
}
