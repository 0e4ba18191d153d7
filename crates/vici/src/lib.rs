//! vici, strongSwan's control interface, as bytes: what charon is asked, and what it answers.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`message`] | packets, and the tree of sections, values and lists in each |
//! | [`lists`] | what charon's lists of connections and SAs say of children |
//!
//! Nothing here does I/O: the daemon has the socket. Arbitrary bytes are an error or a message, and
//! have a fuzz target ([`fuzz`]).
#![forbid(unsafe_code)]

pub mod fuzz;
pub mod lists;
pub mod message;

pub use message::{Element, Malformed, Packet, walk};
