//! Packets in copies (PREOF, RFC 9566): sent over two tunnels, and taken once at the far end. Or with parity, by which it
//! recovers what was lost.
//!
//! | part | packets |
//! | --- | --- |
//! | [`replicate`] | get a number, and leave twice, each by a tunnel interface |
//! | [`eliminate`] | of others lose their headers again; second copies end here |
//! | [`Groups`] | have been sent, and their parity follows |
//! | [`Recoveries`] | streams of others, and what waits in them for its turn |
//!
//! Copies go on behind the burst, as packets that Linux has sent on the tunnel interface; and what was inside of them
//! as what their SA has decrypted.

mod eliminate;
mod groups;
mod recoveries;
mod replicate;

pub(crate) use groups::Groups;
pub(crate) use recoveries::Recoveries;
