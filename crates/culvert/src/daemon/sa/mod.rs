//! SAs and policies: what follows from them for the guard, for MTUs and for those who ask for SAs.

pub mod asked;
pub mod by_sender;
pub mod early;
pub mod inner_mtus;
pub mod left;
pub mod lifetimes;
pub mod path_mtus;
pub mod policies;
pub mod shortfall;
