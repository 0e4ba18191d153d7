//! IP-TFS (RFC 9347): packets that an SA carries in payloads, many in one and one in many.
//!
//! ```text
//!   apply ── Action::Aggregate ──> Sender ── payload ──> crypt ──> out
//!                                   full, due, or it is a constant rate's turn
//!   crypt ── accepted payload ───> Receiver ── inner packets ──> flows, as what the SA has decrypted
//!                                   in order, pieces joined
//! ```
//!
//! Each SA has one sender or receiver, at its home: so payloads are filled, numbered and taken apart by one thread, in
//! order. A packet is copied into a payload at once, and ends as consumed; the payload is a packet that the worker has made, and
//! holds until it leaves. The other way round a payload is held until it is its turn, and consumed when packets were made of
//! it. Helpers leave both to the worker.
//!
//! | a payload leaves | SA |
//! | --- | --- |
//! | when it is full; at the end of the round, or the first round after the delay | on demand |
//! | at its time, padded to its full size | constant rate |
//!
//! A constant rate may heed losses ([`control`], [`watch`]): then payloads report them, and what one SA brings is for the
//! rate of the other one of its pair.
//!
//! Timers are looked at once a round ([`Aggfrag::due_ns`] says when there has to be one). Without such an SA nothing of
//! this is there.

mod add;
mod answer;
mod control;
mod counts;
mod pace;
mod places;
mod rate;
mod receive;
mod receivers;
mod send;
mod sender;
mod state;
mod unpack;
mod watch;

pub(crate) use receive::take_apart;
pub(crate) use receivers::Receivers;
pub(crate) use state::Aggfrag;
