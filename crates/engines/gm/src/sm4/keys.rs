//! Keys as the rounds want them.

use zeroize::{Zeroize, ZeroizeOnDrop};

/// How many blocks with keys of their own are done together.
pub(crate) const LANES: usize = 32;

pub(super) const ROUNDS: usize = 32;

/// One key, expanded, as an instruction set wants it: numbers for the portable version, for the others words in memory's order in the
/// basis that they compute in ([`BASIS`](super::basis::BASIS)).
#[derive(Zeroize, ZeroizeOnDrop)]
pub(crate) struct RoundKeys(pub(super) [u32; ROUNDS]);

/// The keys of [`LANES`] blocks, round by round.
#[derive(Zeroize)]
#[repr(align(64))]
pub(crate) struct LaneKeys(pub(super) [[u32; LANES]; ROUNDS]);
