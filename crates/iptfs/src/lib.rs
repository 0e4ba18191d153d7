//! IP-TFS (RFC 9347): inner packets aggregated and fragmented into AGGFRAG payloads, and back.
//!
//! Pure: no I/O, no clock, no allocation per packet. What is around a payload, ESP with its numbers and its trailer,
//! is `esp`'s; who keeps packets and timers is the data path.
//!
//! ```text
//!   packets ──> Filling ──> payload ── ESP, next header 144 ──> Window ──> Deaggregator ──> packets
//!               header, blocks, padding                         in order    blocks, pieces joined
//! ```
//!
//! | part | RFC 9347 |
//! | --- | --- |
//! | [`Header`]: sub-types 0 and 1 | 6.1 |
//! | [`Filling`]: packets into a payload of a given size | 2.2, 2.5 |
//! | [`Window`]: payloads in the order of their sequence numbers | 2.2.3 |
//! | [`Deaggregator`]: packets out of payloads, pieces joined | 2.2.3, 2.2.4 |
//! | [`congestion`]: how fast a constant rate may be | 2.4.2, 3 |
//!
//! # Example
//!
//! Two packets in two payloads of 64 bytes.
//!
//! ```
//! use iptfs::{Collected, Deaggregator, Filling};
//!
//! let packet = |len: u8| { let mut p = vec![0; len.into()]; (p[0], p[3]) = (0x45, len); p };
//! let (mut first, mut second) = ([0; 64], [0; 64]);
//! let mut filling = Filling::new(64, 0);
//! let (one, two) = (packet(40), packet(60));
//! assert_eq!(filling.put(&mut first, &one), 40);
//! assert_eq!(filling.put(&mut first, &two), 20, "what there is room for");
//! filling.finish(&mut first, true);
//! let mut filling = Filling::new(64, 40);
//! assert_eq!(filling.put(&mut second, &two[20..]), 40);
//! filling.finish(&mut second, true);
//!
//! let (mut back, mut got) = (Deaggregator::default(), Collected::default());
//! back.payload(1, &first, &mut got);
//! back.payload(2, &second, &mut got);
//! assert_eq!(got.packets, [one, two]);
//! ```
//!
//! # Not handled
//!
//! Rates: the caller, which fills payloads, decides when they leave. The content of a block, beyond its
//! length, is for the receiver to check.
#![forbid(unsafe_code)]

mod block;
mod collected;
pub mod congestion;
mod deaggregate;
mod fill;
pub mod fuzz;
mod header;
mod reorder;

pub use collected::Collected;
pub use deaggregate::{Deaggregator, Fault, Found, Sink};
pub use fill::Filling;
pub use header::{Congestion, Header, HeaderError};
pub use reorder::{Late, Window};

/// The next header by which ESP's trailer names an AGGFRAG payload (RFC 9347, section 7.2).
pub const NEXT_HEADER: u8 = 144;
