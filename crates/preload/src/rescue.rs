//! The thread that reconnects while the server is away.
//!
//! A program that only listens makes no call in which the library could reconnect. The thread lives
//! only while a socket is parked, gets no signals, and does nothing that a call on the socket would
//! not do as well.

use std::thread;
use std::time::Instant;

use crate::config::Config;
use crate::esp_sockets;
use crate::link;
use crate::socket::Link;
use crate::state::{self, State};
use crate::sys;

/// Pauses between two attempts, doubling.
const FIRST_PAUSE_MS: u32 = 10;
const LONGEST_PAUSE_MS: u32 = 320;

/// The pause while the server's answer to a greeting is awaited.
const ANSWER_PAUSE_MS: u32 = 2;

/// The thread needs little stack.
const STACK_BYTES: usize = 128 * 1024;

/// Starts the thread if it does not run; the caller holds the lock.
///
/// If no thread can be had, the next call on a parked socket tries again.
pub(crate) fn ensure_running(state: &mut State, config: &'static Config) {
    if state.rescuer_runs {
        return;
    }
    let builder = thread::Builder::new().name("culvert-xfrm".into()).stack_size(STACK_BYTES);
    let started = sys::without_signals(|| builder.spawn(|| run(config)));
    state.rescuer_runs = started.is_ok();
}

fn run(config: &Config) {
    let mut pause_ms = FIRST_PAUSE_MS;
    loop {
        esp_sockets::renew(config);
        match look(config) {
            Seen::AllUp => return,
            Seen::AnswerDue => sys::pause(ANSWER_PAUSE_MS),
            Seen::Away => {
                sys::pause(pause_ms);
                pause_ms = (pause_ms * 2).min(LONGEST_PAUSE_MS);
            }
        }
    }
}

/// Findings of the thread, in order of urgency.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Seen {
    /// Nothing: it ends.
    AllUp,
    /// The server is away.
    Away,
    /// The server was greeted and will answer soon.
    AnswerDue,
}

/// Tries all parked sockets.
fn look(config: &Config) -> Seen {
    let mut state = state::lock();
    let now = Instant::now();
    let sync = state.sync_number();
    let mut seen = if esp_sockets::is_any_down(&state) { Seen::Away } else { Seen::AllUp };
    for (number, entry) in state.sockets.iter_mut().enumerate() {
        let Some(socket) = entry else { continue };
        if !link::revive(number as u32, socket, config, sync, now) {
            link::give_up_if_late(socket, config, now);
        }
        seen = seen.max(match socket.link {
            Link::Up => Seen::AllUp,
            Link::Parked { fresh: None, .. } => Seen::Away,
            Link::Parked { fresh: Some(_), .. } => Seen::AnswerDue,
        });
    }
    state.rescuer_runs = seen != Seen::AllUp;
    seen
}
