//! Packets that travel in copies: replication, elimination and ordering (PREOF) over UDP (RFC 9566).
//!
//! | part | content |
//! | --- | --- |
//! | [`Numbered`] | label and number of a copy, in front of the packet: MPLS in UDP with a control word (RFC 9025, RFC 8964) |
//! | [`Group`], [`Parity`] | packets of which any one that is lost can be recovered, and what is sent for them |
//! | [`Memory`] | the latest packets of a stream at its far end, from which parity recovers one |
//! | [`Recovery`] | one stream at its far end: second copies are refused, and packets put in order within a bound |
//!
//! ```text
//! +--------------------+
//! | IP header          |  20 or 40 bytes
//! +--------------------+
//! | UDP, port 6635     |   8 bytes; the source port is the stream's
//! +--------------------+
//! | service label      |   4 bytes: label 20, class 3, bottom of stack 1, TTL 8 bits
//! +--------------------+
//! | control word       |   4 bytes: 0000, then a number of 28 bits
//! +--------------------+
//! | the packet         |
//! +--------------------+
//! ```
//!
//! The far end assigns the label; how the sender learns it is none of this crate's. Numbers go round at 2^28, and are compared
//! as those of TCP are. All copies of a packet have its number; numbers of a stream grow by one.
//!
//! Elimination is the vector algorithm of IEEE 802.1CB: a number is taken once, within a history. Ordering is the
//! basic one of RFC 9550: a packet waits for those before it, no longer than a bound, and what comes later than
//! that is delivered as it comes.
//!
//! The crate does no I/O, and time is an argument.

#![forbid(unsafe_code)]

pub mod fuzz;
mod memory;
mod numbered;
mod parity;
mod recovery;

pub use memory::{Memory, Unrecovered};
pub use numbered::{
    FIRST_LABEL, LABELS, LEN, Malformed, NUMBERS, Numbered, Outside, PORT, overhead,
};
pub use parity::{Content, Group, LONGEST_COVERED, PARITY_LEN, Parity, SPAN};
pub use recovery::{HISTORY, MOST_HELD, Recovery, Refusal};
