//! Features: each a room with what it keeps and what it does to packets.

pub(crate) mod aggfrag;
pub(crate) mod bundle;
pub(crate) mod device;
pub(crate) mod fragments;
pub(crate) mod gtpu;
pub(crate) mod limit;
pub(crate) mod open;
pub(crate) mod seal;
pub(crate) mod segments;
pub(crate) mod translate;
