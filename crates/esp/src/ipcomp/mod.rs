//! IPComp: what follows a packet's headers is compressed, where that makes it shorter (RFC 3173).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+---------------+-------------------------------+
//! |  Next Header  |     Flags     | Compression Parameter Index   |
//! +---------------+---------------+-------------------------------+
//! |      the payload, as one raw deflate stream (RFC 2394)        |
//! ```
//!
//! An SA of IPComp has neither keys nor numbers, and its SPI is the CPI of 16 bits. A packet that
//! compression would not make shorter goes without the header (§2.2): in transport mode as it was, in
//! tunnel mode as IP in IP. So the peer of a tunnel expects both, and an SA of
//! [`Protocol::IpInV4`](crate::Protocol::IpInV4) or [`Protocol::IpInV6`](crate::Protocol::IpInV6) stands
//! beside that of IPComp, as in Linux (`ipcomp_tunnel_attach`). Nothing of that needs an engine.
//!
//! ```text
//!              compressed                            not compressed
//!   tunnel     [outer IP] [IPComp] [inner packet]    [outer IP] [inner packet]
//!   transport  [IP, visible] [IPComp] [payload]      [IP, visible] [payload]
//! ```

mod deflate;
mod open;
mod seal;

pub use deflate::Deflate;

/// The length of the header in bytes.
pub(crate) const HEADER_LEN: usize = 4;
