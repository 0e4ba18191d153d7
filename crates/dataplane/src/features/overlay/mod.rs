//! Overlays: packets that get the headers of a far end, and packets of overlays to this host.

mod decapsulate;
mod encapsulate;
