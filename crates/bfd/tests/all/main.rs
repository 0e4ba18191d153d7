//! Sessions against each other, packets against their bytes, and messages against FRR's layout.

mod messages;
mod multiplier;
mod packets;
mod sessions;
