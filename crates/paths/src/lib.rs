//! Quality of paths: probes and their reflections, what they say of a path, and what follows from it.
//!
//! | part | content |
//! | --- | --- |
//! | [`stamp`] | packets of STAMP (RFC 8762, RFC 8972): test packets, reflections, extensions, keys |
//! | [`echo`] | bodies of ICMP echoes, for far ends without STAMP |
//! | [`Prober`] | one session's sender: when a probe is due, and what a reply is worth |
//! | [`Reflector`] | replies to the probes of others, stateless or with a count for each session |
//! | [`Window`] | the last probes of a session: loss, delay, jitter |
//! | [`RECENT_PROBES`], [`LEAST_LOST`] | the last probes of a session: loss that is no chance, early |
//! | [`TrafficLoss`] | loss of the path's own packets, by counts of both ends |
//! | [`Judge`] | state of a session: worse at once, better only after a time |
//! | [`Labels`] | labels of those whose second copies this host removes: a reflector assigns them, a sender learns them |
//!
//! # Arithmetic
//!
//! Times are monotonic nanoseconds of the caller. Delay is the round trip by the sender's own clock, less the time that the
//! probe stayed in the reflector by the reflector's own clock. So no clock has to be right, and none has to agree with
//! another. A reflector whose clock went backwards, or that claims to have kept a probe for longer than the round trip
//! took, is counted, and then the delay is the whole round trip.
//!
//! Jitter is packet delay variation (RFC 5481 §4.2): the 95th percentile of a window's delays, less the shortest. One late
//! reply among twenty does not change it.
//!
//! A probe is taken for lost early once a later one was answered and its own reply is overdue. That counts among the last 64
//! probes alone; the window waits for the time-out, as a reply may still come.
//!
//! # Believing replies
//!
//! A reply counts for one probe, once. It has to repeat the probe's number and the probe's timestamp, whose lowest bits are
//! random; with a key it has to carry the key's HMAC. Everything else is counted by its kind in [`Refusals`].
//!
//! # Memory
//!
//! A session has as many samples as its window and as many outstanding probes as its time-out has intervals, both bounded
//! when it is made, and an account of each direction if the far end counts packets: 2.5 KiB with the first such answer. A stateful reflector has a bounded number of sessions.
//!
//! # Not handled
//!
//! Delays one way, which take clocks that agree. Sessions whose probes are of different lengths.
#![forbid(unsafe_code)]

pub mod echo;
mod forgeries;
pub mod fuzz;
mod judge;
mod labels;
mod prober;
mod recent;
mod reflector;
mod sent;
pub mod stamp;
mod traffic;
mod window;

pub use judge::{Bounds, Judge, Seen, State};
pub use labels::{Labels, Removal, Remover, STREAMS};
pub use prober::{Kind, Plan, Prober, Refusals, Reply, Told};
pub use recent::{LEAST_LOST, PROBES as RECENT_PROBES};
pub use reflector::{Asked, Limits, Reflections, Reflector, Stay, Unread};
pub use traffic::{Counted, TrafficLoss};
pub use window::{Quality, Window};
