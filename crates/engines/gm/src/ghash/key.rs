//! A key's powers.

use zeroize::{Zeroize, ZeroizeOnDrop};

/// How many blocks have one reduction.
pub(super) const STRIDE: usize = 16;

/// The key's powers, the highest first, so that a run of blocks is multiplied by a run of powers.
#[derive(Zeroize, ZeroizeOnDrop)]
#[repr(align(64))]
pub(crate) struct GhashKey(pub(super) [u128; STRIDE]);
