//! The answer of a rule, as packets meet it.

use crate::rule::Candidate;

/// The paths that flows take. Decides without memory of the flow, and allocates nothing.
///
/// Each flow draws a lot for each path, and the highest wins (rendezvous hashing, weighted as in the "logarithmic method").
/// So a flow moves only if its own path is gone, or one has come for which it has drawn a higher lot; and every
/// worker, whichever gets the packet, decides the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    takers: Box<[Candidate]>,
}

impl Choice {
    /// Flows take these paths, by their weights.
    pub fn new(takers: impl Into<Box<[Candidate]>>) -> Choice {
        Choice { takers: takers.into() }
    }

    /// The path of a flow by `hash`, a number of the flow that nobody outside can choose. `None` stops the flow.
    pub fn path(&self, hash: u64) -> Option<u16> {
        match &*self.takers {
            [only] => Some(only.path),
            several => {
                let lots = several.iter().map(|taker| (lot(hash, *taker), taker.path));
                lots.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, path)| path)
            }
        }
    }

    /// The paths that flows take.
    pub fn takers(&self) -> &[Candidate] {
        &self.takers
    }
}

/// The lot that a flow draws for a path: `-weight / ln(u)`, where `u` is even between 0 and 1.
fn lot(hash: u64, of: Candidate) -> f64 {
    let bits = mix(hash ^ mix(of.lot.wrapping_add(1)));
    // 53 bits, as many as a double holds, and never 0 or 1.
    let u = ((bits >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    f64::from(of.weight) / -u.ln()
}

/// Spreads the bits of a number (the finalizer of MurmurHash3).
const fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    bits = (bits ^ (bits >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    bits ^ (bits >> 33)
}
