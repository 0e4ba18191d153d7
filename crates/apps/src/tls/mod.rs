//! TLS: records, and the ClientHello in them (RFC 8446).

mod ech;
mod hello;
mod records;

pub(crate) use ech::public_names;
pub use hello::{ClientHello, Hello, client_hello};
pub(crate) use records::{Records, records};
