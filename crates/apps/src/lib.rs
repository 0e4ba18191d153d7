//! Applications of flows, by their first packets.
//!
//! A flow says what it is for in few places: the name in a TLS or QUIC ClientHello, the host of an HTTP request, the question to a
//! name server before. [`Classifier`] reads these, off the path of packets, and puts what it learns into [`Hints`], where the
//! threads that forward packets find the application of the next flow with its first packet. What an operator says of
//! applications, and a short list that is built in, is a [`Catalogue`].
//!
//! | a flow is known by | from which packet on |
//! | --- | --- |
//! | an operator's prefix, port, protocol, DSCP ([`Catalogue::of_first_packet`]) | the first |
//! | an answer that a name server gave its client; earlier flows to the server ([`Hints::likely`]) | the first, and what follows may correct it |
//! | its own content ([`Classifier::packet`]) | that with the name |
//!
//! A flow whose ClientHello is encrypted (RFC 9849) is of an application of its own, [`AppId::HIDDEN`]: that it cannot be known
//! is known. A flow of no protocol that is read here may be shown to a second classifier: [`Classifier::question`].
//!
//! # What is believed
//!
//! An answer of a name server counts for the client that has asked it, once, and only if it fits the question to the bit. So a
//! host that makes up answers, or asks a server of its own, changes what its own flows are taken for, and no others'. A server at
//! which flows of several applications were seen tells nothing.
//!
//! # Bounds
//!
//! Nothing is kept for packets without payload. Flows, questions, names and bytes are bounded by constants; a flood displaces the
//! oldest, and takes no memory. The time is an argument; no call waits.
//!
//! # Not handled
//!
//! Fragments; TCP whose beginning was not seen; names in DTLS, in QUIC before its standard, and in tunnels inside of flows.
#![forbid(unsafe_code)]

mod application;
mod classifier;
pub mod dns;
mod flow;
mod flow_id;
mod flows;
pub mod fuzz;
mod hints;
pub mod http;
mod name;
mod pieces;
mod queries;
pub mod quic;
mod reader;
mod second;
mod stream;
mod tally;
pub mod tls;
mod verdict;

pub use application::{AppId, Application, Catalogue, CatalogueError, MOST_APPLICATIONS};
pub use classifier::{Classifier, MOST_MEMORY, MOST_PACKETS};
pub use flow_id::{End, FlowId};
pub use hints::{Hints, Likely};
pub use name::Name;
pub use second::{MOST_ASKED, Question};
pub use tally::{Count, Tally};
pub use verdict::{KnownBy, Verdict};
