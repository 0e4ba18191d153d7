//! Flows recognised by nDPI, ntop's library, in a process of its own.
//!
//! The library is a lot of C that reads what strangers send. So it runs in a [child](serve()) that can do nothing but answer: it has no
//! capability, opens no file, and its one descriptor is a queue to the daemon. What it says is believed as far as
//! [`message`] allows: the number of a protocol, about a question that was asked. If it crashes or hangs, flows are not
//! recognised by it, and nothing else is different.
//!
//! ```text
//!   culvert-apps, a thread of the daemon          the child: culvert ndpi
//!   Questions ── packet of a flow ─────────────>  library ── ndpi_detection_process_packet
//!             <───────────── protocol, or none ─
//! ```
//!
//! Version 4.2 is wanted, as Debian 12 has it: [`Library::load`] refuses others by name, since the layout of what goes
//! through the interface changes from version to version.

mod child;
mod confine;
pub mod fuzz;
mod library;
mod link;
pub mod message;
mod protocols;
mod questions;
mod serve;

pub use child::{Child, probe};
pub use library::{Flow, Library, LoadError, PACKAGE};
pub use link::{Broken, Heard, Link};
pub use message::{Answer, MessageError, Packet};
pub use protocols::{application, applications};
pub use questions::Lost;
pub use serve::{MOST_FLOWS, ServeError, serve};
