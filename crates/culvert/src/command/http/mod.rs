//! HTTP for commands that serve what the daemon says: `culvert web`, `culvert metrics`.
//!
//! Only read, one request a connection; connections are bounded in number, time and bytes, so that no client holds up
//! another.
//!
//! | file | what it has |
//! | --- | --- |
//! | `listen` | the socket |
//! | `serve` | a thread for each connection, and who is asked for the answer |
//! | `connection` | a client, for so long |
//! | `head` | what is asked |
//! | `response` | heads of answers, and answers that are errors |

mod connection;
mod head;
mod listen;
mod response;
mod serve;

pub use connection::Client;
pub use head::Head;
pub use listen::listen;
pub use response::{Fault, JSON, Length, Status, head as write_head};
pub use serve::{Answer, Site, Stream, serve};
