//! Packet formats: parse, check, emit; no I/O.
#![forbid(unsafe_code)]

mod headers;
mod span;

pub use headers::{Family, Fragment, Headers};
pub use span::Span;
