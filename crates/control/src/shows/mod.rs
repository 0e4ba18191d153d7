//! Shows, each for its reader: answers to commands, events, captures, traces.

pub mod answer;
pub mod breaks;
pub mod capture;
mod clients;
pub mod control;
pub mod events;
pub mod kernel_blocks;
pub mod limit_commands;
mod parts;
pub mod reader;
mod serve;
pub mod texts;
pub mod tunnel_state;
pub mod vici;
mod warnings;
pub mod why;

use crypto::Providers;

use self::capture::{Slots, Traces};
use self::clients::Clients;
use self::control::Control;
use self::events::{EventLog, Watch};
pub(super) use self::parts::Parts;
use crate::clock::Now;
use crate::sa::asked::Asked;
use crate::sa::early::Early;

/// State of all that is shown: answers, events, captures.
pub(super) struct Shows {
    pub(super) clients: Clients,
    pub(super) vici: vici::Vici,
    pub(super) event_log: EventLog,
    pub(super) watch: Watch,
    /// The captures, traces and counts of flows that run.
    pub(super) tap_slots: Slots,
    pub(super) traces: Traces,
    pub(super) providers: Providers,
    /// Policies that SAs were asked for.
    pub(super) asked: Asked,
    /// Reports of packets that a packet filter may drop, and why there are none though they were asked for.
    pub(super) early: Option<Early>,
    pub(super) early_trouble: Option<String>,
}

impl Shows {
    /// With the sockets of clients, and with reports of packets that a packet filter may drop, or why there are none.
    pub(super) fn new(
        (control, reader): (Control, Option<control::Listening>),
        vici: vici::Vici,
        providers: Providers,
        early: Result<Option<Early>, String>,
        now: Now,
    ) -> Shows {
        let (early, early_trouble) = match early {
            Ok(early) => (early, None),
            Err(trouble) => (None, Some(trouble)),
        };
        Shows {
            clients: Clients::new(control, reader),
            vici,
            event_log: EventLog::new(now),
            watch: Watch::new(now.at),
            tap_slots: Slots::default(),
            traces: Traces::default(),
            providers,
            asked: Asked::default(),
            early,
            early_trouble,
        }
    }
}
