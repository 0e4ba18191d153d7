//! Netlink: messages and attributes as bytes, requests to the kernel, and what it tells by itself.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`mod@field`] | values of a fixed layout: integers of either byte order, padding, structs |
//! | [`message`] | the header, the messages of a datagram, the writer of one message |
//! | [`attribute`] | the attributes of a message or of another attribute, and their common values |
//! | [`answer`] | acknowledgements: read as the requester, written as the kernel writes them |
//! | [`netfilter`] | what the messages of nfnetlink begin with |
//! | [`Fault`] | why a request failed: refused, malformed, lost, or the socket |
//! | [`Connection`] | requests, one at a time: commands, questions, dumps |
//! | [`Listener`] | multicast groups, and answers that are not waited for |
//!
//! All but the last two are bytes alone, and have a fuzz target ([`fuzz`]). What a message means is
//! known by the crates of each family: routing, XFRM, connection tracking, nf_tables.
//!
//! # Example
//!
//! ```
//! use netlink::{Attributes, Connection, MessageWriter, Protocol, flag};
//!
//! # fn main() -> Result<(), netlink::Fault> {
//! let mut route = Connection::open(Protocol::Route)?;
//! // RTM_GETLINK, struct ifinfomsg.
//! let mut request = MessageWriter::request(18, flag::DUMP);
//! request.raw(&[0; 16]);
//! let mut names = Vec::new();
//! route.dump(request, |_, body| {
//!     let attributes = Attributes::new(body.get(16..).unwrap_or_default());
//!     // IFLA_IFNAME.
//!     names.extend(attributes.find(3).map(netlink::attribute::as_text));
//! })?;
//! assert!(names.iter().any(|name| name == "lo"));
//! # Ok(())
//! # }
//! ```
//!
//! # Liberal reading
//!
//! Messages and attributes are read as Linux reads them: what does not fit ends the list, what is
//! not known is skipped, the last attribute of a type counts. A newer kernel's message is
//! understood as far as it can be.
//!
//! # Keys
//!
//! XFRM's messages carry keys. So messages under construction and answers that are kept are
//! [`Message`]s, which are cleared when they are dropped, and the buffers of both sockets are
//! cleared after each datagram.
//!
//! # Why no library of the registry
//!
//! - `netlink-packet-core` 0.9 reads into typed messages and refuses a whole one for a single part
//!   that is not as expected; it skips the attributes of an error (the kernel's explanation), cannot
//!   write an acknowledgement as a kernel does, keeps bytes that it does not clear, and has no loop of
//!   requests: that one is `netlink-proto`, which needs an asynchronous runtime.
//! - `neli` 0.7 has a blocking loop, in a thread of its own for each socket; it fails a datagram for one
//!   message, and its pool of buffers keeps what was read.
//!
//! Either would replace the 150 lines of header and attributes here, and need adapters of that size.
//! The sockets themselves are those of `netlink-sys`, which has the unsafe code.
//!
//! # Threads
//!
//! One thread owns a connection or a listener. Both belong to the network namespace that it was in
//! when it opened them.
//!
//! # Not handled
//!
//! Memory-mapped netlink, listening in all namespaces, strict checking of dumps.
#![forbid(unsafe_code)]

pub mod answer;
pub mod attribute;
mod connection;
mod fault;
pub mod field;
pub mod fuzz;
mod listener;
#[cfg(any(test, feature = "memory"))]
pub mod memory;
pub mod message;
pub mod netfilter;
mod socket;

pub use answer::Acknowledgement;
pub use attribute::Attributes;
pub use connection::{Connection, Dump};
pub use fault::Fault;
pub use field::{Be16, Be32, Field, Pad, Reader, TooShort};
pub use listener::{Heard, Listener};
pub use message::{Header, Message, MessageWriter, Messages, flag, kind};
pub use socket::Protocol;
