//! HTTP for commands that serve what the daemon says: `culvert web`, `culvert metrics`.
//!
//! Only read, one request a connection; connections are bounded in number, time and bytes, so that no client holds up
//! another.
//!
//! | file | what it has |
//! | --- | --- |
//! | `listen` | the socket |
//! | `connections` | which there are, and which makes room for a new one |
//! | `rights` | what is given up before anybody is served |
//! | `names` | the names that a server goes by |
//! | `serve` | a thread for each connection, and who is asked for the answer |
//! | `connection` | a client, for so long |
//! | `head` | what is asked |
//! | `response` | heads of answers, and answers that are errors |

mod connection;
mod connections;
mod head;
mod listen;
mod names;
mod response;
mod rights;
mod serve;

pub use connection::Client;
pub use head::Head;
pub use listen::listen;
pub use names::Names;
pub use response::{Fault, JSON, Length, Status, head as write_head};
pub use rights::become_server;
pub use serve::{Answer, Site, Stream, serve};
