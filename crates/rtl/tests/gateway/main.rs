//! The gateway in hardware against the software path, packet by packet.
//!
//! `cosim.rs` sends random packets both ways and holds what comes out, and what is counted, against
//! what `culvert-esp` and `culvert-policy` make of the same packets; `changes.rs` changes the tables
//! meanwhile. `CULVERT_COSIM_PACKETS` and `CULVERT_COSIM_SEED` choose a longer run or another one;
//! `CULVERT_COSIM=quick` builds a smaller gateway and sends fewer packets.

mod changes;
mod cosim;
mod coverage;
mod packets;
mod software;
mod world;
