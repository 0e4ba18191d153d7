//! The thread that reconnects while the server is away.
//!
//! A program that only listens calls nothing from which a new connection could be made, so there
//! has to be somebody who does. The thread lives only while a socket is parked, gets no signals,
//! and does nothing that a call on the socket would not do as well.

use std::thread;
use std::time::Instant;

use crate::link;
use crate::socket::Link;
use crate::state::{self, Config, State};
use crate::sys;

/// Pauses between two looks, doubling.
const FIRST_PAUSE_MS: u32 = 10;
const LONGEST_PAUSE_MS: u32 = 320;

/// A parked program never needs much stack for this.
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
    while look(config) {
        sys::pause(pause_ms);
        pause_ms = (pause_ms * 2).min(LONGEST_PAUSE_MS);
    }
}

/// Tries all parked sockets; false if none is left.
fn look(config: &Config) -> bool {
    let mut state = state::lock();
    let now = Instant::now();
    let sync = state.sync_number();
    let mut parked = false;
    for (number, entry) in state.sockets.iter_mut().enumerate() {
        let Some(socket) = entry else { continue };
        if !link::revive(number as u32, socket, config, sync, now) {
            link::give_up_if_late(socket, config, now);
        }
        parked |= socket.link != Link::Up;
    }
    state.rescuer_runs = parked;
    parked
}
